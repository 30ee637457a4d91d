"""Images seen through projective transformations.

Source: tensorflow/core/kernels/image/image_ops.cc, image_ops.h; python/ops/image_ops.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.wire.errors import InvalidArgumentError

_F = np.float32
_TYPES = "{uint8, int32, int64, half, bfloat16, float, double}"


def _reflected(at: Any, size: int) -> Any:
    """Return places in the image of those beyond it, mirrored at its edges."""
    if size <= 1:
        return np.zeros_like(at)
    twice = _F(2 * size)
    low = np.where(at < -twice, twice * np.trunc(-at / twice) + at, at)
    low = np.where(low < -size, low + twice, -low - 1)
    high = at - twice * np.trunc(at / twice)
    high = np.where(high >= size, twice - high - 1, high)
    return np.where(at < 0, low, np.where(at > size - 1, high, at))


def _wrapped(at: Any, size: int) -> Any:
    """Return places in the image of those beyond it, as if it went on with copies of itself."""
    if size <= 1:
        return np.zeros_like(at)
    whole, last = _F(size), _F(size - 1)
    low = at + whole * (np.trunc(-at / last) + 1)
    high = at - whole * np.trunc(at / last)
    return np.where(at < 0, low, np.where(at > last, high, at))


def _mapped(at: Any, size: int, fill_mode: str) -> Any:
    if fill_mode == "CONSTANT":
        return at
    found = {"REFLECT": _reflected, "WRAP": _wrapped}.get(fill_mode, lambda x, _: x)(at, size)
    return np.clip(found, _F(0), _F(size - 1))


def _places(transform: Array, shape: tuple[int, int]) -> tuple[Any, Any, Any]:
    """Return rows and columns [height, width] of the input, and where there are any at all."""
    rows, columns = (one.astype(_F) for one in np.indices(shape))
    a0, a1, a2, b0, b1, b2, c0, c1 = transform.astype(_F)
    scale = c0 * columns + c1 * rows + _F(1)
    is_there = scale != 0
    divisor = np.where(is_there, scale, _F(1))
    across = (a0 * columns + a1 * rows + a2) / divisor
    down = (b0 * columns + b1 * rows + b2) / divisor
    return down, across, is_there


def _read(image: Any, row: Any, column: Any, fill: Any) -> Any:
    """Return pixels at whole places; `fill` for those outside."""
    height, width, channels = image.shape
    if not height * width:
        return np.full((*row.shape, channels), fill)
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    y = np.where(inside, row, 0).astype(np.int64)
    x = np.where(inside, column, 0).astype(np.int64)
    return np.where(inside[..., None], image[y, x], fill)


def _rounded(x: Array) -> Any:
    # Halves go away from zero.
    return np.copysign(np.floor(np.abs(x) + _F(0.5)), x)


def _sampled(image: Any, down: Any, across: Any, interpolation: str, fill: Any) -> Any:
    if interpolation == "NEAREST":
        return _read(image, _rounded(down), _rounded(across), fill)
    top, left = np.floor(down), np.floor(across)
    bottom, right = top + 1, left + 1

    def between(row: Any) -> Any:
        first, second = _read(image, row, left, fill), _read(image, row, right, fill)
        return (right - across)[..., None] * first + (across - left)[..., None] * second

    upper, lower = between(top), between(bottom)
    return (bottom - down)[..., None] * upper + (down - top)[..., None] * lower


def _transformed(
    images: Array,
    transforms: Array,
    output_shape: Array,
    fill_value: Array | np.generic,
    interpolation: str,
    fill_mode: str,
) -> Any:
    if images.ndim != 4:
        raise InvalidArgumentError(f"images must have rank 4; found {list(images.shape)}")
    if transforms.ndim != 2 or transforms.shape[1] != 8 or len(transforms) not in (1, len(images)):
        raise InvalidArgumentError(
            f"transforms must be [1 or {len(images)}, 8]; found {list(transforms.shape)}"
        )
    if np.shape(output_shape) != (2,) or (np.asarray(output_shape) <= 0).any():
        raise InvalidArgumentError(f"output_shape must be two positive sizes; found {output_shape}")
    if np.ndim(fill_value):
        raise InvalidArgumentError(f"fill_value must be a scalar; found {fill_value}")
    if interpolation not in ("NEAREST", "BILINEAR"):
        raise InvalidArgumentError(f"interpolation is NEAREST or BILINEAR, not {interpolation!r}")
    if fill_mode not in ("REFLECT", "WRAP", "CONSTANT", "NEAREST"):
        raise InvalidArgumentError(f"there is no fill_mode {fill_mode!r}")
    height, width = (int(n) for n in output_shape)
    made = np.empty((len(images), height, width, images.shape[3]), images.dtype)
    fill = np.asarray(fill_value).astype(images.dtype)
    # Small numbers are weighed as floats.
    wide = images.dtype if images.dtype.itemsize > 4 and images.dtype.kind == "f" else np.dtype(_F)
    for at, image in enumerate(images):
        down, across, is_there = _places(transforms[at % len(transforms)], (height, width))
        down = _mapped(down, image.shape[0], fill_mode)
        across = _mapped(across, image.shape[1], fill_mode)
        values = image.astype(wide) if interpolation == "BILINEAR" else image
        found = _sampled(values, down, across, interpolation, fill.astype(values.dtype))
        made[at] = np.where(is_there[..., None], found.astype(images.dtype), fill)
    return made


def _shape(c: ShapeContext) -> list[Dims]:
    images = with_rank(c.shape("images"), 4, "images")
    with_rank(c.shape("transforms"), 2, "transforms")
    sizes = with_rank(c.shape("output_shape"), 1, "output_shape")
    if sizes[0] not in (None, 2):
        raise ValueError(f"output_shape must have two elements; it has {sizes[0]}")
    value = c.value("output_shape")
    height, width = (None, None) if value is None else (int(value[0]), int(value[1]))
    if value is not None and min(value) <= 0:
        raise ValueError(f"output_shape must be positive; found {value}")
    return [(images[0], height, width, images[3])]


@op(
    f"""
    ImageProjectiveTransformV2(images: dtype, transforms: float, output_shape: int32)
      -> transformed_images: dtype
    dtype: type in {_TYPES}
    interpolation: string
    fill_mode: string = 'CONSTANT'
    """,
    shape=_shape,
)
def image_projective_transform_v2_kernel(
    ctx: KernelContext,
    images: Array,
    transforms: Array,
    output_shape: Array,
    *,
    interpolation: str,
    fill_mode: str,
) -> Any:
    """Return images whose pixel at (x, y) is the input's at the transform of (x, y)."""
    return _transformed(images, transforms, output_shape, _F(0), interpolation, fill_mode)


