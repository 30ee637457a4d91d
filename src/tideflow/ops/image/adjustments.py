"""Images with other values: element types, brightness, contrast, colors, standardization.

Whole numbers stand for the range from 0 to the greatest of their type, floats for [0, 1].

Source: tensorflow/python/ops/image_ops_impl.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.image.arguments import as_image, checked
from tideflow.ops.math import cast, reduce_mean, reduce_std, saturate_cast
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype


@export("image.convert_image_dtype")
def convert_image_dtype(
    image: TensorLike, dtype: DTypeLike, saturate: bool = False, name: str | None = None
) -> Tensor:
    """Return an image with another element type, its values scaled to that type's range.

    saturate: limit values to the range first; without it those outside overflow.
    Raises: AttributeError for types that are neither floats nor integers.
    """
    given, wanted = convert_to_tensor(image, name="image"), as_dtype(dtype)
    for kind in (wanted, given.dtype):
        if not (kind.is_floating or kind.is_integer):
            raise AttributeError(f"an image is of floats or integers; found {kind.name}")
    made: Tensor
    if wanted == given.dtype:
        made = apply_op("Identity", given, name=name)
        return made
    convert = saturate_cast if saturate else cast
    with get_default_graph().name_scope(name or "convert_image") as scope:
        if given.dtype.is_floating:
            if wanted.is_integer:
                # Half a step more, since the cast drops what is behind the point.
                given = apply_op("Mul", given, wanted.max + 0.5)
                return _as_tensor(convert(given, wanted, scope))
            return _as_tensor(cast(given, wanted, scope))
        if wanted.is_floating:
            scale = np.array(1.0 / given.dtype.max, wanted.as_numpy_dtype)
            made = apply_op("Mul", cast(given, wanted), scale, name=scope)
            return made
        if given.dtype.max > wanted.max:
            divisor = _steps(given.dtype, wanted)
            lower = apply_op("FloorDiv", given, np.array(divisor, given.dtype.as_numpy_dtype))
            return _as_tensor(convert(lower, wanted, scope))
        factor = np.array(_steps(wanted, given.dtype), wanted.as_numpy_dtype)
        made = apply_op("Mul", convert(given, wanted), factor, name=scope)
        return made


def _as_tensor(value: Tensor) -> Tensor:
    found: Tensor = value
    return found


def _steps(wide: DType, narrow: DType) -> int:
    """Return how many values of one integer type there are for one of another."""
    return (int(wide.max) + 1) // (int(narrow.max) + 1)


def _as_floats(
    image: TensorLike, change: Callable[[Tensor], Any], saturate: bool = False
) -> Tensor:
    """Return a change of an image as float16 or float32, with the image's own type."""
    given = convert_to_tensor(image, name="image")
    is_float = given.dtype in (dtypes.float16, dtypes.float32)
    floats = given if is_float else convert_image_dtype(given, dtypes.float32)
    return convert_image_dtype(change(floats), given.dtype, saturate)


@export("image.adjust_brightness")
def adjust_brightness(image: TensorLike, delta: TensorLike) -> Tensor:
    """Return an image with a number added, in [0, 1] whatever the image's type."""
    with get_default_graph().name_scope("adjust_brightness"):
        return _as_floats(
            image, lambda x: apply_op("AddV2", x, cast(delta, x.dtype)), saturate=True
        )


@export("image.adjust_contrast")
def adjust_contrast(images: TensorLike, contrast_factor: TensorLike) -> Tensor:
    """Return images whose distance from the mean of each channel is multiplied by a factor.

    Args:
      images: [..., height, width, channels], floats in [0, 1] or integers.
      contrast_factor: a scalar.
    Returns: images of the same shape and type; integers stay within their type.
    Raises: ValueError for fewer than three dimensions.
    """
    with get_default_graph().name_scope("adjust_contrast"):
        return _as_floats(
            images, lambda x: apply_op("AdjustContrastv2", x, contrast_factor), saturate=True
        )


@export("image.adjust_gamma")
def adjust_gamma(image: TensorLike, gamma: Any = 1, gain: TensorLike = 1) -> Tensor:
    """Return gain * image ** gamma.

    Raises: ValueError for a gamma below 0, InvalidArgumentError where it is a tensor.
    """
    with get_default_graph().name_scope("adjust_gamma"):

        def change(x: Tensor) -> Any:
            power = convert_to_tensor(gamma, None if isinstance(gamma, Tensor) else x.dtype)
            power = checked(power, [(gamma >= 0, f"gamma must not be negative; found {gamma}")])
            return apply_op("Mul", apply_op("Pow", x, power), cast(gain, x.dtype))

        return _as_floats(image, change, saturate=True)


@export("image.adjust_hue")
def adjust_hue(image: TensorLike, delta: Any, name: str | None = None) -> Tensor:
    """Return an RGB image whose hue is turned by delta, in [-1, 1].

    Raises: ValueError for a delta outside, where it is known at once.
    """
    graph = get_default_graph()
    with graph.name_scope(name or "adjust_hue"):
        if graph.is_eager and not -1 <= delta <= 1:
            raise ValueError(f"delta must be in the interval [-1, 1]; found {delta}")
        return _as_floats(image, lambda x: apply_op("AdjustHue", x, delta))


