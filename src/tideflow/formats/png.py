"""Pictures as PNG files, written and read.

Source: RFC 2083; tensorflow/core/lib/png/png_io.cc (which colour types).
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

from tideflow.formats.inflating import inflate
from tideflow.wire.room import require_room

CompressionError = zlib.error

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# By the number of channels: grey, grey and alpha, colours, colours and alpha.
_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}


def encode_png(pixels: Any, compression: int = -1) -> bytes:
    """Return pixels [height, width, 1 to 4 channels], uint8 or uint16, as a file.

    Raises: ValueError for other pixels.
    """
    array = np.asarray(pixels)
    if array.ndim != 3 or array.shape[2] not in _COLOR_TYPES or 0 in array.shape:
        raise ValueError(f"a picture has shape [height, width, 1 to 4]; found {list(array.shape)}")
    if array.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"pixels are uint8 or uint16; found {array.dtype}")
    height, width, channels = array.shape
    rows = array.astype(array.dtype.newbyteorder(">")).reshape(height, -1).view(np.uint8)
    # Each row begins with the number of its filter: none.
    lines = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()
    bits = 8 * array.dtype.itemsize
    head = struct.pack(">IIBBBBB", width, height, bits, _COLOR_TYPES[channels], 0, 0, 0)
    return b"".join(
        [
            _SIGNATURE,
            _chunk(b"IHDR", head),
            _chunk(b"IDAT", zlib.compress(lines, compression)),
            _chunk(b"IEND", b""),
        ]
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# ---- reading

# Samples of a pixel by color type; a palette's are its one index.
_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_HEADER_BYTES = 13
# Adam7: first row and column, and steps, of each pass.
_PASSES = [
    (0, 0, 8, 8),
    (0, 4, 8, 8),
    (4, 0, 8, 4),
    (0, 2, 4, 4),
    (2, 0, 4, 2),
    (0, 1, 2, 2),
    (1, 0, 2, 1),
]


def decode_png(data: bytes, channels: int = 0, dtype: Any = np.uint8) -> Any:
    """Return the pixels of a file: [height, width, channels] of uint8 or uint16.

    Args:
      channels: 1 gray, 2 gray and alpha, 3 RGB, 4 RGBA; 0 as the file has them.
    Raises: ValueError for what is no such file.
    """
    chunks = _chunks(data)
    if len(chunks[b"IHDR"]) != _HEADER_BYTES:
        raise ValueError("the header of the PNG file is damaged")
    width, height, bits, color, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    if color not in _SAMPLES or not (width and height):
        raise ValueError("the header of the PNG file makes no sense")
    passes = _PASSES if interlaced else [(0, 0, 1, 1)]
    wanted = sum(_pass_bytes(width, height, _SAMPLES[color] * bits, one) for one in passes)
    # The pixels themselves take up to two bytes for each bit.
    require_room(width * height * _SAMPLES[color] * 2, f"a picture of {width} x {height} pixels")
    raw = bytes(inflate(zlib.decompressobj(), chunks[b"IDAT"], wanted))
    if len(raw) < wanted:
        raise ValueError("the PNG file has fewer pixels than it says")
    pixels = np.zeros((height, width, _SAMPLES[color]), np.uint16)
    for top, left, down, across in passes:
        part = pixels[top::down, left::across]
        if part.size:
            raw, part[...] = _unpacked(raw, part.shape, bits)
    return _converted(*_as_colors(pixels, bits, color, chunks), channels, dtype)


def _pass_bytes(width: int, height: int, pixel_bits: int, one: tuple[int, int, int, int]) -> int:
    """Return how long a pass over a picture is, unpacked."""
    top, left, down, across = one
    rows, columns = len(range(top, height, down)), len(range(left, width, across))
    return rows * (1 + (columns * pixel_bits + 7) // 8) if columns else 0


def _chunks(data: bytes) -> dict[bytes, bytes]:
    """Return what the chunks of a file hold; those of one kind in a row."""
    if not data.startswith(_SIGNATURE):
        raise ValueError("the data does not begin as a PNG file does")
    found: dict[bytes, bytes] = {}
    at = len(_SIGNATURE)
    while at + 12 <= len(data):
        (size,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        if data[at + 8 + size : at + 12 + size] != struct.pack(">I", zlib.crc32(kind + body)):
            raise ValueError("a chunk of the PNG file is damaged or cut off")
        found[kind] = found.get(kind, b"") + body
        at += 12 + size
    if b"IHDR" not in found or b"IDAT" not in found:
        raise ValueError("the PNG file lacks its header or its pixels")
    return found


def _unpacked(raw: bytes, shape: tuple[int, ...], bits: int) -> tuple[bytes, Any]:
    """Return what follows after an image of a shape, and its samples, filters undone."""
    height, width, samples = shape
    size, step = (width * samples * bits + 7) // 8, max(1, samples * bits // 8)
    if len(raw) < height * (size + 1):
        raise ValueError("the PNG file has fewer pixels than it says")
    lines = np.frombuffer(raw, np.uint8, height * (size + 1)).reshape(height, size + 1)
    rows = np.zeros((height + 1, size), np.uint8)
    for at, line in enumerate(lines):
        rows[at + 1] = _unfiltered(int(line[0]), line[1:], rows[at], step)
    rows = rows[1:]
    if bits == 16:
        values: Any = rows.view(">u2").astype(np.uint16)
    elif bits == 8:
        values = rows.astype(np.uint16)
    else:
        each = np.unpackbits(rows, axis=1).reshape(height, -1, bits)
        values = each @ (1 << np.arange(bits)[::-1]).astype(np.uint16)
    return raw[height * (size + 1) :], values[:, : width * samples].reshape(shape)


def _unfiltered(kind: int, line: Any, above: Any, step: int) -> Any:
    """Return the bytes of a row, of which the file has the difference from a prediction."""
    if kind == 0:
        return line
    if kind == 1:
        padded = np.concatenate([line, np.zeros(-len(line) % step, np.uint8)])
        return np.add.accumulate(padded.reshape(-1, step), axis=0, dtype=np.uint8).ravel()[
            : len(line)
        ]
    if kind == 2:
        return line + above
    if kind not in (3, 4):
        raise ValueError(f"the PNG file has a filter {kind}, which is none")
    predict = _mean if kind == 3 else _paeth
    made, up = [0] * step + line.tolist(), [0] * step + above.tolist()
    for at in range(step, len(made)):
        made[at] = (made[at] + predict(made[at - step], up[at], up[at - step])) & 255
    return np.array(made[step:], np.uint8)


def _mean(left: int, up: int, corner: int) -> int:
    return (left + up) // 2


def _paeth(left: int, up: int, corner: int) -> int:
    """Return which of the three is nearest to left + up - corner."""
    to_left, to_up = abs(up - corner), abs(left - corner)
    to_corner = abs(left + up - 2 * corner)
    if to_left <= to_up and to_left <= to_corner:
        return left
    return up if to_up <= to_corner else corner


def _as_colors(
    pixels: Any, bits: int, color: int, chunks: dict[bytes, bytes]
) -> tuple[Any, Any, int, bool]:
    """Return colors [h, w, 1 or 3], alpha [h, w, 1], the bits of both; whether alpha is given."""
    top, transparent = (1 << bits) - 1, chunks.get(b"tRNS")
    if color in (4, 6):
        return pixels[..., :-1], pixels[..., -1:], bits, True
    # TensorFlow's value of what is opaque, also for files of less than 8 bits.
    opaque = np.full((*pixels.shape[:2], 1), top, np.uint16)
    if color == 3:
        palette = np.frombuffer(chunks.get(b"PLTE", b""), np.uint8).reshape(-1, 3)
        if pixels.max() >= len(palette):
            raise ValueError("the PNG file has colors that are not in its palette")
        colors = palette[pixels[..., 0]]
        if transparent is None:
            return colors, opaque, 8, False
        alphas = np.full(256, 255, np.uint16)
        alphas[: len(transparent)] = np.frombuffer(transparent, np.uint8)
        return colors, alphas[pixels], 8, True
    depth = max(bits, 8)
    colors = pixels * (255 // top) if bits < 8 else pixels
    if transparent is None:
        return colors, opaque, depth, False
    is_key = (pixels == np.frombuffer(transparent, ">u2")).all(axis=-1, keepdims=True)
    # A color key does not count as a channel where no number of them is asked for.
    return colors, np.where(is_key, 0, (1 << depth) - 1), depth, False


def _converted(
    colors: Any, alpha: Any, bits: int, has_alpha: bool, channels: int, dtype: Any
) -> Any:
    """Return pixels with as many channels as wanted, of the type wanted."""
    wanted = channels or colors.shape[2] + has_alpha
    if wanted < 3 and colors.shape[2] == 3:
        colors = _gray(colors, bits)
    elif wanted >= 3 and colors.shape[2] == 1:
        colors = np.repeat(colors, 3, axis=2)
    pixels = np.concatenate([colors, alpha], axis=2) if wanted % 2 == 0 else colors
    return _of_depth(pixels, bits, dtype)


def _of_depth(values: Any, bits: int, dtype: Any) -> Any:
    wide = values.astype(np.uint16)
    if bits == 16 and dtype == np.uint8:
        wide = wide >> 8
    elif bits == 8 and dtype == np.uint16:
        wide = wide * 257
    return wide.astype(dtype)


# Of red, green and blue, in parts of 32768.
_GRAY = np.array([9797, 19234, 3737], np.int64)


def _gray(colors: Any, bits: int) -> Any:
    """Return shades of gray, rounded as libpng does: of 8 bits down, of 16 to the nearest."""
    gray = (colors.astype(np.int64) @ _GRAY + (0 if bits == 8 else 1 << 14)) >> 15
    is_gray = (colors == colors[..., :1]).all(axis=-1)
    return np.where(is_gray, colors[..., 0], gray)[..., None]
