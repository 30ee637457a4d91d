"""Rarer functions of images: random JPEG qualities, and boxes chosen in batches."""

from __future__ import annotations

from typing import Any, NoReturn

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow.mapping import map_fn
from tideflow.ops.export import export, export_v2
from tideflow.ops.image.picture_functions import adjust_jpeg_quality
from tideflow.ops.random import draws, stateless
from tideflow.wire import dtypes, errors


def _check_qualities(least: int, most: int) -> None:
    if not (0 <= least <= 100 and 0 <= most <= 100):
        raise ValueError(f"jpeg encoding range must be between 0 and 100; found {least}, {most}")
    if least >= most:
        raise ValueError("`min_jpeg_quality` must be less than `max_jpeg_quality`.")


@export("image.random_jpeg_quality")
def random_jpeg_quality(
    image: TensorLike, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None
) -> Tensor:
    """Return a picture as it is after being a JPEG file of a quality drawn from a range.

    Raises: ValueError for qualities outside 0 to 100, or a range that is empty.
    """
    _check_qualities(min_jpeg_quality, max_jpeg_quality)
    quality = draws.random_uniform(
        [], min_jpeg_quality, max_jpeg_quality, dtype=dtypes.int32, seed=seed
    )
    return adjust_jpeg_quality(image, quality)


@export_v2("image.stateless_random_jpeg_quality")
def stateless_random_jpeg_quality(
    image: TensorLike, min_jpeg_quality: int, max_jpeg_quality: int, seed: Any
) -> Tensor:
    """Return a picture after a JPEG file of a quality that a seed of two numbers decides.

    Raises: ValueError for qualities outside 0 to 100, or a range that is empty.
    """
    _check_qualities(min_jpeg_quality, max_jpeg_quality)
    quality = stateless.stateless_random_uniform(
        [], seed, min_jpeg_quality, max_jpeg_quality, dtypes.int32
    )
    return adjust_jpeg_quality(image, quality)


# ---- boxes


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
