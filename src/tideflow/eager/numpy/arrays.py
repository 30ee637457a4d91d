"""Tensors of arguments as NumPy makes arrays of them, and tensors of nothing but a shape.

`shape`, `rank` and `choose` serve the other modules: sizes are numbers where they are known now,
and tensors only where they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.eager.numpy.conversions import keeps_weak
from tideflow.eager.numpy.promotion import common_type, default_float, own_type, result_type
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import DTypeLike, ShapeLike, TensorLike
from tideflow.ops.array import diagonals
from tideflow.ops.control_flow import cond_v2
from tideflow.ops.export import export_v2, export_value_v2
from tideflow.ops.framework import constants, get_static_value
from tideflow.ops.math.casts import cast
from tideflow.ops.math.ranges import range as range_op
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType

export_value_v2("experimental.numpy.ndarray", Tensor)
export_value_v2("experimental.numpy.newaxis", None)

# NumPy's own limit.
_MOST_DIMENSIONS = 32


# ---- sizes, known now or later


def rank(x: Tensor) -> Any:
    """Return the number of dimensions: an int, or a tensor where that is not known."""
    return apply_op("Rank", x) if x.dims is None else len(x.dims)


def shape(x: Tensor) -> Any:
    """Return the sizes: an array of int32, or a tensor where some are not known."""
    if x.dims is None or None in x.dims:
        return apply_op("Shape", x)
    return np.array(x.dims, np.int32)


def equals(a: TensorLike | None, b: TensorLike | None) -> Any:
    """Return whether two sizes, or ranks, are the same: a bool, or a tensor."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return apply_op("Equal", a, b)
    return a == b


