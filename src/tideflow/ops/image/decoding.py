"""Pictures in files: JPEG, JPEG XL, BMP, GIF, WebP, and whatever a file turns out to be.

An op takes files of other formats than its name says, as in TensorFlow, where one kernel serves
them all.

Source: tensorflow/core/kernels/image/decode_image_op.cc, encode_jpeg_op.cc; runtime behaviour of
TensorFlow 2.21.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.formats import pictures, png
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, scalar, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.ops.framework import check_scalar
from tideflow.ops.strings import encoded, scalar_string
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType


def _invalid(what: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(what)


def _call(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a function of the formats; its errors become those of kernels."""
    try:
        return function(*args, **options)
    except (pictures.PictureError, png.CompressionError, ValueError) as error:
        raise _invalid(str(error)) from None
    except pictures.NoLibraryError as error:
        raise errors.UnimplementedError(str(error)) from None


def _format_for(op_name: str, data: bytes) -> str:
    """Return the format of a file.  Raises: InvalidArgumentError for one that the op refuses."""
    found = pictures.format_of(data)
    if found is None:
        raise _invalid(
            "Unknown image file format. One of JPEG, JPEG XL, PNG, GIF, BMP, WebP required; the "
            f"file begins with {data[:8]!r}"
        )
    refused = {"DecodeWebP": ("GIF", "BMP"), "DecodeBmp": ("JPEG", "PNG", "GIF")}
    if found in refused.get(op_name, () if op_name == "DecodeImage" else ("BMP",)):
        raise _invalid(f"Trying to decode {found} format using {op_name}; use decode_image")
    return found


_CHANNELS = {"JPEG": (0, 1, 3), "BMP": (0, 3, 4), "GIF": (0, 3), "WEBP": (0, 3, 4)}


def decoded(
    op_name: str, contents: Any, channels: int, dtype: DType, expands: bool, **options: Any
) -> Any:
    """Return the pixels of a file: [height, width, channels], or [n, ...] of pictures that move."""
    if channels not in (0, 1, 3, 4):
        raise _invalid(f"`channels` must be 0, 1, 3 or 4 but got {channels}")
    data = scalar_string(contents, "contents")
    if not data:
        raise _invalid("Input is empty.")
    found = _format_for(op_name, data)
    if channels not in _CHANNELS.get(found, (channels,)):
        raise _invalid(f"a {found} file is read as {_CHANNELS[found]} channels; found {channels}")
    if found == "PNG":
        wide = np.dtype(np.uint8 if dtype is dtypes.uint8 else np.uint16)
        pixels = _call(png.decode_png, data, channels, wide)
    elif found == "JPEG":
        pixels = _call(pictures.decode_jpeg, data, channels, **options)
    elif found == "BMP":
        pixels = _call(pictures.decode_bmp, data, channels)
    elif found == "GIF":
        pixels = _frames(op_name, _call(pictures.decode_gif, data), expands)
    else:
        if found == "JXL" and dtype is not dtypes.uint8:
            raise _invalid("JXL only supports uint8 for dtype")
        read = pictures.decode_jxl if found == "JXL" else pictures.decode_webp
        pixels = _call(read, data)
        if channels not in (0, pixels.shape[-1]):
            raise _invalid("Number of channels requested does not match input")
    if op_name == "DecodeGif" and pixels.ndim == 3 and found != "JXL":
        pixels = pixels[None]
    return _of_type(pixels, dtype)


def _frames(op_name: str, frames: Any, expands: bool) -> Any:
    if op_name == "DecodeGif" or expands:
        return frames
    if op_name != "DecodeImage" and len(frames) > 1:
        raise _invalid(
            f"Got {len(frames)} frames, but animated gifs can only be decoded by decode_gif or "
            "decode_image"
        )
    return frames[0]


def _of_type(pixels: Any, dtype: DType) -> Any:
    """Return pixels of 8 or 16 bits as a type; floats are in [0, 1]."""
    if dtype is dtypes.float32:
        return (pixels * np.float32(1 / np.iinfo(pixels.dtype).max)).astype(np.float32)
    if dtype is dtypes.uint16 and pixels.dtype == np.uint8:
        return pixels.astype(np.uint16) * np.uint16(256)
    return pixels


# ---- shapes


