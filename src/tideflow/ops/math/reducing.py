"""Reducing tensors: the public functions over the ops of tideflow.ops.math.reductions.

All take `axis` (an axis, a list of axes, or None for all) and `keepdims`; the v1 API also knows
them as `reduction_indices` and `keep_dims`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.op_def import get_op_def
from tideflow.graph.static_value import static_value
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import scoped
from tideflow.ops.math import elementwise
from tideflow.ops.math.casts import cast
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype


def one_of(new_name: str, new: object, old_name: str, old: object) -> Any:
    """Return the value of an argument that has two names.

    Raises: ValueError when both are given.
    """
    if old is None:
        return new
    if new is not None:
        raise ValueError(f"give {new_name} or {old_name}, not both")
    return old


def all_axes(x: Tensor, axis: object) -> Any:
    """Return the axes to reduce: those given, or all of x."""
    if axis is not None:
        return axis
    if x.graph.is_eager:
        return np.arange(len(x.dims or ()), dtype=np.int32)
    # What TensorFlow makes stands beside the reduction, and takes names there; of scalars, too.
    if not x.dims:
        return apply_op("Range", 0, apply_op("Rank", x), 1, name="range")
    return convert_to_tensor(np.arange(len(x.dims), dtype=np.int32))


def _reduce(
    op_name: str,
    x: TensorLike,
    axis: object,
    keepdims: object,
    name: str | None,
    old_axis: object,
    old_keep: object,
) -> Any:
    axis = one_of("axis", axis, "reduction_indices", old_axis)
    keep = bool(one_of("keepdims", keepdims, "keep_dims", old_keep))
    x = convert_to_tensor(x, dtypes.bool_ if _is_logic(op_name, x) else None, "input_tensor")
    made = apply_op(op_name, x, all_axes(x, axis), keep_dims=keep, name=name)
    if axis is None and not keep and x.dims is None:
        made.set_shape(())
    return made


def _is_logic(op_name: str, x: TensorLike) -> bool:
    """Whether a Python value has to be of bools; what a tensor is of, the op says."""
    return get_op_def(op_name).inputs[0].dtype is dtypes.bool_ and not isinstance(x, Tensor)


def _reducer(op_name: str, exported: str, what: str) -> Any:
    def reduce(
        input_tensor: TensorLike,
        axis: TensorLike | None = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: TensorLike | None = None,
        keep_dims: bool | None = None,
    ) -> Any:
        return _reduce(op_name, input_tensor, axis, keepdims, name, reduction_indices, keep_dims)

    reduce.__name__ = reduce.__qualname__ = exported
    reduce.__doc__ = (
        f"Return {what} along axes.\n\n"
        "Shapes: the input's without the axes; with size 1 there if keepdims.\n"
        "Raises: ValueError or InvalidArgumentError for an axis that the input lacks."
    )
    return export(f"math.{exported}", exported)(reduce)


reduce_sum = _reducer("Sum", "reduce_sum", "the sum")
reduce_mean = _reducer("Mean", "reduce_mean", "the mean")
reduce_prod = _reducer("Prod", "reduce_prod", "the product")
reduce_max = _reducer("Max", "reduce_max", "the greatest element")
reduce_min = _reducer("Min", "reduce_min", "the least element")
reduce_all = _reducer("All", "reduce_all", "whether all elements hold")
reduce_any = _reducer("Any", "reduce_any", "whether any element holds")


@export("math.reduce_euclidean_norm")
def reduce_euclidean_norm(
    input_tensor: TensorLike,
    axis: TensorLike | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Any:
    """Return the square root of the sum of squares along axes."""
    return _reduce("EuclideanNorm", input_tensor, axis, keepdims, name, None, None)


@export("math.reduce_logsumexp", "reduce_logsumexp")
def reduce_logsumexp(
    input_tensor: TensorLike,
    axis: TensorLike | None = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: TensorLike | None = None,
    keep_dims: bool | None = None,
) -> Any:
    """Return log(sum(exp(x))) along axes, without overflow.

    Args:
      input_tensor: floats or complex numbers, of any shape.
      axis: a number or a list of them; None for all.
      keepdims: whether size 1 stays where axes were.
      reduction_indices, keep_dims: older names.
    Returns: a tensor of the type of input_tensor.
    """
    axis = one_of("axis", axis, "reduction_indices", reduction_indices)
    keep = bool(one_of("keepdims", keepdims, "keep_dims", keep_dims))
    with get_default_graph().name_scope(name or "ReduceLogSumExp") as scope:
        x = convert_to_tensor(input_tensor)
        axes = all_axes(x, axis)
        top = apply_op("Max", x, axes, keep_dims=True)
        # An infinite maximum must not be subtracted from itself.
        zeros = apply_op("ZerosLike", top)
        top = apply_op("SelectV2", apply_op("IsFinite", top), top, zeros)
        top = apply_op("StopGradient", top)
        parts = apply_op("Exp", apply_op("Sub", x, top))
        total = apply_op("Log", apply_op("Sum", parts, axes, keep_dims=keep))
        if not keep:
            top = apply_op("Reshape", top, apply_op("Shape", total))
        return apply_op("AddV2", total, top, name=scope)


@export("math.reduce_variance")
def reduce_variance(
    input_tensor: TensorLike,
    axis: TensorLike | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Any:
    """Return the mean squared distance from the mean along axes.

    Raises: TypeError for integers.
    """
    with get_default_graph().name_scope(name or "reduce_variance"):
        x = convert_to_tensor(input_tensor)
        if x.dtype.is_integer:
            raise TypeError(f"the variance needs floats; {x.shown_name} holds {x.dtype.name}")
        means = reduce_mean(x, axis, True)
        distances = apply_op("Sub", x, means)
        squares = apply_op("Square", distances)
        if x.dtype.is_complex:
            squares = apply_op(
                "Real",
                apply_op("Mul", apply_op("Conj", distances), distances),
                Tout=x.dtype.real_dtype,
            )
        return reduce_mean(squares, axis, keepdims)


@export("math.reduce_std")
@scoped("reduce_std")
def reduce_std(
    input_tensor: TensorLike,
    axis: TensorLike | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Any:
    """Return the standard deviation along axes.  Raises: TypeError for integers."""
    variance = reduce_variance(input_tensor, axis, keepdims)
    return apply_op("Sqrt", variance, name=name or "reduce_std")


@export("math.count_nonzero", "count_nonzero")
def count_nonzero(
    input_tensor: TensorLike | None = None,
    axis: TensorLike | None = None,
    keepdims: bool | None = None,
    dtype: DTypeLike = dtypes.int64,
    name: str | None = None,
    reduction_indices: TensorLike | None = None,
    keep_dims: bool | None = None,
    input: TensorLike | None = None,
) -> Any:
    """Return how many elements differ from zero along axes, as `dtype`; empty strings are zero."""
    with get_default_graph().name_scope(name or "count_nonzero"):
        x = convert_to_tensor(one_of("input", input, "input_tensor", input_tensor), name="input")
        zero = b"" if x.dtype == dtypes.string else np.zeros((), x.dtype.as_numpy_dtype)
        marks = cast(apply_op("NotEqual", x, zero), dtypes.int64)
        total = _reduce("Sum", marks, axis, keepdims, None, reduction_indices, keep_dims)
        return cast(total, dtype)


@export("math.argmax", "argmax")
def argmax(
    input: TensorLike,
    axis: TensorLike | None = None,
    name: str | None = None,
    dimension: TensorLike | None = None,
    output_type: DTypeLike = dtypes.int64,
) -> Any:
    """Return the index of the greatest element along one axis (0 unless given).

    Of equal elements the first counts.
    Raises: InvalidArgumentError, when run, for an axis without elements.
    """
    axis = one_of("axis", axis, "dimension", dimension)
    return apply_op(
        "ArgMax", input, 0 if axis is None else axis, output_type=as_dtype(output_type), name=name
    )


@export("math.argmin", "argmin")
def argmin(
    input: TensorLike,
    axis: TensorLike | None = None,
    name: str | None = None,
    dimension: TensorLike | None = None,
    output_type: DTypeLike = dtypes.int64,
) -> Any:
    """Return the index of the least element along one axis (0 unless given).

    Args:
      input: numbers, of any shape.
      axis: an int32 or int64 scalar.
      dimension: an older name of axis.
      output_type: int32 or int64.
    Returns: the shape of input without the axis; the first of equal elements counts.
    Raises: InvalidArgumentError for an axis of no elements, or one that is not there.
    """
    axis = one_of("axis", axis, "dimension", dimension)
    return apply_op(
        "ArgMin", input, 0 if axis is None else axis, output_type=as_dtype(output_type), name=name
    )


@export("arg_max")
def arg_max(
    input: TensorLike,
    dimension: TensorLike,
    output_type: DTypeLike = dtypes.int64,
    name: str | None = None,
) -> Any:
    """Return the index of the greatest element along `dimension`."""
    return apply_op("ArgMax", input, dimension, output_type=as_dtype(output_type), name=name)


@export("arg_min")
def arg_min(
    input: TensorLike,
    dimension: TensorLike,
    output_type: DTypeLike = dtypes.int64,
    name: str | None = None,
) -> Any:
    """Return the index of the least element along `dimension`."""
    return apply_op("ArgMin", input, dimension, output_type=as_dtype(output_type), name=name)


@export("linalg.trace", "trace")
def trace(x: TensorLike, name: str | None = None) -> Any:
    """Return the sum of the main diagonals.  Shapes: x [..., m, n]; result [...]."""
    with get_default_graph().name_scope(name or "Trace") as scope:
        diagonals = apply_op("MatrixDiagPartV3", x, 0, 0, name="diag_part")
        return reduce_sum(diagonals, [-1], name=scope)


@export("linalg.norm", "norm")
def norm(
    tensor: TensorLike,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    keep_dims: bool | None = None,
) -> Any:
    """Return the norm of vectors (one axis, or all elements) or of matrices (two axes).

    Args:
      ord: "euclidean", or for vectors a positive number or infinity; for matrices "fro", 1 or
        infinity.
    Raises: ValueError for another order, or one that does not go with the axes.
    """
    keep = bool(one_of("keepdims", keepdims, "keep_dims", keep_dims))
    with get_default_graph().name_scope(name or "norm"):
        x = convert_to_tensor(tensor)
        size = elementwise.abs(x)
        axes = all_axes(x, axis)
        is_matrix = isinstance(axis, (list, tuple)) and len(axis) == 2
        if ord in ("euclidean", "fro") or (ord == 2 and not is_matrix):
            if ord == "fro" and not is_matrix:
                raise ValueError("the Frobenius norm needs two axes")
            total = apply_op("Sum", apply_op("Square", size), axes, keep_dims=True)
            return _squeezed(apply_op("Sqrt", total), axis, keep)
        if is_matrix:
            return _matrix_norm(size, ord, list(axis), keep)
        if ord == np.inf:
            return _squeezed(apply_op("Max", size, axes, keep_dims=True), axis, keep)
        if not isinstance(ord, (int, float)) or ord <= 0:
            raise ValueError(f"no vector norm of order {ord!r}")
        power = np.array(ord).astype(size.dtype.as_numpy_dtype)
        total = apply_op("Sum", apply_op("Pow", size, power), axes, keep_dims=True)
        root = np.array(1 / ord).astype(size.dtype.as_numpy_dtype)
        return _squeezed(apply_op("Pow", total, root), axis, keep)


def _squeezed(x: Tensor, axis: Any, keep: bool) -> Any:
    """Return what was reduced along an axis, several or all without these, unless kept."""
    if keep:
        return x
    if axis is None:
        return apply_op("Squeeze", x)
    if isinstance(axis, Tensor):
        axis = static_value(*axis.edge)
        if axis is None:
            raise ValueError("the axis of a norm must be known when the graph is built")
    return apply_op("Squeeze", x, squeeze_dims=np.atleast_1d(axis).tolist())


def _matrix_norm(size: TensorLike, ord: object, axis: list[int], keep: bool) -> Any:
    if ord not in (1, np.inf):
        raise ValueError(f"no matrix norm of order {ord!r} here; there are 'fro', 1 and np.inf")
    summed, compared = axis if ord == 1 else reversed(axis)
    total = apply_op("Sum", size, [summed], keep_dims=True)
    found = apply_op("Max", total, [compared], keep_dims=True)
    return found if keep else apply_op("Squeeze", found, squeeze_dims=axis)
