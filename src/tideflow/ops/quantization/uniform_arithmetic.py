"""Arithmetic on quantised numbers by scales and zero points.

A ratio of scales is a whole number of 31 bits and a shift, so that results are whole numbers
computed by whole numbers.
Source: tensorflow/core/kernels/uniform_quant_ops, above all math_utils.h.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, same_as, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.ops.quantization.levels import F, round_away
from tideflow.ops.quantization.uniform import along, check_steps, ranges_of, require_positive
from tideflow.ops.quantization.whole_numbers import product_of_whole
from tideflow.wire import errors
from tideflow.wire.dtypes import DType

_INT32 = np.iinfo(np.int32)
# How many bits a ratio has behind its point, and between which shifts it may lie.
_BITS, _LEAST_SHIFT, _MOST_SHIFT = 31, -31, 30


# ---- from one scale to another


def rescaled(x: Array, ratio: Any, zeros: Any, least: int, most: int) -> Any:
    """Return x * ratio + zeros, rounded and limited, int32.

    Args:
      x: int32, distances from zero; ratio: float64 and zeros: int32, which broadcast with x.

    Raises: InvalidArgumentError for ratios that are not finite and positive.
    """
    if not np.all(np.isfinite(ratio) & (ratio > 0)):
        raise errors.InvalidArgumentError(
            f"ratios of scales must be positive and finite; found {ratio}"
        )
    for end in (least, most):
        if not _INT32.min <= end <= _INT32.max:
            raise errors.InvalidArgumentError(f"Attr has value {end} out of range for an int32")
    part, shift = np.frexp(np.asarray(ratio, np.float64))
    multiplier = round_away(part * 2.0**_BITS).astype(np.int64)
    is_one = multiplier == 1 << _BITS
    multiplier, shift = np.where(is_one, multiplier // 2, multiplier), shift + is_one
    multiplier = np.where(shift < _LEAST_SHIFT, 0, multiplier)
    multiplier = np.where(shift > _MOST_SHIFT, _INT32.max, multiplier)
    places = _BITS - np.where(shift < _LEAST_SHIFT, 0, np.minimum(shift, _MOST_SHIFT)).astype(
        np.int64
    )
    at = (x.astype(np.int64) * multiplier + (np.int64(1) << (places - 1))) >> places
    at = np.clip(at, _INT32.min, _INT32.max).astype(np.int32) + zeros
    return np.maximum(np.minimum(at, np.int32(most)), np.int32(least))


def _moved(x: Array, given: tuple[Any, Any], wanted: tuple[Any, Any], least: int, most: int) -> Any:
    """Return numbers of some scales and zero points as those of others; all broadcast."""
    ratio = given[0].astype(np.float64) / wanted[0]
    return rescaled(x.astype(np.int32) - given[1], ratio, wanted[1], least, most)


@op(
    """
    UniformRequantize(input: Tin, input_scales: float, input_zero_points: int32, \
output_scales: float, output_zero_points: int32) -> output: Tout
    Tin: type in {qint8, qint32}
    Tout: type in {qint8, qint32}
    """
    + ranges_of("input", "output"),
    shape=same_as("input"),
)
def uniform_requantize_kernel(
    ctx: KernelContext,
    input: Array,
    input_scales: Array,
    input_zero_points: Array,
    output_scales: Array,
    output_zero_points: Array,
    *,
    Tout: DType,
    input_quantization_axis: int,
    output_quantization_axis: int,
    output_quantization_min_val: int,
    output_quantization_max_val: int,
) -> Any:
    """Return quantised numbers by other scales and zero points."""
    axes = input_quantization_axis, output_quantization_axis
    if min(axes) >= 0 and axes[0] != axes[1]:
        raise errors.InvalidArgumentError(
            f"input and output must have the same quantization axis; found {axes}"
        )
    check_steps(input.shape, input_scales, input_zero_points, axes[0])
    check_steps(input.shape, output_scales, output_zero_points, axes[1])
    require_positive(input_scales, output_scales)
    given = _steps(input_scales, input_zero_points, input.ndim, axes[0])
    wanted = _steps(output_scales, output_zero_points, input.ndim, axes[1])
    made = _moved(input, given, wanted, output_quantization_min_val, output_quantization_max_val)
    return made.astype(Tout.as_numpy_dtype)


def _steps(scales: Any, zeros: Any, rank: int, axis: int) -> tuple[Any, Any]:
    return along(scales, rank, axis), along(zeros, rank, axis)


# ---- number by number


@op(
    """
    UniformQuantizedAdd(lhs: T, rhs: T, lhs_scales: float, lhs_zero_points: int32, \
rhs_scales: float, rhs_zero_points: int32, output_scales: float, output_zero_points: int32) \
-> output: T
    T: type in {qint32}
    """
    + ranges_of("lhs", "rhs", "output"),
    shape=lambda c: [shapes.broadcast(c.inputs[0], c.inputs[1])],
)
def uniform_quantized_add_kernel(
    ctx: KernelContext,
    lhs: Array,
    rhs: Array,
    lhs_scales: Array,
    lhs_zero_points: Array,
    rhs_scales: Array,
    rhs_zero_points: Array,
    output_scales: Array,
    output_zero_points: Array,
    *,
    lhs_quantization_axis: int,
    rhs_quantization_axis: int,
    output_quantization_axis: int,
    output_quantization_min_val: int,
    output_quantization_max_val: int,
) -> Any:
    """Return sums of quantised numbers, both first brought to the scales of the result."""
    try:
        sizes = np.broadcast_shapes(lhs.shape, rhs.shape)
    except ValueError:
        raise errors.InvalidArgumentError(
            f"Cannot Add tensors of shapes: {list(lhs.shape)} {list(rhs.shape)}"
        ) from None
    rank, axis = len(sizes), output_quantization_axis
    check_steps(sizes, output_scales, output_zero_points, axis)
    require_positive(lhs_scales, rhs_scales, output_scales)
    wanted = along(output_scales, rank, axis), np.int32(0)
    total: Any = along(output_zero_points, rank, axis)
    for x, scales, zeros, of_x in (
        (lhs, lhs_scales, lhs_zero_points, lhs_quantization_axis),
        (rhs, rhs_scales, rhs_zero_points, rhs_quantization_axis),
    ):
        check_steps(x.shape, scales, zeros, of_x)
        at = of_x if of_x == -1 else of_x + rank - x.ndim
        if min(at, axis) >= 0 and at != axis:
            raise errors.InvalidArgumentError(
                f"quantization axes must be the same; found {of_x} of {list(x.shape)}, and {axis} "
                f"of the output {list(sizes)}"
            )
        x = x.reshape((1,) * (rank - x.ndim) + x.shape)
        given = _steps(scales, zeros, rank, at)
        total = total + _moved(x, given, wanted, _INT32.min, _INT32.max)
    limits = output_quantization_min_val, output_quantization_max_val
    return np.clip(total, *limits).astype(lhs.dtype)


@op(
    """
    UniformQuantizedClipByValue(operand: T, min: T, max: T, scales: float, zero_points: int32) \
