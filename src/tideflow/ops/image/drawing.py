"""Boxes drawn on images.

Source: tensorflow/core/kernels/image/draw_bounding_box_op.cc; runtime behaviour of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.wire.errors import InvalidArgumentError

# What boxes are drawn in, one after the other, where no colors are given.
_COLORS = np.array(
    [
        [1, 1, 0, 1],
        [0, 0, 1, 1],
        [1, 0, 0, 1],
        [0, 1, 0, 1],
        [0.5, 0, 0.5, 1],
        [0.5, 0.5, 0, 1],
        [0.5, 0, 0, 1],
        [0, 0, 0.5, 1],
        [0, 1, 1, 1],
        [1, 0, 1, 1],
    ],
    np.float32,
)
_FAR = -(2**63)  # where TensorFlow takes what is no number to be


def _shape(c: ShapeContext) -> list[Dims]:
    images = with_rank(c.inputs[0], 4, "images")
    with_rank(c.inputs[1], 3, "boxes")
    return [images]


def _lines(box: Any, height: int, width: int) -> tuple[int, int, int, int]:
    """Return the pixels of a box's sides: top, left, bottom, right."""
    sizes = np.array([height - 1, width - 1] * 2, np.float32)
    at = np.floor(box.astype(np.float32) * sizes)
    # Not numbers, and what is far outside, are as far as an int64 goes.
    top, left, bottom, right = (
        int(side) if np.isfinite(side) and abs(side) < 2**63 else _FAR for side in at.tolist()
    )
    return top, left, bottom, right


def _draw_box(image: Any, box: Any, color: Any) -> None:
    """Draw a box [top, left, bottom, right], in parts of the image, on an image."""
    height, width = image.shape[:2]
    top, left, bottom, right = _lines(box, height, width)
    if top > bottom or left > right:
        return
    if top >= height or bottom < 0 or left >= width or right < 0:
        return
    rows = slice(max(top, 0), min(bottom, height - 1) + 1)
    columns = slice(max(left, 0), min(right, width - 1) + 1)
    if top >= 0:
        image[top, columns] = color
    if bottom < height:
        image[bottom, columns] = color
    if left >= 0:
        image[rows, left] = color
    if right < width:
        image[rows, right] = color


def _drawn(images: Array, boxes: Array, colors: Any) -> Any:
    """Return images with boxes in the colors, which are taken in turn; in ten without any."""
    if np.ndim(images) != 4:
        raise InvalidArgumentError(f"The rank of the images should be 4; found {images.shape}")
    if np.ndim(boxes) != 3 or boxes.shape[2] != 4:
        raise InvalidArgumentError(f"boxes should be [batch, boxes, 4]; found {boxes.shape}")
    if images.shape[0] != boxes.shape[0]:
        raise InvalidArgumentError("The batch sizes of images and boxes should be the same")
    depth = images.shape[3]
    if depth not in (1, 3, 4):
        raise InvalidArgumentError(
            f"Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA); found {depth}"
        )
    if colors.shape[1] < depth:
        raise InvalidArgumentError(
            f"colors must have equal or more channels than the image provided: {colors.shape[1]} "
            f"vs. {depth}"
        )
    if not len(colors):
        colors = np.ones_like(_COLORS) if depth == 1 else _COLORS
    made = np.array(images)
    for image, given in zip(made, boxes, strict=True):
        for number, box in enumerate(given):
            _draw_box(image, box, colors[number % len(colors), :depth].astype(made.dtype))
    return made


@op(
    """
    DrawBoundingBoxes(images: T, boxes: float) -> output: T
    T: type in {float, half} = float
    """,
    shape=_shape,
)
def draw_bounding_boxes_kernel(ctx: KernelContext, images: Array, boxes: Array) -> Any:
    """Return images with boxes in ten colors in turn."""
    return _drawn(images, boxes, _COLORS[:0])


@op(
    """
    DrawBoundingBoxesV2(images: T, boxes: float, colors: float) -> output: T
    T: type in {float, half} = float
    """,
    shape=_shape,
)
def draw_bounding_boxes_v2_kernel(
    ctx: KernelContext, images: Array, boxes: Array, colors: Array
) -> Any:
    """Return images with boxes in the colors [n, channels], in ten where n is 0."""
    if np.ndim(colors) != 2:
        raise InvalidArgumentError(f"colors must be a 2-D matrix; found {list(np.shape(colors))}")
    return _drawn(images, boxes, colors)


not_differentiable("DrawBoundingBoxes", "DrawBoundingBoxesV2")


@export_v2("image.draw_bounding_boxes")
def draw_bounding_boxes(
    images: TensorLike, boxes: TensorLike, colors: TensorLike, name: str | None = None
) -> Tensor:
    """Return images [batch, height, width, channels] with boxes drawn on them.

    Args:
      boxes: [batch, boxes, 4], each top, left, bottom and right in parts of the image.
      colors: [n, channels], taken in turn.
    """
    made: Tensor = apply_op("DrawBoundingBoxesV2", images, boxes, colors, name=name)
    return made


@export("image.draw_bounding_boxes")
def draw_bounding_boxes_v1(
    images: TensorLike,
    boxes: TensorLike,
    name: str | None = None,
    colors: TensorLike | None = None,
) -> Tensor:
    """Return images with boxes drawn on them (see the TF2 shape); ten colors without any given."""
    if colors is None:
        made: Tensor = apply_op("DrawBoundingBoxes", images, boxes, name=name)
        return made
    return draw_bounding_boxes(images, boxes, colors, name)
