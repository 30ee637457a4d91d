"""Windows of images that are drawn by chance, such that each holds enough of a box.

Source: tensorflow/core/kernels/image/sample_distorted_bounding_box_op.cc.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op, with_attrs
from tideflow.graph.op_traits import Effects
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims, merge
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import get_seed
from tideflow.ops.random import philox
from tideflow.ops.random.draws import Sequence
from tideflow.wire import errors

_F: Any = np.float32
_TYPES = "{uint8, int8, int16, int32, int64}"
_INT32_MOST = 2**31 - 1

_ATTRS = """
    aspect_ratio_range: list(float) = [0.75, 1.3300000429153442]
    area_range: list(float) = [0.05000000074505806, 1.0]
    max_attempts: int = 100
    use_image_if_no_bounding_boxes: bool = false
"""
_HOW = ("aspect_ratio_range", "area_range", "max_attempts", "use_image_if_no_bounding_boxes")


class _Rectangle(NamedTuple):
    """A part of an image, in pixels."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def area(self) -> int:
        return (self.right - self.left) * (self.bottom - self.top)

    def area_within(self, other: _Rectangle) -> int:
        """Return how much of this lies in another one."""
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return across * down if across >= 0 and down >= 0 else 0


class _Chance:
    """Numbers drawn one after another."""

    def __init__(self, key: Any, counter: Any) -> None:
        self._samples = philox.Samples.from_counter(key, counter)

    def fraction(self) -> Any:
        """Return a float from [0, 1)."""
        bits = self._samples.next() & 0x7FFFFF | 127 << 23
        return np.uint32(bits).view(_F) - _F(1)

    def below(self, end: int) -> int:
        """Return a whole number from [0, end)."""
        if end & (end - 1) == 0:
            return self._samples.next() & (end - 1)
        most = 2**32 - 1
        left_over = most % end + 1
        while (found := self._samples.next()) >= most - left_over:
            pass
        return found % end


def _nearest(x: TensorLike) -> int:
    return int(np.rint(_F(x)))


def _crop(
    width: int, height: int, areas: tuple[Any, Any], ratio: Any, chance: _Chance
) -> _Rectangle | None:
    """Return a window whose width is `ratio` times its height; None where none is of such area."""
    if ratio <= 0 or width <= 0 or height <= 0 or areas[0] > areas[1]:
        return None
    least, most = (_F(area * _F(width)) * _F(height) for area in areas)
    high, highest = (_nearest(np.sqrt(area / ratio)) for area in (least, most))
    if _nearest(highest * ratio) > width:
        # The greatest height whose width still fits.
        highest = int((width + 0.5 - float(_F(1e-7))) / float(ratio))
        highest -= _nearest(_F(highest) * ratio) > width
    highest = min(highest, height)
    high = min(high, highest)
    if high < highest:
        high += chance.below(highest - high + 1)
    wide = _nearest(_F(high) * ratio)
    # Rounding may have led out of the areas wanted, by one row.
    if _F(wide * high) < least:
        high += 1
        wide = _nearest(_F(high) * ratio)
    if _F(wide * high) > most:
        high -= 1
        wide = _nearest(_F(high) * ratio)
    if not (least <= _F(wide * high) <= most and 0 < wide <= width and 0 < high <= height):
        return None
    top = chance.below(height - high) if high < height else 0
    left = chance.below(width - wide) if wide < width else 0
    return _Rectangle(left, top, left + wide, top + high)


def _holds_enough(crop: _Rectangle, boxes: list[_Rectangle], wanted: Any) -> bool:
    """Whether a window holds so large a part of one of the boxes."""
    if crop.area < 1:
        return False
    return any(_F(box.area_within(crop)) / _F(box.area) >= wanted for box in boxes if box.area >= 1)


def _sizes(image_size: Array) -> tuple[int, int]:
    if image_size.shape != (3,):
        raise errors.InvalidArgumentError(
            f"image_size must have 3 elements; its shape is {list(image_size.shape)}"
        )
    height, width = image_size[:2].tolist()
    if not (0 <= height < _INT32_MOST and 0 <= width < _INT32_MOST):
        raise errors.InvalidArgumentError(f"images of {height} x {width} pixels cannot be")
    return height, width


def _boxes(
    bounding_boxes: Array, height: int, width: int, use_image_if_no_bounding_boxes: bool
) -> list[_Rectangle]:
    if bounding_boxes.ndim != 3 or bounding_boxes.shape[2] != 4:
        raise errors.InvalidArgumentError(
            f"bounding boxes must be [batch, boxes, 4]; their shape is {list(bounding_boxes.shape)}"
        )
    if not np.all((bounding_boxes >= 0) & (bounding_boxes <= 1)):
        raise errors.InvalidArgumentError("All bounding box coordinates must be in [0.0, 1.0]")
    if not bounding_boxes.size:
        if not use_image_if_no_bounding_boxes:
            raise errors.InvalidArgumentError(
                "No bounding boxes provided as input. One must enable "
                "use_image_if_no_bounding_boxes if you wish to not provide any bounding boxes."
            )
        return [_Rectangle(0, 0, width, height)]
    pixels = (bounding_boxes.reshape(-1, 4) * _F([height, width, height, width])).astype(np.int64)
    return [_Rectangle(left, top, right, bottom) for top, left, bottom, right in pixels.tolist()]


