"""Floats made levels of a range, and levels made floats again.

Source: tensorflow/core/kernels/quantize_op.cc, dequantize_op.cc.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.quantization.levels import (
    QUANTIZED,
    F,
    ends,
    greater,
    lesser,
    round_away,
    to_floats,
    to_levels,
)
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType

_MODES = '{"MIN_COMBINED", "MIN_FIRST", "SCALED"}'


def _limits_shape(c: ShapeContext) -> Dims:
    """Return the shape of both ends of the range: one for each slice along the axis, if any."""
    axis = c.attrs["axis"]
    if axis < -1:
        raise ValueError(f"axis should be at least -1, got {axis}")
    rank = 0 if axis == -1 else 1
    found = [with_rank(c.shape(name), rank, name) for name in ("min_range", "max_range")]
    if axis == -1:
        return ()
    given = c.shape("input")
    slices: Dims = (None,)
    if given is not None:
        if axis >= len(given):
            raise ValueError(f"axis {axis} is not one of shape {shapes.format_dims(given)}")
        slices = (given[axis],)
    return shapes.merge(shapes.merge(*found), slices)


def _quantize_shape(c: ShapeContext) -> list[Dims]:
    limits = _limits_shape(c)
    return [c.shape("input"), limits, limits]


def _dequantize_shape(c: ShapeContext) -> list[Dims]:
    _limits_shape(c)
    if c.attrs["axis"] > -1 and c.shape("input") is None:
        raise ValueError("an axis asks for an input of known rank")
    return [c.shape("input")]


def _over_axis(limits: Any, x: Array, axis: int) -> Any:
    """Give the ends of the ranges of slices a shape that broadcasts over x."""
    return limits.reshape([-1 if at == axis else 1 for at in range(x.ndim)])


def _check_limits(low: Array, high: Array, x: Array, axis: int, *, of_rank: bool) -> int:
    """Return the number of slices.  Raises: InvalidArgumentError."""
    if axis >= x.ndim:
        raise errors.InvalidArgumentError(f"axis {axis} is not one of shape {list(x.shape)}")
    slices = x.shape[axis] if axis > -1 else 1
    for what, limit in (("min_range", low), ("max_range", high)):
        if limit.size != slices or (of_rank and axis > -1 and limit.ndim != 1):
            raise errors.InvalidArgumentError(
                f"{what} must have {slices} elements, one for each slice along axis {axis}; its "
                f"shape is {list(limit.shape)}"
            )
    return slices


@op(
    f"""
    QuantizeV2(input: float, min_range: float, max_range: float) \
