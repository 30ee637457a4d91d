"""Images made larger or smaller: ResizeBilinear and ResizeNearestNeighbor, with their gradients.

Where an output pixel lies in the input: at i * in / out; with half_pixel_centers at
(i + 0.5) * in / out - 0.5; with align_corners at i * (in - 1) / (out - 1).  In float32 throughout.
Source: tensorflow/core/kernels/image/image_resizer_state.h, resize_bilinear_op.cc,
resize_nearest_neighbor_op.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.image.taps import Taps, resampled
from tideflow.wire import errors

_ATTRS = ("align_corners", "half_pixel_centers")

F = TypeVar("F", bound=Callable[..., Any])


def resized_shape(c: ShapeContext) -> list[Dims]:
    """Return the shape of images (input 0) of a new size (input 1)."""
    batch, _, _, channels = with_rank(c.inputs[0], 4, "images")
    size = c.value(1)
    if size is not None and size.shape != (2,):
        raise ValueError(f"size must be two numbers, height and width; found {size.tolist()}")
    height, width = (None, None) if size is None else size.tolist()
    return [(batch, height, width, channels)]


def _resizing(
    signature: str,
    types: str,
    shape: Callable[..., Any] = resized_shape,
    static: Sequence[str] = ("size",),
) -> Callable[[F], F]:
    """Declare an op that resizes images, or the gradient of one."""
    attrs = [f"T: type in {types}", *[f"{name}: bool = false" for name in _ATTRS]]
    return op("\n".join([signature, *attrs]), shape=shape, static=static)


def output_size(size: Any) -> tuple[int, int]:
    """Return height and width.  Raises: InvalidArgumentError unless they are two and positive."""
    if size.shape != (2,):
        raise errors.InvalidArgumentError(
            f"size must be two numbers, height and width; found {size.tolist()}"
        )
    height, width = size.tolist()
    if height <= 0 or width <= 0:
        raise errors.InvalidArgumentError(f"output dimensions must be positive; found {size}")
    return height, width


def check_images(x: Any) -> None:
    """Raise InvalidArgumentError unless x is a batch of images with pixels and channels."""
    check_pixels(x, "images")
    if not x.shape[3]:
        raise errors.InvalidArgumentError(f"images of shape {list(x.shape)} have no channels")


def check_pixels(x: Any, what: str) -> None:
    """Raise InvalidArgumentError unless x is a batch of images with pixels."""
    if x.ndim != 4:
        raise errors.InvalidArgumentError(f"{what} must have rank 4; its shape is {list(x.shape)}")
    if not (x.shape[1] and x.shape[2]):
        raise errors.InvalidArgumentError(f"{what} must have pixels; its shape is {list(x.shape)}")


def check_ways(align_corners: bool, half_pixel_centers: bool) -> tuple[bool, bool]:
    """Return both attrs, which exclude each other.  Raises: InvalidArgumentError."""
    if align_corners and half_pixel_centers:
        raise errors.InvalidArgumentError(
            "If half_pixel_centers is True, align_corners must be False."
        )
    return align_corners, half_pixel_centers


def step_between(size: int, out: int, align_corners: bool) -> np.float32:
    """Return how far the places of two neighbors are from each other in the input."""
    if align_corners and out > 1:
        return np.float32(size - 1) / np.float32(out - 1)
    return np.float32(size) / np.float32(out)


def between(size: int, out: int, align_corners: bool, half: bool) -> tuple[Any, Any, Any]:
    """Return for each output position the pixels on both sides, and how near the second is."""
    scale, at = step_between(size, out, align_corners), np.arange(out, dtype=np.float32)
    place = (at + np.float32(0.5)) * scale - np.float32(0.5) if half else at * scale
    floor = np.floor(place)
    low = np.clip(floor.astype(np.int64), 0, size - 1)
    high = np.minimum(np.ceil(place).astype(np.int64), size - 1)
    return low, high, place - floor


def _nearest(size: int, out: int, align_corners: bool, half: bool) -> Any:
    """Return for each output position the input's pixel."""
    scale, at = step_between(size, out, align_corners), np.arange(out, dtype=np.float32)
    place = (at + np.float32(0.5)) * scale if half else at * scale
    # Halves go away from zero.
    chosen = np.floor(place + np.float32(0.5)) if align_corners else np.floor(place)
    return np.clip(chosen.astype(np.int64), 0, size - 1)