def _picture_shape(c: ShapeContext) -> list[Dims]:
    with_rank(c.inputs[0], 0, "contents")
    return [(None, None, c.attrs["channels"] or None)]


def _gif_shape(c: ShapeContext) -> list[Dims]:
    with_rank(c.inputs[0], 0, "contents")
    return [(None, None, None, 3)]


def _any_shape(c: ShapeContext) -> list[Dims]:
    with_rank(c.inputs[0], 0, "contents")
    return [None]


# ---- JPEG


_JPEG = """
    channels: int = 0
    ratio: int = 1
    fancy_upscaling: bool = true
    try_recover_truncated: bool = false
    acceptable_fraction: float = 1.0
    dct_method: string = ''
"""


def _jpeg_options(ratio: int, recovers: bool, fraction: float, method: str) -> dict[str, Any]:
    if ratio not in (1, 2, 4, 8):
        raise _invalid(f"ratio must be 1, 2, 4, or 8, got {ratio}")
    if method not in ("", "INTEGER_FAST", "INTEGER_ACCURATE"):
        raise _invalid(f"dct_method must be INTEGER_FAST, INTEGER_ACCURATE or empty, got {method}")
    return {"ratio": ratio, "recover": recovers or fraction < 1}


@op("DecodeJpeg(contents: string) -> image: uint8" + _JPEG, shape=_picture_shape)
def decode_jpeg_kernel(
    ctx: KernelContext,
    contents: Array | bytes,
    *,
    channels: int,
    ratio: int,
    try_recover_truncated: bool,
    acceptable_fraction: float,
    dct_method: str,
) -> Any:
    """Return the pixels [height, width, channels] of a file."""
    how = _jpeg_options(ratio, try_recover_truncated, acceptable_fraction, dct_method)
    return decoded("DecodeJpeg", contents, channels, dtypes.uint8, False, **how)


@op(
    "DecodeAndCropJpeg(contents: string, crop_window: int32) -> image: uint8" + _JPEG,
    shape=_picture_shape,
)
def decode_and_crop_jpeg_kernel(
    ctx: KernelContext,
    contents: Array | bytes,
    crop_window: Array,
    *,
    channels: int,
    ratio: int,
    try_recover_truncated: bool,
    acceptable_fraction: float,
    dct_method: str,
) -> Any:
    """Return the pixels in a window [top, left, height, width] of a file."""
    how = _jpeg_options(ratio, try_recover_truncated, acceptable_fraction, dct_method)
    if np.shape(crop_window) != (4,):
        raise _invalid(f"crop_window must be four numbers; its shape is {np.shape(crop_window)}")
    pixels = decoded("DecodeJpeg", contents, channels, dtypes.uint8, False, **how)
    top, left, height, width = crop_window.tolist()
    fits = top >= 0 and left >= 0 and height > 0 and width > 0
    if not fits or top + height > pixels.shape[0] or left + width > pixels.shape[1]:
        raise _invalid(f"the crop window {crop_window.tolist()} is not within {pixels.shape}")
    return pixels[top : top + height, left : left + width]


def _three(c: ShapeContext) -> list[Dims]:
    with_rank(c.inputs[0], 0, "contents")
    return [(3,)]


@op(
    """
    ExtractJpegShape(contents: string) -> image_shape: output_type
    output_type: type in {int32, int64} = int32
    """,
    shape=_three,
)
def extract_jpeg_shape_kernel(
    ctx: KernelContext, contents: Array | bytes, *, output_type: DType
) -> Any:
    """Return height, width and channels of a file."""
    data = scalar_string(contents, "contents")
    return np.array(_call(pictures.jpeg_shape, data), output_type.as_numpy_dtype)


def _encoded_shape(c: ShapeContext) -> list[Dims]:
    with_rank(c.inputs[0], 3, "image")
    return scalar(c)


def _encoded(image: Any, quality: int, wanted: str = "", **options: Any) -> Any:
    if np.ndim(image) != 3:
        raise _invalid(f"image must be 3-dimensional; its shape is {list(np.shape(image))}")
    allowed = {"": (1, 3), "grayscale": (1,), "rgb": (3,)}[wanted]
    if image.shape[2] not in allowed:
        raise _invalid(f"image must have {allowed} channels, got {list(image.shape)}")
    if not 0 <= quality <= 100:
        raise _invalid(f"quality must be in [0,100], got {quality}")
    if not image.size:
        raise errors.InternalError(f"an image {list(image.shape)} has no pixels to encode")
    return np.array(_call(pictures.encode_jpeg, image, quality=quality, **options), object)