-> output: T
    T: type in {qint32}
    """
    + ranges_of(),
    shape=same_as("operand"),
)
def uniform_quantized_clip_by_value_kernel(
    ctx: KernelContext,
    operand: Array,
    min: Array,
    max: Array,
    scales: Array,
    zero_points: Array,
    *,
    quantization_axis: int,
) -> Any:
    """Return quantised numbers limited by others, the same for all or one for each slice."""
    check_steps(operand.shape, scales, zero_points, quantization_axis)
    for what, end in (("min", min), ("max", max)):
        if end.shape != scales.shape:
            raise errors.InvalidArgumentError(
                f"{what} must have the shape of scales, {list(scales.shape)}; found "
                f"{list(end.shape)}"
            )
    low, high = (along(end, operand.ndim, quantization_axis) for end in (min, max))
    return np.minimum(np.maximum(operand, low), high)


# ---- products of matrices


def check_steps_shapes(c: ShapeContext, what: str, size: int | None) -> None:
    """Refuse known scales and zero points that are neither scalars nor one for each of `size`.

    Raises: ValueError.
    """
    found = c.shape(f"{what}_scales"), c.shape(f"{what}_zero_points")
    if any(dims is not None and len(dims) > 1 for dims in found):
        raise ValueError(f"{what}_scales and {what}_zero_points must have rank 1 at most")
    scales, zeros = found
    if scales is None or zeros is None:
        return
    if len(scales) != len(zeros):
        raise ValueError(f"{what}_scales and {what}_zero_points must have same rank.")
    if scales:
        shapes.merge(shapes.merge(scales, zeros), (size,))


def check_scalar_steps(c: ShapeContext, what: str) -> None:
    """Refuse known scales and zero points that are no scalars.  Raises: ValueError."""
    for name in (f"{what}_scales", f"{what}_zero_points"):
        if c.shape(name):
            raise ValueError(f"{name} must be a scalar; its shape is {c.shape(name)}")


def _dot_shape(c: ShapeContext) -> list[Dims]:
    lhs, rhs = with_rank(c.inputs[0], 2, "lhs"), with_rank(c.inputs[1], 2, "rhs")
    shapes.merge(lhs[1:], rhs[:1])
    check_steps_shapes(c, "rhs", rhs[1])
    if "lhs_quantization_axis" in c.attrs:
        check_scalar_steps(c, "lhs")
        check_steps_shapes(c, "output", rhs[1])
    return [(lhs[0], rhs[1])]


def check_scalars(scales: Any, zeros: Any, what: str) -> None:
    """Refuse scales and zero points that are no scalars.  Raises: InvalidArgumentError."""
    if scales.ndim or zeros.ndim:
        raise errors.InvalidArgumentError(
            f"{what} scales/zero_points must be all scalar tensors. Given: {list(scales.shape)} "
            f"{list(zeros.shape)}"
        )


def _check_matrices(lhs: Any, rhs: Array, **axes: int) -> None:
    for what, axis in axes.items():
        if axis not in (-1, 1):
            raise errors.InvalidArgumentError(f"{what} must be 1 or -1; found {axis}")
    for what, one in (("lhs", lhs), ("rhs", rhs)):
        if one.ndim != 2:
            raise errors.InvalidArgumentError(
                f"{what} rank must be 2, but given {what} shape {list(one.shape)}"
            )
    if lhs.shape[1] != rhs.shape[0]:
        raise errors.InvalidArgumentError(
            "lhs.dim_size(1) and rhs.dim_size(0) must be equal, but given lhs shape "
            f"{list(lhs.shape)} and rhs shape {list(rhs.shape)}"
        )


@op(
    """
    UniformQuantizedDot(lhs: Tin, rhs: Tin, lhs_scales: float, lhs_zero_points: int32, \
rhs_scales: float, rhs_zero_points: int32, output_scales: float, output_zero_points: int32) \
-> output: Tout
    Tin: type in {qint8}
    Tout: type in {qint32}
    """
    + ranges_of("lhs", "rhs", "output"),
    shape=_dot_shape,
)
def uniform_quantized_dot_kernel(
    ctx: KernelContext,
    lhs: Array,
    rhs: Array,
    lhs_scales: Array,
    lhs_zero_points: Array,
    rhs_scales: Array,
    rhs_zero_points: Array,
    output_scales: Array,
    output_zero_points: Array,
    *,
    lhs_quantization_axis: int,
    rhs_quantization_axis: int,
    output_quantization_axis: int,
    output_quantization_min_val: int,
    output_quantization_max_val: int,
) -> Any:
    """Return the product of matrices of quantised numbers; the second has scales by columns."""
    if lhs_quantization_axis != -1:
        raise errors.InvalidArgumentError("lhs_quantization_axis Attr must be -1 (per-tensor).")
    _check_matrices(
        lhs,
        rhs,
        rhs_quantization_axis=rhs_quantization_axis,
        output_quantization_axis=output_quantization_axis,
    )
    require_positive(lhs_scales, rhs_scales, output_scales)
    check_scalars(lhs_scales, lhs_zero_points, "lhs")
    check_steps(rhs.shape, rhs_scales, rhs_zero_points, 1 if rhs_scales.ndim else -1)
    made = lhs.shape[0], rhs.shape[1]
    check_steps(made, output_scales, output_zero_points, 1 if output_scales.ndim else -1)
    require_output_like(rhs_scales, output_scales)
    total = product_of_whole(
        lhs.astype(np.int32) - lhs_zero_points, rhs.astype(np.int32) - rhs_zero_points
    )
    ratio = lhs_scales.astype(np.float64) * rhs_scales / output_scales
    limits = output_quantization_min_val, output_quantization_max_val
    return rescaled(total, ratio, output_zero_points, *limits)


def require_output_like(rhs_scales: Any, output_scales: Any) -> None:
    """Refuse scales by slices of what is made by one scale.  Raises: InvalidArgumentError."""
    if output_scales.ndim and not rhs_scales.ndim:
        raise errors.InvalidArgumentError(
            "If rhs is per-tensor quantized, output must be also per-tensor quantized. Given "
            f"output scales of shape {list(output_scales.shape)}"
        )


# ---- products of floats and quantised numbers


def quantized_by_rows(x: Array) -> tuple[Any, Any, Any]:
    """Return floats [rows, n] as int32 from -128 to 127, with the scale and zero of each row.

    A row's range is that of its floats and zero.
    """
    least, most = -128.0, 127.0
    low = x.min(axis=1, initial=0).astype(np.float64)
    high = x.max(axis=1, initial=0).astype(np.float64)
    with np.errstate(all="ignore"):
        scales = ((high - low) / (most - least)).astype(F)
        inverse = ((most - least) / (high - low)).astype(F)
        from_low, from_high = low / scales, high / scales
        zeros = np.where(
            abs(least) + abs(from_low) < most + abs(from_high), least - from_low, most - from_high
        )
        zeros = np.nan_to_num(round_away(np.clip(zeros, least, most))).astype(np.int32)
        made = np.floor(x * inverse[:, None] + F(0.5)).astype(np.int32) + zeros[:, None]
    is_flat = (scales == 0) | ~np.isfinite(inverse)
    made = np.where(is_flat[:, None], 0, np.clip(made, int(least), int(most)))
    return made.astype(np.int32), np.where(is_flat, F(1), scales), np.where(is_flat, 0, zeros)


@op(
    """
    UniformQuantizedDotHybrid(lhs: Tlhs, rhs: Trhs, rhs_scales: float, rhs_zero_points: int32) \
-> output: Tout
    Tlhs: type in {float}
    Trhs: type in {qint8}
    Tout: type in {float}
    """
    + ranges_of("rhs"),
    shape=_dot_shape,
)
def uniform_quantized_dot_hybrid_kernel(
    ctx: KernelContext,
    lhs: Array,
    rhs: Array,
    rhs_scales: Array,
    rhs_zero_points: Array,
    *,
    rhs_quantization_axis: int,
) -> Any:
    """Return the product of floats, quantised row by row, and of quantised numbers."""
    _check_matrices(lhs, rhs, rhs_quantization_axis=rhs_quantization_axis)
    check_steps(rhs.shape, rhs_scales, rhs_zero_points, 1 if rhs_scales.ndim else -1)
    require_positive(rhs_scales)
    levels, scales, zeros = quantized_by_rows(lhs)
    total = product_of_whole(levels - zeros[:, None], rhs.astype(np.int32) - rhs_zero_points)
    return total.astype(F) * scales[:, None] * rhs_scales