@_resizing(
    "ResizeBilinear(images: T, size: int32) -> resized_images: float",
    "{int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double, bfloat16}",
)
def resize_bilinear_kernel(
    xp: ArrayNamespace, images: Array, size: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    ways = check_ways(align_corners, half_pixel_centers)
    height, width = output_size(size)
    check_images(images)
    return bilinear(images.astype(np.float32), height, width, *ways)


def bilinear(x: Array, height: int, width: int, align_corners: bool, half: bool) -> Any:
    """Return floats [batch, height, width, channels] between the pixels of images of floats."""
    top, bottom, down = between(x.shape[1], height, align_corners, half)
    left, right, across = between(x.shape[2], width, align_corners, half)
    down, across = down[:, None, None], across[:, None]

    def blended(row: Any) -> Any:
        return row[:, :, left] + (row[:, :, right] - row[:, :, left]) * across

    above, below = blended(x[:, top]), blended(x[:, bottom])
    return above + (below - above) * down


@_resizing(
    "ResizeBilinearGrad(grads: float, original_image: T) -> output: T",
    "floats",
    lambda c: [with_rank(c.inputs[1], 4, "original_image")],
    static=(),
)
def resize_bilinear_grad_kernel(
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
    _, height, width, _ = original_image.shape
    rows = _blending(height, between(height, grads.shape[1], *ways))
    columns = _blending(width, between(width, grads.shape[2], *ways))
    found = resampled(xp, grads, rows.back(), columns.back())
    return found.astype(original_image.dtype)


def _blending(size: int, between: tuple[Any, Any, Any]) -> Taps:
    """Return the taps of linear interpolation, two for each output position."""
    low, high, share = between
    at = np.arange(len(low))
    return Taps(
        np.concatenate([at, at]),
        np.concatenate([low, high]),
        np.concatenate([1 - share, share]),
        len(low),
        size,
    )


@gradient("ResizeBilinear")
def resize_bilinear_gradient(op: Operation, grad: Tensor) -> list[Any]:
    images = op.inputs[0]
    if not images.dtype.is_floating:
        return [None, None]
    attrs = {name: op.attrs[name] for name in _ATTRS}
    return [apply_op("ResizeBilinearGrad", grad, images, **attrs), None]


@_resizing(
    "ResizeNearestNeighbor(images: T, size: int32) -> resized_images: T",
    "{int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}",
)
def resize_nearest_neighbor_kernel(
    xp: ArrayNamespace, images: Array, size: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    ways = check_ways(align_corners, half_pixel_centers)
    height, width = output_size(size)
    check_images(images)
    rows = _nearest(images.shape[1], height, *ways)
    return images[:, rows][:, :, _nearest(images.shape[2], width, *ways)]


@_resizing(
    "ResizeNearestNeighborGrad(grads: T, size: int32) -> output: T",
    "{uint8, int8, int32, half, float, double, bfloat16}",
)
def resize_nearest_neighbor_grad_kernel(
    xp: ArrayNamespace, grads: Array, size: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    ways = check_ways(align_corners, half_pixel_centers)
    height, width = output_size(size)
    check_pixels(grads, "grads")
    rows = _choosing(height, _nearest(height, grads.shape[1], *ways))
    columns = _choosing(width, _nearest(width, grads.shape[2], *ways))
    wide = np.float64 if grads.dtype == np.float64 else np.float32
    found = resampled(xp, grads.astype(wide), rows.back(), columns.back())
    return found.astype(grads.dtype)


def _choosing(size: int, chosen: Array) -> Taps:
    """Return the taps of one pixel for each output position."""
    return Taps(np.arange(chosen.size), chosen, np.ones(chosen.size), chosen.size, size)


def _nearest_gradient(back: str) -> Callable[[Any, Any], list[Any]]:
    """Return a gradient that resizes back by an op."""

    def gradient_of(op: Operation, grad: Tensor) -> list[Any]:
        size = apply_op("StridedSlice", apply_op("Shape", op.inputs[0]), [1], [3], [1])
        attrs = {name: op.attrs[name] for name in _ATTRS}
        return [apply_op(back, grad, size, **attrs), None]

    return gradient_of


gradient("ResizeNearestNeighbor")(_nearest_gradient("ResizeNearestNeighborGrad"))
gradient("ResizeNearestNeighborGrad")(_nearest_gradient("ResizeNearestNeighbor"))


def resized(
    op_name: str, images: TensorLike, size: TensorLike, align: bool, half: bool, name: str | None
) -> Tensor:
    """Return what an op that resizes makes of images."""
    made: Tensor = apply_op(
        op_name,
        images,
        size if isinstance(size, (list, tuple)) else convert_to_tensor(size, "int32"),
        align_corners=align,
        half_pixel_centers=half,
        name=name,
    )
    return made


@export("image.resize_bilinear")
def resize_bilinear(
    images: TensorLike,
    size: TensorLike,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Return images [batch, height, width, channels] in another size, as float32, by blending.

    Raises: InvalidArgumentError for a size that is not positive.
    """
    return resized("ResizeBilinear", images, size, align_corners, half_pixel_centers, name)


@export("image.resize_nearest_neighbor")
def resize_nearest_neighbor(
    images: TensorLike,
    size: TensorLike,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Return images [batch, height, width, channels] in another size, of the nearest pixels.

    Raises: InvalidArgumentError for a size that is not positive.
    """
    return resized("ResizeNearestNeighbor", images, size, align_corners, half_pixel_centers, name)
