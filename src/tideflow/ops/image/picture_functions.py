"""Public functions of pictures in files: decode_image, decode_jpeg and its kin."""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import scoped
from tideflow.ops.image.adjustments import convert_image_dtype
from tideflow.wire import dtypes


@export("image.decode_jpeg", "io.decode_jpeg")
def decode_jpeg(
    contents: TensorLike,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """Return the pixels [height, width, channels] of a JPEG file, uint8.

    Args:
      channels: 1 gray, 3 RGB; 0 as the file has them.
      ratio: 1, 2, 4 or 8, by which the picture is made smaller.
      try_recover_truncated: whether a file that ends early is filled.
      fancy_upscaling, dct_method: taken and not heeded; files are read by the exact transform.
    Raises: InvalidArgumentError for what is no picture; UnimplementedError without Pillow.
    """
    made: Tensor = apply_op(
        "DecodeJpeg",
        contents,
        channels=channels,
        ratio=ratio,
        fancy_upscaling=fancy_upscaling,
        try_recover_truncated=try_recover_truncated,
        acceptable_fraction=acceptable_fraction,
        dct_method=dct_method,
        name=name,
    )
    return made


@export("image.decode_and_crop_jpeg", "io.decode_and_crop_jpeg")
def decode_and_crop_jpeg(
    contents: TensorLike,
    crop_window: TensorLike,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """Return the pixels in a window [top, left, height, width] of a JPEG file (see decode_jpeg)."""
    made: Tensor = apply_op(
        "DecodeAndCropJpeg",
        contents,
        crop_window,
        channels=channels,
        ratio=ratio,
        fancy_upscaling=fancy_upscaling,
        try_recover_truncated=try_recover_truncated,
        acceptable_fraction=acceptable_fraction,
        dct_method=dct_method,
        name=name,
    )
    return made


@export("image.extract_jpeg_shape", "io.extract_jpeg_shape")
def extract_jpeg_shape(
    contents: TensorLike, output_type: DTypeLike = dtypes.int32, name: str | None = None
) -> Tensor:
    """Return height, width and channels of a JPEG file without reading its pixels."""
    made: Tensor = apply_op("ExtractJpegShape", contents, output_type=output_type, name=name)
    return made


@export("image.encode_jpeg", "io.encode_jpeg")
def encode_jpeg(
    image: TensorLike,
    format: str = "",
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    x_density: int = 300,
    y_density: int = 300,
    xmp_metadata: str = "",
    name: str | None = None,
) -> Tensor:
    """Return a picture [height, width, 1 or 3], uint8, as a JPEG file.

    Args:
      format: "grayscale" or "rgb"; empty for what the channels say.
      quality: 0 to 100.
      density_unit: "in" or "cm", for x_density and y_density, in pixels for each.
      xmp_metadata: put into the file as it is.
    """
    made: Tensor = apply_op(
        "EncodeJpeg",
        image,
        format=format,
        quality=quality,
        progressive=progressive,
        optimize_size=optimize_size,
        chroma_downsampling=chroma_downsampling,
        density_unit=density_unit,
        x_density=x_density,
        y_density=y_density,
        xmp_metadata=xmp_metadata,
        name=name,
    )
    return made


@export("image.adjust_jpeg_quality")
def adjust_jpeg_quality(
    image: TensorLike, jpeg_quality: TensorLike, dct_method: str = "", name: str | None = None
) -> Tensor:
    """Return a picture [height, width, 1 or 3] as it is after being a JPEG file of the quality."""
    with get_default_graph().name_scope(name or "adjust_jpeg_quality"):
        given = convert_to_tensor(image)
        channels = given.dims[-1] if given.dims else None
        small = convert_image_dtype(given, dtypes.uint8, saturate=True)
        file = apply_op("EncodeJpegVariableQuality", small, jpeg_quality)
        back = decode_jpeg(file, channels=channels or 0, dct_method=dct_method)
        return convert_image_dtype(back, given.dtype, saturate=True)


@export("image.decode_bmp", "io.decode_bmp")
def decode_bmp(contents: TensorLike, channels: int = 0, name: str | None = None) -> Tensor:
    """Return the pixels [height, width, channels] of a BMP file, uint8."""
    made: Tensor = apply_op("DecodeBmp", contents, channels=channels, name=name)
    return made


@export("image.decode_gif", "io.decode_gif")
def decode_gif(contents: TensorLike, name: str | None = None) -> Tensor:
    """Return the pictures [n, height, width, 3] of a GIF file, uint8."""
    made: Tensor = apply_op("DecodeGif", contents, name=name)
    return made


@export("image.decode_webp", "io.decode_webp")
def decode_webp(
    contents: TensorLike,
    channels: int = 0,
    dtype: DTypeLike = dtypes.uint8,
    name: str | None = None,
) -> Tensor:
    """Return the pictures [n, height, width, channels] of a WebP file."""
    made: Tensor = apply_op("DecodeWebP", contents, channels=channels, dtype=dtype, name=name)
    return made


@export("image.decode_jxl", "io.decode_jxl")
def decode_jxl(
    contents: TensorLike,
    channels: int = 0,
    dtype: DTypeLike = dtypes.uint8,
    name: str | None = None,
) -> Tensor:
    """Return the pixels [height, width, channels] of a JPEG XL file, which needs tideflow[jxl]."""
    made: Tensor = apply_op("DecodeJxl", contents, channels=channels, dtype=dtype, name=name)
    return made


@export("image.decode_image", "io.decode_image")
@scoped("decode_image")
def decode_image(
    contents: TensorLike,
    channels: int | None = None,
    dtype: DTypeLike = dtypes.uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Any:
    """Return the pixels of a JPEG, JPEG XL, PNG, GIF, BMP or WebP file.

    Args:
      channels: 1 gray, 3 RGB, 4 RGBA; None as the file has them.
      dtype: uint8, uint16, or float32 in [0, 1].
      expand_animations: whether a GIF file gives all its pictures, with an axis for them, else the
        first.
    """
    return apply_op(
        "DecodeImage",
        contents,
        channels=channels or 0,
        dtype=dtype,
        expand_animations=expand_animations,
        name=name,
    )
