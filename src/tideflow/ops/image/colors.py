"""Colors of images: contrast, hue, saturation, and RGB as HSV.

Source: tensorflow/core/kernels/image/colorspace_op.h, adjust_contrast_op.cc, adjust_hue_op.cc,
adjust_saturation_op.cc.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.nn import wide
from tideflow.wire import errors


def _colored(c: ShapeContext) -> list[Dims]:
    dims = c.inputs[0]
    if dims is not None and (not dims or dims[-1] not in (3, None)):
        raise ValueError(f"images must end in 3 channels; their shape is {list(dims)}")
    return [dims]


def _at_least_three(c: ShapeContext) -> list[Dims]:
    dims = c.inputs[0]
    if dims is not None and len(dims) < 3:
        raise ValueError(f"images must have rank 3 or more; their shape is {list(dims)}")
    return [dims]


def _check_colors(x: Any) -> None:
    if x.ndim < 3 or x.shape[-1] != 3:
        raise errors.InvalidArgumentError(
            f"images must have rank 3 or more and 3 channels; their shape is {list(x.shape)}"
        )


def _check_channels(x: Any) -> None:
    if not x.ndim:
        raise errors.InvalidArgumentError("images must have channels; found a scalar")
    if x.shape[-1] != 3:
        raise errors.FailedPreconditionError(
            f"images must end in 3 channels; their shape is {list(x.shape)}"
        )


def _check_scalar(value: Any, what: str) -> None:
    if value.ndim:
        raise errors.InvalidArgumentError(f"{what} must be scalar: {list(value.shape)}")


def _to_hsv(xp: ArrayNamespace, x: Array) -> tuple[Any, Any, Any]:
    """Return hue in [0, 1), saturation and value."""
    r, g, b = x[..., 0], x[..., 1], x[..., 2]
    value = xp.maximum(xp.maximum(r, g), b)
    spread = value - xp.minimum(xp.minimum(r, g), b)
    one = x.dtype.type(1)
    saturation = xp.where(value > 0, spread / xp.where(value > 0, value, one), value * 0)
    norm = one / (6 * xp.where(spread > 0, spread, one))
    hue = xp.where(
        r == value,
        norm * (g - b),
        xp.where(
            g == value, norm * (b - r) + x.dtype.type(2 / 6), norm * (r - g) + x.dtype.type(4 / 6)
        ),
    )
    hue = xp.where(spread > 0, hue, value * 0)
    return xp.where(hue < 0, hue + one, hue), saturation, value


def _to_rgb(xp: ArrayNamespace, hue: Array, saturation: Array, value: Array) -> Any:
    six = hue * 6
    parts = (abs(six - 3) - 1, 2 - abs(six - 2), 2 - abs(six - 4))
    gray = 1 - saturation
    return xp.stack([(gray + saturation * xp.clip(one, 0, 1)) * value for one in parts], axis=-1)


@op("RGBToHSV(images: T) -> output: T\nT: type in floats = float", shape=_colored)
def rgb_to_hsv_kernel(xp: ArrayNamespace, images: Array) -> Any:
    _check_channels(images)
    return xp.stack(_to_hsv(xp, wide(xp, images)), axis=-1).astype(images.dtype)


@op("HSVToRGB(images: T) -> output: T\nT: type in floats = float", shape=_colored)
def hsv_to_rgb_kernel(xp: ArrayNamespace, images: Array) -> Any:
    _check_channels(images)
    x = wide(xp, images)
    return _to_rgb(xp, x[..., 0], x[..., 1], x[..., 2]).astype(images.dtype)


@op(
    """
    AdjustContrastv2(images: T, contrast_factor: float) -> output: T
    T: type in {half, float} = float
    """,
    shape=_at_least_three,
)
def adjust_contrast_kernel(xp: ArrayNamespace, images: Array, contrast_factor: Array) -> Any:
    if images.ndim < 3:
        raise errors.InvalidArgumentError(
            f"input must be at least 3-D, got shape{list(images.shape)}"
        )
    _check_scalar(contrast_factor, "contrast_factor")
    x = wide(xp, images)
    mean = xp.mean(x, axis=(-3, -2), keepdims=True)
    return ((x - mean) * contrast_factor + mean).astype(images.dtype)


@op(
    "AdjustHue(images: T, delta: float) -> output: T\nT: type in {half, float} = float",
    shape=_at_least_three,
)
def adjust_hue_kernel(xp: ArrayNamespace, images: Array, delta: Array) -> Any:
    _check_scalar(delta, "delta")
    _check_colors(images)
    hue, saturation, value = _to_hsv(xp, wide(xp, images))
    return _to_rgb(xp, (hue + delta) % 1, saturation, value).astype(images.dtype)


@op(
    "AdjustSaturation(images: T, scale: float) -> output: T\nT: type in {half, float} = float",
    shape=_at_least_three,
)
def adjust_saturation_kernel(xp: ArrayNamespace, images: Array, scale: Array) -> Any:
    _check_scalar(scale, "scale")
    _check_colors(images)
    hue, saturation, value = _to_hsv(xp, wide(xp, images))
    return _to_rgb(xp, hue, xp.clip(saturation * scale, 0, 1), value).astype(images.dtype)


@export("image.rgb_to_hsv")
def rgb_to_hsv(images: TensorLike, name: str | None = None) -> Tensor:
    """Return images [..., 3] of red, green and blue in [0, 1] as hue, saturation and value.

    Returns: floats of the shape and type of images, each in [0, 1].
    Raises: ValueError, or InvalidArgumentError, for another last dimension.
    """
    made: Tensor = apply_op("RGBToHSV", images, name=name)
    return made


@export("image.hsv_to_rgb")
def hsv_to_rgb(images: TensorLike, name: str | None = None) -> Tensor:
    """Return images [..., 3] of hue, saturation and value in [0, 1] as red, green and blue."""
    made: Tensor = apply_op("HSVToRGB", images, name=name)
    return made
