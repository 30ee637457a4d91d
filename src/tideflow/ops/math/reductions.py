"""Reductions: sums, means, extremes and logic along axes.

`reduction_indices` is a scalar or a vector of axes; negative ones count from the end.  A gradient
is spread back over the reduced axes.
Source: reduction_ops_common.cc and math_grad.py's behaviour, TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext, reduction
from tideflow.graph.shapes import Dims
from tideflow.graph.static_value import static_value
from tideflow.graph.types import Array, ArrayNamespace
from tideflow.ops.framework import conj
from tideflow.wire import dtypes
from tideflow.wire.errors import InvalidArgumentError

_ORDERED = (
    "{float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, "
    "qint8, quint8, qint32, qint16, quint16}"
)
_STATIC = ("reduction_indices",)


def _axes(reduction_indices: Any, rank: int) -> tuple[int, ...]:
    """Return the axes as a tuple.  Raises: InvalidArgumentError for one outside, or one twice."""
    given = reduction_indices.tolist()
    axes = tuple(given) if isinstance(given, list) else (given,)
    for axis in axes:
        if not -rank <= axis < rank:
            raise InvalidArgumentError(
                f"Invalid reduction dimension ({axis} for input with {rank} dimension(s))"
            )
    if len(axes) > 1 and len({axis % rank for axis in axes}) != len(axes):
        raise InvalidArgumentError(
            f"Invalid reduction arguments: Axes contains duplicate dimension: {axes}"
        )
    return axes


_add: Any = np.add
_multiply: Any = np.multiply


def _is_narrow(xp: ArrayNamespace, x: Array) -> bool:
    """Whether NumPy would add up x in a type too narrow to be exact (bfloat16, half)."""
    return xp is np and x.dtype.itemsize == 2 and x.dtype.kind in "fV"


@op(
    """
Sum(input: T, reduction_indices: Tidx) -> output: T
keep_dims: bool = false
T: type in numbers
Tidx: type in indices = int32
""",
    shape=reduction,
    static=_STATIC,
    compiles=Compiles.ALWAYS,
)
def _sum(xp: ArrayNamespace, input: Array, reduction_indices: Array, *, keep_dims: bool) -> Any:
    axes = _axes(reduction_indices, input.ndim)
    dtype = input.dtype
    if not axes:
        return input
    if _is_narrow(xp, input):
        return _add.reduce(input.astype(np.float32), axes, keepdims=keep_dims).astype(dtype)
    if xp is np:
        return _add.reduce(input, axes, dtype, None, keep_dims)
    return xp.sum(input, axes, dtype, keepdims=keep_dims)


@op(
    """
Prod(input: T, reduction_indices: Tidx) -> output: T
keep_dims: bool = false
T: type in numbers
Tidx: type in indices = int32
""",
    shape=reduction,
    static=_STATIC,
    compiles=Compiles.ALWAYS,
)
def _prod(xp: ArrayNamespace, input: Array, reduction_indices: Array, *, keep_dims: bool) -> Any:
    axes = _axes(reduction_indices, input.ndim)
    dtype = input.dtype
    if _is_narrow(xp, input):
        return _multiply.reduce(input.astype(np.float32), axes, keepdims=keep_dims).astype(dtype)
    return xp.prod(input, axes, dtype, keepdims=keep_dims)


@op(
    """
