"""Arithmetic on levels: sums, products, and what becomes of their ranges.

Source: tensorflow/core/kernels/quantized_add_op.cc, quantized_mul_op.cc, quantized_bias_add_op.cc,
quantized_matmul_op.cc, quantized_activation_ops.cc, quantized_concat_op.cc and
quantized_reshape_op.cc.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import get_op_def, op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.ops.quantization.levels import (
    QUANTIZED,
    F,
    ends,
    float_of,
    greater,
    level_of,
    nearest_level,
    only_one,
    range_of_products,
    range_of_sums,
    require_order,
    require_scalars,
    scalar,
    to_floats,
    to_levels,
)
from tideflow.wire import errors
from tideflow.wire.dtypes import DType

# ---- sums and products of two tensors


def _broadcast_shape(c: ShapeContext) -> list[Dims]:
    require_scalars(c, "min_x", "max_x", "min_y", "max_y")
    return [shapes.broadcast(c.inputs[0], c.inputs[1]), (), ()]


def _runs(x: Array, y: Array) -> int:
    """Return how many runs of dimensions differ in which operand is repeated along them."""
    rank = max(x.ndim, y.ndim)
    sizes = [(1,) * (rank - one.ndim) + one.shape for one in (x, y)]
    kinds = [(a == 1, b == 1) for a, b in zip(*sizes) if (a, b) != (1, 1)]
    return sum(at == 0 or kinds[at - 1] != kind for at, kind in enumerate(kinds))


def _check_broadcast(x: Array, y: Array) -> None:
    """Refuse shapes that do not fit each other, or only by repeating in several ways.

    A matrix and a column fit.  There TensorFlow's kernel repeats the column as if it were a row;
    what is given here is what the shapes say.
    Raises: InvalidArgumentError; UnimplementedError.
    """
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        raise errors.InvalidArgumentError(
            f"Incompatible shapes: {list(x.shape)} vs. {list(y.shape)}"
        ) from None
    runs = _runs(x, y)
    if runs > 2:
        raise errors.UnimplementedError(
            f"Broadcast between {list(x.shape)} and {list(y.shape)} is not supported yet."
        )
    if runs == 2 and not min(x.size, y.size):
        raise errors.InvalidArgumentError("Must have some elements to add")


def _operands(
    x: Array, y: Array, min_x: Array, max_x: Array, min_y: Array, max_y: Array
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return the ranges of both operands.  Raises: InvalidArgumentError, UnimplementedError."""
    first = scalar(min_x, "min_x"), scalar(max_x, "max_x")
    second = scalar(min_y, "min_y"), scalar(max_y, "max_y")
    _check_broadcast(x, y)
    require_order(*first, "x")
    require_order(*second, "y")
    return first, second


_BINARY = """(x: T1, y: T2, min_x: float, max_x: float, min_y: float, max_y: float) \
-> z: Toutput, min_z: float, max_z: float
    T1: type in {QUANTIZED}
    T2: type in {QUANTIZED}
    Toutput: type in {QUANTIZED} = qint32
"""
_BINARY = _BINARY.replace("{QUANTIZED}", QUANTIZED)


@op("QuantizedAdd" + _BINARY, shape=_broadcast_shape)
def quantized_add_kernel(
    ctx: KernelContext,
    x: Array,
    y: Array,
    min_x: Array,
    max_x: Array,
    min_y: Array,
    max_y: Array,
    *,
    T1: DType,
    T2: DType,
    Toutput: DType,
) -> Any:
    """Return the sums of what two tensors of levels stand for."""
    first, second = _operands(x, y, min_x, max_x, min_y, max_y)
    low, high = min(first[0], second[0]), max(first[1], second[1])
    found = range_of_sums(max(abs(low), abs(high)), 14)

    def moved(levels: Array, given: tuple[Any, Any], dtype: DType) -> Any:
        if levels.size == 1 and (levels is x or x.size > 1):
            return nearest_level(float_of(levels, *given, dtype), *found, Toutput)
        # Of several, the levels of 0 and 1 tell all others.
        at = level_of(float_of(np.arange(2), *given, dtype), *found, Toutput)
        return np.clip(at[0] + levels.astype(np.int64) * (at[1] - at[0]), *ends(Toutput))

    total = moved(x, first, T1).astype(np.int32) + moved(y, second, T2).astype(np.int32)
    return total.astype(Toutput.as_numpy_dtype), *found


@op("QuantizedMul" + _BINARY, shape=_broadcast_shape)
def quantized_mul_kernel(
    ctx: KernelContext,
    x: Array,
    y: Array,
    min_x: Array,
    max_x: Array,
    min_y: Array,
    max_y: Array,
    *,
    T1: DType,
    T2: DType,
    Toutput: DType,
) -> Any:
    """Return the products of what two tensors of levels stand for."""
    first, second = _operands(x, y, min_x, max_x, min_y, max_y)
    made = from_zero(x, *first, T1) * from_zero(y, *second, T2)
    found = range_of_products((*first, T1), (*second, T2), Toutput)
    return made.astype(Toutput.as_numpy_dtype), *found


