"""Floats rounded as if they were quantized, so that training sees what rounding will do.

Source: tensorflow/core/kernels/fake_quant_ops_functor.h; python/ops/array_ops.py for gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, same_as, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.wire import errors

_F = np.float32


def _nudged(
    xp: ArrayNamespace, least: Array, most: Array, num_bits: int, narrow_range: bool
) -> tuple[Any, Any, Any]:
    """Return limits moved so that zero is one of the levels, and the distance of two levels."""
    low, high = _F(narrow_range), _F((1 << num_bits) - 1)
    scale = (most - least) / (high - low)
    zero = low - least / scale
    # Half goes away from zero, which is positive here.
    level = xp.clip(xp.floor(zero + _F(0.5)), low, high)
    level = xp.where(xp.isnan(level), low, level)
    return (low - level) * scale, (high - level) * scale, scale


def _check_bits(num_bits: int) -> None:
    if not 2 <= num_bits <= 16:
        raise errors.InvalidArgumentError(
            f"num_bits must be between 2 and 16, inclusive; found {num_bits}"
        )


def _rounded(
    xp: ArrayNamespace, x: Array, least: Array, most: Array, num_bits: int, narrow_range: bool
) -> Any:
    low, high, scale = _nudged(xp, least, most, num_bits, narrow_range)
    inverse = _F(1) / scale
    zero = xp.floor(-low * inverse + _F(0.5))
    shifted = xp.maximum(xp.minimum(x, high), low) - low
    return xp.floor(shifted * inverse - zero + _F(0.5)) * scale


def _checked_range(least: float, most: float, num_bits: int) -> tuple[Any, Any]:
    _check_bits(num_bits)
    # Neither limit may be NaN.
    if not least < most:
        raise errors.InvalidArgumentError(f"min has to be smaller than max, was: {least} >= {most}")
    return _F(least), _F(most)


@op(
    """
    FakeQuantWithMinMaxArgs(inputs: float) -> outputs: float
    min: float = -6.0
    max: float = 6.0
    num_bits: int = 8
    narrow_range: bool = false
    """,
    shape=same_as(),
)
def fake_quant_args_kernel(
    xp: ArrayNamespace, inputs: Array, *, min: float, max: float, num_bits: int, narrow_range: bool
) -> Any:
    """Return each element at the nearest of 2 ** num_bits levels between two limits."""
    least, most = _checked_range(min, max, num_bits)
    return _rounded(xp, inputs, least, most, num_bits, narrow_range)


@op(
    """
    FakeQuantWithMinMaxArgsGradient(gradients: float, inputs: float) -> backprops: float
    min: float = -6.0
    max: float = 6.0
    num_bits: int = 8
    narrow_range: bool = false
    """,
    shape=same_as(),
)
def fake_quant_args_gradient_kernel(
    xp: ArrayNamespace, gradients: Array, inputs: Array, *, min: float, max: float, num_bits: int,
    narrow_range: bool,
) -> Any:  # fmt: skip
    """Return the gradients of the elements between the limits, zeros elsewhere."""
    least, most = _checked_range(min, max, num_bits)
    if np.shape(gradients) != np.shape(inputs):
        raise errors.InvalidArgumentError("gradients and inputs must have one shape")
    low, high, _ = _nudged(np, least, most, num_bits, narrow_range)
    # A product, as in TensorFlow: what is not finite stays so outside the limits.
    return gradients * ((inputs >= low) & (inputs <= high)).astype(_F)


@gradient("FakeQuantWithMinMaxArgs")
def _fake_quant_args_grad(op: Operation, grad: Tensor) -> list[Any]:
    attrs = {name: op.attrs[name] for name in ("min", "max", "num_bits", "narrow_range")}
    return [apply_op("FakeQuantWithMinMaxArgsGradient", grad, op.inputs[0], **attrs)]


# These run on NumPy alone: by compiled arithmetic, zero may come to lie at another level where it
# is halfway between two, as it is for limits of one size.


@op(
    """
    FakeQuantWithMinMaxVars(inputs: float, min: float, max: float) -> outputs: float
    num_bits: int = 8
    narrow_range: bool = false
    """,
    shape=same_as(),
)
def fake_quant_vars_kernel(
    ctx: KernelContext, inputs: Array, min: Array, max: Array, *, num_bits: int, narrow_range: bool
) -> Any:
    """Return each element at the nearest of 2 ** num_bits levels between two limits."""
    _check_bits(num_bits)
    if np.ndim(min) or np.ndim(max):
        raise errors.InvalidArgumentError("min and max must be scalars")
    empty = (min == _F(0)) & (max == _F(0))
    most = np.where(empty, _F(1), max)
    return np.where(empty, _F(0), _rounded(np, inputs, min, most, num_bits, narrow_range))


def _vars_gradient_shape(c: ShapeContext) -> list[Dims]:
    return [c.shape("inputs"), (), ()]


@op(
    """
    FakeQuantWithMinMaxVarsGradient(gradients: float, inputs: float, min: float, max: float) \