@export("image.adjust_saturation")
def adjust_saturation(
    image: TensorLike, saturation_factor: TensorLike, name: str | None = None
) -> Tensor:
    """Return an RGB image whose saturation is multiplied by a factor.

    Args:
      image: [..., 3], floats in [0, 1] or integers.
      saturation_factor: a scalar, at least 0.
    Returns: an image of the same shape and type.
    """
    with get_default_graph().name_scope(name or "adjust_saturation"):
        return _as_floats(image, lambda x: apply_op("AdjustSaturation", x, saturation_factor))


@export("image.per_image_standardization")
def per_image_standardization(image: TensorLike) -> Tensor:
    """Return images as float32, each with mean 0 and variance 1 over all its values.

    The divisor is at least 1 / sqrt(number of values), for images of one color.
    """
    with get_default_graph().name_scope("per_image_standardization"):
        given = cast(as_image(image), dtypes.float32)
        axes = [-1, -2, -3]
        sizes = apply_op("StridedSlice", apply_op("Shape", given), [-3], [0], [1], end_mask=1)
        count = cast(apply_op("Prod", sizes, [0]), dtypes.float32)
        spread = reduce_std(given, axes, keepdims=True)
        divisor = apply_op("Maximum", spread, apply_op("Rsqrt", count))
        centered = apply_op("Sub", given, reduce_mean(given, axes, keepdims=True))
        made: Tensor = apply_op("RealDiv", centered, divisor)
        return made


# ---- colors as other numbers

_GRAY = (0.2989, 0.5870, 0.1140)


@export("image.rgb_to_grayscale")
def rgb_to_grayscale(images: TensorLike, name: str | None = None) -> Tensor:
    """Return RGB images [..., 3] in shades of gray [..., 1], with their own type."""
    with get_default_graph().name_scope(name or "rgb_to_grayscale") as scope:
        given = convert_to_tensor(images, name="images")
        floats = convert_image_dtype(given, dtypes.float32)
        gray = _times_matrix(floats, [[weight] for weight in _GRAY])
        return convert_image_dtype(gray, given.dtype, name=scope)


@export("image.grayscale_to_rgb")
def grayscale_to_rgb(images: TensorLike, name: str | None = None) -> Tensor:
    """Return images in shades of gray [..., 1] as RGB [..., 3].

    Raises: ValueError for images without a last dimension of 1.
    """
    with get_default_graph().name_scope(name or "grayscale_to_rgb") as scope:
        given = convert_to_tensor(images, name="images")
        dims = given.dims
        if dims is not None and (len(dims) < 2 or dims[-1] not in (1, None)):
            raise ValueError(f"images in shades of gray end in 1 channel; found {given.shape}")
        above = apply_op("Sub", apply_op("Rank", given), 1)
        ones = apply_op("Fill", apply_op("Reshape", above, [1]), 1)
        made: Tensor = apply_op("Tile", given, apply_op("ConcatV2", [ones, [3]], 0), name=scope)
        if dims is not None:
            made.set_shape((*dims[:-1], 3))
        return made


def _times_matrix(images: TensorLike, matrix: Any) -> Tensor:
    """Return the product of the last axis and a matrix."""
    given = convert_to_tensor(images, name="images")
    kernel = convert_to_tensor(np.array(matrix, given.dtype.as_numpy_dtype))
    sizes = apply_op("Shape", given)
    flat = apply_op("Reshape", given, [-1, len(matrix)])
    before = apply_op("StridedSlice", sizes, [0], [-1], [1], begin_mask=1)
    shape = apply_op("ConcatV2", [before, [len(matrix[0])]], 0)
    made: Tensor = apply_op("Reshape", apply_op("MatMul", flat, kernel), shape)
    if given.dims is not None:
        made.set_shape((*given.dims[:-1], len(matrix[0])))
    return made


# From red, green and blue, a row each.
_TO_YIQ = [
    [0.299, 0.59590059, 0.2115],
    [0.587, -0.27455667, -0.52273617],
    [0.114, -0.32134392, 0.31119955],
]
_FROM_YIQ = [
    [1, 1, 1],
    [0.95598634, -0.27201283, -1.10674021],
    [0.6208248, -0.64720424, 1.70423049],
]
_TO_YUV = [
    [0.299, -0.14714119, 0.61497538],
    [0.587, -0.28886916, -0.51496512],
    [0.114, 0.43601035, -0.10001026],
]
_FROM_YUV = [[1, 1, 1], [0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0]]


@export("image.rgb_to_yiq")
def rgb_to_yiq(images: TensorLike) -> Tensor:
    """Return RGB images [..., 3] of floats in YIQ: luma, and two of chroma."""
    return _times_matrix(images, _TO_YIQ)


@export("image.yiq_to_rgb")
def yiq_to_rgb(images: TensorLike) -> Tensor:
    """Return YIQ images [..., 3] of floats in RGB."""
    return _times_matrix(images, _FROM_YIQ)


@export("image.rgb_to_yuv")
def rgb_to_yuv(images: TensorLike) -> Tensor:
    """Return RGB images [..., 3] of floats in YUV: luma, and two of chroma."""
    return _times_matrix(images, _TO_YUV)


@export("image.yuv_to_rgb")
def yuv_to_rgb(images: TensorLike) -> Tensor:
    """Return YUV images [..., 3] of floats in RGB."""
    return _times_matrix(images, _FROM_YUV)
