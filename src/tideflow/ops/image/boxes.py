"""Parts of images by boxes: crops in one size, and of boxes that overlap only the best.

A box is [y1, x1, y2, x2], two of its corners.  For crops 0 is the middle of the first row or
column of pixels, 1 that of the last.
Source: tensorflow/core/kernels/image/crop_and_resize_op.cc, non_max_suppression_op.cc.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.math import one_of
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType


def _invalid(what: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(what)


# ---- crops


def _check_boxes(boxes: Array, box_ind: Array, batch: int) -> None:
    if np.ndim(boxes) != 2 or boxes.shape[1] != 4:
        raise _invalid(f"boxes must be [count, 4]; found {list(np.shape(boxes))}")
    if np.shape(box_ind) != (len(boxes),):
        raise _invalid(f"there must be one index for each of {len(boxes)} boxes")
    if ((box_ind < 0) | (box_ind >= batch)).any():
        raise errors.OutOfRangeError(f"box_index has values outside [0, {batch})")


class _Places(NamedTuple):
    """Where the crops' rows (or columns) lie in the images.

    Attributes:
      at: [boxes, out], in pixels.
      inside: [boxes, out], whether that is in the image.
      along: [out], from 0 at the crop's first to the last: (size - 1) of the image.
    """

    at: Any
    inside: Any
    along: Any


def _places(low: Array, high: Array, size: int, out: int) -> _Places:
    whole = np.float32(size - 1)
    if out > 1:
        step = (high - low) * whole / np.float32(out - 1)
        at = low[:, None] * whole + np.arange(out, dtype=np.float32) * step[:, None]
        along = np.arange(out, dtype=np.float32) * (whole / np.float32(out - 1))
    else:
        at = (np.float32(0.5) * (low + high) * whole)[:, None]
        along = np.array([whole / 2], np.float32)
    return _Places(at, (at >= 0) & (at <= whole), along)


def _both_places(boxes: Array, sizes: Array, crop: Array) -> tuple[_Places, _Places]:
    y1, x1, y2, x2 = np.asarray(boxes, np.float32).T
    return _places(y1, y2, sizes[0], crop[0]), _places(x1, x2, sizes[1], crop[1])


def _around(places: _Places) -> tuple[Any, Any, Any]:
    """Return the pixels on both sides, and how near the second is; zeros where outside."""
    at = np.where(places.inside, places.at, 0)
    low, high = np.floor(at), np.ceil(at)
    return low.astype(np.int64), high.astype(np.int64), at - low


def _nearest(places: _Places) -> Any:
    # Halves go away from zero.
    return np.floor(np.where(places.inside, places.at, 0) + np.float32(0.5)).astype(np.int64)


def _corners(down: _Places, across: _Places, method: str) -> list[tuple[Any, Any, Any]]:
    """Return the rows [boxes, h] and columns [boxes, w] that count, and how much [boxes, h, w]."""
    inside = down.inside[:, :, None] & across.inside[:, None, :]
    if method == "nearest":
        return [(_nearest(down), _nearest(across), inside.astype(np.float32))]
    top, bottom, dy = _around(down)
    left, right, dx = _around(across)
    return [
        (y, x, np.where(inside, share_y[:, :, None] * share_x[:, None, :], 0))
        for y, share_y in ((top, 1 - dy), (bottom, dy))
        for x, share_x in ((left, 1 - dx), (right, dx))
    ]


def _crop_shape(c: ShapeContext) -> list[Dims]:
    channels = with_rank(c.shape("image"), 4, "image")[3]
    boxes = with_rank(c.shape("boxes"), 2, "boxes")
    indices = with_rank(c.shape("box_ind"), 1, "box_ind")
    size = c.value("crop_size")
    height, width = (None, None) if size is None else size.tolist()
    return [(boxes[0] if boxes[0] is not None else indices[0], height, width, channels)]


@op(
    """
    CropAndResize(image: T, boxes: float, box_ind: int32, crop_size: int32) -> crops: float
    T: type in {uint8, uint16, int8, int16, int32, int64, half, float, double}
    method: string in {"bilinear", "nearest"} = "bilinear"
    extrapolation_value: float = 0
    """,
    shape=_crop_shape,
)
def crop_and_resize_kernel(
    ctx: KernelContext,
    image: Array,
    boxes: Array,
    box_ind: Array,
    crop_size: Array,
    *,
    method: str,
    extrapolation_value: float,
) -> Any:
    """Return [boxes, crop height, crop width, channels]; what is outside has a value of its own."""
    if np.ndim(image) != 4 or not (image.shape[1] and image.shape[2]):
        raise _invalid(f"image must be a batch with pixels; its shape is {list(np.shape(image))}")
    if np.shape(crop_size) != (2,) or (crop_size <= 0).any():
        raise _invalid(f"crop_size must be two positive numbers; found {crop_size.tolist()}")
    _check_boxes(boxes, box_ind, len(image))
    if not np.isfinite(boxes).all():
        raise _invalid(f"boxes must be finite; found {boxes.tolist()}")
    down, across = _both_places(boxes, image.shape[1:3], crop_size)
    pixels, which = image.astype(np.float32), box_ind[:, None, None]
    made = np.zeros((len(boxes), *crop_size, image.shape[3]), np.float32)
    for y, x, share in _corners(down, across, method):
        made += pixels[which, y[:, :, None], x[:, None, :]] * share[..., None]
    inside = down.inside[:, :, None] & across.inside[:, None, :]
    made[~inside] = extrapolation_value
    return made


@op(
    """
    CropAndResizeGradImage(grads: float, boxes: float, box_ind: int32, image_size: int32)
    -> output: T
    T: type in {float, half, double}
    method: string in {"bilinear", "nearest"} = "bilinear"
    """,
    shape=lambda c: [c.value_as_shape("image_size")],
)
def crop_and_resize_grad_image_kernel(
    ctx: KernelContext,
    grads: Array,
    boxes: Array,
    box_ind: Array,
    image_size: Array,
    *,
    T: Any,
    method: str,
) -> Any:
    """Return what the pixels of the images have of the crops' gradients."""
    if np.shape(image_size) != (4,):
        raise _invalid(f"image_size must have four elements; found {image_size.tolist()}")
    _check_boxes(boxes, box_ind, int(image_size[0]))
    down, across = _both_places(boxes, image_size[1:3].tolist(), grads.shape[1:3])
    made = np.zeros(tuple(image_size.tolist()), np.float32)
    which = box_ind[:, None, None]
    for y, x, share in _corners(down, across, method):
        np.add.at(made, (which, y[:, :, None], x[:, None, :]), grads * share[..., None])
    return made.astype(T.as_numpy_dtype)


