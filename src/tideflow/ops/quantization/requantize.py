"""Levels of one range made levels of another, mostly those of 32 bits levels of 8.

Source: tensorflow/core/kernels/requantize.cc, requantization_range_op.cc,
quantize_down_and_shrink_range.cc, mkl/mkl_requantize_per_channel_op.cc and
mkl/mkl_requantization_range_per_channel_op.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.ops.quantization.levels import (
    QUANTIZED,
    F,
    ends,
    float_of,
    only_one,
    requantized,
    require_scalars,
    scalar,
)
from tideflow.wire import errors
from tideflow.wire.dtypes import DType


def _used_range(levels: Array, low: Any, high: Any, dtype: DType) -> tuple[Any, Any]:
    """Return the range that levels make use of, with zero in it."""
    least, most = ends(dtype)
    used = [levels.min(initial=most), levels.max(initial=least)]
    return tuple(float_of(used, low, high, dtype))


def _shrunk_shape(c: ShapeContext) -> list[Dims]:
    require_scalars(c, "input_min", "input_max")
    return [c.inputs[0], (), ()]


@op(
    f"""
    QuantizeDownAndShrinkRange(input: Tinput, input_min: float, input_max: float) \
-> output: out_type, output_min: float, output_max: float
    Tinput: type in {QUANTIZED}
    out_type: type in {QUANTIZED}
    """,
    shape=_shrunk_shape,
)
def quantize_down_and_shrink_range_kernel(
    ctx: KernelContext,
    input: Array,
    input_min: Array,
    input_max: Array,
    *,
    Tinput: DType,
    out_type: DType,
) -> Any:
    """Return levels as such of the range that they make use of, and that range."""
    given = scalar(input_min, "input_min"), scalar(input_max, "input_max")
    low, high = _used_range(input, *given, Tinput)
    low = min(F(0), low)
    return requantized(input, given, (low, high), Tinput, out_type), low, high


def _range_shape(c: ShapeContext) -> list[Dims]:
    require_scalars(c, "input_min", "input_max")
    return [(), ()]


@op(
    f"""
    RequantizationRange(input: Tinput, input_min: float, input_max: float) \
-> output_min: float, output_max: float
    Tinput: type in {QUANTIZED}
    """,
    shape=_range_shape,
)
def requantization_range_kernel(
    ctx: KernelContext, input: Array, input_min: Array, input_max: Array, *, Tinput: DType
) -> Any:
    """Return the range that levels make use of, with zero in it."""
    low, high = only_one(input_min, "input_min"), only_one(input_max, "input_max")
    low, high = _used_range(input, low, high, Tinput)
    return min(F(0), low), high


def _requantize_shape(c: ShapeContext) -> list[Dims]:
    require_scalars(c, "input_min", "input_max", "requested_output_min", "requested_output_max")
    return [c.inputs[0], (), ()]


@op(
    f"""
    Requantize(input: Tinput, input_min: float, input_max: float, requested_output_min: float, \
requested_output_max: float) -> output: out_type, output_min: float, output_max: float
    Tinput: type in {QUANTIZED}
    out_type: type in {QUANTIZED}
    """,
    shape=_requantize_shape,
)
def requantize_kernel(
    ctx: KernelContext,
    input: Array,
    input_min: Array,
    input_max: Array,
    requested_output_min: Array,
    requested_output_max: Array,
    *,
    Tinput: DType,
    out_type: DType,
) -> Any:
    """Return levels as such of another range, which is given back."""
    given = scalar(input_min, "input_min"), scalar(input_max, "input_max")
    low = scalar(requested_output_min, "requested_output_min")
    high = scalar(requested_output_max, "requested_output_max")
    if not low <= 0:
        raise errors.InvalidArgumentError(f"requested_output_min must be <= 0, but got {low}")
    if not high >= low:
        raise errors.InvalidArgumentError(
            f"requested_output_max must be >= requested_output_min, but got {high} and {low}"
        )
    return requantized(input, given, (low, high), Tinput, out_type), low, high


def _channels_shape(c: ShapeContext) -> list[Dims]:
    for name in ("input_min", "input_max"):
        dims = c.shape(name)
        if dims is not None and len(dims) != 1:
            raise ValueError(f"{name} must be a vector; its shape is {shapes.format_dims(dims)}")
    return [(), ()]


def _check_channels(input: Array, low: Array, high: Array) -> None:
    if input.ndim != 4:
        raise errors.InvalidArgumentError(
            f"input must be in NHWC format; its shape is {list(input.shape)}"
        )
    depth = input.shape[3]
    if any(one.ndim != 1 or one.size != depth for one in (low, high)):
        raise errors.InvalidArgumentError(
            f"input_min and input_max must have {depth} elements, one for each channel; found "
            f"{low.size} and {high.size}"
        )


@op(
    f"""
    RequantizationRangePerChannel(input: T, input_min: float, input_max: float) \
-> output_min: float, output_max: float
    T: type in {QUANTIZED} = qint32
    clip_value_max: float
    """,
    shape=_channels_shape,
)
def requantization_range_per_channel_kernel(
    ctx: KernelContext,
    input: Array,
    input_min: Array,
    input_max: Array,
    *,
    T: DType,
    clip_value_max: float,
) -> Any:
    """Return the range around zero that levels make use of, where each channel has its own."""
    _check_channels(input, input_min, input_max)
    least, most = ends(T)
    if not input.size:
        raise errors.InvalidArgumentError(f"input has no elements; its shape is {input.shape}")
    by_channel = input.reshape(-1, input.shape[3])
    used_low = by_channel.min(axis=0, initial=most).astype(F)
    used_high = by_channel.max(axis=0, initial=least).astype(F)
    scale = np.maximum(abs(input_min), abs(input_max)) / F(1 << 31)
    used = np.max(scale * np.maximum(abs(used_low), abs(used_high)), initial=F(0))
    end = min(F(used), F(clip_value_max))
    return (-end if np.any(used_low < 0) else F(0)), end


def _per_channel_shape(c: ShapeContext) -> list[Dims]:
    _channels_shape(c)
    require_scalars(c, "requested_output_min", "requested_output_max")
    return [c.inputs[0], (), ()]


@op(
    f"""
    RequantizePerChannel(input: T, input_min: float, input_max: float, \
requested_output_min: float, requested_output_max: float) \
-> output: out_type, output_min: float, output_max: float
    T: type in {QUANTIZED} = qint32
    out_type: type in {QUANTIZED} = quint8
    """,
    shape=_per_channel_shape,
)
def requantize_per_channel_kernel(
    ctx: KernelContext,
    input: Array,
    input_min: Array,
    input_max: Array,
    requested_output_min: Array,
    requested_output_max: Array,
    *,
    out_type: DType,
) -> Any:
    """Return levels as such of one range, where each channel has its own."""
    if input.ndim != 4:
        raise errors.InvalidArgumentError(
            f"RequantizePerChannel takes tensors of rank 4; found shape {list(input.shape)}"
        )
    _check_channels(input, input_min, input_max)
    low = only_one(requested_output_min, "requested_output_min")
    high = only_one(requested_output_max, "requested_output_max")
    least, most = ends(out_type)
    if least and not low < 0:
        raise errors.InvalidArgumentError(f"requested_output_min must be below 0; found {low}")
    wide = max(abs(low), abs(high))
    scale = np.maximum(abs(input_min), abs(input_max)) / wide / F(1 << 31) * F(most)
    levels = np.rint(input.astype(F) * scale)
    made = np.clip(levels, least, most).astype(out_type.as_numpy_dtype)
    return made, low, high