@op(
    f"""
    ImageProjectiveTransformV3(images: dtype, transforms: float, output_shape: int32,
      fill_value: float) -> transformed_images: dtype
    dtype: type in {_TYPES}
    interpolation: string
    fill_mode: string = 'CONSTANT'
    """,
    shape=_shape,
)
def image_projective_transform_v3_kernel(
    ctx: KernelContext,
    images: Array,
    transforms: Array,
    output_shape: Array,
    fill_value: Array,
    *,
    interpolation: str,
    fill_mode: str,
) -> Any:
    """Return images as the second version does; what is outside has a value of its own."""
    return _transformed(images, transforms, output_shape, fill_value, interpolation, fill_mode)


def _inverse(transforms: Tensor) -> Tensor:
    """Return the inverse transforms [count, 8]."""
    rank = transforms.shape.rank
    if rank not in (1, 2):
        raise TypeError("Transforms should have rank 1 or 2.")
    flat = apply_op("Reshape", transforms, [-1, 8])
    ones = apply_op("OnesLike", flat[:, :1])
    whole = apply_op("Reshape", apply_op("ConcatV2", [flat, ones], 1), [-1, 3, 3])
    turned = apply_op("Reshape", apply_op("MatrixInverse", whole), [-1, 9])
    made: Tensor = (turned / turned[:, 8:])[:, :8]
    return made


@gradient("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def image_projective_transform_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Transform gradients back: what was interpolated is taken for what was moved."""
    images, transforms = op.inputs[:2]
    size = apply_op("Shape", images)[1:3]
    fill = [convert_to_tensor(0.0)] if len(op.inputs) == 4 else []
    attrs = {name: op.attrs[name] for name in ("interpolation", "fill_mode")}
    made = apply_op(op.type, grad, _inverse(transforms), size, *fill, **attrs)
    return [made, *[None] * (len(op.inputs) - 1)]
