"""Images changed by chance: tf.image.random_* and stateless_random_*.

Each draws one number (for a flip, one for each image of a batch) and hands it to the function that
changes images by it.  The stateless ones take a seed of two integers, from which it follows.

Source: tensorflow/python/ops/image_ops_impl.py, random_crop_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import scoped
from tideflow.ops.image import adjustments as image_adjust
from tideflow.ops.image.arguments import as_image, checked
from tideflow.ops.image.geometry import HEIGHT, WIDTH, mirrored
from tideflow.ops.math import cast
from tideflow.ops.random import random_uniform, stateless_random_uniform
from tideflow.wire import dtypes

# Draws numbers of a shape from a range [low, end): draw(shape, low, end, dtype).
Draw = Callable[[Any, Any, Any, Any], Tensor]


def _drawn(seed: int | None) -> Draw:
    return lambda shape, low, end, dtype: random_uniform(shape, low, end, dtype, seed)


def _following(seed: int | None) -> Draw:
    return lambda shape, low, end, dtype: stateless_random_uniform(shape, seed, low, end, dtype)


# ---- colors


def _around_zero(draw: Draw, max_delta: float, limit: float | None = None) -> Tensor:
    if limit is not None and max_delta > limit:
        raise ValueError(f"max_delta must be <= {limit}; found {max_delta}")
    if max_delta < 0:
        raise ValueError(f"max_delta must not be negative; found {max_delta}")
    return draw([], -max_delta, max_delta, dtypes.float32)


def _between(draw: Draw, lower: float, upper: float) -> Tensor:
    if upper <= lower or lower < 0:
        raise ValueError(f"0 <= lower < upper is wanted; found {lower} and {upper}")
    return draw([], lower, upper, dtypes.float32)


@export("image.random_brightness")
def random_brightness(image: TensorLike, max_delta: float, seed: int | None = None) -> Tensor:
    """Adjust the brightness by a number from [-max_delta, max_delta)."""
    return image_adjust.adjust_brightness(image, _around_zero(_drawn(seed), max_delta))


@export_v2("image.stateless_random_brightness")
def stateless_random_brightness(image: TensorLike, max_delta: float, seed: int) -> Tensor:
    """Adjust the brightness by a number from [-max_delta, max_delta) that follows from a seed."""
    return image_adjust.adjust_brightness(image, _around_zero(_following(seed), max_delta))


@export("image.random_contrast")
def random_contrast(
    image: TensorLike, lower: float, upper: float, seed: int | None = None
) -> Tensor:
    """Adjust the contrast by a factor from [lower, upper)."""
    return image_adjust.adjust_contrast(image, _between(_drawn(seed), lower, upper))


@export_v2("image.stateless_random_contrast")
def stateless_random_contrast(image: TensorLike, lower: float, upper: float, seed: int) -> Tensor:
    """Adjust the contrast by a factor from [lower, upper) that follows from a seed."""
    return image_adjust.adjust_contrast(image, _between(_following(seed), lower, upper))


@export("image.random_hue")
def random_hue(image: TensorLike, max_delta: float, seed: int | None = None) -> Tensor:
    """Turn the hue by a number from [-max_delta, max_delta); max_delta is at most 0.5."""
    return image_adjust.adjust_hue(image, _around_zero(_drawn(seed), max_delta, 0.5))


@export_v2("image.stateless_random_hue")
def stateless_random_hue(image: TensorLike, max_delta: float, seed: int) -> Tensor:
    """Turn the hue by a number from [-max_delta, max_delta) that follows from a seed."""
    return image_adjust.adjust_hue(image, _around_zero(_following(seed), max_delta, 0.5))


@export("image.random_saturation")
def random_saturation(
    image: TensorLike, lower: float, upper: float, seed: int | None = None
) -> Tensor:
    """Adjust the saturation by a factor from [lower, upper)."""
    return image_adjust.adjust_saturation(image, _between(_drawn(seed), lower, upper))


@export_v2("image.stateless_random_saturation")
def stateless_random_saturation(
    image: TensorLike, lower: float, upper: float, seed: int | None = None
) -> Tensor:
    """Adjust the saturation by a factor from [lower, upper) that follows from a seed."""
    return image_adjust.adjust_saturation(image, _between(_following(seed), lower, upper))


# ---- flips


def _flipped(image: TensorLike, axis: int, draw: Draw) -> Tensor:
    given = as_image(image)
    if given.dims is None:
        raise ValueError("a random flip must know whether it is given one image or a batch")
    flipped = mirrored(given, axis)
    made: Tensor
    if len(given.dims) == 3:
        is_flipped = apply_op("Less", draw([], 0, 1.0, dtypes.float32), 0.5)
        made = apply_op("SelectV2", is_flipped, flipped, given)
        return made
    batch = apply_op("StridedSlice", apply_op("Shape", given), [0], [1], [1])
    # The other way round than for one image: TensorFlow rounds.
    rounded = apply_op("Round", draw(batch, 0, 1.0, dtypes.float32))
    is_flipped = cast(apply_op("Reshape", rounded, [-1, 1, 1, 1]), dtypes.bool_)
    made = apply_op("SelectV2", is_flipped, flipped, given)
    return made


@export("image.random_flip_left_right")
@scoped("random_flip_left_right")
def random_flip_left_right(image: TensorLike, seed: int | None = None) -> Tensor:
    """Exchange left and right with a chance of one half, for each image of a batch."""
    return _flipped(image, WIDTH, _drawn(seed))


@export("image.random_flip_up_down")
@scoped("random_flip_up_down")
def random_flip_up_down(image: TensorLike, seed: int | None = None) -> Tensor:
    """Exchange top and bottom with a chance of one half, for each image of a batch."""
    return _flipped(image, HEIGHT, _drawn(seed))


@export_v2("image.stateless_random_flip_left_right")
def stateless_random_flip_left_right(image: TensorLike, seed: int) -> Tensor:
    """Exchange left and right, or not, as follows from a seed."""
    return _flipped(image, WIDTH, _following(seed))


@export_v2("image.stateless_random_flip_up_down")
def stateless_random_flip_up_down(image: TensorLike, seed: int) -> Tensor:
    """Exchange top and bottom, or not, as follows from a seed."""
    return _flipped(image, HEIGHT, _following(seed))


# ---- crops


def _cropped(value: TensorLike, size: TensorLike, draw: Draw, name: str | None) -> Tensor:
    with get_default_graph().name_scope(name or "random_crop") as scope:
        given = convert_to_tensor(value, name="value")
        wanted = convert_to_tensor(size, dtypes.int32, name="size")
        shape = apply_op("Shape", given)
        fits = apply_op("All", apply_op("GreaterEqual", shape, wanted), [0])
        shape = checked(shape, [(fits, "a crop cannot be larger than what it is taken from")])
        room = apply_op("AddV2", apply_op("Sub", shape, wanted), 1)
        drawn = draw(apply_op("Shape", shape), 0, dtypes.int32.max, dtypes.int32)
        begin = apply_op("FloorMod", drawn, room)
        made: Tensor = apply_op("Slice", given, begin, wanted, name=scope)
        return made


@export("image.random_crop", "random_crop")
def random_crop(
    value: TensorLike, size: TensorLike, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Return a part of that size, a vector of value's rank, from anywhere in a tensor.

    Raises: InvalidArgumentError for a size larger than the tensor's.
    """
    return _cropped(value, size, _drawn(seed), name)


@export_v2("image.stateless_random_crop")
def stateless_random_crop(
    value: TensorLike, size: TensorLike, seed: int, name: str | None = None
) -> Tensor:
    """Return a part of that size from where it follows from a seed.

    Raises: InvalidArgumentError for a size larger than the tensor's.
    """
    return _cropped(value, size, _following(seed), name)