@op(
    """
    CropAndResizeGradBoxes(grads: float, image: T, boxes: float, box_ind: int32) -> output: float
    T: type in {uint8, uint16, int8, int16, int32, int64, half, float, double}
    method: string in {"bilinear"} = "bilinear"
    """,
    shape=lambda c: [c.shape("boxes")],
)
def crop_and_resize_grad_boxes_kernel(
    ctx: KernelContext, grads: Array, image: Array, boxes: Array, box_ind: Array, *, method: str
) -> Any:
    """Return what moving the corners of boxes does: [boxes, 4]."""
    if np.ndim(grads) != 4 or np.ndim(image) != 4:
        raise _invalid(
            f"grads and image must have 4 dimensions; found {np.ndim(grads)} and {np.ndim(image)}"
        )
    _check_boxes(boxes, box_ind, len(image))
    if len(grads) != len(boxes):
        raise _invalid(f"there must be grads of {len(boxes)} boxes; found {len(grads)}")
    if grads.shape[3] != image.shape[3]:
        raise _invalid(
            f"grads must have the {image.shape[3]} channels of image; found {grads.shape[3]}"
        )
    sizes = image.shape[1:3]
    down, across = _both_places(boxes, sizes, grads.shape[1:3])
    top, bottom, dy = _around(down)
    left, right, dx = _around(across)
    pixels, which = image.astype(np.float32), box_ind[:, None, None]

    def at(y: Any, x: Any) -> Any:
        return pixels[which, y[:, :, None], x[:, None, :]]

    dx, dy = dx[:, None, :, None], dy[:, :, None, None]
    by_y = (1 - dx) * (at(bottom, left) - at(top, left)) + dx * (at(bottom, right) - at(top, right))
    by_x = (1 - dy) * (at(top, right) - at(top, left)) + dy * (at(bottom, right) - at(bottom, left))
    inside = (down.inside[:, :, None] & across.inside[:, None, :])[..., None]
    of_rows = np.where(inside, by_y * grads, 0).sum(axis=(2, 3))
    of_columns = np.where(inside, by_x * grads, 0).sum(axis=(1, 3))
    found = [
        of_rows @ (np.float32(sizes[0] - 1) - down.along),
        of_columns @ (np.float32(sizes[1] - 1) - across.along),
        of_rows @ down.along,
        of_columns @ across.along,
    ]
    return np.stack(found, axis=1).astype(np.float32)