@op(
    """
    EncodeJpeg(image: uint8) -> contents: string
    format: string in {"", "grayscale", "rgb"} = ''
    quality: int = 95
    progressive: bool = false
    optimize_size: bool = false
    chroma_downsampling: bool = true
    density_unit: string in {"in", "cm"} = 'in'
    x_density: int = 300
    y_density: int = 300
    xmp_metadata: string = ''
    """,
    shape=_encoded_shape,
)
def encode_jpeg_kernel(
    ctx: KernelContext,
    image: Array,
    *,
    format: str,
    quality: int,
    progressive: bool,
    optimize_size: bool,
    chroma_downsampling: bool,
    density_unit: str,
    x_density: int,
    y_density: int,
    xmp_metadata: str,
) -> Any:
    """Return a picture [height, width, 1 or 3] as a file."""
    return _encoded(
        image,
        quality,
        format,
        progressive=progressive,
        optimize_size=optimize_size,
        chroma_downsampling=chroma_downsampling,
        density_unit=density_unit,
        density=(x_density & 0xFFFF, y_density & 0xFFFF),
        xmp_metadata=encoded(xmp_metadata),
    )


@op(
    "EncodeJpegVariableQuality(images: uint8, quality: int32) -> contents: string",
    shape=_encoded_shape,
)
def encode_jpeg_variable_quality_kernel(ctx: KernelContext, images: Array, quality: Array) -> Any:
    """Return a picture [height, width, 1 or 3] as a file of the quality."""
    check_scalar(quality, "quality")
    return _encoded(images, int(np.asarray(quality).item()))


# ---- the others


@op(
    "DecodeBmp(contents: string) -> image: uint8\n    channels: int = 0",
    shape=_picture_shape,
)
def decode_bmp_kernel(ctx: KernelContext, contents: Array | bytes, *, channels: int) -> Any:
    """Return the pixels [height, width, channels] of a file."""
    return decoded("DecodeBmp", contents, channels, dtypes.uint8, False)


@op("DecodeGif(contents: string) -> image: uint8", shape=_gif_shape)
def decode_gif_kernel(ctx: KernelContext, contents: Array | bytes) -> Any:
    """Return the pictures [n, height, width, 3] of a file."""
    return decoded("DecodeGif", contents, 3, dtypes.uint8, True)


@op(
    """
    DecodeWebP(contents: string) -> image: dtype
    channels: int = 0
    dtype: type in {uint8} = uint8
    """,
    shape=_any_shape,
)
def decode_webp_kernel(ctx: KernelContext, contents: Array | bytes, *, channels: int) -> Any:
    """Return the pictures [n, height, width, channels] of a file."""
    return decoded("DecodeWebP", contents, channels, dtypes.uint8, True)


@op(
    """
    DecodeJxl(contents: string) -> image: dtype
    channels: int = 0
    dtype: type in {uint8} = uint8
    """,
    shape=_picture_shape,
)
def decode_jxl_kernel(ctx: KernelContext, contents: Array | bytes, *, channels: int) -> Any:
    """Return the pixels [height, width, channels] of a file."""
    return decoded("DecodeJxl", contents, channels, dtypes.uint8, False)


@op(
    """
    DecodeImage(contents: string) -> image: dtype
    channels: int = 0
    dtype: type in {uint8, uint16, float} = uint8
    expand_animations: bool = true
    """,
    shape=lambda c: (_any_shape if c.attrs["expand_animations"] else _picture_shape)(c),
)
def decode_image_kernel(
    ctx: KernelContext,
    contents: Array | bytes,
    *,
    channels: int,
    dtype: DType,
    expand_animations: bool,
) -> Any:
    """Return the pixels of a file of any format."""
    return decoded("DecodeImage", contents, channels, dtype, expand_animations)


not_differentiable(
    "DecodeJpeg",
    "DecodeAndCropJpeg",
    "ExtractJpegShape",
    "EncodeJpeg",
    "EncodeJpegVariableQuality",
    "DecodeBmp",
    "DecodeGif",
    "DecodeWebP",
    "DecodeJxl",
    "DecodeImage",
)