Mean(input: T, reduction_indices: Tidx) -> output: T
keep_dims: bool = false
T: type in numbers
Tidx: type in indices = int32
""",
    shape=reduction,
    static=_STATIC,
    compiles=Compiles.ALWAYS,
)
def _mean(xp: ArrayNamespace, input: Array, reduction_indices: Array, *, keep_dims: bool) -> Any:
    axes = _axes(reduction_indices, input.ndim)
    count = 1
    for axis in axes:
        count *= input.shape[axis]
    dtype = input.dtype
    wide = input.astype(np.float32) if _is_narrow(xp, input) else input
    if xp is np:
        total = _add.reduce(wide, axes, wide.dtype, None, keep_dims)
    else:
        total = xp.sum(wide, axes, wide.dtype, keepdims=keep_dims)
    if dtype.kind in "iu":
        # Toward zero, as C divides; the mean of nothing is 0.
        return (xp.sign(total) * (xp.abs(total) // max(count, 1))).astype(dtype)
    mean = xp.true_divide(total, count)
    return mean if mean.dtype == dtype else mean.astype(dtype)


def _extreme(
    xp: Any, reduce: Any, ends: int, input: Any, reduction_indices: object, keep_dims: bool
) -> Any:
    axes = _axes(reduction_indices, input.ndim)
    if input.size:
        return reduce(input, axes, keepdims=keep_dims)
    # Nothing to compare: the value that loses against every other.
    dtype = dtypes.as_dtype(input.dtype)
    if dtype.is_floating:
        losing = dtype.as_numpy_dtype((-np.inf, np.inf)[ends])
    else:
        losing = dtype.as_numpy_dtype((dtype.min, dtype.max)[ends])
    kept = [1 if i in {a % input.ndim for a in axes} else n for i, n in enumerate(input.shape)]
    if not keep_dims:
        kept = [n for i, n in enumerate(input.shape) if i not in {a % input.ndim for a in axes}]
    return xp.full(kept, losing, input.dtype)


@op(
    f"""
Max(input: T, reduction_indices: Tidx) -> output: T
keep_dims: bool = false
T: type in {_ORDERED}
Tidx: type in indices = int32
""",
    shape=reduction,
    static=_STATIC,
    compiles=Compiles.ALWAYS,
)
def _max(xp: ArrayNamespace, input: Array, reduction_indices: Array, *, keep_dims: bool) -> Any:
    reduce = np.maximum.reduce if xp is np else xp.max
    return _extreme(xp, reduce, 0, input, reduction_indices, keep_dims)


@op(
    f"""
Min(input: T, reduction_indices: Tidx) -> output: T
keep_dims: bool = false
T: type in {_ORDERED}
Tidx: type in indices = int32
""",
    shape=reduction,
    static=_STATIC,
    compiles=Compiles.ALWAYS,
)
def _min(xp: ArrayNamespace, input: Array, reduction_indices: Array, *, keep_dims: bool) -> Any:
    reduce = np.minimum.reduce if xp is np else xp.min
    return _extreme(xp, reduce, 1, input, reduction_indices, keep_dims)


@op(
    """
All(input: bool, reduction_indices: Tidx) -> output: bool
keep_dims: bool = false
Tidx: type in indices = int32
""",
    shape=reduction,
    static=_STATIC,
    compiles=Compiles.ALWAYS,
)
def _all(xp: ArrayNamespace, input: Array, reduction_indices: Array, *, keep_dims: bool) -> Any:
    return xp.all(input, _axes(reduction_indices, input.ndim), keepdims=keep_dims)


@op(
    """
Any(input: bool, reduction_indices: Tidx) -> output: bool
keep_dims: bool = false
Tidx: type in indices = int32
""",
    shape=reduction,
    static=_STATIC,
    compiles=Compiles.ALWAYS,
)
def _any(xp: ArrayNamespace, input: Array, reduction_indices: Array, *, keep_dims: bool) -> Any:
    return xp.any(input, _axes(reduction_indices, input.ndim), keepdims=keep_dims)


@op(
    """
