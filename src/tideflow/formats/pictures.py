"""Pictures in files other than PNG: JPEG, BMP, GIF and WebP, read and written with Pillow, and
JPEG XL, read with imagecodecs.

Both are optional dependencies, tideflow[image] and tideflow[jxl].  JPEG files come out byte by byte
as those of TensorFlow, which uses the same library.  They are read by its slow, exact transform;
TensorFlow by default takes the fast one, whose pixels may differ by a few steps of brightness.
"""

from __future__ import annotations

import importlib
import io
import struct
from typing import Any

import numpy as np

from tideflow.wire.room import require_room

_XMP = b"http://ns.adobe.com/xap/1.0/\x00"
_DENSITY_UNITS = {"in": 1, "cm": 2}
# What files of each format begin with.
_MAGIC = {
    "JPEG": b"\xff\xd8\xff",
    "PNG": b"\x89PNG\r\n\x1a\n",
    "GIF": b"GIF8",
    "BMP": b"BM",
}
_JXL_MAGIC = (b"\xff\x0a", b"\0\0\0\x0cJXL \r\n\x87\n")
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


class PictureError(ValueError):
    """A file is not what it should be."""


class NoLibraryError(RuntimeError):
    """The library that reads files of a format is not installed."""


def _pillow() -> Any:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError:
        raise NoLibraryError(
            "JPEG, BMP, GIF and WebP files need Pillow: install tideflow[image]"
        ) from None