@gradient("CropAndResize")
def _crop_and_resize_gradient(op: Operation, grad: Tensor) -> list[Any]:
    image, boxes, box_ind, _ = op.inputs
    method = op.attrs["method"]
    of_image = None
    if image.dtype.is_floating:
        shape = apply_op("Shape", image)
        of_image = apply_op(
            "CropAndResizeGradImage", grad, boxes, box_ind, shape, T=image.dtype, method=method
        )
    # TensorFlow's too is that of the bilinear method in either case.
    of_boxes = apply_op("CropAndResizeGradBoxes", grad, image, boxes, box_ind)
    return [of_image, of_boxes, None, None]


@export_v2("image.crop_and_resize")
def crop_and_resize(
    image: TensorLike,
    boxes: TensorLike,
    box_indices: TensorLike,
    crop_size: object,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Return parts of images, all of one size: [boxes, crop height, crop width, channels].

    Args:
      image: [batch, height, width, channels].
      boxes: [boxes, 4], y1, x1, y2, x2 in parts of the image; beyond [0, 1] is outside of it.
      box_indices: [boxes], which image of the batch each box is of.
      method: "bilinear" or "nearest".
      extrapolation_value: the value of what is outside.
    """
    made: Tensor = apply_op(
        "CropAndResize",
        image,
        boxes,
        box_indices,
        crop_size,
        method=method,
        extrapolation_value=extrapolation_value,
        name=name,
    )
    return made


@export("image.crop_and_resize")
def crop_and_resize_v1(
    image: TensorLike,
    boxes: TensorLike,
    box_ind: TensorLike | None = None,
    crop_size: TensorLike | None = None,
    method: str = "bilinear",
    extrapolation_value: float = 0,
    name: str | None = None,
    box_indices: TensorLike | None = None,
) -> Tensor:
    """Return parts of images, all of one size (see the TF2 shape); box_ind is box_indices."""
    indices = one_of("box_indices", box_indices, "box_ind", box_ind)
    return crop_and_resize(image, boxes, indices, crop_size, method, extrapolation_value, name)


# ---- the best of boxes that overlap


class _Selection(NamedTuple):
    indices: Any
    scores: Any


def overlap_of(boxes: Array) -> Callable[[int, int], float]:
    """Return the function of two boxes that gives the part of their union that both cover."""
    y1, y2 = np.minimum(boxes[:, 0], boxes[:, 2]), np.maximum(boxes[:, 0], boxes[:, 2])
    x1, x2 = np.minimum(boxes[:, 1], boxes[:, 3]), np.maximum(boxes[:, 1], boxes[:, 3])
    areas = (y2 - y1) * (x2 - x1)

    def overlap(i: int, j: int) -> float:
        if areas[i] <= 0 or areas[j] <= 0:
            return 0.0
        height = max(min(y2[i], y2[j]) - max(y1[i], y1[j]), 0)
        width = max(min(x2[i], x2[j]) - max(x1[i], x1[j]), 0)
        both = height * width
        return float(both / (areas[i] + areas[j] - both))

    return overlap


def _select(
    scores: Array,
    most: Any,
    overlap: Callable[[int, int], float],
    limits: tuple[Any, Any],
    sigma: float = 0.0,
) -> _Selection:
    """Return boxes by falling score, without those that overlap better ones by more than a limit.

    sigma: above 0, overlaps only lower scores, the more the smaller sigma is.
    """
    most_overlap, least_score = (float(limit) for limit in limits)
    # The score, negative, then the index; and how many of the selected it was compared with.
    waiting = [(-s, i, 0) for i, s in enumerate(scores.tolist()) if s > least_score]
    heapq.heapify(waiting)
    indices: list[int] = []
    found: list[float] = []
    while waiting and len(indices) < most:
        negative, index, seen = heapq.heappop(waiting)
        score, is_out = -negative, False
        for other in reversed(indices[seen:]):
            shared = overlap(index, other)
            if not sigma and shared > most_overlap:
                is_out = True
                break
            if sigma:
                score = float(np.float32(score * math.exp(-0.5 / sigma * shared * shared)))
            if score <= least_score:
                break
        if is_out:
            continue
        if score == -negative:
            indices.append(index)
            found.append(score)
        elif score > least_score:
            heapq.heappush(waiting, (-score, index, len(indices)))
    return _Selection(np.array(indices, np.int32), np.array(found, scores.dtype))


def _check_selection(given: Array, scores: Array, most: Array, limits: tuple[Any, ...]) -> int:
    for value, what in zip((most, *limits), ("max_output_size", "a threshold", "a threshold")):
        if np.ndim(value):
            raise _invalid(f"{what} must be a scalar; its shape is {list(np.shape(value))}")
    if np.ndim(scores) != 1 or len(scores) != len(given):
        raise _invalid(f"there must be one score for each of {len(given)} boxes")
    if most < 0:
        raise _invalid(f"max_output_size must not be negative; found {most}")
    return int(most)


def _check_corners(boxes: Array, iou_threshold: Array) -> None:
    if np.ndim(boxes) != 2 or boxes.shape[1] != 4:
        raise _invalid(f"boxes must be [count, 4]; found {list(np.shape(boxes))}")
    if not 0 <= iou_threshold <= 1:
        raise _invalid(f"iou_threshold must be in [0, 1]; found {iou_threshold}")


def selected_boxes(boxes: Array, scores: Array, most: Array, limits: tuple[Any, Any]) -> Any:
    """Return the indices of the boxes that stay, best first.

    limits: which part of their union two boxes may share, and what their scores must exceed.
    Raises: InvalidArgumentError.
    """
    count = _check_selection(boxes, scores, most, limits)
    _check_corners(boxes, limits[0])
    return _select(scores, count, overlap_of(boxes), limits).indices


def _selected_shape(c: ShapeContext) -> list[Dims]:
    return [(None,)]


@op(
    """
    NonMaxSuppressionV3(boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold,
      score_threshold: T_threshold) -> selected_indices: int32
    T: type in {half, float} = float
    T_threshold: type in {half, float} = float
    """,
    shape=_selected_shape,
)
def non_max_suppression_v3_kernel(
    ctx: KernelContext,
    boxes: Array,
    scores: Array,
    most: Array,
    iou_threshold: Array,
    score_threshold: Array,
) -> Any:
    """Return the indices of the boxes that stay, best first."""
    return selected_boxes(boxes, scores, most, (iou_threshold, score_threshold))


def _padded(selected: Any, count: int) -> Any:
    return np.concatenate([selected, np.zeros(count - len(selected), selected.dtype)])


@op(
    """
    NonMaxSuppressionV4(boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold,
      score_threshold: T_threshold) -> selected_indices: int32, valid_outputs: int32
    T: type in {half, float} = float
    T_threshold: type in {half, float} = float
    pad_to_max_output_size: bool = false
    """,
    shape=lambda c: [(None,), ()],
)
def non_max_suppression_v4_kernel(
    ctx: KernelContext,
    boxes: Array,
    scores: Array,
    most: Array,
    iou_threshold: Array,
    score_threshold: Array,
    *,
    pad_to_max_output_size: bool,
) -> Any:
    """Return the indices of the boxes that stay, and how many they are before padding."""
    found = non_max_suppression_v3_kernel(ctx, boxes, scores, most, iou_threshold, score_threshold)
    valid = np.array(len(found), np.int32)
    return (_padded(found, int(most)) if pad_to_max_output_size else found), valid


@op(
    """
    NonMaxSuppressionV5(boxes: T, scores: T, max_output_size: int32, iou_threshold: T,
      score_threshold: T, soft_nms_sigma: T)
    -> selected_indices: int32, selected_scores: T, valid_outputs: int32
    T: type in {half, float} = float
    pad_to_max_output_size: bool = false
    """,
    shape=lambda c: [(None,), (None,), ()],
)
def non_max_suppression_v5_kernel(
    ctx: KernelContext,
    boxes: Array,
    scores: Array,
    most: Array,
    iou_threshold: Array,
    score_threshold: Array,
    soft_nms_sigma: Array,
    *,
    pad_to_max_output_size: bool,
) -> Any:
    """Return the indices and scores of the boxes that stay, and how many they are."""
    limits = (iou_threshold, score_threshold)
    count = _check_selection(boxes, scores, most, limits)
    _check_corners(boxes, iou_threshold)
    if soft_nms_sigma < 0:
        raise _invalid(f"soft_nms_sigma must not be negative; found {soft_nms_sigma}")
    found = _select(scores, count, overlap_of(boxes), limits, float(soft_nms_sigma))
    valid = np.array(len(found.indices), np.int32)
    if not pad_to_max_output_size:
        return found.indices, found.scores, valid
    return _padded(found.indices, count), _padded(found.scores, count), valid


@op(
    """
    NonMaxSuppressionWithOverlaps(overlaps: float, scores: float, max_output_size: int32,
      overlap_threshold: float, score_threshold: float) -> selected_indices: int32
    """,
    shape=_selected_shape,
)
def non_max_suppression_with_overlaps_kernel(
    ctx: KernelContext,
    overlaps: Array,
    scores: Array,
    most: Array,
    overlap_threshold: Array,
    score_threshold: Array,
) -> Any:
    """Return the indices of the boxes that stay, best first, by a matrix of overlaps."""
    limits = (overlap_threshold, score_threshold)
    if np.ndim(overlaps) != 2 or overlaps.shape[0] != overlaps.shape[1]:
        raise _invalid(f"overlaps must be a square matrix; found {list(np.shape(overlaps))}")
    count = _check_selection(overlaps, scores, most, limits)
    return _select(scores, count, lambda i, j: float(overlaps[i, j]), limits).indices


not_differentiable(
    "NonMaxSuppressionV3",
    "NonMaxSuppressionV4",
    "NonMaxSuppressionV5",
    "NonMaxSuppressionWithOverlaps",
)


def _scalar(value: TensorLike, dtype: DType) -> Tensor:
    return convert_to_tensor(value, None if isinstance(value, Tensor) else dtype)


@export("image.non_max_suppression")
def non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: TensorLike,
    iou_threshold: TensorLike = 0.5,
    score_threshold: TensorLike = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """Return the indices of the best boxes, best first, that do not overlap better ones.

    Args:
      boxes: [count, 4]; scores: [count].
      max_output_size: how many to return at most.
      iou_threshold: which part of their union two boxes may share.
      score_threshold: boxes must have a higher score than it.
    """
    with get_default_graph().name_scope(name or "non_max_suppression"):
        made: Tensor = apply_op(
            "NonMaxSuppressionV3",
            boxes,
            scores,
            max_output_size,
            _scalar(iou_threshold, dtypes.float32),
            _scalar(score_threshold, dtypes.float32),
        )
        return made


@export("image.non_max_suppression_with_scores")
def non_max_suppression_with_scores(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: TensorLike,
    iou_threshold: TensorLike = 0.5,
    score_threshold: TensorLike = float("-inf"),
    soft_nms_sigma: TensorLike = 0.0,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the indices of the best boxes and their scores (see non_max_suppression).

    soft_nms_sigma: above 0, a box that overlaps better ones is not left out but gets a lower score.
    """
    with get_default_graph().name_scope(name or "non_max_suppression_with_scores"):
        indices, found, _ = apply_op(
            "NonMaxSuppressionV5",
            boxes,
            scores,
            max_output_size,
            iou_threshold,
            score_threshold,
            soft_nms_sigma,
        )
        return indices, found


@export("image.non_max_suppression_overlaps")
def non_max_suppression_overlaps(
    overlaps: TensorLike,
    scores: TensorLike,
    max_output_size: TensorLike,
    overlap_threshold: TensorLike = 0.5,
    score_threshold: TensorLike = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """Return the indices of the best boxes (see non_max_suppression), by a matrix of overlaps."""
    with get_default_graph().name_scope(name or "non_max_suppression_overlaps"):
        made: Tensor = apply_op(
            "NonMaxSuppressionWithOverlaps",
            overlaps,
            scores,
            max_output_size,
            overlap_threshold,
            score_threshold,
        )
        return made
