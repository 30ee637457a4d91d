"""The best of boxes that overlap, class by class; and the first versions of the op for one class.

Source: tensorflow/core/kernels/image/non_max_suppression_op.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.ops.image.boxes import overlap_of, selected_boxes
from tideflow.wire import dtypes
from tideflow.wire.errors import InvalidArgumentError


def _lowest(scores: Array) -> Any:
    # What has no greater score than the least number, such as minus infinity, is never taken.
    return np.finfo(np.float32 if scores.dtype == np.float32 else np.float16).min


@op(
    """
    NonMaxSuppression(boxes: float, scores: float, max_output_size: int32) -> selected_indices: int32
    iou_threshold: float = 0.5
    """,  # noqa: E501 - one list of inputs
    shape=lambda c: [(None,)],
)
def non_max_suppression_kernel(
    ctx: KernelContext, boxes: Array, scores: Array, most: Array, *, iou_threshold: float
) -> Any:
    """Return the indices of the boxes that stay, best first."""
    limits = (np.float32(iou_threshold), _lowest(scores))
    return selected_boxes(boxes, scores, most, limits)


@op(
    """
    NonMaxSuppressionV2(boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold)
      -> selected_indices: int32
    T: type in {half, float} = float
    T_threshold: type in {half, float} = float
    """,
    shape=lambda c: [(None,)],
)
def non_max_suppression_v2_kernel(
    ctx: KernelContext, boxes: Array, scores: Array, most: Array, iou_threshold: Array
) -> Any:
    """Return the indices of the boxes that stay, best first."""
    return selected_boxes(boxes, scores, most, (iou_threshold, _lowest(scores)))


# ---- class by class


class _Limits(NamedTuple):
    of_class: int
    of_all: int
    overlap: float
    score: float


def _limits(of_class: Array, of_all: Array, overlap: Array, score: Array) -> _Limits:
    for what, value in zip(_Limits._fields, (of_class, of_all, overlap, score)):
        if np.ndim(value):
            raise InvalidArgumentError(f"the limit {what} must be a scalar; found {value}")
    if of_class <= 0 or of_all <= 0:
        raise InvalidArgumentError(
            f"max_size_per_class and max_total_size must be positive; found {of_class}, {of_all}"
        )
    if not 0 <= overlap <= 1:
        raise InvalidArgumentError(f"iou_threshold must be in [0, 1]; found {overlap}")
    return _Limits(int(of_class), int(of_all), float(overlap), float(score))


def _kept(
    scores: Array, overlap: Callable[[int, int], float], limits: _Limits
) -> list[tuple[float, int]]:
    """Return (score, index) of the boxes of one class that stay, best first."""
    kept: list[tuple[float, int]] = []
    order = np.argsort(-scores, kind="stable").tolist()
    for i in order:
        if len(kept) >= limits.of_class or not scores[i] > limits.score:
            break
        if all(overlap(i, other) <= limits.overlap for _, other in reversed(kept)):
            kept.append((float(scores[i]), i))
    return kept


def _combined_shape(c: ShapeContext) -> list[Dims]:
    boxes = with_rank(c.shape("boxes"), 4, "boxes")
    scores = with_rank(c.shape("scores"), 3, "scores")
    for what in ("max_output_size_per_class", "max_total_size", "iou_threshold", "score_threshold"):
        with_rank(c.shape(what), 0, what)
    classes = scores[2]
    if None not in (boxes[2], classes) and boxes[2] not in (1, classes):
        raise ValueError(f"boxes must be of 1 or of {classes} classes; they are of {boxes[2]}")
    batch = boxes[0] if boxes[0] is not None else scores[0]
    of_all, of_class = c.value("max_total_size"), c.value("max_output_size_per_class")
    if of_all is None:
        return [(batch, None, 4), (batch, None), (batch, None), (batch,)]
    if of_all <= 0:
        raise ValueError(f"max_total_size must be positive; found {of_all}")
    size: int | None = int(of_all)
    if c.attrs["pad_per_class"]:
        is_known = of_class is not None and classes is not None
        size = min(int(of_all), int(of_class) * classes) if is_known else None  # type: ignore[arg-type,operator]
    return [(batch, size, 4), (batch, size), (batch, size), (batch,)]


@op(
    """
    CombinedNonMaxSuppression(boxes: float, scores: float, max_output_size_per_class: int32,
      max_total_size: int32, iou_threshold: float, score_threshold: float)
      -> nmsed_boxes: float, nmsed_scores: float, nmsed_classes: float, valid_detections: int32
    pad_per_class: bool = false
    clip_boxes: bool = true
    """,
    shape=_combined_shape,
)
def combined_non_max_suppression_kernel(
    ctx: KernelContext,
    boxes: Array,
    scores: Array,
    of_class: Array,
    of_all: Array,
    iou_threshold: Array,
    score_threshold: Array,
    *,
    pad_per_class: bool,
    clip_boxes: bool,
) -> Any:
    """Return the best boxes of each image, of whatever class, with scores, classes and counts."""
    limits = _limits(of_class, of_all, iou_threshold, score_threshold)
    if np.ndim(boxes) != 4 or boxes.shape[3] != 4 or np.ndim(scores) != 3:
        raise InvalidArgumentError(
            "boxes must be [batch, count, classes or 1, 4] and scores [batch, count, classes]; "
            f"found {list(np.shape(boxes))} and {list(np.shape(scores))}"
        )
    batch, count, classes = scores.shape
    if boxes.shape[:2] != (batch, count) or boxes.shape[2] not in (1, classes):
        raise InvalidArgumentError(
            f"boxes {list(boxes.shape)} and scores {list(scores.shape)} do not go together"
        )
    size = limits.of_all
    if pad_per_class:
        size = min(size, limits.of_class * classes)
    made = np.zeros((batch, size, 4), np.float32)
    found = np.zeros((2, batch, size), np.float32)
    valid = np.zeros(batch, np.int32)
    for image in range(batch):
        best = _best_of_image(boxes[image], scores[image], limits)[:size]
        valid[image] = len(best)
        for at, (score, of, index) in enumerate(best):
            made[image, at] = boxes[image, index, min(of, boxes.shape[2] - 1)]
            found[:, image, at] = score, of
    return (np.clip(made, 0, 1) if clip_boxes else made), found[0], found[1], valid


def _best_of_image(boxes: Array, scores: Array, limits: _Limits) -> list[tuple[float, int, int]]:
    """Return (score, class, index) of the boxes of one image that stay, best first."""
    overlaps = [overlap_of(boxes[:, i]) for i in range(boxes.shape[1])]
    best = [
        (score, of, index)
        for of in range(scores.shape[1])
        for score, index in _kept(scores[:, of], overlaps[min(of, len(overlaps) - 1)], limits)
    ]
    return sorted(best, key=lambda one: -one[0])


not_differentiable("NonMaxSuppression", "NonMaxSuppressionV2")


@export("image.combined_non_max_suppression")
def combined_non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size_per_class: TensorLike,
    max_total_size: TensorLike,
    iou_threshold: TensorLike = 0.5,
    score_threshold: TensorLike = float("-inf"),
    pad_per_class: bool = False,
    clip_boxes: bool = True,
    name: str | None = None,
) -> Any:
    """Return the best boxes of images, of several classes, that do not overlap better ones.

    Args:
      boxes: float32 [batch, count, classes, 4], or with 1 in place of classes, for all of them.
      scores: float32 [batch, count, classes].
      max_output_size_per_class, max_total_size: how many to return at most, for an image.
      iou_threshold: which part of their union two boxes of one class may share.
      score_threshold: boxes must have a higher score than it.
      pad_per_class: whether results are no longer than max_output_size_per_class * classes.
      clip_boxes: whether corners are brought into [0, 1].
    Returns: boxes [batch, size, 4], scores and classes [batch, size], and how many count [batch];
      after these come zeros.
    """
    with get_default_graph().name_scope(name or "combined_non_max_suppression"):
        limits: list[Tensor] = [
            convert_to_tensor(iou_threshold, dtypes.float32),
            convert_to_tensor(score_threshold, dtypes.float32),
        ]
        return apply_op(
            "CombinedNonMaxSuppression",
            boxes,
            scores,
            max_output_size_per_class,
            convert_to_tensor(max_total_size),
            *limits,
            pad_per_class=pad_per_class,
            clip_boxes=clip_boxes,
        )
