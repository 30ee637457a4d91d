"""Floats rounded to what so many bits can tell apart: quantized, and made floats again.

Source: tensorflow/core/kernels/quantize_and_dequantize_op.h.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import same_as
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.wire import errors

_TYPES = "{bfloat16, half, float, double}"


def _check(x: Any, num_bits: int, signed: bool, axis: int) -> None:
    most = 61 if signed else 62
    if not 1 <= num_bits <= most:
        raise errors.InvalidArgumentError(f"num_bits must be from 1 to {most}; found {num_bits}")
    if not -1 <= axis < x.ndim:
        raise errors.InvalidArgumentError(f"axis {axis} is not one of shape {list(x.shape)}")


def _check_limits(x: Array, limits: tuple[Any, Any], axis: int) -> None:
    wanted = () if axis == -1 else (x.shape[axis],)
    for given in limits:
        if given.shape != wanted:
            raise errors.InvalidArgumentError(
                f"input_min and input_max have shape {list(wanted)}; found {list(given.shape)}"
            )
    # What is traced has no values yet.
    if isinstance(limits[0], np.ndarray | np.generic) and np.any(limits[0] > limits[1]):
        raise errors.InvalidArgumentError(f"input_min {limits[0]} exceeds input_max {limits[1]}")


@op(
    f"""
    QuantizeAndDequantizeV4(input: T, input_min: T, input_max: T) -> output: T
    signed_input: bool = true
    num_bits: int = 8
    range_given: bool = false
    T: type in {_TYPES}
    round_mode: string in {{"HALF_TO_EVEN", "HALF_UP"}} = "HALF_TO_EVEN"
    narrow_range: bool = false
    axis: int = -1
    """,
    shape=same_as(),
)
def quantize_and_dequantize_v4_kernel(
    xp: ArrayNamespace,
    x: Array,
    low: Array,
    high: Array,
    *,
    signed_input: bool,
    num_bits: int,
    range_given: bool,
    round_mode: str,
    narrow_range: bool,
    axis: int,
) -> Any:
    """Return x rounded to steps of one size, zero among them, that fill the range."""
    _check(x, num_bits, signed_input, axis)
    if range_given:
        _check_limits(x, (low, high), axis)
        shape = [-1 if at == axis else 1 for at in range(x.ndim)]
        low, high = xp.reshape(low, shape), xp.reshape(high, shape)
    elif not x.size:
        return x
    else:
        others = tuple(at for at in range(x.ndim) if at != axis)
        is_none, end = xp.isnan(x), x.dtype.type(np.inf)
        low = xp.min(xp.where(is_none, end, x), axis=others, keepdims=True)
        high = xp.max(xp.where(is_none, -end, x), axis=others, keepdims=True)
    kind = x.dtype.type
    most = kind((1 << (num_bits - 1)) - 1 if signed_input else (1 << num_bits) - 1)
    least = kind(0 if not signed_input else -most if narrow_range else -float(most) - 1)
    none = kind(np.finfo(np.float32).max if x.dtype.itemsize > 2 else 65504)
    one = kind(1)
    by_low = xp.where(least * low > 0, least / xp.where(low == 0, one, low), none)
    by_high = xp.where(most * high > 0, most / xp.where(high == 0, one, high), none)
    is_low = by_low < by_high
    scale = xp.where(is_low, by_low, by_high)
    step = xp.where(is_low, low / (least if least else one), high / most)
    if range_given:
        # Of a range that was found nothing is cut off, even where its numbers have no sign.
        bounds = xp.where(is_low, low, least * step), xp.where(is_low, most * step, high)
        # A range below zero has no numbers without sign: the lower bound, zero, is the last word.
        x = xp.maximum(xp.minimum(x, bounds[1]), bounds[0])
    scaled = x * scale
    rounded = xp.rint(scaled) if round_mode == "HALF_TO_EVEN" else xp.floor(scaled + kind(0.5))
    return (rounded * step).astype(x.dtype)


@gradient("QuantizeAndDequantizeV4")
def _quantize_and_dequantize_v4_grad(op: Operation, grad: Tensor) -> list[Any]:
    """Pass on the gradient of what is in the range; the range's own is zero."""
    made = apply_op("QuantizeAndDequantizeV4Grad", grad, *op.inputs, axis=op.attrs["axis"])
    return list(made)


@export("quantization.quantize_and_dequantize_v2")
def quantize_and_dequantize_v2(
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
    """Return floats rounded to what num_bits can tell apart within a range.

    Args:
      input_min, input_max: the range if range_given, else that of the input; one for each slice
        along axis, where that is given.
      signed_input: whether half of the numbers are negative.
      round_mode: "HALF_TO_EVEN" or "HALF_UP".
      narrow_range: leave out the least number.
    """
    made: Tensor = apply_op(
        "QuantizeAndDequantizeV4",
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