def _check_attrs(aspect_ratio_range: list[float], area_range: list[float], tries: int) -> None:
    for what, given in (("aspect_ratio_range", aspect_ratio_range), ("area_range", area_range)):
        if len(given) != 2 or not (given[0] > 0 and given[1] > 0):
            raise errors.InvalidArgumentError(f"{what} must be two positive numbers: {given}")
    if max(area_range) > 1:
        raise errors.InvalidArgumentError(f"area_range must not exceed 1: {area_range}")
    if tries <= 0:
        raise errors.InvalidArgumentError(f"max_attempts must be positive: {tries}")


def _sampled(
    image_size: Array,
    bounding_boxes: Array,
    min_object_covered: Any,
    chance: Any,
    *,
    aspect_ratio_range: list[float],
    area_range: list[float],
    max_attempts: int,
    use_image_if_no_bounding_boxes: bool,
) -> Any:
    """Return where a window begins, its size, and it as a box.

    chance: gives the key and counter from which to draw, once all else is known to be right.
    """
    _check_attrs(aspect_ratio_range, area_range, max_attempts)
    if np.ndim(min_object_covered):
        raise errors.InvalidArgumentError("min_object_covered must be a scalar")
    height, width = _sizes(image_size)
    if not min_object_covered >= 0:
        raise errors.InvalidArgumentError(
            f"Min object covered must be non-negative: {min_object_covered}"
        )
    boxes = _boxes(bounding_boxes, height, width, use_image_if_no_bounding_boxes)
    drawn = _Chance(*chance(max_attempts))
    low, high = map(_F, aspect_ratio_range)
    areas = _F(area_range[0]), _F(area_range[1])
    found = _Rectangle(0, 0, width, height)
    for _ in range(max_attempts):
        ratio = drawn.fraction() * (high - low) + low
        crop = _crop(width, height, areas, ratio, drawn)
        if crop is not None and _holds_enough(crop, boxes, _F(min_object_covered)):
            found = crop
            break
    kind = image_size.dtype
    begin = np.array([found.top, found.left, 0]).astype(kind)
    size = np.array([found.bottom - found.top, found.right - found.left, -1]).astype(kind)
    ends = _F([found.top, found.left, found.bottom, found.right])
    return begin, size, (ends / _F([height, width, height, width])).reshape(1, 1, 4)


def _shape(c: ShapeContext) -> list[Dims]:
    merge(c.inputs[0], (3,))
    merge(with_rank(c.inputs[1], 3, "bounding_boxes")[2:], (4,))
    if len(c.inputs) > 2:
        with_rank(c.inputs[2], 0, "min_object_covered")
    if len(c.inputs) > 3:
        merge(c.inputs[3], (2,))
    return [(3,), (3,), (1, 1, 4)]


def _drawn_window(
    ctx: KernelContext,
    image_size: Array,
    bounding_boxes: Array,
    min_object_covered: Any,
    *,
    seed: int,
    seed2: int,
    **how: Any,
) -> Any:
    """Return a window of an image that holds enough of one of the boxes, drawn by chance.

    Each run goes on in the op's own sequence of numbers.
    """
    sequence: Sequence = ctx.memo(lambda: Sequence(*philox.seeds_of(seed, seed2)), is_random=True)
    return _sampled(image_size, bounding_boxes, min_object_covered, sequence.reserve, **how)


def _drawn_window_by_attr(
    ctx: KernelContext,
    image_size: Array,
    bounding_boxes: Array,
    *,
    min_object_covered: float,
    **how: Any,
) -> Any:
    return _drawn_window(ctx, image_size, bounding_boxes, min_object_covered, **how)


def _define_stateful(name: str, further_input: str, further_attr: str, kernel: Any) -> None:
    signature = f"""
    {name}(image_size: T, bounding_boxes: float{further_input}) \
-> begin: T, size: T, bboxes: float
    T: type in {_TYPES}
    seed: int = 0
    seed2: int = 0
    {further_attr}
    {_ATTRS}
    """
    attrs = ["seed", "seed2", *_HOW, *further_attr.split(":")[:1]]
    register = op(signature, shape=_shape, stateful=True, effects=Effects.UNSEEN)
    register(with_attrs(kernel, [attr for attr in attrs if attr], first="ctx"))


_define_stateful(
    "SampleDistortedBoundingBox",
    "",
    "min_object_covered: float = 0.10000000149011612",
    _drawn_window_by_attr,
)
_define_stateful("SampleDistortedBoundingBoxV2", ", min_object_covered: float", "", _drawn_window)


