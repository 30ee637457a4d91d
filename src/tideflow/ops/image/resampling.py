"""Images in another size by weighted sums: ResizeArea, ResizeBicubic and ScaleAndTranslate.

Rows and columns are resized alike and apart: each op is a choice of weighted taps for the height
and one for the width; the gradient goes through the same taps backwards.
Source: tensorflow/core/kernels/image/resize_area_op.cc, resize_bicubic_op.cc,
scale_and_translate_op.cc, sampling_kernels.h.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace
from tideflow.ops.image.resizing import (
    check_images,
    check_pixels,
    check_ways,
    output_size,
    resized_shape,
    step_between,
)
from tideflow.ops.image.taps import Taps, resampled
from tideflow.wire import errors

_TYPES = "{int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}"
# A sum of weights below it is taken for nothing.
_LEAST_SUM = 1000 * np.finfo(np.float32).tiny


def _like_second(c: ShapeContext) -> list[Dims]:
    return [with_rank(c.inputs[1], 4, "original_image")]


# ---- area


def _area_taps(size: int, out: int, align_corners: bool) -> Taps:
    """Return the part of each output pixel that each input pixel covers."""
    scale = step_between(size, out, align_corners)
    made = []
    for at in range(out):
        begin, end = np.float32(at) * scale, np.float32(at + 1) * scale
        for pixel in range(math.floor(begin), math.ceil(end)):
            covered = min(float(end), pixel + 1) - max(float(begin), pixel)
            made.append((at, min(max(pixel, 0), size - 1), covered / scale))
    which, pixels, weights = map(np.array, zip(*made))
    return Taps(which, pixels, weights, out, size)


@op(
    f"""
    ResizeArea(images: T, size: int32) -> resized_images: float
    T: type in {_TYPES}
    align_corners: bool = false
    """,
    shape=resized_shape,
    static=("size",),
)
def resize_area_kernel(
    xp: ArrayNamespace, images: Array, size: Array, *, align_corners: bool
) -> Any:
    """Return images in another size; a pixel is the mean of what it covers."""
    height, width = output_size(size)
    check_images(images)
    rows = _area_taps(images.shape[1], height, align_corners)
    columns = _area_taps(images.shape[2], width, align_corners)
    return resampled(xp, images.astype(np.float32), rows, columns)


not_differentiable("ResizeArea")


# ---- bicubic

_STEPS = 1024


def _cubic(distance: Array, a: float) -> Any:
    """Return the cubic convolution kernel at distances in [0, 2], in float32."""
    a, x = float(np.float32(a)), distance.astype(np.float32)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, far)


def _cubic_taps(size: int, out: int, align_corners: bool, half: bool) -> Taps:
    """Return the weights of four pixels around each place.

    Half pixel centers leave out what is beyond the edge (a = -0.5); otherwise the edge's pixel
    stands for it (a = -0.75).  Places are rounded to 1/1024 of a pixel.
    """
    scale, at = step_between(size, out, align_corners), np.arange(out, dtype=np.float32)
    place = (at + np.float32(0.5)) * scale - np.float32(0.5) if half else at * scale
    first = np.floor(place).astype(np.int64)
    beyond = np.rint((place - first) * np.float32(_STEPS)) / _STEPS
    offsets = np.array([-1, 0, 1, 2])[:, None]
    pixel = first + offsets
    weight = _cubic(np.abs(beyond - offsets), -0.5 if half else -0.75)
    bound = np.clip(pixel, 0, size - 1)
    if half:
        weight = np.where(bound == pixel, weight, 0)
        total = weight.sum(axis=0)
        weight = weight / np.where(np.abs(total) >= _LEAST_SUM, total, 1)
    which = np.broadcast_to(np.arange(out), bound.shape)
    return Taps(which.reshape(-1), bound.reshape(-1), weight.reshape(-1), out, size)


def _cubic_both(images: Any, height: int, width: int, ways: tuple[bool, bool]) -> list[Taps]:
    sizes = zip(images.shape[1:3], (height, width))
    return [_cubic_taps(size, out, *ways) for size, out in sizes]


@op(
    f"""
    ResizeBicubic(images: T, size: int32) -> resized_images: float
    T: type in {_TYPES}
    align_corners: bool = false
    half_pixel_centers: bool = false
    """,
    shape=resized_shape,
    static=("size",),
)
def resize_bicubic_kernel(
    xp: ArrayNamespace, images: Array, size: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    """Return images in another size, of cubic curves through 4 x 4 pixels."""
    ways = check_ways(align_corners, half_pixel_centers)
    height, width = output_size(size)
    check_images(images)
    taps = _cubic_both(images, height, width, ways)
    return resampled(xp, images.astype(np.float32), *taps)


@op(
    """
    ResizeBicubicGrad(grads: float, original_image: T) -> output: T
    T: type in {float, double}
    align_corners: bool = false
    half_pixel_centers: bool = false
    """,
    shape=_like_second,
)
def resize_bicubic_grad_kernel(
    xp: ArrayNamespace,
    grads: Array,
    original_image: Array,
    *,
    align_corners: bool,
    half_pixel_centers: bool,
) -> Any:
    ways = check_ways(align_corners, half_pixel_centers)
    check_pixels(grads, "grads")
    check_pixels(original_image, "original_image")
    rows, columns = _cubic_both(original_image, grads.shape[1], grads.shape[2], ways)
    found = resampled(xp, grads, rows.back(), columns.back())
    return found.astype(original_image.dtype)


@gradient("ResizeBicubic")
def _resize_bicubic_gradient(op: Operation, grad: Tensor) -> list[Any]:
    images = op.inputs[0]
    if images.dtype.name not in ("float32", "float64"):
        return [None, None]
    attrs = {name: op.attrs[name] for name in ("align_corners", "half_pixel_centers")}
    return [apply_op("ResizeBicubicGrad", grad, images, **attrs), None]


# ---- scale and translate


class _Curve(NamedTuple):
    """What a pixel counts by its distance x >= 0 from a place; nothing beyond the radius."""

    radius: float
    at: Callable[[Any], Any]


def _lanczos(radius: float) -> _Curve:
    return _Curve(radius, lambda x: np.sinc(x) * np.sinc(x / radius))


def _keys(x: Array) -> Any:
    return np.where(x >= 1, ((-0.5 * x + 2.5) * x - 4) * x + 2, ((1.5 * x - 2.5) * x) * x + 1)


def _mitchell(x: Array) -> Any:
    far = (((-7 / 18) * x + 2) * x - 10 / 3) * x + 16 / 9
    return np.where(x >= 1, far, (((7 / 6) * x - 2) * x) * x + 8 / 9)


_CURVES = {
    "lanczos1": _lanczos(1.0),
    "lanczos3": _lanczos(3.0),
    "lanczos5": _lanczos(5.0),
    "gaussian": _Curve(1.5, lambda x: np.exp(-2 * x * x)),
    "box": _Curve(1.0, lambda x: np.where(x < 0.5, 1.0, np.where(x == 0.5, 0.5, 0.0))),
    "triangle": _Curve(1.0, lambda x: 1 - x),
    "keyscubic": _Curve(2.0, _keys),
    "mitchellcubic": _Curve(2.0, _mitchell),
}


def _curve(name: str) -> _Curve:
    found = _CURVES.get(name)
    if found is None:
        raise errors.InvalidArgumentError(f"kernel_type {name!r} is none of {sorted(_CURVES)}")
    return found


def _curve_taps(
    size: int, out: int, scale: Array, translation: Array, curve: _Curve, antialias: bool
) -> Taps:
    """Return what each input pixel counts in each output pixel, with sum 1; none outside.

    Output pixel i lies at (i + 0.5 - translation) / scale.
    """
    inverse = np.float32(1) / np.float32(scale)
    place = (np.arange(out, dtype=np.float32) + np.float32(0.5)) * inverse
    place = place - inverse * np.float32(translation)
    wide = max(inverse, np.float32(1)) if antialias else np.float32(1)
    # As many pixels for each place; some at the end of a span may be too far off to count.
    first = np.nan_to_num(np.ceil(place - wide * np.float32(curve.radius) - np.float32(0.5)))
    span = min(2 * math.ceil(wide * curve.radius) + 1, size)
    index = np.clip(first, 0, size - 1).astype(np.int64)[:, None] + np.arange(span)
    distance = np.abs(index.astype(np.float32) + np.float32(0.5) - place[:, None]) / wide
    is_near = (distance < curve.radius) & (index < size)
    weights = np.where(is_near, curve.at(distance), 0).astype(np.float32)
    total = weights.sum(axis=1, keepdims=True)
    inside = (place >= 0) & (place <= size)
    counts = inside[:, None] & (np.abs(total) >= _LEAST_SUM)
    at, nth = np.nonzero(counts & (index < size))
    return Taps(at, index[at, nth], weights[at, nth] / total[at, 0], out, size)


def _curve_both(
    images: Array, sizes: tuple[int, int], scale: Array, translation: Array, how: tuple[str, bool]
) -> list[Taps]:
    for given, what in ((scale, "scale"), (translation, "translation")):
        if given.shape != (2,):
            raise errors.InvalidArgumentError(
                f"{what} must be two numbers, for height and width; found {given.tolist()}"
            )
    if not (np.asarray(scale) > 0).all():
        raise errors.InvalidArgumentError(f"scale must be positive; found {scale.tolist()}")
    curve = _curve(how[0])
    along = zip(images.shape[1:3], sizes, scale, translation)
    return [_curve_taps(*each, curve, how[1]) for each in along]


@op(
    """
    ScaleAndTranslate(images: T, size: int32, scale: float, translation: float)
    -> resized_images: float
    T: type in {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}
    kernel_type: string = "lanczos3"
    antialias: bool = true
    """,
    shape=resized_shape,
    static=("size", "scale", "translation"),
)
def scale_and_translate_kernel(
    xp: ArrayNamespace,
    images: Array,
    size: Array,
    scale: Array,
    translation: Array,
    *,
    kernel_type: str,
    antialias: bool,
) -> Any:
    """Return images in another size, of curves as wide as what becomes one pixel if antialias."""
    sizes = output_size(size)
    check_images(images)
    how = (kernel_type, antialias)
    taps = _curve_both(images, sizes, scale, translation, how)
    return resampled(xp, images.astype(np.float32), *taps)


@op(
    """
    ScaleAndTranslateGrad(grads: T, original_image: T, scale: float, translation: float)
    -> output: T
    T: type in {float}
    kernel_type: string = "lanczos3"
    antialias: bool = true
    """,
    shape=_like_second,
    static=("scale", "translation"),
)
def scale_and_translate_grad_kernel(
    xp: ArrayNamespace,
    grads: Array,
    original_image: Array,
    scale: Array,
    translation: Array,
    *,
    kernel_type: str,
    antialias: bool,
) -> Any:
    check_pixels(grads, "grads")
    check_pixels(original_image, "original_image")
    sizes, how = (grads.shape[1], grads.shape[2]), (kernel_type, antialias)
    taps = _curve_both(original_image, sizes, scale, translation, how)
    return resampled(xp, grads, *(each.counting().back() for each in taps))


@gradient("ScaleAndTranslate")
def _scale_and_translate_gradient(op: Operation, grad: Tensor) -> list[Any]:
    images, _, scale, translation = op.inputs
    attrs = {name: op.attrs[name] for name in ("kernel_type", "antialias")}
    floats = apply_op("Cast", images, DstT=grad.dtype)
    found = apply_op("ScaleAndTranslateGrad", grad, floats, scale, translation, **attrs)
    return [apply_op("Cast", found, DstT=images.dtype), None, None, None]
