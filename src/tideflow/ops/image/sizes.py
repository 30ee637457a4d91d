"""tf.image.resize and its relatives: images in another size, by a method's name.

Source: tensorflow/python/ops/image_ops_impl.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.static_value import static_value
from tideflow.graph.types import TensorLike
from tideflow.ops.array import getitem
from tideflow.ops.export import export, export_v2
from tideflow.ops.image.arguments import as_image, checked, greatest, size_along
from tideflow.ops.image.geometry import HEIGHT, WIDTH, pad_to_bounding_box
from tideflow.ops.image.resizing import resized
from tideflow.ops.math import cast
from tideflow.wire import dtypes

# Makes of a batch of images and a size a batch of that size.
Resize = Callable[[Tensor, Tensor], Tensor]


@export_v2("image.ResizeMethod")
class ResizeMethod:
    """The names of methods in the TF2 shape."""

    BILINEAR = "bilinear"
    NEAREST_NEIGHBOR = "nearest"
    BICUBIC = "bicubic"
    AREA = "area"
    LANCZOS3 = "lanczos3"
    LANCZOS5 = "lanczos5"
    GAUSSIAN = "gaussian"
    MITCHELLCUBIC = "mitchellcubic"


@export("image.ResizeMethod")
class ResizeMethodV1:
    """The numbers of methods in the v1 shape."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


_OPS = {
    "bilinear": "ResizeBilinear",
    "nearest": "ResizeNearestNeighbor",
    "bicubic": "ResizeBicubic",
    "area": "ResizeArea",
}
_CURVES = ("lanczos3", "lanczos5", "gaussian", "mitchellcubic")
_WITHOUT_ALIASES = {"bilinear": "triangle", "bicubic": "keyscubic"}


def _method(method: str, antialias: bool) -> Resize:
    """Return what resizes by a method of the TF2 shape.  Raises: ValueError for another one."""
    curve = method if method in _CURVES else _WITHOUT_ALIASES.get(method) if antialias else None
    if curve is not None:

        def by_curve(images: Tensor, size: Tensor) -> Tensor:
            have = getitem(apply_op("Shape", images), slice(1, 3))
            scale = apply_op("RealDiv", *[apply_op("Cast", x, DstT="float") for x in (size, have)])
            none = np.zeros(2, np.float32)
            made: Tensor = apply_op(
                "ScaleAndTranslate",
                images,
                size,
                scale,
                none,
                kernel_type=curve,
                antialias=antialias,
            )
            return made

        return by_curve
    if method not in _OPS:
        raise ValueError(f"method {method!r} is none of {[*_OPS, *_CURVES]}")
    # Areas have no centers.
    centers: dict[str, Any] = {} if method == "area" else {"half_pixel_centers": True}
    return lambda images, size: apply_op(_OPS[method], images, size, **centers)


def _resized(
    images: TensorLike, size: TensorLike, resize_batch: Resize, keep_ratio: bool, skips: bool
) -> Tensor:
    """Return images of a size; `skips`: as they are where they have it."""
    given = convert_to_tensor(images, name="images")
    dims = given.dims
    if dims is None or len(dims) not in (3, 4):
        raise ValueError(f"'images' must have either 3 or 4 dimensions; found {given.shape}")
    try:
        wanted = convert_to_tensor(size, dtypes.int32, name="size")
    except (TypeError, ValueError):
        raise ValueError(f"'size' must be two int32, height and width; found {size!r}") from None
    if wanted.dims is not None and wanted.dims not in ((2,), (None,)):
        raise ValueError(f"'size' must be two numbers, height and width; found {wanted.shape}")
    batch = apply_op("ExpandDims", given, 0) if len(dims) == 3 else given
    if keep_ratio:
        wanted = _fitting(batch, wanted)
    known = static_value(*wanted.edge)
    height, width = (
        (None, None) if known is None else (None if n is None else int(n) for n in known)
    )
    if skips and None not in (height, width) and (height, width) == dims[-3:-1]:
        return given
    made = resize_batch(batch, wanted)
    made.set_shape((made.dims[0] if made.dims else None, height, width, dims[-1]))
    found: Tensor = apply_op("Squeeze", made, squeeze_dims=[0]) if len(dims) == 3 else made
    return found


def _fitting(batch: Tensor, size: Tensor) -> Tensor:
    """Return the greatest size within a size that has the same proportions as the images."""
    have = cast(getitem(apply_op("Shape", batch), slice(1, 3)), dtypes.float32)
    factors = apply_op("RealDiv", cast(size, dtypes.float32), have)
    scaled = apply_op("Mul", apply_op("Min", factors, [0]), have)
    found: Tensor = cast(apply_op("Round", scaled), dtypes.int32)
    return found


