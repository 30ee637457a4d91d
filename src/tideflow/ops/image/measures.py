"""How images differ, and where they change: psnr, ssim, total variation, gradients.

Source: tensorflow/python/ops/image_ops_impl.py; Wang et al. 2004 (SSIM), 2003 (over scales).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.array import getitem, pad, stack
from tideflow.ops.control_flow import cond_v2
from tideflow.ops.export import export
from tideflow.ops.image.adjustments import convert_image_dtype
from tideflow.ops.image.arguments import checked
from tideflow.ops.math import cast, reduce_mean, reduce_prod, reduce_sum
from tideflow.ops.nn import depthwise_conv2d
from tideflow.wire import dtypes

_IMAGE = slice(-3, None)
_BEFORE = slice(None, -3)


def _check_alike(a: Tensor, b: Tensor) -> list[tuple[Any, str]]:
    """Return what must hold of two images, or batches of them, when the graph runs.

    Raises: ValueError where their shapes say that it does not.
    """
    for given in (a, b):
        if given.dims is not None and len(given.dims) < 3:
            raise ValueError(f"an image has 3 dimensions or more; found {given.shape}")
    if a.dims is not None and b.dims is not None:
        shapes.merge(a.dims[_IMAGE], b.dims[_IMAGE])
        shapes.broadcast(a.dims[_BEFORE], b.dims[_BEFORE])
    sizes = [getitem(apply_op("Shape", given), _IMAGE) for given in (a, b)]
    alike = apply_op("All", apply_op("Equal", *sizes), [0])
    return [(alike, "the images must have the same height, width and channels")]


def _as_floats(a: Tensor, b: Tensor, max_val: TensorLike) -> tuple[Tensor, Tensor, Tensor]:
    """Return two images and the greatest value that they can have, as float32."""
    greatest = convert_image_dtype(cast(max_val, a.dtype), dtypes.float32)
    one, other = (convert_image_dtype(each, dtypes.float32) for each in (a, b))
    return one, other, greatest


@export("image.psnr")
def psnr(a: TensorLike, b: TensorLike, max_val: TensorLike, name: str | None = None) -> Tensor:
    """Return the peak signal to noise ratio in decibels, one for each pair of images.

    max_val: how far values can be from each other, such as 255 for uint8.

    Args:
      a, b: [..., height, width, channels], of one type.
    Returns: float32 [...].
    Raises: ValueError, or InvalidArgumentError, for shapes that differ.
    """
    with get_default_graph().name_scope(name or "PSNR"):
        one, other, greatest = _as_floats(convert_to_tensor(a), convert_to_tensor(b), max_val)
        error = reduce_mean(apply_op("SquaredDifference", one, other), [-3, -2, -1])
        peak = apply_op("Log", greatest) * np.float32(20 / np.log(10))
        found = peak - np.float32(10 / np.log(10)) * apply_op("Log", error)
        return checked(found, _check_alike(one, other))


def _compared(a: TensorLike, b: TensorLike, max_val: TensorLike) -> tuple[Tensor, Tensor, Tensor]:
    """Return two images of one size, and their greatest value, as float32."""
    one, other = convert_to_tensor(a), convert_to_tensor(b)
    return _as_floats(checked(one, _check_alike(one, other)), other, max_val)


# ---- structural similarity


def _gauss(size: int, sigma: float) -> Any:
    """Return a square filter [size, size, 1, 1] of a bell curve, with sum 1."""
    at = np.arange(size, dtype=np.float32) - np.float32((size - 1) / 2)
    curve = np.exp(-0.5 * np.square(at / np.float32(sigma)))
    found = np.outer(curve, curve).astype(np.float32)
    return (found / found.sum()).reshape(size, size, 1, 1)


def _similarity(
    one: Any, other: Any, greatest: Tensor, size: int, sigma: float, k: tuple[float, float]
) -> tuple[Tensor, Tensor]:
    """Return the similarity, and its part without luminance, around each pixel and channel."""
    sizes = getitem(apply_op("Shape", one), slice(-3, -1))
    fits = apply_op("All", apply_op("GreaterEqual", sizes, size), [0])
    one = checked(one, [(fits, f"images must be as large as the filter, {size} x {size}")])
    channels = getitem(apply_op("Shape", one), -1)
    kernel = apply_op("Tile", _gauss(size, sigma), stack([1, 1, channels, 1]))

    def average(x: object) -> Any:
        shape = apply_op("Shape", x)
        whole = apply_op("ConcatV2", [[-1], getitem(shape, _IMAGE)], 0)
        found = depthwise_conv2d(apply_op("Reshape", x, whole), kernel, [1, 1, 1, 1], "VALID")
        inner = getitem(apply_op("Shape", found), slice(1, None))
        outer = getitem(shape, _BEFORE)
        return apply_op("Reshape", found, apply_op("ConcatV2", [outer, inner], 0))

    c1, c2 = (apply_op("Square", apply_op("Mul", greatest, each)) for each in k)
    mean, other_mean = average(one), average(other)
    both = mean * other_mean * 2.0
    squares = apply_op("Square", mean) + apply_op("Square", other_mean)
    luminance = (both + c1) / (squares + c1)
    products = average(one * other) * 2.0
    powers = average(apply_op("Square", one) + apply_op("Square", other))
    structure = (products - both + c2) / (powers - squares + c2)
    return luminance * structure, structure


@export("image.ssim")
def ssim(
    img1: TensorLike,
    img2: TensorLike,
    max_val: TensorLike,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    return_index_map: bool = False,
) -> Tensor:
    """Return the structural similarity of images, in (-1, 1], one for each pair.

    Args:
      max_val: how far values can be from each other.
      filter_size, filter_sigma: the bell curve that weighs what is around a pixel.
      return_index_map: give the similarity around each pixel, not its mean.
    Raises: InvalidArgumentError for images smaller than the filter.
    """
    with get_default_graph().name_scope("SSIM"):
        one, other, greatest = _compared(img1, img2, max_val)
        found, _ = _similarity(one, other, greatest, filter_size, filter_sigma, (k1, k2))
        made: Tensor = reduce_mean(
            found if return_index_map else reduce_mean(found, [-3, -2]), [-1]
        )
        return made


_SCALES = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)


@export("image.ssim_multiscale")
def ssim_multiscale(
    img1: TensorLike,
    img2: TensorLike,
    max_val: TensorLike,
    power_factors: Sequence[float] = _SCALES,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """Return the structural similarity of images over several scales, one for each pair.

    power_factors: the weight of each scale; each is half as large as the one before.
    Raises: InvalidArgumentError for images that become smaller than the filter.
    """
    with get_default_graph().name_scope("MS-SSIM"):
        one, other, greatest = _compared(img1, img2, max_val)
        found = []
        for scale in range(len(power_factors)):
            if scale:
                one, other = _halved(one), _halved(other)
            parts = _similarity(one, other, greatest, filter_size, filter_sigma, (k1, k2))
            # Luminance counts at the last scale only.
            wanted = parts[0 if scale == len(power_factors) - 1 else 1]
            found.append(apply_op("Relu", reduce_mean(wanted, [-3, -2])))
        powers = apply_op("Pow", stack(found, axis=-1), np.array(power_factors, np.float32))
        made: Tensor = reduce_mean(reduce_prod(powers, [-1]), [-1])
        return made


def _halved(images: Tensor) -> Tensor:
    """Return images half as large: means of 2 x 2 pixels; an odd edge counts twice."""
    shape = apply_op("Shape", images)
    flat = apply_op("Reshape", images, apply_op("ConcatV2", [[-1], getitem(shape, _IMAGE)], 0))
    odd = apply_op("FloorMod", getitem(shape, slice(-3, -1)), 2)
    after = apply_op("ConcatV2", [[0], odd, [0]], 0)
    paddings = stack([[0, 0, 0, 0], after], axis=1)
    is_odd = apply_op("Any", apply_op("NotEqual", odd, 0), [0])
    even = cond_v2(is_odd, lambda: pad(flat, paddings, "SYMMETRIC"), lambda: flat)
    small = apply_op("AvgPool", even, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    inner = getitem(apply_op("Shape", small), slice(1, None))
    made: Tensor = apply_op(
        "Reshape", small, apply_op("ConcatV2", [getitem(shape, _BEFORE), inner], 0)
    )
    return made


# ---- where an image changes


@export("image.total_variation")
def total_variation(images: TensorLike, name: str | None = None) -> Tensor:
    """Return the sum of the distances of neighbors, one for each image.

    Raises: ValueError for another rank than 3 or 4.
    """
    with get_default_graph().name_scope(name or "total_variation"):
        given = convert_to_tensor(images)
        if given.dims is None or len(given.dims) not in (3, 4):
            raise ValueError(f"images must be 3 or 4-dimensional; found {given.shape}")
        down, across = _differences(given)
        axes = None if len(given.dims) == 3 else [1, 2, 3]
        made: Tensor = reduce_sum(apply_op("Abs", down), axes) + reduce_sum(
            apply_op("Abs", across), axes
        )
        return made


def _differences(images: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the next pixel has more, down and across."""
    last, first = slice(1, None), slice(None, -1)
    every = slice(None)
    rows = (getitem(images, (..., part, every, every)) for part in (last, first))
    columns = (getitem(images, (..., part, every)) for part in (last, first))
    return apply_op("Sub", *rows), apply_op("Sub", *columns)


