"""Inflates what zlib has packed, within bounds: a few KiB may hold GiBs.

In pieces: zlib's own blocks, joined at the end, would hold twice what is allowed.
"""

from __future__ import annotations

import zlib

from tideflow.wire.fields import Buffer
from tideflow.wire.room import LEAST_BYTES, require_room

# How much is expanded at once, and how much that may give at once.
_PIECE_BYTES = 64 * 1024
_EXPANDED_PIECE_BYTES = 1 << 20

MOST_BYTES = 1 << 62


def inflate(inflater: zlib._Decompress, packed: Buffer, most: int = MOST_BYTES) -> bytearray:
    """Return what packed bytes hold, cut off one byte after `most`, which tells that it is more.

    inflater: a new one of zlib.decompressobj; its eof tells whether the bytes were whole.
    Raises: zlib.error; ResourceExhaustedError where the process has no room for it.
    """
    found = bytearray()
    view = memoryview(packed)
    for start in range(0, len(view), _PIECE_BYTES):
        piece: Buffer = view[start : start + _PIECE_BYTES]
        while True:
            room = min(_EXPANDED_PIECE_BYTES, most + 1 - len(found))
            expanded = inflater.decompress(piece, room)
            found += expanded
            if len(found) % LEAST_BYTES < len(expanded):
                require_room(LEAST_BYTES, "what is packed, or more of it,")
            if inflater.eof or len(found) > most:
                return found
            piece = inflater.unconsumed_tail
            if not piece and len(expanded) < room:
                break
    return found