-> output: T, output_min: float, output_max: float
    T: type in {QUANTIZED}
    mode: string in {_MODES} = "MIN_COMBINED"
    round_mode: string in {{"HALF_AWAY_FROM_ZERO", "HALF_TO_EVEN"}} = "HALF_AWAY_FROM_ZERO"
    narrow_range: bool = false
    axis: int = -1
    ensure_minimum_range: float = 0.01
    """,
    shape=_quantize_shape,
)
def quantize_v2_kernel(
    ctx: KernelContext,
    input: Array,
    min_range: Array,
    max_range: Array,
    *,
    T: DType,
    mode: str,
    round_mode: str,
    narrow_range: bool,
    axis: int,
    ensure_minimum_range: float,
) -> Any:
    """Return floats as levels, and the range that these span, in which zero lies."""
    if round_mode == "HALF_TO_EVEN" and mode != "SCALED":
        raise errors.InvalidArgumentError(
            f"Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is '{mode}'."
        )
    slices = _check_limits(min_range, max_range, input, axis, of_rank=True)
    if slices == 1:
        low, high = F(min_range.reshape(())), F(max_range.reshape(()))
    else:
        if mode == "MIN_FIRST":
            raise errors.UnimplementedError("MIN_FIRST mode is not implemented with an axis")
        low, high = _over_axis(min_range, input, axis), _over_axis(max_range, input, axis)
    if np.any(high < low):
        raise errors.InvalidArgumentError("input_max_range must be larger than input_min_range.")
    # Ends that lie close together are moved apart, and zero comes between them.
    apart = greater(F(1), greater(abs(low), abs(high))) * F(ensure_minimum_range)
    low = lesser(F(0), low)
    high = greater(F(0), greater(high, low + apart))
    if mode == "MIN_FIRST":
        return to_levels(input, low, high, T), low, high
    if mode == "MIN_COMBINED":
        made = _combined(input, low, high, T)
    else:
        made, low, high = _scaled(input, low, high, T, narrow_range, round_mode)
    if slices == 1:
        return made, np.reshape(low, ()), np.reshape(high, ())
    return made, low.reshape(-1), high.reshape(-1)


def _combined(x: Any, low: Any, high: Any, dtype: DType) -> Any:
    least, most = ends(dtype)
    scale = (float(most - least) / np.float64(high - low)).astype(F)
    at = (np.maximum(np.minimum(x, high), low) - low) * scale
    at = round_away(at - F((most - least + 1) / 2.0)) if least else at + F(0.5)
    # Of 32 bits, the greatest float is one too many, and becomes the least number.
    return at.astype(np.int32).astype(dtype.as_numpy_dtype)


def _scaled(
    x: Any, low: Any, high: Any, dtype: DType, narrow_range: bool, round_mode: str
) -> tuple[Any, Any, Any]:
    """Return levels by their distance from zero alone, and the range of all levels."""
    least, most = ends(dtype)
    least += narrow_range
    none, one = np.finfo(F).max, F(1)
    by_low = np.where(F(least) * low > 0, F(least) / np.where(low == 0, one, low), none)
    by_high = np.where(F(most) * high > 0, F(most) / np.where(high == 0, one, high), none)
    scale = np.minimum(by_low, by_high)
    low, high = F(least) / scale, F(most) / scale
    at = np.maximum(np.minimum(x, high), low) * scale
    at = np.rint(at) if round_mode == "HALF_TO_EVEN" else round_away(at)
    return at.astype(np.int32).astype(dtype.as_numpy_dtype), low, high


@op(
    f"""
    Dequantize(input: T, min_range: float, max_range: float) -> output: dtype
    T: type in {QUANTIZED}
    mode: string in {_MODES} = "MIN_COMBINED"
    narrow_range: bool = false
    axis: int = -1
    dtype: type in {{bfloat16, float}} = float
    """,
    shape=_dequantize_shape,
)
def dequantize_kernel(
    ctx: KernelContext,
    input: Array,
    min_range: Array,
    max_range: Array,
    *,
    T: DType,
    mode: str,
    narrow_range: bool,
    axis: int,
    dtype: DType,
) -> Any:
    """Return levels as the floats that they stand for."""
    if dtype is not dtypes.float32 and mode != "MIN_COMBINED":
        raise errors.InvalidArgumentError(
            f"When output type is bfloat16, Mode string must be 'MIN_COMBINED', is '{mode}'"
        )
    slices = _check_limits(min_range, max_range, input, axis, of_rank=False)
    if slices == 1:
        low, high = F(min_range.reshape(())), F(max_range.reshape(()))
    else:
        if mode == "MIN_FIRST":
            raise errors.UnimplementedError("MIN_FIRST mode is not implemented with an axis")
        low, high = _over_axis(min_range, input, axis), _over_axis(max_range, input, axis)
    if mode == "MIN_FIRST":
        return to_floats(input, low, high, T)
    least, most = ends(T)
    if mode == "MIN_COMBINED":
        scale = (high - low) / (F(most) - F(least))
        half = F((F(most) - F(least) + F(1)) / F(2)) if least else F(0)
        return ((input.astype(F) + half) * scale + low).astype(dtype.as_numpy_dtype)
    scale = high / F(most)
    if least:
        scale = np.maximum(low / F(least + narrow_range), scale)
    return input.astype(F) * scale


class QuantizeV2(NamedTuple):
    """What `quantize` gives."""

    output: Tensor
    output_min: Tensor
    output_max: Tensor


def _axis_of(axis: int | None, input: Tensor) -> int:
    """Return an axis from the front, or -1 for none.  Raises: ValueError."""
    if axis is None or axis >= 0:
        return -1 if axis is None else axis
    rank = input.shape.rank
    if rank is None:
        raise ValueError("input should have known rank to use negative axis.")
    return axis % rank


@export("quantize_v2")
def quantize_v2(
    input: TensorLike,
    min_range: TensorLike,
    max_range: TensorLike,
    T: DTypeLike,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    narrow_range: bool = False,
    axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> QuantizeV2:
    """Return floats as levels, as `quantize` does."""
    x = convert_to_tensor(input, dtypes.float32)
    made = apply_op(
        "QuantizeV2", x, min_range, max_range, T=T, mode=mode, round_mode=round_mode,
        narrow_range=narrow_range, axis=_axis_of(axis, x),
        ensure_minimum_range=ensure_minimum_range, name=name,
    )  # fmt: skip
    return QuantizeV2(*made)


@export("quantization.quantize", "quantize")
def quantize(
    input: TensorLike,
    min_range: TensorLike,
    max_range: TensorLike,
    T: DTypeLike,
    mode: str = "MIN_COMBINED",
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> QuantizeV2:
    """Return floats as levels of a range, and the ends of that range.

    Args:
      input: float32 [...].
      min_range, max_range: float32 [], or one for each slice along `axis`; zero is taken in.
      T: qint8, quint8, qint16, quint16 or qint32.
      mode: "MIN_COMBINED", "MIN_FIRST", or "SCALED" (zero becomes 0).
      round_mode: "HALF_AWAY_FROM_ZERO", or with "SCALED" also "HALF_TO_EVEN".
      narrow_range: leave out the least number ("SCALED").
      ensure_minimum_range: what part of their size both ends are moved apart at least.
    Returns: output, output_min, output_max.
    """
    return quantize_v2(
        input, min_range, max_range, T, mode, name, round_mode, narrow_range, axis,
        ensure_minimum_range,
    )  # fmt: skip


@export("quantization.dequantize", "dequantize")
def dequantize(
    input: TensorLike,
    min_range: TensorLike,
    max_range: TensorLike,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    axis: int | None = None,
    narrow_range: bool = False,
    dtype: DTypeLike = dtypes.float32,
) -> Tensor:
    """Return levels of a range as floats; the arguments are those of `quantize`."""
    x = convert_to_tensor(input)
    made: Tensor = apply_op(
        "Dequantize", x, min_range, max_range, mode=mode, narrow_range=narrow_range,
        axis=_axis_of(axis, x), dtype=dtype, name=name,
    )  # fmt: skip
    return made