@export("image.image_gradients")
def image_gradients(image: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the next pixel has more, down and across; zero at the last row and column.

    Raises: ValueError for another rank than 4.
    """
    if image.dims is None or len(image.dims) != 4:
        raise ValueError(f"image_gradients wants a batch of rank 4; found {image.shape}")
    down, across = _differences(image)
    down = apply_op("Pad", down, [[0, 0], [0, 1], [0, 0], [0, 0]])
    across = apply_op("Pad", across, [[0, 0], [0, 0], [0, 1], [0, 0]])
    return down, across


_SOBEL = [[[-1, -2, -1], [0, 0, 0], [1, 2, 1]], [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]]


@export("image.sobel_edges")
def sobel_edges(image: Tensor) -> Tensor:
    """Return the Sobel filters of images [n, h, w, d]: [n, h, w, d, 2], down and across."""
    kernel = np.transpose(np.array(_SOBEL, image.dtype.as_numpy_dtype), (1, 2, 0))[:, :, None]
    shape = apply_op("Shape", image)
    kernels = apply_op("Tile", kernel, stack([1, 1, getitem(shape, -1), 1]))
    padded = pad(image, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT")
    found = depthwise_conv2d(padded, kernels, [1, 1, 1, 1], "VALID")
    made: Tensor = apply_op("Reshape", found, apply_op("ConcatV2", [shape, [2]], 0))
    if image.dims is not None:
        made.set_shape((*image.dims, 2))
    return made