-> backprops_wrt_input: float, backprop_wrt_min: float, backprop_wrt_max: float
    num_bits: int = 8
    narrow_range: bool = false
    """,
    shape=_vars_gradient_shape,
)
def fake_quant_vars_gradient_kernel(
    ctx: KernelContext,
    gradients: Any,
    inputs: Array,
    min: Array,
    max: Array,
    *,
    num_bits: int,
    narrow_range: bool,
) -> Any:
    """Return the gradients of the elements, and of the two limits, which take what lies outside."""
    _check_bits(num_bits)
    if np.shape(gradients) != np.shape(inputs):
        raise errors.InvalidArgumentError("gradients and inputs must have one shape")
    if np.ndim(min) or np.ndim(max):
        raise errors.InvalidArgumentError("min and max must be scalars")
    empty = (min == _F(0)) & (max == _F(0))
    low, high, _ = _nudged(np, min, np.where(empty, _F(1), max), num_bits, narrow_range)

    if empty:
        return gradients, _F(0), _F(0)

    # Products, as in TensorFlow: what is not finite stays so where it is left out.
    def where(condition: Any) -> Any:
        return gradients * condition.astype(_F)

    inside = where((inputs >= low) & (inputs <= high))
    return inside, np.sum(where(inputs < low)), np.sum(where(inputs > high))


@gradient("FakeQuantWithMinMaxVars")
def _fake_quant_vars_grad(op: Operation, grad: Tensor) -> list[Any]:
    attrs = {name: op.attrs[name] for name in ("num_bits", "narrow_range")}
    return list(apply_op("FakeQuantWithMinMaxVarsGradient", grad, *op.inputs, **attrs))


# ---- limits of each channel


def _check_channels(inputs: Array, min: Array, max: Array, num_bits: int) -> None:
    _check_bits(num_bits)
    if not np.ndim(inputs):
        raise errors.InvalidArgumentError("inputs must have channels; it is a scalar")
    for what, limit in (("min", min), ("max", max)):
        if np.shape(limit) != np.shape(inputs)[-1:]:
            raise errors.InvalidArgumentError(
                f"{what} must be [{np.shape(inputs)[-1]}], one for each channel; its shape is "
                f"{list(np.shape(limit))}"
            )


def _channels_shape(c: ShapeContext) -> list[Dims]:
    given = c.shape("inputs")
    limit = shapes.merge(with_rank(c.shape("min"), 1, "min"), with_rank(c.shape("max"), 1, "max"))
    if given is None:
        return [None]
    if not given:
        raise ValueError("inputs must have channels; it is a scalar")
    return [(*given[:-1], *(shapes.merge(given[-1:], limit) or (None,)))]


@op(
    """
    FakeQuantWithMinMaxVarsPerChannel(inputs: float, min: float, max: float) -> outputs: float
    num_bits: int = 8
    narrow_range: bool = false
    """,
    shape=_channels_shape,
)
def fake_quant_per_channel_kernel(
    ctx: KernelContext, inputs: Array, min: Array, max: Array, *, num_bits: int, narrow_range: bool
) -> Any:
    """Return each element at the nearest level between the two limits of its channel, the last."""
    _check_channels(inputs, min, max, num_bits)
    empty = (min == _F(0)) & (max == _F(0))
    most = np.where(empty, _F(1), max)
    return np.where(empty, _F(0), _rounded(np, inputs, min, most, num_bits, narrow_range))


def _channels_gradient_shape(c: ShapeContext) -> list[Dims]:
    given = shapes.merge(c.shape("gradients"), c.shape("inputs"))
    limit = shapes.merge(with_rank(c.shape("min"), 1, "min"), with_rank(c.shape("max"), 1, "max"))
    return [given, limit, limit]


@op(
    """
    FakeQuantWithMinMaxVarsPerChannelGradient(gradients: float, inputs: float, min: float, max: float) \