@op(
    f"""
    StatelessSampleDistortedBoundingBox(image_size: T, bounding_boxes: float, \
min_object_covered: float, seed: Tseed) -> begin: T, size: T, bboxes: float
    T: type in {_TYPES}
    Tseed: type in indices
    {_ATTRS}
    """,
    shape=_shape,
)
def stateless_sample_distorted_bounding_box_kernel(
    ctx: KernelContext,
    image_size: Array,
    bounding_boxes: Array,
    min_object_covered: Array,
    seed: Array,
    *,
    aspect_ratio_range: list[float],
    area_range: list[float],
    max_attempts: int,
    use_image_if_no_bounding_boxes: bool,
) -> Any:
    """Return the window that follows from a seed of two whole numbers."""
    if seed.shape != (2,):
        raise errors.InvalidArgumentError(f"seed must have shape [2], not {list(seed.shape)}")
    return _sampled(
        image_size, bounding_boxes, min_object_covered,
        lambda _: philox.scramble_seed(np, seed),
        aspect_ratio_range=aspect_ratio_range, area_range=area_range, max_attempts=max_attempts,
        use_image_if_no_bounding_boxes=use_image_if_no_bounding_boxes,
    )  # fmt: skip


not_differentiable("SampleDistortedBoundingBox")
not_differentiable("SampleDistortedBoundingBoxV2")


class SampleDistortedBoundingBoxV2(NamedTuple):
    """What `image.sample_distorted_bounding_box` gives."""

    begin: Tensor
    size: Tensor
    bboxes: Tensor


class StatelessSampleDistortedBoundingBox(NamedTuple):
    """What `image.stateless_sample_distorted_bounding_box` gives."""

    begin: Tensor
    size: Tensor
    bboxes: Tensor


def _given(**attrs: Any) -> dict[str, Any]:
    return {name: value for name, value in attrs.items() if value is not None}


@export_v2("image.sample_distorted_bounding_box")
def sample_distorted_bounding_box_v2(
    image_size: TensorLike,
    bounding_boxes: TensorLike,
    seed: int = 0,
    min_object_covered: TensorLike = 0.1,
    aspect_ratio_range: list[float] | None = None,
    area_range: list[float] | None = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> SampleDistortedBoundingBoxV2:
    """Return a window of an image, drawn by chance, for `tf.slice`, and it as a box.

    Args:
      image_size: [height, width, channels].
      bounding_boxes: float32 [batch, boxes, 4], as (top, left, bottom, right) in [0, 1].
      seed: what the draws follow from; another each time without it.
      min_object_covered: how large a part of one of the boxes the window holds at least.
      aspect_ratio_range: of width to height; area_range: of the window's to the image's area.
      max_attempts: after so many draws in vain the window is the whole image.
    Returns: begin, size, bboxes [1, 1, 4].
    """
    return sample_distorted_bounding_box(
        image_size, bounding_boxes, *(get_seed(seed) if seed else (0, 0)), min_object_covered,
        aspect_ratio_range, area_range, max_attempts, use_image_if_no_bounding_boxes, name,
    )  # fmt: skip


@export("image.sample_distorted_bounding_box")
def sample_distorted_bounding_box(
    image_size: TensorLike,
    bounding_boxes: TensorLike,
    seed: int | None = None,
    seed2: int | None = None,
    min_object_covered: TensorLike = 0.1,
    aspect_ratio_range: list[float] | None = None,
    area_range: list[float] | None = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> SampleDistortedBoundingBoxV2:
    """Return a window of an image, drawn by chance, that holds enough of one of the boxes."""
    attrs = _given(
        seed=seed, seed2=seed2, aspect_ratio_range=aspect_ratio_range, area_range=area_range,
        max_attempts=max_attempts, use_image_if_no_bounding_boxes=use_image_if_no_bounding_boxes,
    )  # fmt: skip
    made = apply_op(
        "SampleDistortedBoundingBoxV2", image_size, bounding_boxes, min_object_covered,
        name=name or "sample_distorted_bounding_box", **attrs,
    )  # fmt: skip
    return SampleDistortedBoundingBoxV2(*made)


@export_v2("image.stateless_sample_distorted_bounding_box")
def stateless_sample_distorted_bounding_box(
    image_size: TensorLike,
    bounding_boxes: TensorLike,
    seed: TensorLike,
    min_object_covered: TensorLike = 0.1,
    aspect_ratio_range: list[float] | None = None,
    area_range: list[float] | None = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> StatelessSampleDistortedBoundingBox:
    """Return the window that follows from a seed of two whole numbers."""
    attrs = _given(
        aspect_ratio_range=aspect_ratio_range, area_range=area_range, max_attempts=max_attempts,
        use_image_if_no_bounding_boxes=use_image_if_no_bounding_boxes,
    )  # fmt: skip
    made = apply_op(
        "StatelessSampleDistortedBoundingBox", image_size, bounding_boxes, min_object_covered,
        seed, name=name or "stateless_sample_distorted_bounding_box", **attrs,
    )  # fmt: skip
    return StatelessSampleDistortedBoundingBox(*made)
