"""Images as files: PNG.

Source: tensorflow/core/kernels/decode_image_op.cc, encode_png_op.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.formats import png
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.image.decoding import decoded
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType


def _decoded_shape(c: ShapeContext) -> list[Dims]:
    dims = c.inputs[0]
    if dims:
        raise ValueError(f"contents must be a scalar; its shape is {list(dims)}")
    return [(None, None, c.attrs["channels"] or None)]


@op(
    """
    DecodePng(contents: string) -> image: dtype
    channels: int = 0
    dtype: type in {uint8, uint16} = uint8
    """,
    shape=_decoded_shape,
)
def decode_png_kernel(
    ctx: KernelContext, contents: Array | bytes, *, channels: int, dtype: DType
) -> Any:
    """Return the pixels [height, width, channels] of a file."""
    return decoded("DecodePng", contents, channels, dtype, expands=False)


@op(
    """
    EncodePng(image: T) -> contents: string
    compression: int = -1
    T: type in {uint8, uint16} = uint8
    """,
    shape=lambda c: [None if c.inputs[0] is None else c.inputs[0][:-3]],
)
def encode_png_kernel(ctx: KernelContext, image: Array, *, compression: int) -> Any:
    """Return a file for each image [height, width, channels] of a batch."""
    if not -1 <= compression <= 9:
        raise errors.InvalidArgumentError(f"compression must be -1 to 9; found {compression}")
    if np.ndim(image) < 3:
        raise errors.InvalidArgumentError(
            f"image must be at least rank 3; its shape is {list(np.shape(image))}"
        )
    if not 1 <= image.shape[-1] <= 4:
        raise errors.InvalidArgumentError(
            f"image must have 1 to 4 channels; its shape is {list(image.shape)}"
        )
    made = np.empty(image.shape[:-3], object)
    if made.size and not image.size:
        # TensorFlow leaves this to its encoder, so the code is not that of a bad argument.
        raise errors.InternalError(f"images of shape {list(image.shape)} have no pixels to encode")
    for at in np.ndindex(made.shape):
        made[at] = png.encode_png(image[at], compression)
    return made


not_differentiable("DecodePng", "EncodePng")


@export("image.decode_png", "io.decode_png")
def decode_png(
    contents: TensorLike,
    channels: int = 0,
    dtype: DTypeLike = dtypes.uint8,
    name: str | None = None,
) -> Tensor:
    """Return the pixels [height, width, channels] of a PNG file, uint8 or uint16.

    channels: 1 gray, 3 RGB, 4 RGBA; 0 as the file has them.
    Raises: InvalidArgumentError for what is no PNG file.
    """
    made: Tensor = apply_op("DecodePng", contents, channels=channels, dtype=dtype, name=name)
    return made


@export("image.encode_png", "io.encode_png")
def encode_png(image: TensorLike, compression: int = -1, name: str | None = None) -> Tensor:
    """Return images [..., height, width, 1 to 4 channels], uint8 or uint16, as PNG files [...].

    compression: 0 none to 9 smallest; -1 for zlib's own choice.
    """
    made: Tensor = apply_op(
        "EncodePng", convert_to_tensor(image), compression=compression, name=name
    )
    return made


def _begins_with(contents: TensorLike, magic: bytes, name: str | None) -> Tensor:
    start = apply_op("Substr", contents, 0, len(magic))
    made: Tensor = apply_op("Equal", start, magic, name=name)
    return made


@export("io.is_jpeg", "image.is_jpeg")
def is_jpeg(contents: TensorLike, name: str | None = None) -> Tensor:
    """Whether the contents of files begin as those of JPEG files do."""
    return _begins_with(contents, b"\xff\xd8\xff", name)
