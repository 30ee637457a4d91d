"""Boxes of batches of pictures: the best that overlap little, and proposals."""

from __future__ import annotations

from typing import Any, NoReturn

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow.mapping import map_fn
from tideflow.ops.export import export
from tideflow.wire import dtypes, errors


@export("image.non_max_suppression_padded")
def non_max_suppression_padded(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: TensorLike,
    iou_threshold: TensorLike = 0.5,
    score_threshold: TensorLike = float("-inf"),
    pad_to_max_output_size: bool = False,
    name: str | None = None,
    sorted_input: bool = False,
    canonicalized_coordinates: bool = False,
    tile_size: int = 512,
) -> tuple[Any, Any]:
    """Return the indices of the best boxes that do not overlap better ones, and how many there are.

    Args:
      boxes: [..., count, 4]; scores: [..., count].
      max_output_size: how many to return at most for each batch.
      iou_threshold: which part of their union two boxes may share.
      score_threshold: boxes must have a higher score than it.
      pad_to_max_output_size: whether zeros fill the indices up to max_output_size; batches need it.
      sorted_input, canonicalized_coordinates, tile_size: accepted; they decide how, not what.
    Raises: ValueError for batches without padding.
    """
    del sorted_input, canonicalized_coordinates, tile_size
    with get_default_graph().name_scope(name or "non_max_suppression_padded"):
        given, values = convert_to_tensor(boxes), convert_to_tensor(scores)
        if not pad_to_max_output_size and given.dims is not None and len(given.dims) > 2:
            raise ValueError("'pad_to_max_output_size' must be True for batches of boxes")

        def chosen(each: Any) -> tuple[Any, Any]:
            indices, count = apply_op(
                "NonMaxSuppressionV4",
                *each,
                max_output_size,
                convert_to_tensor(iou_threshold, dtypes.float32),
                convert_to_tensor(score_threshold, dtypes.float32),
                pad_to_max_output_size=pad_to_max_output_size,
            )
            return indices, count

        if given.dims is not None and len(given.dims) == 2:
            return chosen((given, values))
        sizes = apply_op("Shape", given)
        flat = apply_op("Reshape", given, apply_op("ConcatV2", [[-1], sizes[-2:]], 0))
        rows = apply_op("Reshape", values, apply_op("ConcatV2", [[-1], sizes[-2:-1]], 0))
        indices, counts = map_fn(
            chosen, (flat, rows), fn_output_signature=(dtypes.int32, dtypes.int32)
        )
        whole = apply_op("ConcatV2", [sizes[:-2], [max_output_size]], 0)
        return apply_op("Reshape", indices, whole), apply_op("Reshape", counts, sizes[:-2])


@export("image.generate_bounding_box_proposals")
def generate_bounding_box_proposals(
    scores: TensorLike,
    bbox_deltas: TensorLike,
    image_info: TensorLike,
    anchors: TensorLike,
    nms_threshold: TensorLike = 0.7,
    pre_nms_topn: TensorLike = 6000,
    min_size: TensorLike = 16,
    post_nms_topn: int = 300,
    name: str | None = None,
) -> NoReturn:
    """Refuse: TensorFlow proposes boxes on GPUs alone.  Raises: UnimplementedError."""
    raise errors.UnimplementedError("generate_bounding_box_proposals has no kernel for CPUs")