def format_of(data: bytes) -> str | None:
    """Return the format that a file begins like: JPEG, JXL, PNG, GIF, BMP or WEBP."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WEBP"
    if data.startswith(_JXL_MAGIC):
        return "JXL"
    return next((name for name, magic in _MAGIC.items() if data.startswith(magic)), None)


def _opened(data: bytes, kind: str) -> Any:
    library = _pillow()
    try:
        picture = library.open(io.BytesIO(data), formats=[kind])
    except (OSError, ValueError, SyntaxError, struct.error) as error:
        raise PictureError(f"this is no {kind} file: {error}") from None
    except library.DecompressionBombError as error:
        raise PictureError(f"the picture is too large: {error}") from None
    width, height = picture.size
    require_room(width * height * 4, f"a picture of {width} x {height} pixels")
    return picture


def _pixels(picture: Any, channels: int) -> np.ndarray[Any, Any]:
    """Return a picture as [height, width, channels]; 0 channels for its own."""
    if not channels:
        channels = {"L": 1, "1": 1, "LA": 1, "RGBA": 4}.get(picture.mode, 3)
    try:
        made = np.array(picture.convert(_MODES[channels]))
    except (OSError, ValueError, SyntaxError) as error:
        raise PictureError(f"the picture cannot be read: {error}") from None
    return made[..., None] if made.ndim == 2 else made


def decode_jpeg(
    data: bytes, channels: int = 0, ratio: int = 1, recover: bool = False
) -> np.ndarray[Any, Any]:
    """Return the pixels of a JPEG file as uint8 [height, width, channels].

    channels: 1 gray, 3 RGB, 0 as in the file.
    ratio: 1, 2, 4 or 8, by which the picture is made smaller.
    recover: whether a file that ends early is filled with gray.
    Raises: PictureError.
    """
    picture = _opened(data, "JPEG")
    size = tuple(-(-side // ratio) for side in picture.size)
    if ratio > 1 or channels == 1:
        mode = "L" if channels == 1 else picture.mode
        picture.draft(mode, tuple(max(1, side // ratio) for side in picture.size))
    files: Any = importlib.import_module("PIL.ImageFile")
    if recover:
        # Pillow knows this setting of the process alone; one reads at a time.
        before, files.LOAD_TRUNCATED_IMAGES = files.LOAD_TRUNCATED_IMAGES, True
    try:
        picture.load()
    except (OSError, ValueError, SyntaxError) as error:
        raise PictureError(f"the JPEG file cannot be read: {error}") from None
    finally:
        if recover:
            files.LOAD_TRUNCATED_IMAGES = before
    if picture.size != size:
        raise PictureError(f"the picture of size {picture.size} cannot be made {size}")
    return _pixels(picture, channels)


def jpeg_shape(data: bytes) -> tuple[int, int, int]:
    """Return height, width and channels of a JPEG file.  Raises: PictureError."""
    picture = _opened(data, "JPEG")
    width, height = picture.size
    return height, width, len(picture.getbands())


def encode_jpeg(
    pixels: np.ndarray[Any, Any],
    *,
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    density: tuple[int, int] = (300, 300),
    xmp_metadata: bytes = b"",
) -> bytes:
    """Return pixels, uint8 [height, width, 1 or 3], as a JPEG file."""
    image = _pillow()
    picture = image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    options = {"progressive": progressive, "optimize": optimize_size}
    subsampling = {"subsampling": 2 if chroma_downsampling else 0}
    file = io.BytesIO()
    picture.save(
        file,
        "JPEG",
        quality=quality,
        dpi=(300, 300),
        **{name: True for name, wanted in options.items() if wanted},
        **(subsampling if pixels.shape[-1] == 3 else {}),
    )
    data = file.getvalue()
    # The header: unit and densities from byte 13 on, and room for metadata behind it, at 20.
    header = struct.pack(">BHH", _DENSITY_UNITS[density_unit], *density)
    metadata = b""
    if xmp_metadata:
        text = _XMP + xmp_metadata
        metadata = b"\xff\xe1" + struct.pack(">H", len(text) + 2) + text
    return data[:13] + header + data[18:20] + metadata + data[20:]


def decode_bmp(data: bytes, channels: int = 0) -> np.ndarray[Any, Any]:
    """Return the pixels of a BMP file as uint8 [height, width, channels].

    One of 8 bits for each pixel is gray, whatever its palette says.
    Raises: PictureError.
    """
    picture = _opened(data, "BMP")
    if picture.mode == "1":
        raise PictureError("the BMP file has less than 8 bits for each pixel")
    if picture.mode == "P":
        picture = _pillow().fromarray(np.array(picture))
    if int.from_bytes(data[28:30], "little") == 32:
        picture = _with_alpha(data, picture)
    return _pixels(picture, channels)


def _with_alpha(data: bytes, picture: Any) -> Any:
    """Return a picture of 32 bits for each pixel with its alpha, which Pillow leaves out."""
    width, height = picture.size
    start = int.from_bytes(data[10:14], "little")
    if len(data) < start + width * height * 4:
        raise PictureError(f"the BMP file ends at byte {len(data)}, before its last pixel")
    rows = np.frombuffer(data, np.uint8, width * height * 4, start).reshape(height, width, 4)
    is_upward = int.from_bytes(data[22:26], "little", signed=True) > 0
    pixels = (rows[::-1] if is_upward else rows)[..., [2, 1, 0, 3]]
    return _pillow().fromarray(np.ascontiguousarray(pixels))


def _frames(data: bytes, kind: str, channels: int) -> np.ndarray[Any, Any]:
    picture = _opened(data, kind)
    made = []
    try:
        for number in range(getattr(picture, "n_frames", 1)):
            picture.seek(number)
            made.append(_pixels(picture, channels))
    except (OSError, EOFError, SyntaxError, ValueError) as error:
        raise PictureError(f"the {kind} file cannot be read: {error}") from None
    return np.stack(made)


def decode_gif(data: bytes) -> np.ndarray[Any, Any]:
    """Return the pictures of a GIF file as uint8 [n, height, width, 3].  Raises: PictureError."""
    return _frames(data, "GIF", 3)


def decode_webp(data: bytes, channels: int = 0) -> np.ndarray[Any, Any]:
    """Return the pictures of a WebP file as uint8 [n, height, width, channels].

    Raises: PictureError.
    """
    return _frames(data, "WEBP", channels)


def decode_jxl(data: bytes) -> np.ndarray[Any, Any]:
    """Return the first picture of a JPEG XL file as uint8 [height, width, channels].

    Raises: PictureError; NoLibraryError.
    """
    try:
        codecs: Any = importlib.import_module("imagecodecs")
    except ImportError:
        raise NoLibraryError("JPEG XL files need imagecodecs: install tideflow[jxl]") from None
    try:
        pixels: np.ndarray[Any, Any] = codecs.jpegxl_decode(data, index=0)
    except (codecs.JpegxlError, ValueError) as error:
        raise PictureError(f"Failed to decode JXL image: {error}") from None
    if pixels.dtype != np.uint8:
        most = np.iinfo(pixels.dtype).max if pixels.dtype.kind == "u" else 1
        pixels = (np.clip(pixels / most, 0, 1) * 255 + 0.5).astype(np.uint8)
    return pixels[..., None] if pixels.ndim == 2 else pixels