def from_zero(levels: Array, low: Any, high: Any, dtype: DType) -> Any:
    """Return the distance of levels from that of zero, int32."""
    zero = level_of(F(0), low, high, dtype).astype(np.int32)
    return levels.astype(np.int32) - zero


def _bias_shape(c: ShapeContext) -> list[Dims]:
    require_scalars(c, "min_input", "max_input", "min_bias", "max_bias")
    given, bias = c.inputs[0], with_rank(c.inputs[1], 1, "bias")
    if given is None:
        return [None, (), ()]
    if len(given) < 2:
        raise ValueError(f"input must have rank 2 or more; its shape is {list(given)}")
    return [(*given[:-1], *(shapes.merge(given[-1:], bias) or (None,))), (), ()]


@op(
    f"""
    QuantizedBiasAdd(input: T1, bias: T2, min_input: float, max_input: float, min_bias: float, \
max_bias: float) -> output: out_type, min_out: float, max_out: float
    T1: type in {QUANTIZED}
    T2: type in {QUANTIZED}
    out_type: type in {QUANTIZED}
    """,
    shape=_bias_shape,
)
def quantized_bias_add_kernel(
    ctx: KernelContext,
    input: Array,
    bias: Array,
    min_input: Array,
    max_input: Array,
    min_bias: Array,
    max_bias: Array,
    *,
    T1: DType,
    T2: DType,
    out_type: DType,
) -> Any:
    """Return the sums of what levels, and a vector of levels for the last dimension, stand for."""
    first = scalar(min_input, "min_input"), scalar(max_input, "max_input")
    second = scalar(min_bias, "min_bias"), scalar(max_bias, "max_bias")
    if input.ndim < 2:
        raise errors.InvalidArgumentError(f"Input tensor must be at least 2D: {input.shape}")
    if bias.ndim != 1:
        raise errors.InvalidArgumentError(f"Biases must be 1D: {bias.shape}")
    if bias.shape[0] != input.shape[-1]:
        raise errors.InvalidArgumentError(
            "Must provide as many biases as the last dimension of the input tensor: "
            f"{bias.shape} vs. {input.shape}"
        )
    widest = greater(first[1], greater(-first[0], greater(second[1], -second[0])))
    found = range_of_sums(widest, 17)
    summands = [
        to_levels(to_floats(levels, *given, dtype), *found, out_type)
        for levels, given, dtype in ((input, first, T1), (bias, second, T2))
    ]
    zero = nearest_level(F(0), *found, out_type)
    return summands[0] + (summands[1] + zero), *found


# ---- products of matrices


def _matmul_shape(c: ShapeContext) -> list[Dims]:
    require_scalars(c, "min_a", "max_a", "min_b", "max_b")
    a, b = with_rank(c.inputs[0], 2, "a"), with_rank(c.inputs[1], 2, "b")
    a = a[::-1] if c.attrs["transpose_a"] else a
    b = b[::-1] if c.attrs["transpose_b"] else b
    shapes.merge(a[1:], b[:1])
    return [(a[0], b[1]), (), ()]


@op(
    f"""
    QuantizedMatMul(a: T1, b: T2, min_a: float, max_a: float, min_b: float, max_b: float) \
-> out: Toutput, min_out: float, max_out: float
    T1: type in {QUANTIZED}
    T2: type in {QUANTIZED}
    Toutput: type in {QUANTIZED} = qint32
    transpose_a: bool = false
    transpose_b: bool = false
    Tactivation: type in {QUANTIZED} = quint8
    """,
    shape=_matmul_shape,
)
def quantized_matmul_kernel(
    ctx: KernelContext,
    a: Array,
    b: Array,
    min_a: Array,
    max_a: Array,
    min_b: Array,
    max_b: Array,
    *,
    T1: DType,
    T2: DType,
    Toutput: DType,
    transpose_a: bool,
    transpose_b: bool,
) -> Any:
    """Return the product of what two matrices of levels stand for."""
    first = scalar(min_a, "min_a"), only_one(max_a, "max_a")
    second = only_one(min_b, "min_b"), only_one(max_b, "max_b")
    require_order(*first, "a")
    require_order(*second, "b")
    for what, one in (("a", a), ("b", b)):
        if one.ndim != 2:
            raise errors.InvalidArgumentError(f"{what} must be a matrix; it is {list(one.shape)}")
    a, b = (a.T if transpose_a else a), (b.T if transpose_b else b)
    if a.shape[1] != b.shape[0]:
        raise errors.InvalidArgumentError(
            f"Matrix size-compatible: In[0]: {list(a.shape)}, In[1]: {list(b.shape)}"
        )
    made = from_zero(a, *first, T1) @ from_zero(b, *second, T2)
    found = range_of_products((*first, T1), (*second, T2), Toutput)
    return made.astype(Toutput.as_numpy_dtype), *found


# ---- of one tensor