EuclideanNorm(input: T, reduction_indices: Tidx) -> output: T
keep_dims: bool = false
T: type in numbers
Tidx: type in indices = int32
""",
    shape=reduction,
    static=_STATIC,
)
def _euclidean_norm(
    xp: ArrayNamespace, input: Array, reduction_indices: Array, *, keep_dims: bool
) -> Any:
    axes = _axes(reduction_indices, input.ndim)
    wide = input.astype(np.float32) if _is_narrow(xp, input) else input
    squares = xp.multiply(wide, xp.conj(wide) if wide.dtype.kind == "c" else wide)
    total = xp.sum(squares, axes, squares.dtype, keepdims=keep_dims)
    return xp.sqrt(total).astype(input.dtype)


not_differentiable("All", "Any")

# ---- gradients


def _static_axes(op: Any) -> tuple[int, ...] | None:
    """Return the reduced axes, counted from the front, if the graph tells them."""
    dims = op.inputs[0].dims
    found = static_value(*op.edges[1])
    if dims is None or found is None or isinstance(found, tuple):
        return None
    return tuple(sorted({int(axis) % max(len(dims), 1) for axis in np.ravel(found)}))


def _kept_shape(op: Any) -> Any:
    """Return the input's shape with 1 for each reduced axis, as a tensor or an array."""
    x, reduction_indices = op.inputs
    axes = _static_axes(op)
    if axes is not None and None not in x.dims:
        return np.array([1 if i in axes else n for i, n in enumerate(x.dims)], np.int32)
    shape = apply_op("Shape", x)
    rank = apply_op("Size", shape)
    every = apply_op("Range", 0, rank, 1)
    wanted = apply_op("Reshape", apply_op("Cast", reduction_indices, DstT="int32"), [-1])
    wanted = apply_op("FloorMod", apply_op("AddV2", wanted, rank), rank)
    hits = apply_op("Equal", apply_op("ExpandDims", every, 1), apply_op("ExpandDims", wanted, 0))
    return apply_op("SelectV2", apply_op("Any", hits, [1]), 1, shape)


def _restore(op: Any, reduced: Any) -> Any:
    """Give a reduced tensor its reduced axes back, with size 1."""
    if op.attrs["keep_dims"] or reduced.dims == ():
        return reduced
    axes = _static_axes(op)
    if axes is not None:
        if None not in op.inputs[0].dims:
            return apply_op("Reshape", reduced, _kept_shape(op))
        for axis in axes:
            reduced = apply_op("ExpandDims", reduced, axis)
        return reduced
    return apply_op("Reshape", reduced, _kept_shape(op))


def _input_shape(op: Any) -> Any:
    x = op.inputs[0]
    if x.dims is not None and None not in x.dims:
        return np.array(x.dims, np.int32)
    return apply_op("Shape", x)


@gradient("Sum")
def _sum_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("BroadcastTo", _restore(op, grad), _input_shape(op)), None]


@gradient("Mean")
def _mean_grad(op: Any, grad: Any) -> list[Any]:
    x, y = op.inputs[0], op.outputs[0]
    count, groups = shapes.num_elements(x.dims), shapes.num_elements(y.dims)
    axes = _static_axes(op)
    if axes is not None and None not in [x.dims[axis] for axis in axes]:
        factor: Any = 1
        for axis in axes:
            factor *= x.dims[axis]
    elif count is not None and groups is not None:
        factor = count // max(groups, 1)
    else:
        sizes = apply_op("Size", x), apply_op("Maximum", apply_op("Size", y), 1)
        factor = apply_op("FloorDiv", *sizes)
    if isinstance(factor, Tensor):
        factor = apply_op("Cast", factor, DstT=grad.dtype)
    else:
        factor = np.array(factor).astype(grad.dtype.as_numpy_dtype)
    # Divided before it is spread: fewer numbers to divide.
    scaled = apply_op("RealDiv", _restore(op, grad), factor)
    return [apply_op("BroadcastTo", scaled, _input_shape(op)), None]


@gradient("Max", "Min")
def _extreme_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, reduction_indices = op.inputs
    chosen = apply_op("Equal", _restore(op, op.outputs[0]), x)
    marks = apply_op("Cast", chosen, DstT=grad.dtype)
    count = apply_op("Sum", marks, reduction_indices, keep_dims=True)
    shares = apply_op("RealDiv", marks, count)
    return [apply_op("Mul", shares, _restore(op, grad)), None]


@gradient("EuclideanNorm")
def _euclidean_norm_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs[0], op.outputs[0]
    direction = apply_op("RealDiv", x, _restore(op, y))
    return [apply_op("Mul", direction, _restore(op, grad)), None]


