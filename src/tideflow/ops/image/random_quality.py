"""Pictures after a JPEG file of a random quality."""

from __future__ import annotations

from typing import Any

from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.image.picture_functions import adjust_jpeg_quality
from tideflow.ops.random import draws, stateless
from tideflow.wire import dtypes


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