def choose(condition: TensorLike, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """Return what one of two functions gives; both are in the graph where it shows only later.

    condition: a bool, or a scalar tensor.
    """
    known = get_static_value(condition)
    if known is None:
        return cond_v2(condition, yes, no)
    return yes() if known else no()


def axis_within(axis: Any, count: Any) -> Any:
    """Return an axis that may count from the end as one that counts from the start."""
    if isinstance(axis, Tensor):
        is_behind = apply_op("Less", axis, 0)
        return apply_op("SelectV2", is_behind, apply_op("AddV2", axis, count), axis)
    return axis + count if axis < 0 else axis


# ---- arguments as tensors


def is_of(x: TensorLike, dtype: DTypeLike) -> bool:
    """Whether a value is a tensor of a type."""
    return isinstance(x, Tensor) and x.dtype.base_dtype == dtype


def as_tensor(value: TensorLike, dtype: DType | None = None) -> Tensor:
    """Return a value as a tensor of the type given, or of the type that NumPy gives it."""
    if isinstance(value, Tensor):
        made: Tensor = value if dtype is None else cast(value, dtype)
        return made
    wanted = own_type(value, dtype)
    if isinstance(value, int) and value >= 2**63:
        return cast(convert_to_tensor(value, dtypes.uint64), wanted)  # type: ignore[no-any-return]
    return cast(convert_to_tensor(value, dtype_hint=wanted), wanted)  # type: ignore[no-any-return]


def promoted(*values: Any) -> list[Any]:
    """Return values as tensors of the type that they have in common."""
    dtype = result_type(*values)
    return [value if is_of(value, dtype) else as_tensor(value, dtype) for value in values]


def promoted_pair(x: TensorLike, y: Any) -> list[Any]:
    """Return two values as tensors of the type that they have in common by NumPy's rules."""
    if isinstance(x, Tensor) and isinstance(y, Tensor) and x.dtype is y.dtype:
        return [x, y]
    if isinstance(x, (list, tuple)) or isinstance(y, (list, tuple)):
        return promoted(x, y)
    dtype = common_type([x, y])
    return [value if is_of(value, dtype) else as_tensor(value, dtype) for value in (x, y)]


@export_v2("experimental.numpy.array")
@keeps_weak
def array(
    val: TensorLike, dtype: DTypeLike | None = None, copy: bool = True, ndmin: int = 0
) -> Any:
    """Return a value as a tensor, with sizes of 1 before its own up to ndmin dimensions.

    Args:
      dtype: the element type; None for the one that NumPy gives the value.
      copy: whether a tensor is put through an operation, and not given back as it is.
    Raises: ValueError for more dimensions than NumPy has.
    """
    x = as_tensor(val, result_type(dtype) if dtype else None)
    if copy:
        x = constants.identity(x)
    if ndmin > _MOST_DIMENSIONS:
        raise ValueError(f"ndmin is {ndmin}; at most {_MOST_DIMENSIONS} dimensions are allowed")
    return x if ndmin == 0 else at_least(ndmin, x)


def at_least(count: int, x: Tensor) -> Any:
    """Return a tensor with sizes of 1 before its own up to a number of dimensions."""
    has = rank(x)

    def widen() -> Any:
        return apply_op("Reshape", x, sizes_at_least(count, x))

    fewer = apply_op("Less", has, count) if isinstance(has, Tensor) else has < count
    return choose(fewer, widen, lambda: x)


def sizes_at_least(count: Any, x: Tensor) -> Any:
    """Return the sizes of a tensor behind ones, `count` numbers in all or more."""
    has = rank(x)
    if isinstance(has, Tensor):
        lacking = apply_op("Maximum", apply_op("Sub", count, has), 0)
        return apply_op("ConcatV2", [apply_op("Fill", [lacking], 1), shape(x)], 0)
    ones = np.ones(max(count - has, 0), np.int32)
    sizes = shape(x)
    if isinstance(sizes, Tensor):
        return apply_op("ConcatV2", [ones, sizes], 0)
    return np.concatenate([ones, sizes])


@export_v2("experimental.numpy.asarray")
@keeps_weak
def asarray(a: TensorLike, dtype: DTypeLike | None = None) -> Any:
    """Return a value as a tensor (see array); a tensor of the type is given back as it is."""
    return as_tensor(a, result_type(dtype) if dtype else None)


@export_v2("experimental.numpy.asanyarray")
@keeps_weak
def asanyarray(a: TensorLike, dtype: DTypeLike | None = None) -> Any:
    """Return a value as a tensor (see asarray)."""
    return asarray(a, dtype)


@export_v2("experimental.numpy.ascontiguousarray")
@keeps_weak
def ascontiguousarray(a: TensorLike, dtype: DTypeLike | None = None) -> Any:
    """Return a value as a tensor of one dimension or more (see array)."""
    return array(a, dtype, ndmin=1)


@export_v2("experimental.numpy.copy")
@keeps_weak
def copy(a: TensorLike) -> Any:
    """Return a value as a tensor of its own."""
    return array(a, copy=True)


# ---- tensors of a shape


def _asked_for(dtype: DTypeLike | None) -> DType:
    if not dtype:
        raise TypeError("an element type is wanted; None is none")
    return result_type(dtype)


@export_v2("experimental.numpy.zeros")
def zeros(shape: ShapeLike, dtype: DTypeLike | None = float) -> Tensor:
    """Return zeros of a shape: float64 unless another type is given."""
    return constants.zeros(shape, result_type(dtype) if dtype else default_float())


@export_v2("experimental.numpy.ones")
def ones(shape: ShapeLike, dtype: DTypeLike | None = float) -> Tensor:
    """Return ones of a shape: float64 unless another type is given."""
    return constants.ones(shape, _asked_for(dtype))


@export_v2("experimental.numpy.empty")
def empty(shape: ShapeLike, dtype: DTypeLike | None = float) -> Tensor:
    """Return a tensor of a shape, which nothing says more of: zeros."""
    return zeros(shape, dtype)


@export_v2("experimental.numpy.zeros_like")
@keeps_weak
def zeros_like(a: TensorLike, dtype: DTypeLike | None = None) -> Any:
    """Return zeros in the shape of a value, of its type unless another is given."""
    return constants.zeros_like(a, own_type(a, dtype))


@export_v2("experimental.numpy.empty_like")
@keeps_weak
def empty_like(a: TensorLike, dtype: DTypeLike | None = None) -> Any:
    """Return a tensor in the shape of a value, which nothing says more of: zeros."""
    return zeros_like(a, dtype)


@export_v2("experimental.numpy.ones_like")
@keeps_weak
def ones_like(a: TensorLike, dtype: DTypeLike | None = None) -> Any:
    """Return ones in the shape of a value, of its type unless another is given."""
    return constants.ones_like(a, own_type(a, dtype))


@export_v2("experimental.numpy.full")
def full(shape: ShapeLike, fill_value: TensorLike, dtype: DTypeLike | None = None) -> Any:
    """Return a value broadcast to a shape, a number or a vector."""
    if not isinstance(shape, Tensor):
        shape = convert_to_tensor(shape, dtype_hint=dtypes.int32)
    return apply_op("BroadcastTo", asarray(fill_value, dtype), at_least(1, shape))


@export_v2("experimental.numpy.full_like")
@keeps_weak
def full_like(
    a: TensorLike,
    fill_value: TensorLike,
    dtype: DTypeLike | None = None,
    order: str = "K",
    subok: bool = True,
    shape: ShapeLike | None = None,
) -> Any:
    """Return a value broadcast to the shape of another, of its type unless one is given.

    Raises: ValueError for an order, subok or shape that is not the default.
    """
    if order != "K" or not subok or shape:
        raise ValueError("full_like takes no other order, subok and shape than the defaults")
    like = asarray(a)
    filling = as_tensor(fill_value, result_type(dtype or like))
    return apply_op("BroadcastTo", filling, apply_op("Shape", like))


@export_v2("experimental.numpy.broadcast_to")
def broadcast_to(array: TensorLike, shape: ShapeLike) -> Any:
    """Return a value broadcast to a shape."""
    return full(shape, array)


@export_v2("experimental.numpy.eye")
def eye(N: Any, M: Any = None, k: int = 0, dtype: DTypeLike | None = float) -> Any:
    """Return a matrix of N rows and M columns (N) with ones on its diagonal k."""
    kind = _asked_for(dtype)
    rows, columns, at = int(N), int(M or N), int(k)
    length = min(rows + min(at, 0), columns - max(at, 0))
    if length <= 0:
        return constants.zeros([rows, columns], kind)
    ones = constants.ones([length], kind)
    return diagonals.matrix_diag(ones, k=at, num_rows=rows, num_cols=columns)


@export_v2("experimental.numpy.identity")
def identity(n: TensorLike, dtype: DTypeLike | None = float) -> Any:
    """Return a square matrix with ones on its diagonal."""
    return eye(n, n, dtype=dtype)


@export_v2("experimental.numpy.tri")
def tri(N: Any, M: Any = None, k: int = 0, dtype: DTypeLike | None = None) -> Any:
    """Return a matrix with ones on its diagonal k and below."""
    columns = N if M is None else M
    kind = result_type(float if dtype is None else dtype)
    below = np.arange(columns) <= np.arange(N)[:, None] + k
    return cast(convert_to_tensor(below), kind)


# ---- sequences


@export_v2("experimental.numpy.arange")
@keeps_weak
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: DTypeLike | None = None) -> Any:
    """Return start, start + step, ... below stop; with one bound, from 0.

    Raises: ValueError for a step of 0.
    """
    if not step:
        raise ValueError("arange needs a step other than 0")
    bounds = [bound for bound in (start, step, stop) if bound is not None]
    kind = result_type(dtype) if dtype else result_type(*bounds)
    first, last = (0, start) if stop is None else (start, stop)
    if (first > last) if step > 0 else (first < last):
        return as_tensor([], kind)
    return cast(range_op(start, stop, step), kind)