@gradient("Prod")
def _prod_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Give each element the product of all the others, without dividing (zeros are legal)."""
    x, reduction_indices = op.inputs
    shape = _input_shape(op)
    spread = apply_op("BroadcastTo", _restore(op, grad), shape)
    rank = apply_op("Rank", x)
    flat_axes = apply_op("Reshape", apply_op("Cast", reduction_indices, DstT="int32"), [-1])
    axes = apply_op("FloorMod", apply_op("AddV2", flat_axes, rank), rank)
    others, _ = apply_op("ListDiff", apply_op("Range", 0, rank, 1), axes)
    order = apply_op("ConcatV2", [axes, others], 0)
    turned = apply_op("Transpose", x, order)
    turned_shape = apply_op("Shape", turned)
    count = apply_op("Prod", apply_op("GatherV2", shape, axes, 0), [0])
    rows = apply_op("Reshape", turned, apply_op("Pack", [count, -1]))
    before = apply_op("Cumprod", rows, 0, exclusive=True)
    after = apply_op("Cumprod", rows, 0, exclusive=True, reverse=True)
    rest = apply_op("Mul", conj(before), conj(after))
    rest = apply_op("Reshape", rest, turned_shape)
    rest = apply_op("Transpose", rest, apply_op("InvertPermutation", order))
    product = apply_op("Mul", spread, rest)
    return [apply_op("Reshape", product, shape), None]


# ---- where the greatest and least elements are


def _position_shape(c: ShapeContext) -> list[Dims]:
    given = c.inputs[0]
    axis = c.value(1)
    if given is None:
        return [None]
    if axis is None:
        return [(None,) * max(len(given) - 1, 0)]
    rank = len(given)
    at = int(axis.reshape(-1)[0])
    if not -max(rank, 1) <= at < max(rank, 1):
        raise ValueError(
            f"dimension {at} lies outside the input's shape {shapes.format_dims(given)}"
        )
    return [tuple(n for i, n in enumerate(given) if i != at % max(rank, 1))]


def _position(find: Any, input: Any, dimension: Any, output_type: Any) -> Any:
    axis = int(dimension)
    rank = input.ndim
    if not -rank <= axis < rank:
        raise InvalidArgumentError(
            f"Expected dimension in the range [{-rank}, {rank}), but got {axis}"
        )
    if input.shape[axis] == 0:
        raise InvalidArgumentError(f"Reduction axis {axis} is empty in shape {list(input.shape)}")
    return find(input, axis).astype(output_type.as_numpy_dtype)


@op(
    f"""
ArgMax(input: T, dimension: Tidx) -> output: output_type
T: type in {_ORDERED[:-1]}, bool}}
Tidx: type in {{int16, int32, int64}} = int32
output_type: type in {{int16, uint16, int32, int64}} = int64
""",
    shape=_position_shape,
    static=("dimension",),
    compiles=Compiles.ALWAYS,
)
def _arg_max(xp: ArrayNamespace, input: Array, dimension: Array, *, output_type: Array) -> Any:
    return _position(xp.argmax, _without_nan(xp, input, -np.inf), dimension, output_type)


@op(
    f"""
ArgMin(input: T, dimension: Tidx) -> output: output_type
T: type in {_ORDERED[:-1]}, bool}}
Tidx: type in indices = int32
output_type: type in indices = int64
""",
    shape=_position_shape,
    static=("dimension",),
    compiles=Compiles.ALWAYS,
)
def _arg_min(xp: ArrayNamespace, input: Array, dimension: Array, *, output_type: Array) -> Any:
    return _position(xp.argmin, _without_nan(xp, input, np.inf), dimension, output_type)


def _without_nan(xp: ArrayNamespace, x: Array, instead: float) -> Any:
    """Return x with what never wins instead of NaN."""
    return xp.where(xp.isnan(x), x.dtype.type(instead), x) if x.dtype.kind in "fV" else x


not_differentiable("ArgMax", "ArgMin")
