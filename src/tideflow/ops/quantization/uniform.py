"""Quantised numbers by scales and zero points, the same for all or one for each slice.

A number stands for (number - zero point) * scale.
Source: tensorflow/core/kernels/uniform_quant_ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.wire import errors
from tideflow.wire.dtypes import DType

_F: Any = np.float32


def ranges_of(*whose: str) -> str:
    """Return lines of a signature: the axis of scales and the range of numbers, of each argument.

    whose: the arguments; the only one where none is named.
    """
    return "".join(
        f"{one}quantization_axis: int = -1\n"
        f"{one}quantization_min_val: int\n"
        f"{one}quantization_max_val: int\n"
        for one in [f"{name}_" for name in whose] or [""]
    )


def check_steps(sizes: Sequence[int], scales: Any, zeros: Any, axis: int) -> None:
    """Check the scales and zero points of numbers of that shape.  Raises: InvalidArgumentError."""
    if not -1 <= axis < len(sizes):
        raise errors.InvalidArgumentError(
            f"quantization_axis must be from -1 to below {len(sizes)}; found {axis}"
        )
    wanted = () if axis == -1 else (sizes[axis],)
    for what, one in (("scales", scales), ("zero_points", zeros)):
        if one.shape != wanted:
            raise errors.InvalidArgumentError(
                f"{what} must be {list(wanted)}; its shape is {list(one.shape)}"
            )


def require_positive(*scales: Any) -> None:
    """Refuse scales that are not above zero.  Raises: InvalidArgumentError."""
    if not all(np.all(one > 0) for one in scales):
        raise errors.InvalidArgumentError("scales elements must be all positive")


def along(values: Array, rank: int, axis: int) -> Any:
    """Return values, one for all or one for each slice along an axis, to broadcast with."""
    return values.reshape([-1 if at == axis else 1 for at in range(rank)])


def _quantized(x: Array, scales: Any, zeros: Any, axis: int, least: int, most: int) -> Any:
    inverse = _F(1) / along(scales, x.ndim, axis)
    at = np.floor(x * inverse + _F(0.5)) + along(zeros, x.ndim, axis).astype(_F)
    return np.clip(at, _F(least), _F(most))


def _shape(c: ShapeContext) -> list[Dims]:
    limits = [c.shape(1), c.shape(2)]
    shapes.merge(*limits)
    return [c.inputs[0]]


@op(
    """
    UniformQuantize(input: Tin, scales: float, zero_points: int32) -> output: Tout
    Tin: type in {float}
    Tout: type in {qint8, quint8, qint32}
    """
    + ranges_of(),
    shape=_shape,
)
def uniform_quantize_kernel(
    ctx: KernelContext,
    input: Array,
    scales: Array,
    zero_points: Array,
    *,
    Tout: DType,
    quantization_axis: int,
    quantization_min_val: int,
    quantization_max_val: int,
) -> Any:
    """Return floats as quantised numbers, each the nearest."""
    check_steps(input.shape, scales, zero_points, quantization_axis)
    made = _quantized(
        input, scales, zero_points, quantization_axis, quantization_min_val, quantization_max_val
    )
    return made.astype(np.int32).astype(Tout.as_numpy_dtype)


@op(
    """
    UniformDequantize(input: Tin, scales: float, zero_points: int32) -> output: Tout
    Tin: type in {qint8, quint8, qint32}
    Tout: type in {float}
    """
    + ranges_of(),
    shape=_shape,
)
def uniform_dequantize_kernel(
    ctx: KernelContext,
    input: Array,
    scales: Array,
    zero_points: Array,
    *,
    quantization_axis: int,
) -> Any:
    """Return the floats that quantised numbers stand for."""
    check_steps(input.shape, scales, zero_points, quantization_axis)
    require_positive(scales)
    from_zero = input.astype(np.int32) - along(zero_points, input.ndim, quantization_axis)
    return from_zero.astype(_F) * along(scales, input.ndim, quantization_axis)