@export_v2("experimental.numpy.diag_indices")
def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """Return the indices of the diagonal of an array of ndim dimensions of size n.

    Raises: ValueError for negative arguments.
    """
    if n < 0 or ndim < 0:
        raise ValueError(f"n and ndim must not be negative; found {n} and {ndim}")
    return (range_op(n),) * ndim


@export_v2("experimental.numpy.ix_")
def ix_(*args: TensorLike) -> list[Any]:
    """Return vectors of integers, or bools, as indices of all combinations of them.

    Raises: ValueError for what is no vector, or not of integers or bools.
    """
    found = []
    for i, arg in enumerate(args):
        index = asarray(arg)
        if index.dims is not None and len(index.dims) != 1:
            raise ValueError(f"ix_ takes vectors; argument {i} has shape {index.shape}")
        if index.dtype.is_bool:
            index = apply_op("Squeeze", apply_op("Where", index), squeeze_dims=[1])
        elif not index.dtype.is_integer:
            raise ValueError(f"ix_ takes integers and bools; argument {i} is {index.dtype.name}")
        sizes = [1] * len(args)
        sizes[i] = -1
        found.append(apply_op("Reshape", index, sizes))
    return found


def broadcast_together(values: Sequence[Tensor]) -> list[Any]:
    """Return tensors broadcast to the shape that they have in common."""
    if len(values) < 2:
        return list(values)
    sizes: Any = shape(values[0])
    for value in values[1:]:
        other = shape(value)
        if isinstance(sizes, Tensor) or isinstance(other, Tensor):
            sizes = apply_op("BroadcastArgs", sizes, other)
        else:
            sizes = _broadcast_sizes(sizes, other)
    return [apply_op("BroadcastTo", value, sizes) for value in values]


def _broadcast_sizes(sizes: Any, other: Any) -> Any:
    try:
        return np.array(np.broadcast_shapes(tuple(sizes), tuple(other)), np.int32)
    except ValueError:
        return apply_op("BroadcastArgs", sizes, other)  # which says what is wrong


@export_v2("experimental.numpy.broadcast_arrays")
def broadcast_arrays(*args: TensorLike, **kwargs: Any) -> Any:
    """Return values broadcast to the shape that they have in common.

    Raises: ValueError for subok=True and other keywords.
    """
    if kwargs.pop("subok", False) or kwargs:
        raise ValueError("broadcast_arrays takes arrays alone")
    values = [asarray(arg) for arg in args]
    return broadcast_together(values) if len(values) > 1 else values
