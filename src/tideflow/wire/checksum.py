"""CRC-32C as files of TensorFlow hold it: masked, since they checksum bytes that hold checksums.

Source: tensorflow/core/lib/hash/crc32c.h (mask); RFC 3720 (the polynomial).
"""

from __future__ import annotations

import google_crc32c

from tideflow.wire.fields import Buffer

_MASK_DELTA = 0xA282EAD8
# The library takes bytes only; larger buffers are copied a piece at a time.
_PIECE_BYTES = 1 << 20


def extend(checksum: int, data: Buffer) -> int:
    """Return the checksum of what had `checksum`, followed by data; that of nothing is 0."""
    if isinstance(data, bytes):
        return int(google_crc32c.extend(checksum, data))
    view = memoryview(data)
    for begin in range(0, len(view), _PIECE_BYTES):
        piece = bytes(view[begin : begin + _PIECE_BYTES])
        checksum = int(google_crc32c.extend(checksum, piece))
    return checksum


def mask(checksum: int) -> int:
    """Return the form in which a checksum is stored."""
    return (((checksum >> 15) | (checksum << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def masked(data: Buffer) -> int:
    """Return the masked checksum of data."""
    return mask(extend(0, data))
