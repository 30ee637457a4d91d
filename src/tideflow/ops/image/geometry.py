"""Images turned, mirrored, cut and padded: tf.image.flip_left_right, rot90, central_crop.

All take one image [height, width, channels], or a batch of them, of any element type.

Source: tensorflow/python/ops/image_ops_impl.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.static_value import static_value
from tideflow.graph.types import TensorLike
from tideflow.ops.array import getitem
from tideflow.ops.control_flow import switch_case
from tideflow.ops.export import export
from tideflow.ops.image.arguments import as_image, checked, greatest, least, size_along, static_size
from tideflow.wire import dtypes

HEIGHT, WIDTH = -3, -2


# ---- turned and mirrored


def mirrored(image: Tensor, axis: int) -> Tensor:
    """Return an image mirrored along an axis, counted from the last."""
    made: Tensor = apply_op("ReverseV2", image, [axis])
    made.set_shape(image.dims)
    return made


@export("image.flip_left_right")
def flip_left_right(image: TensorLike) -> Tensor:
    """Return an image with left and right exchanged.  Raises: ValueError for another rank.

    Args:
      image: [height, width, channels], or such with a batch in front; of any type.
    """
    with get_default_graph().name_scope("flip_left_right"):
        return mirrored(as_image(image), WIDTH)


@export("image.flip_up_down")
def flip_up_down(image: TensorLike) -> Tensor:
    """Return an image with top and bottom exchanged.  Raises: ValueError for another rank."""
    with get_default_graph().name_scope("flip_up_down"):
        return mirrored(as_image(image), HEIGHT)


def _transposed(image: Tensor) -> Tensor:
    dims = image.dims
    if dims is not None:
        made: Tensor = apply_op("Transpose", image, [1, 0, 2] if len(dims) == 3 else [0, 2, 1, 3])
        return made
    rank = apply_op("Rank", image)
    before = apply_op("Range", 0, apply_op("Sub", rank, 3), 1)
    order = apply_op("ConcatV2", [before, apply_op("Add", [-2, -3, -1], rank)], 0)
    turned: Tensor = apply_op("Transpose", image, order)
    return turned


@export("image.transpose", "image.transpose_image")
def transpose(image: TensorLike, name: str | None = None) -> Tensor:
    """Return an image with rows and columns exchanged.  Raises: ValueError for another rank."""
    with get_default_graph().name_scope(name or "transpose"):
        return _transposed(as_image(image))


@export("image.rot90")
def rot90(image: TensorLike, k: TensorLike = 1, name: str | None = None) -> Tensor:
    """Return an image turned by k times 90 degrees against the clock; k may be a scalar tensor.

    Raises: ValueError for another rank.
    """
    with get_default_graph().name_scope(name or "rot90"):
        given = as_image(image)
        turns = apply_op("FloorMod", convert_to_tensor(k, dtypes.int32), 4)
        ways: list[Callable[[], Any]] = [
            lambda: apply_op("Identity", given),
            lambda: _transposed(mirrored(given, WIDTH)),
            lambda: apply_op("ReverseV2", given, [HEIGHT, WIDTH]),
            lambda: mirrored(_transposed(given), WIDTH),
        ]
        known = static_value(*turns.edge)
        if known is not None:
            made: Tensor = ways[int(known)]()
            return made
        made = switch_case(turns, ways)
        if given.dims is not None:
            made.set_shape((*given.dims[:HEIGHT], None, None, given.dims[-1]))
        return made


# ---- cut and padded


@export("image.crop_to_bounding_box")
def crop_to_bounding_box(
    image: TensorLike, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """Return the part of an image that begins at an offset and has the target's size.

    Args:
      image: [height, width, channels], or such with a batch in front; of any type.
      offset_height, offset_width: of the part, in pixels.
      target_height, target_width: its size.
    Raises: ValueError for a part that is not within the image, or of no pixels; where offsets or
    sizes are tensors, InvalidArgumentError when run.
    """
    with get_default_graph().name_scope("crop_to_bounding_box"):
        given = as_image(image)
        height, width = size_along(given, HEIGHT), size_along(given, WIDTH)
        end_height, end_width = offset_height + target_height, offset_width + target_width
        given = checked(
            given,
            [
                (offset_width >= 0, "offset_width must be >= 0"),
                (offset_height >= 0, "offset_height must be >= 0"),
                (target_width > 0, "target_width must be > 0"),
                (target_height > 0, "target_height must be > 0"),
                (width >= end_width, "width must be >= target + offset"),
                (height >= end_height, "height must be >= target + offset"),
            ],
        )
        part = getitem(
            given,
            (..., slice(offset_height, end_height), slice(offset_width, end_width), slice(None)),
        )
        return _of_size(part, given, target_height, target_width)


def _of_size(made: Tensor, image: Tensor, height: object, width: object) -> Tensor:
    """Tell the shape of what was made of an image, as far as sizes are numbers."""
    if image.dims is not None:
        sizes = (static_size(height), static_size(width))
        made.set_shape((*image.dims[:HEIGHT], *sizes, image.dims[-1]))
    return made


@export("image.pad_to_bounding_box")
def pad_to_bounding_box(
    image: TensorLike, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """Return an image of the target's size: zeros, and the image in it at an offset.

    Raises: ValueError where the image does not fit in at the offset; where offsets or sizes are
    tensors, InvalidArgumentError when run.
    """
    with get_default_graph().name_scope("pad_to_bounding_box"):
        given = as_image(image)
        after_height = target_height - offset_height - size_along(given, HEIGHT)
        after_width = target_width - offset_width - size_along(given, WIDTH)
        given = checked(
            given,
            [
                (offset_height >= 0, "offset_height must be >= 0"),
                (offset_width >= 0, "offset_width must be >= 0"),
                (after_width >= 0, "width must be <= target - offset"),
                (after_height >= 0, "height must be <= target - offset"),
            ],
        )
        rank = 3 if given.dims is None else len(given.dims)
        paddings = [[offset_height, after_height], [offset_width, after_width], [0, 0]]
        padded = apply_op("Pad", given, convert_to_tensor([[0, 0]] * (rank - 3) + paddings))
        return _of_size(padded, given, target_height, target_width)


@export("image.resize_with_crop_or_pad", "image.resize_image_with_crop_or_pad")
def resize_with_crop_or_pad(image: Any, target_height: Any, target_width: Any) -> Tensor:
    """Return an image of another size around the same middle: cut where it is larger, else padded.

    Args:
      image: [height, width, channels], or such with a batch in front; of any type.
      target_height, target_width: whole numbers.
    Raises: ValueError for a size that is not positive; InvalidArgumentError where it is a tensor.
    """
    with get_default_graph().name_scope("resize_image_with_crop_or_pad"):
        given = checked(
            as_image(image),
            [
                (target_width > 0, "target_width must be > 0"),
                (target_height > 0, "target_height must be > 0"),
            ],
        )
        height, width = size_along(given, HEIGHT), size_along(given, WIDTH)
        more_height, more_width = target_height - height, target_width - width
        cropped = crop_to_bounding_box(
            given,
            greatest(-more_height // 2, 0),
            greatest(-more_width // 2, 0),
            least(target_height, height),
            least(target_width, width),
        )
        return pad_to_bounding_box(
            cropped,
            greatest(more_height // 2, 0),
            greatest(more_width // 2, 0),
            target_height,
            target_width,
        )


@export("image.central_crop")
def central_crop(image: Any, central_fraction: Any) -> Tensor:
    """Return the middle of an image: that fraction, in (0, 1], of its height and of its width.

    Args:
      image: [height, width, channels], or such with a batch in front; of any type.
    Raises: ValueError for another fraction or rank; InvalidArgumentError where it is a tensor.
    """
    with get_default_graph().name_scope("central_crop"):
        given = convert_to_tensor(image, name="image")
        fraction = central_fraction
        if isinstance(fraction, Tensor):
            known = static_value(*fraction.edge)
            fraction = fraction if known is None else float(known)
        if not isinstance(fraction, Tensor):
            if not 0 < fraction <= 1:
                raise ValueError(f"central_fraction must be within (0, 1]; found {fraction}")
            if fraction == 1:
                return given
        given = as_image(given)
        if given.dims is None:
            raise ValueError("central_crop must know whether it is given one image or a batch")
        begin_height = _margin(size_along(given, HEIGHT), fraction)
        begin_width = _margin(size_along(given, WIDTH), fraction)
        return crop_to_bounding_box(
            given,
            begin_height,
            begin_width,
            size_along(given, HEIGHT) - begin_height * 2,
            size_along(given, WIDTH) - begin_width * 2,
        )


def _margin(size: Any, fraction: Any) -> Any:
    """Return how much is cut off on each side for a fraction to be left."""
    if not isinstance(size, Tensor) and not isinstance(fraction, Tensor):
        return int((size - size * float(fraction)) / 2)
    whole = apply_op("Cast", convert_to_tensor(size), DstT=dtypes.float64)
    part = apply_op("Cast", convert_to_tensor(fraction), DstT=dtypes.float64)
    return apply_op("Cast", (whole - whole * part) / 2.0, DstT=dtypes.int32)
