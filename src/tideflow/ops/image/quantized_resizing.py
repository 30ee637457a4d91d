"""Quantised images made larger or smaller.

Bytes are blended with fixed-point numbers of seven bits, as TensorFlow does it; 32-bit levels in
floats, rounded to the next one.
Source: tensorflow/core/kernels/quantized_resize_bilinear_op.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace
from tideflow.ops.image.resizing import between, bilinear, check_images, output_size, resized_shape
from tideflow.wire import errors

# One, as a fixed-point number.
_ONE = 128


def _shape(c: ShapeContext) -> list[Dims]:
    for name in ("min", "max"):
        with_rank(c.shape(name), 0, name)
    return [*resized_shape(c), (), ()]


@op(
    """
    QuantizedResizeBilinear(images: T, size: int32, min: float, max: float)
    -> resized_images: T, out_min: float, out_max: float
    T: type in {quint8, qint32, float}
    align_corners: bool = false
    half_pixel_centers: bool = false
    """,
    shape=_shape,
    static=("size",),
)
def quantized_resize_bilinear(
    xp: ArrayNamespace,
    images: Array,
    size: Array,
    least: Array,
    most: Array,
    *,
    align_corners: bool,
    half_pixel_centers: bool,
) -> Any:
    """Return images of another size in the levels of the same range, and the range.

    Raises: InvalidArgumentError for sizes that are not positive, or a range of no two scalars.
    """
    for what, value in (("min", least), ("max", most)):
        if np.ndim(value):
            raise errors.InvalidArgumentError(f"{what} must be a scalar")
    height, width = output_size(size)
    check_images(images)
    ways = align_corners, half_pixel_centers
    if images.dtype == np.uint8:
        made = _of_bytes(images, height, width, ways)
    elif images.dtype == np.float32:
        made = bilinear(images, height, width, *ways)
    else:
        made = np.floor(bilinear(images.astype(np.float64), height, width, *ways) + 0.5)
    return made.astype(images.dtype), least, most


def _of_bytes(images: Array, height: int, width: int, ways: tuple[bool, bool]) -> Any:
    """Return integers between the pixels of images of bytes."""
    top, bottom, down = between(images.shape[1], height, *ways)
    left, right, across = between(images.shape[2], width, *ways)
    down = (down * _ONE).astype(np.int32)[:, None, None]
    across = (across * _ONE).astype(np.int32)[:, None]
    x = images.astype(np.int32)

    def blended(row: Any) -> Any:
        return row[:, :, left] * _ONE + (row[:, :, right] - row[:, :, left]) * across

    above, below = blended(x[:, top]), blended(x[:, bottom])
    # The difference loses its fraction towards zero before it is weighed.
    step = np.sign(below - above) * (np.abs(below - above) // _ONE)
    return (above + step * down + _ONE // 2) // _ONE


not_differentiable("QuantizedResizeBilinear")