-> backprops_wrt_input: float, backprop_wrt_min: float, backprop_wrt_max: float
    num_bits: int = 8
    narrow_range: bool = false
    """,  # noqa: E501 - one list of inputs
    shape=_channels_gradient_shape,
)
def fake_quant_per_channel_gradient_kernel(
    ctx: KernelContext,
    gradients: Any,
    inputs: Array,
    min: Array,
    max: Array,
    *,
    num_bits: int,
    narrow_range: bool,
) -> Any:
    """Return the gradients of the elements, and of the limits of each channel."""
    if np.shape(gradients) != np.shape(inputs):
        raise errors.InvalidArgumentError("gradients and inputs must have one shape")
    _check_channels(inputs, min, max, num_bits)
    empty = (min == _F(0)) & (max == _F(0))
    low, high, _ = _nudged(np, min, np.where(empty, _F(1), max), num_bits, narrow_range)

    # Products, as in TensorFlow: what is not finite stays so where it is left out.
    def where(condition: Any) -> Any:
        return gradients * condition.astype(_F)

    def summed(condition: Any) -> Any:
        over = tuple(range(np.ndim(inputs) - 1))
        return np.where(empty, _F(0), np.sum(where(condition), axis=over, dtype=np.float32))

    inside = np.where(empty, gradients, where((inputs >= low) & (inputs <= high)))
    return inside, summed(inputs < low), summed(inputs > high)


@gradient("FakeQuantWithMinMaxVarsPerChannel")
def _fake_quant_per_channel_grad(op: Operation, grad: Tensor) -> list[Any]:
    attrs = {name: op.attrs[name] for name in ("num_bits", "narrow_range")}
    return list(apply_op("FakeQuantWithMinMaxVarsPerChannelGradient", grad, *op.inputs, **attrs))


@export("quantization.fake_quant_with_min_max_args", "fake_quant_with_min_max_args")
def fake_quant_with_min_max_args(
    inputs: TensorLike,
    min: float = -6.0,
    max: float = 6.0,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return floats at the nearest of 2 ** num_bits levels from min to max."""
    made: Tensor = apply_op(
        "FakeQuantWithMinMaxArgs", inputs, min=min, max=max, num_bits=num_bits,
        narrow_range=narrow_range, name=name,
    )  # fmt: skip
    return made


@export("quantization.fake_quant_with_min_max_vars", "fake_quant_with_min_max_vars")
def fake_quant_with_min_max_vars(
    inputs: TensorLike,
    min: TensorLike,
    max: TensorLike,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return floats at the nearest of 2 ** num_bits levels between two scalars."""
    made: Tensor = apply_op(
        "FakeQuantWithMinMaxVars", inputs, min, max, num_bits=num_bits,
        narrow_range=narrow_range, name=name,
    )  # fmt: skip
    return made


@export(
    "quantization.fake_quant_with_min_max_vars_gradient", "fake_quant_with_min_max_vars_gradient"
)
def fake_quant_with_min_max_vars_gradient(
    gradients: TensorLike,
    inputs: TensorLike,
    min: TensorLike,
    max: TensorLike,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """Return what fake_quant_with_min_max_vars passes back to inputs, min and max."""
    return apply_op(
        "FakeQuantWithMinMaxVarsGradient",
        gradients,
        inputs,
        min,
        max,
        num_bits=num_bits,
        narrow_range=narrow_range,
        name=name,
    )


@export(
    "quantization.fake_quant_with_min_max_vars_per_channel",
    "fake_quant_with_min_max_vars_per_channel",
)
def fake_quant_with_min_max_vars_per_channel(
    inputs: TensorLike,
    min: TensorLike,
    max: TensorLike,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """Return floats at the nearest of 2 ** num_bits levels between the limits of their channel.

    Shapes: inputs [..., channels]; min and max [channels].
    """
    return apply_op(
        "FakeQuantWithMinMaxVarsPerChannel",
        inputs,
        min,
        max,
        num_bits=num_bits,
        narrow_range=narrow_range,
        name=name,
    )


@export(
    "quantization.fake_quant_with_min_max_vars_per_channel_gradient",
    "fake_quant_with_min_max_vars_per_channel_gradient",
)
def fake_quant_with_min_max_vars_per_channel_gradient(
    gradients: TensorLike,
    inputs: TensorLike,
    min: TensorLike,
    max: TensorLike,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """Return what fake_quant_with_min_max_vars_per_channel passes back to its inputs."""
    return apply_op(
        "FakeQuantWithMinMaxVarsPerChannelGradient",
        gradients,
        inputs,
        min,
        max,
        num_bits=num_bits,
        narrow_range=narrow_range,
        name=name,
    )


@export(
    "quantization.fake_quant_with_min_max_args_gradient", "fake_quant_with_min_max_args_gradient"
)
def fake_quant_with_min_max_args_gradient(
    gradients: TensorLike,
    inputs: TensorLike,
    min: float = -6.0,
    max: float = 6.0,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """Return what fake_quant_with_min_max_args passes back to its inputs."""
    return apply_op(
        "FakeQuantWithMinMaxArgsGradient", gradients, inputs, min=min, max=max, num_bits=num_bits,
        narrow_range=narrow_range, name=name,
    )  # fmt: skip