@export_v2("image.resize")
def resize(
    images: TensorLike,
    size: TensorLike,
    method: str = "bilinear",
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return images in another size: [batch, height, width, channels], or one without batch.

    Args:
      method: a name in ResizeMethod; results are float32, but for "nearest" of the images' type.
      preserve_aspect_ratio: make images as large as fits into the size.
      antialias: count all that a smaller pixel covers; "nearest" and "area" take no note of it.
    Raises: ValueError for another method, or for images of another rank.
    """
    with get_default_graph().name_scope(name or "resize"):
        resize_batch = _method(method, antialias)
        return _resized(images, size, resize_batch, preserve_aspect_ratio, skips=False)


@export("image.resize", "image.resize_images")
def resize_v1(
    images: TensorLike,
    size: TensorLike,
    method: Any = ResizeMethodV1.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return images in another size; as they are where they have it.

    Args:
      method: a number in ResizeMethod, or a name: bilinear, nearest, bicubic or area.
      align_corners: let the corners' pixels keep their places.
    Raises: ValueError for another method, or for images of another rank.
    """
    names = list(_OPS)
    chosen = names[method] if method in range(len(names)) else method
    if chosen not in _OPS:
        raise ValueError(f"method {method!r} is none of {names}")
    with get_default_graph().name_scope(name or "resize"):
        return _resized(
            images,
            size,
            lambda batch, wanted: apply_op(
                _OPS[chosen], batch, wanted, align_corners=align_corners
            ),
            preserve_aspect_ratio,
            skips=True,
        )


def _padded(
    image: Any, height: Any, width: Any, resize_image: Callable[[Any, Any], Tensor]
) -> Tensor:
    """Return an image as large as fits into a size, with zeros around it to fill the size."""
    with get_default_graph().name_scope("resize_image_with_pad"):
        given = checked(
            as_image(image),
            [(width > 0, "target_width must be > 0"), (height > 0, "target_height must be > 0")],
        )
        target = [cast(size, dtypes.float32) for size in (height, width)]
        have = [cast(size_along(given, axis), dtypes.float32) for axis in (HEIGHT, WIDTH)]
        ratio = greatest(*(apply_op("RealDiv", a, b) for a, b in zip(have, target)))
        fitting = [apply_op("RealDiv", size, ratio) for size in have]
        resized = resize_image(given, [_whole(size) for size in fitting])
        room = [_whole((a - b) / 2.0) for a, b in zip(target, fitting)]
        top, left = (greatest(0, each) for each in room)
        return pad_to_bounding_box(resized, top, left, height, width)


def _whole(size: Tensor) -> Any:
    return cast(apply_op("Floor", size), dtypes.int32)


@export_v2("image.resize_with_pad")
def resize_with_pad(
    image: TensorLike,
    target_height: TensorLike,
    target_width: TensorLike,
    method: str = "bilinear",
    antialias: bool = False,
) -> Tensor:
    """Return an image as large as fits into a size, with zeros around it to fill the size.

    Raises: ValueError for a size that is not positive, another method, or another rank.
    """
    return _padded(
        image,
        target_height,
        target_width,
        lambda x, size: resize(x, size, method, antialias=antialias),
    )


@export("image.resize_image_with_pad")
def resize_with_pad_v1(
    image: TensorLike,
    target_height: TensorLike,
    target_width: TensorLike,
    method: object = ResizeMethodV1.BILINEAR,
    align_corners: bool = False,
) -> Tensor:
    """Return an image as large as fits into a size, with zeros around it to fill the size.

    Raises: ValueError for a size that is not positive, another method, or another rank.
    """
    return _padded(
        image,
        target_height,
        target_width,
        lambda x, size: resize_v1(x, size, method, align_corners),
    )


@export("image.resize_bicubic")
def resize_bicubic(
    images: TensorLike,
    size: TensorLike,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Return images [batch, height, width, channels] in another size, as float32, by cubic curves.

    Raises: InvalidArgumentError for a size that is not positive.
    """
    return resized("ResizeBicubic", images, size, align_corners, half_pixel_centers, name)


@export("image.resize_area")
def resize_area(
    images: TensorLike, size: TensorLike, align_corners: bool = False, name: str | None = None
) -> Tensor:
    """Return images [batch, height, width, channels] in another size, as float32, of means.

    Raises: InvalidArgumentError for a size that is not positive.
    """
    made: Tensor = apply_op(
        "ResizeArea",
        images,
        size if isinstance(size, (list, tuple)) else convert_to_tensor(size, "int32"),
        align_corners=align_corners,
        name=name,
    )
    return made
