"""Sums, means, extremes, places and orders along axes, and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.eager.numpy.arrays import (
    array,
    as_tensor,
    asarray,
    at_least,
    axis_within,
    broadcast_to,
    choose,
    equals,
    rank,
)
from tideflow.eager.numpy.conversions import keeps_weak
from tideflow.eager.numpy.elementwise import is_inexact
from tideflow.eager.numpy.promotion import result_type
from tideflow.graph.behavior import behavior
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.array.searching import where_v2
from tideflow.ops.control_flow import with_dependencies
from tideflow.ops.export import export_v2
from tideflow.ops.framework import printing
from tideflow.ops.linalg.einsum import tensordot
from tideflow.ops.math import reducing, scans, sorting
from tideflow.ops.math.casts import cast
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype

Reduce = Callable[..., Any]


# ---- sums and means


def _reduced(
    reduce: Reduce,
    a: TensorLike,
    axis: TensorLike | None,
    dtype: DTypeLike | None,
    keepdims: bool | None,
    integers_as: Callable[[DType], DType],
    on_bools: Reduce | None = None,
) -> Any:
    """Reduce along axes, in the type that NumPy reduces in.

    Args:
      dtype: the type to reduce in; None for the one that follows from the elements'.
      integers_as: gives the type to reduce integers and bools in.
      on_bools: what reduces to bools, where dtype asks for them.
    """
    wanted = result_type(dtype) if dtype else None
    x = as_tensor(a, wanted)
    if wanted is not None and wanted.is_bool and on_bools is not None:
        reduce = on_bools
    elif wanted is None and (x.dtype.is_integer or x.dtype.is_bool):
        x = cast(x, integers_as(x.dtype))
    if isinstance(axis, Tensor) and axis.dtype not in (dtypes.int32, dtypes.int64):
        axis = cast(axis, dtypes.int64)
    return reduce(x, axis, bool(keepdims))


def _widened(dtype: DType) -> DType:
    """Return the type in which NumPy adds up integers: of 64 bits (32 where operands convert)."""
    bits = 32 if behavior.converts_weakly else 64
    if dtype.size * 8 >= bits:
        return dtype
    return as_dtype(f"{'u' * dtype.is_unsigned}int{bits}")


def _as_floats(dtype: DType) -> DType:
    return result_type(float)


def _as_they_are(dtype: DType) -> DType:
    return dtype


@export_v2("experimental.numpy.sum")
@keeps_weak
def sum(
    a: TensorLike,
    axis: TensorLike | None = None,
    dtype: DTypeLike | None = None,
    keepdims: bool | None = None,
) -> Any:
    """Return the sum along axes (None: all); integers are added up in 64 bits, bools too."""
    return _reduced(reducing.reduce_sum, a, axis, dtype, keepdims, _widened, reducing.reduce_any)


@export_v2("experimental.numpy.prod")
@keeps_weak
def prod(
    a: TensorLike,
    axis: TensorLike | None = None,
    dtype: DTypeLike | None = None,
    keepdims: bool | None = None,
) -> Any:
    """Return the product along axes (see sum)."""
    return _reduced(reducing.reduce_prod, a, axis, dtype, keepdims, _widened, reducing.reduce_all)


@export_v2("experimental.numpy.mean")
@keeps_weak
def mean(
    a: TensorLike,
    axis: TensorLike | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool | None = None,
) -> Any:
    """Return the mean along axes (None: all); that of integers as floats."""
    _without_out(out)
    return _reduced(reducing.reduce_mean, a, axis, dtype, keepdims, _as_floats)


@export_v2("experimental.numpy.std")
@keeps_weak
def std(a: TensorLike, axis: TensorLike | None = None, keepdims: bool | None = None) -> Any:
    """Return the standard deviation along axes (None: all)."""
    return _reduced(reducing.reduce_std, a, axis, None, keepdims, _as_floats)


@export_v2("experimental.numpy.var")
@keeps_weak
def var(
    a: TensorLike,
    axis: TensorLike | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool | None = None,
) -> Any:
    """Return the variance along axes (None: all), or along one axis where ddof is not 0.

    ddof: by how much the number to divide by is less than the number of elements.
    """
    _without_out(out)

    def deviation(x: Tensor, axis: TensorLike | None, keepdims: bool) -> Any:
        return _variance_below(x, axis, keepdims, ddof)

    reduce = deviation if ddof else reducing.reduce_variance
    working = result_type(a, dtype) if dtype else None
    found = _reduced(reduce, a, axis, working, keepdims, _as_floats)
    return cast(found, as_dtype(dtype)) if dtype else found


def _variance_below(x: Tensor, axis: TensorLike | None, keepdims: bool, ddof: int) -> Any:
    distance = x - reducing.reduce_mean(x, axis, True)
    if x.dtype.is_complex:
        squares = cast(apply_op("Real", distance * apply_op("Conj", distance),
                                Tout=x.dtype.real_dtype), x.dtype)  # fmt: skip
    else:
        squares = apply_op("Square", distance)
    total = reducing.reduce_sum(squares, axis, keepdims)
    if axis is None:
        count = apply_op("Size", x)
    else:
        count = apply_op("GatherV2", apply_op("Shape", x), axis_within(axis, rank(x)), 0)
        count = reducing.reduce_prod(count)
    return apply_op("RealDiv", total, cast(count - ddof, x.dtype))


def _without_out(out: object) -> None:
    if out is not None:
        raise ValueError("a tensor cannot be written to: out must be None")


# ---- extremes and truth


def _extreme(of_numbers: Reduce, of_bools: Reduce) -> Reduce:
    def reduce(x: Tensor, axis: TensorLike | None, keepdims: bool) -> Any:
        return (of_bools if x.dtype.is_bool else of_numbers)(x, axis, keepdims)

    return reduce


_MAX = _extreme(reducing.reduce_max, reducing.reduce_any)
_MIN = _extreme(reducing.reduce_min, reducing.reduce_all)


@export_v2("experimental.numpy.amax")
@keeps_weak
def amax(
    a: TensorLike, axis: TensorLike | None = None, out: None = None, keepdims: bool | None = None
) -> Any:
    """Return the greatest element along axes (None: all); of bools, whether any is."""
    _without_out(out)
    return _reduced(_MAX, a, axis, None, keepdims, _as_they_are)


@export_v2("experimental.numpy.amin")
@keeps_weak
def amin(
    a: TensorLike, axis: TensorLike | None = None, out: None = None, keepdims: bool | None = None
) -> Any:
    """Return the least element along axes (None: all); of bools, whether all are."""
    _without_out(out)
    return _reduced(_MIN, a, axis, None, keepdims, _as_they_are)


@export_v2("experimental.numpy.max")
@keeps_weak
def max(a: TensorLike, axis: TensorLike | None = None, keepdims: bool | None = None) -> Any:
    """Return the greatest element along axes (see amax)."""
    return amax(a, axis=axis, keepdims=keepdims)


@export_v2("experimental.numpy.min")
@keeps_weak
def min(a: TensorLike, axis: TensorLike | None = None, keepdims: bool | None = None) -> Any:
    """Return the least element along axes (see amin)."""
    return amin(a, axis=axis, keepdims=keepdims)


@export_v2("experimental.numpy.ptp")
def ptp(a: TensorLike, axis: TensorLike | None = None, keepdims: bool | None = None) -> Any:
    """Return the distance of the greatest and the least element along axes (None: all)."""
    return amax(a, axis=axis, keepdims=keepdims) - amin(a, axis=axis, keepdims=keepdims)


@export_v2("experimental.numpy.all")
def all(a: TensorLike, axis: TensorLike | None = None, keepdims: bool | None = None) -> Any:
    """Return whether all elements along axes (None: all) are; numbers are where they are not 0."""
    return reducing.reduce_all(as_tensor(a, dtypes.bool_), axis, keepdims)


@export_v2("experimental.numpy.any")
def any(a: TensorLike, axis: TensorLike | None = None, keepdims: bool | None = None) -> Any:
    """Return whether any element along axes (None: all) is; numbers are where they are not 0."""
    return reducing.reduce_any(as_tensor(a, dtypes.bool_), axis, keepdims)


@export_v2("experimental.numpy.count_nonzero")
def count_nonzero(a: TensorLike, axis: TensorLike | None = None) -> Any:
    """Return how many elements along axes (None: all) are not 0, as int64."""
    return reducing.count_nonzero(asarray(a), axis)


# ---- NaNs left out


def _with_nan_as(a: TensorLike, value: int) -> Any:
    x = asarray(a)
    if not is_inexact(x.dtype):
        return x
    return where_v2(apply_op("IsNan", x), as_tensor(value, x.dtype), x)


@export_v2("experimental.numpy.nansum")
def nansum(
    a: TensorLike,
    axis: TensorLike | None = None,
    dtype: DTypeLike | None = None,
    keepdims: bool | None = False,
) -> Any:
    """Return the sum along axes (None: all) without NaNs."""
    return sum(_with_nan_as(a, 0), axis=axis, dtype=dtype, keepdims=keepdims)


@export_v2("experimental.numpy.nanprod")
def nanprod(
    a: TensorLike,
    axis: TensorLike | None = None,
    dtype: DTypeLike | None = None,
    keepdims: bool | None = False,
) -> Any:
    """Return the product along axes (None: all) without NaNs."""
    return prod(_with_nan_as(a, 1), axis=axis, dtype=dtype, keepdims=keepdims)


@export_v2("experimental.numpy.nanmean")
@keeps_weak
def nanmean(
    a: TensorLike,
    axis: TensorLike | None = None,
    dtype: DTypeLike | None = None,
    keepdims: bool | None = None,
) -> Any:
    """Return the mean along axes (None: all) without NaNs; NaN where there is nothing else."""
    x = asarray(a)
    if not is_inexact(x.dtype):
        return mean(x, axis=axis, dtype=dtype, keepdims=keepdims)
    kind = dtype or x.dtype
    numbers = apply_op("LogicalNot", apply_op("IsNan", x))
    count = sum(numbers, axis=axis, dtype=kind, keepdims=keepdims)
    return nansum(x, axis=axis, dtype=kind, keepdims=keepdims) / count


@export_v2("experimental.numpy.average")
@keeps_weak
def average(
    a: TensorLike,
    axis: int | None = None,
    weights: Any = None,
    returned: bool = False,
) -> Any:
    """Return the mean along an axis (None: of all), in which elements have weights.

    Args:
      weights: of a's shape, or a vector along the axis.
      returned: whether to return the sums of weights, too.
    Raises: ValueError for several axes.
    """
    if axis is not None and not isinstance(axis, int):
        raise ValueError(f"average takes one axis; found {axis!r}")
    x = asarray(a)
    if weights is None:
        found, total = _plain_average(x, axis)
    else:
        floats = () if is_inexact(x.dtype) else (result_type(float),)
        kind = result_type(x.dtype, weights, *floats)
        found, total = _weighted_average(cast(x, kind), array(weights, kind), axis)
    if not returned:
        return found
    return found, broadcast_to(total, apply_op("Shape", found))


def _plain_average(x: Tensor, axis: int | None) -> tuple[Any, Any]:
    if not is_inexact(x.dtype):
        x = cast(x, result_type(x.dtype, result_type(float)))
    sizes = apply_op("Shape", x)
    count = apply_op("Size", x) if axis is None else sizes[axis]
    return reducing.reduce_mean(x, axis), cast(count, x.dtype)


def _weighted_average(x: Tensor, weights: Any, axis: int | None) -> tuple[Any, Any]:
    def of_one_shape() -> tuple[Any, Any]:
        sizes, others = apply_op("Shape", x), apply_op("Shape", weights)
        fits = reducing.reduce_all(apply_op("Equal", sizes, others, incompatible_shape_error=False))
        check = printing.Assert(fits, [sizes, others])
        weighed = x * (weights if check is None else with_dependencies([check], weights))
        total = reducing.reduce_sum(weights, axis)
        return reducing.reduce_sum(weighed, axis) / total, total

    def of_a_vector() -> tuple[Any, Any]:
        is_vector = convert_to_tensor(equals(rank(weights), 1))
        check = printing.Assert(is_vector, [convert_to_tensor(rank(weights))])
        factors = weights if check is None else with_dependencies([check], weights)
        total = reducing.reduce_sum(weights)
        return tensordot(x, factors, [[axis], [0]]) / total, total

    if axis is None:
        return of_one_shape()
    same_rank = equals(rank(x), rank(weights))
    return choose(same_rank, of_one_shape, of_a_vector)  # type: ignore[no-any-return]


# ---- running sums


def _scanned(
    scan: Callable[..., Any], a: TensorLike, axis: TensorLike | None, dtype: DTypeLike | None
) -> Any:
    x = asarray(a, dtype)
    if dtype is None and x.dtype.is_integer:
        x = cast(x, as_dtype(np.promote_types(x.dtype.as_numpy_dtype, int)))
    if axis is None:
        return scan(apply_op("Reshape", x, [-1]), 0)
    return scan(x, axis_within(axis, rank(x)))


@export_v2("experimental.numpy.cumsum")
@keeps_weak
def cumsum(a: TensorLike, axis: TensorLike | None = None, dtype: DTypeLike | None = None) -> Any:
    """Return running sums along an axis (None: of all elements in a row), of integers in int64."""
    return _scanned(scans.cumsum, a, axis, dtype)


@export_v2("experimental.numpy.cumprod")
@keeps_weak
def cumprod(a: TensorLike, axis: TensorLike | None = None, dtype: DTypeLike | None = None) -> Any:
    """Return running products along an axis (see cumsum)."""
    return _scanned(scans.cumprod, a, axis, dtype)


# ---- places and orders


def _place(find: Callable[..., Any], a: TensorLike, axis: TensorLike | None) -> Any:
    x = asarray(a)
    return find(apply_op("Reshape", x, [-1]) if axis is None else at_least(1, x), axis)


@export_v2("experimental.numpy.argmax")
def argmax(a: TensorLike, axis: TensorLike | None = None) -> Any:
    """Return where the greatest element is along an axis (None: among all), as int64."""
    return _place(reducing.argmax, a, axis)


@export_v2("experimental.numpy.argmin")
def argmin(a: TensorLike, axis: TensorLike | None = None) -> Any:
    """Return where the least element is along an axis (None: among all), as int64."""
    return _place(reducing.argmin, a, axis)


@export_v2("experimental.numpy.sort")
@keeps_weak
def sort(a: TensorLike, axis: int | None = -1, kind: str = "quicksort", order: None = None) -> Any:
    """Return elements in order along an axis (None: all in a row).

    Raises: ValueError for a kind or order that is not the default.
    """
    if kind != "quicksort" or order is not None:
        raise ValueError(f"sort takes kind 'quicksort' and no order; found {kind!r} and {order!r}")
    x = asarray(a)
    return sorting.sort(apply_op("Reshape", x, [-1]), 0) if axis is None else sorting.sort(x, axis)


@export_v2("experimental.numpy.argsort")
def argsort(
    a: TensorLike, axis: int | None = -1, kind: str = "quicksort", order: None = None
) -> Any:
    """Return the places that put elements in order along an axis (None: all in a row), as int64.

    Raises: ValueError for a kind other than "quicksort" and "stable", and for an order; TypeError
    for complex numbers.
    """
    if kind not in ("quicksort", "stable") or order is not None:
        raise ValueError(
            f"argsort takes kind 'quicksort' or 'stable' and no order; found {kind!r} and {order!r}"
        )
    x = asarray(a)
    if x.dtype.is_complex:
        raise TypeError(f"argsort takes no complex numbers; these are {x.dtype.name}")

    def places() -> Any:
        if axis is None:
            return sorting.argsort(apply_op("Reshape", x, [-1]), 0)
        return sorting.argsort(x, axis)

    found = choose(equals(rank(x), 0), lambda: convert_to_tensor([0]), places)
    return array(found, dtype=int if behavior.converts_weakly else np.intp)
