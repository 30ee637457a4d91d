"""Pictures as PNG files.

Source: RFC 2083; tensorflow/core/lib/png/png_io.cc (which colour types).
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

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
