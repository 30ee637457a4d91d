"""Earlier versions of rounding to what so many bits can tell apart, and the op of its gradient.

Source: tensorflow/core/kernels/quantize_and_dequantize_op.cc; python/ops/array_grad.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import declare_like, op
from tideflow.graph.shape_rules import ShapeContext, same_as
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.quantization.quantize_and_dequantize import quantize_and_dequantize_v4_kernel
from tideflow.wire import errors

_TYPES = "{bfloat16, half, float, double}"

declare_like("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4")


@op(
    f"""
    QuantizeAndDequantizeV3(input: T, input_min: T, input_max: T, num_bits: int32) -> output: T
    signed_input: bool = true
    range_given: bool = true
    T: type in {_TYPES}
    narrow_range: bool = false
    axis: int = -1
    """,
    shape=same_as(0),
    static=("num_bits",),
)
def quantize_and_dequantize_v3_kernel(
    xp: ArrayNamespace,
    x: Array,
    low: Array,
    high: Array,
    num_bits: Array,
    *,
    signed_input: bool,
    range_given: bool,
    narrow_range: bool,
    axis: int,
) -> Any:
    """Return x rounded to steps of one size, half to even, with the number of bits as an input."""
    if np.ndim(num_bits):
        raise errors.InvalidArgumentError(f"num_bits must be a scalar; found {num_bits}")
    if not x.ndim:
        raise errors.InvalidArgumentError("input must have one dimension or more; it is a scalar")
    if range_given and isinstance(low, np.ndarray | np.generic) and not np.all(low <= high):
        raise errors.InvalidArgumentError(f"input_min {low} must not exceed input_max {high}")
    if axis == -1 and range_given:
        if not low.size == high.size == 1:
            raise errors.InvalidArgumentError("input_min and input_max must be single numbers")
        low, high = xp.reshape(low, ()), xp.reshape(high, ())
    return quantize_and_dequantize_v4_kernel(
        xp, x, low, high, signed_input=signed_input, num_bits=int(num_bits),
        range_given=range_given, round_mode="HALF_TO_EVEN", narrow_range=narrow_range, axis=axis,
    )  # fmt: skip


def _gradient_shape(c: ShapeContext) -> list[Dims]:
    limit = shapes.merge(c.shape("input_min"), c.shape("input_max"))
    return [shapes.merge(c.inputs[0], c.inputs[1]), limit, limit]


@op(
    f"""
    QuantizeAndDequantizeV4Grad(gradients: T, input: T, input_min: T, input_max: T)
      -> input_backprop: T, input_min_backprop: T, input_max_backprop: T
    T: type in {_TYPES}
    axis: int = -1
    """,
    shape=_gradient_shape,
)
def quantize_and_dequantize_v4_grad_kernel(
    xp: ArrayNamespace, gradients: Array, x: Array, low: Array, high: Array, *, axis: int
) -> Any:
    """Return the gradients of what lies in the range; the range's own are zeros."""
    if gradients.shape != x.shape:
        raise errors.InvalidArgumentError("gradients and input must have one shape")
    if not -1 <= axis < x.ndim:
        raise errors.InvalidArgumentError(f"axis {axis} is not one of shape {list(x.shape)}")
    wanted = () if axis == -1 else (x.shape[axis],)
    if low.shape != high.shape or low.shape != wanted:
        raise errors.InvalidArgumentError(
            f"input_min and input_max have shape {list(wanted)}; found {list(low.shape)} and "
            f"{list(high.shape)}"
        )
    by_axis = [-1 if at == axis else 1 for at in range(x.ndim)]
    inside = (x >= xp.reshape(low, by_axis)) & (x <= xp.reshape(high, by_axis))
    zeros = xp.zeros(low.shape, low.dtype)
    # A product, as in TensorFlow: what is not finite stays so outside the range.
    return gradients * inside.astype(x.dtype), zeros, zeros


@gradient("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3")
def _passed_on(op: Operation, grad: Tensor) -> list[Any]:
    """Pass on the gradient as if nothing were rounded."""
    return [grad, *[None] * (len(op.inputs) - 1)]


@gradient("QuantizeAndDequantizeV4Grad")
def _passed_on_again(op: Operation, grad: Tensor, *_others: Tensor) -> list[Any]:
    _, x, low, high = op.inputs
    of_x, *_ = apply_op("QuantizeAndDequantizeV4Grad", grad, x, low, high, axis=op.attrs["axis"])
    return [of_x, None, None, None]


@export("quantization.quantize_and_dequantize")
def quantize_and_dequantize(
    input: TensorLike,
    input_min: TensorLike,
    input_max: TensorLike,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
) -> Tensor:
    """Round as quantize_and_dequantize_v2 does, but let all gradients pass."""
    made: Tensor = apply_op(
        "QuantizeAndDequantizeV2",
        convert_to_tensor(input),
        input_min,
        input_max,
        signed_input=signed_input,
        num_bits=num_bits,
        range_given=range_given,
        round_mode=round_mode,
        narrow_range=narrow_range,
        axis=-1 if axis is None else axis,
        name=name,
    )
    return made