def _relu_shape(c: ShapeContext) -> list[Dims]:
    require_scalars(c, "min_features", "max_features")
    return [c.inputs[0], (), ()]


_ACTIVATION = """(features: Tinput, min_features: float, max_features: float) \
-> activations: out_type, min_activations: float, max_activations: float
    Tinput: type in {QUANTIZED}
    out_type: type in {QUANTIZED} = quint8
"""
_ACTIVATION = _ACTIVATION.replace("{QUANTIZED}", QUANTIZED)


@op("QuantizedRelu" + _ACTIVATION, shape=_relu_shape)
def quantized_relu_kernel(
    ctx: KernelContext, features: Array, min_features: Array, max_features: Array, *, Tinput: DType
) -> Any:
    """Return levels, those below that of zero raised to it."""
    given = scalar(min_features, "min_features"), scalar(max_features, "max_features")
    return np.maximum(features, nearest_level(F(0), *given, Tinput)), *given


@op("QuantizedRelu6" + _ACTIVATION, shape=_relu_shape)
def quantized_relu6_kernel(
    ctx: KernelContext, features: Array, min_features: Array, max_features: Array, *, Tinput: DType
) -> Any:
    """Return levels held between those of zero and six."""
    given = scalar(min_features, "min_features"), scalar(max_features, "max_features")
    zero, six = (nearest_level(F(end), *given, Tinput) for end in (0, 6))
    return np.minimum(np.maximum(features, zero), six), *given


def _reshape_shape(c: ShapeContext) -> list[Dims]:
    require_scalars(c, "input_min", "input_max")
    rule = get_op_def("Reshape").shape_rule
    assert rule is not None
    return [*rule(c), (), ()]


@op(
    """
    QuantizedReshape(tensor: T, shape: Tshape, input_min: float, input_max: float) \
-> output: T, output_min: float, output_max: float
    T: type
    Tshape: type in indices = int32
    """,
    shape=_reshape_shape,
)
def quantized_reshape_kernel(
    ctx: KernelContext, tensor: Array, shape: Array, input_min: Array, input_max: Array
) -> Any:
    """Return levels in another shape, and their range as it is."""
    reshape = get_op_def("Reshape").kernel
    assert reshape is not None
    made = reshape(np, tensor, shape)
    return made, only_one(input_min, "input_min"), only_one(input_max, "input_max")


def _concat_shape(c: ShapeContext) -> list[Dims]:
    rule = get_op_def("Concat").shape_rule
    assert rule is not None
    count = c.attrs["N"]
    for dims in c.inputs[1 + count :]:
        if dims:
            raise ValueError(f"ends of ranges must be scalars; found {shapes.format_dims(dims)}")
    parts = ShapeContext(c.node, c.inputs[: 1 + count], lambda at: c.value(at))
    return [*rule(parts), (), ()]


@op(
    """
    QuantizedConcat(concat_dim: int32, values: N * T, input_mins: N * float, \
input_maxes: N * float) -> output: T, output_min: float, output_max: float
    N: int >= 2
    T: type
    """,
    shape=_concat_shape,
)
def quantized_concat_kernel(
    ctx: KernelContext,
    concat_dim: Array,
    values: list[Any],
    input_mins: list[Any],
    input_maxes: list[Any],
    *,
    T: DType,
) -> Any:
    """Return tensors of levels joined, all as levels of the range that holds all ranges."""
    lows = [only_one(end, "input_mins") for end in input_mins]
    highs = [only_one(end, "input_maxes") for end in input_maxes]
    found = min(lows), max(highs)
    rank, axis = values[0].ndim, int(only_one(concat_dim, "concat_dim"))
    if not 0 <= axis < rank:
        raise errors.InvalidArgumentError(
            f"ConcatOp : Expected concatenating dimensions in the range [0, {rank}), but got {axis}"
        )
    fits = [
        one.shape[:axis] + one.shape[axis + 1 :]
        == values[0].shape[:axis] + values[0].shape[axis + 1 :]
        for one in values
        if one.ndim == rank
    ]
    if len(fits) < len(values) or not all(fits):
        raise errors.InvalidArgumentError(
            f"ConcatOp : Dimensions of inputs should match: {[list(x.shape) for x in values]}"
        )
    parts = [
        part if (low, high) == found else to_levels(to_floats(part, low, high, T), *found, T)
        for part, low, high in zip(values, lows, highs)
    ]
    return np.concatenate(parts, axis), *found


class QuantizedConcat(NamedTuple):
    """What `quantization.quantized_concat` gives."""

    output: Tensor
    output_min: Tensor
    output_max: Tensor


@export("quantization.quantized_concat", "quantized_concat")
def quantized_concat(
    concat_dim: TensorLike,
    values: list[TensorLike],
    input_mins: list[TensorLike],
    input_maxes: list[TensorLike],
    name: str | None = None,
) -> QuantizedConcat:
    """Return tensors of levels joined along a dimension, as levels of one range, and that range."""
    return QuantizedConcat(
        *apply_op("QuantizedConcat", concat_dim, values, input_mins, input_maxes, name=name)
    )
