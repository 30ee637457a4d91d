"""Snappy: the compression that blocks of sorted tables and elements of datasets may have.

A block says how long it will be, then literals and copies of what was written before.

Source: the format description of google/snappy (format_description.txt).
"""

from __future__ import annotations

import struct

from tideflow.wire.errors import DataLossError
from tideflow.wire.fields import Buffer, varint

# What of a file is packed as one block; TensorFlow reads 256 KiB of it at once.
_BLOCK_BYTES = 1 << 17
_LENGTH = struct.Struct(">I")

# From this size on, a literal says its size in bytes after the tag.
_SHORT = 60


def compress(data: bytes) -> bytes:
    """Return a block that holds the bytes as they are, as one literal.

    Looking for repetitions byte by byte takes Python longer than a network takes to carry them.
    """
    size = len(data)
    header = varint(size)
    if size:
        last = size - 1
        width = (last.bit_length() + 7) // 8
        if last < _SHORT:
            header += bytes([last << 2])
        else:
            header += bytes([(_SHORT - 1 + width) << 2]) + last.to_bytes(width, "little")
    return header + data


def decompress(data: Buffer, name: str) -> bytes:
    """Return what was compressed.

    name: of the file, for messages.
    Raises: DataLossError for bytes that are no such block.
    """
    try:
        size, at = _varint(data)
        made = bytearray()
        while at < len(data):
            at = _element(data, at, made, name)
    except IndexError:
        raise _damaged(name) from None
    if len(made) != size:
        raise _damaged(name)
    return bytes(made)


class BlockPacker:
    """Packs a file as blocks, each after its length; used like an object of zlib.compressobj.

    Source: files that TensorFlow 2.21 writes.
    """

    def __init__(self) -> None:
        self._held = bytearray()

    def compress(self, data: bytes, /) -> bytes:
        """Return the blocks that are full with these bytes."""
        self._held += data
        made = []
        while len(self._held) >= _BLOCK_BYTES:
            made.append(self._block(_BLOCK_BYTES))
        return b"".join(made)

    def flush(self, mode: int = 0, /) -> bytes:
        """Return the block of what is left."""
        return self._block(len(self._held)) if self._held else b""

    def _block(self, size: int) -> bytes:
        block = compress(bytes(self._held[:size]))
        del self._held[:size]
        return _LENGTH.pack(len(block)) + block


class BlockUnpacker:
    """Unpacks a file of blocks; used like an object of zlib.decompressobj.

    Args:
      name: of the file, for messages.
    """

    unused_data = b""

    def __init__(self, name: str) -> None:
        self._name = name
        self._held = b""

    @property
    def eof(self) -> bool:
        """Whether nothing is left of a block that has begun."""
        return not self._held

    def decompress(self, data: bytes, /) -> bytes:
        """Return what the blocks hold that are complete with these bytes.

        Raises: DataLossError for what is no block.
        """
        held, at, made = self._held + data, 0, []
        while len(held) - at >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(held, at)
            end = at + _LENGTH.size + size
            if end > len(held):
                break
            made.append(decompress(held[at + _LENGTH.size : end], self._name))
            at = end
        self._held = held[at:]
        return b"".join(made)


def _damaged(name: str) -> DataLossError:
    return DataLossError(f"{name}: a compressed block is corrupt")


def _varint(data: Buffer) -> tuple[int, int]:
    number = at = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << (7 * at)
        at += 1
        if byte < 0x80:
            return number, at


def _element(data: Buffer, at: int, made: bytearray, name: str) -> int:
    """Write one literal or copy, and return where the next one begins."""
    tag = data[at]
    kind, rest = tag & 3, tag >> 2
    at += 1
    if kind == 0:
        size = rest + 1
        if rest >= 60:
            width = rest - 59
            size = int.from_bytes(data[at : at + width], "little") + 1
            at += width
        if at + size > len(data):
            raise _damaged(name)
        made += data[at : at + size]
        return at + size
    width = (1, 2, 4)[kind - 1]
    if at + width > len(data):
        raise _damaged(name)
    offset = int.from_bytes(data[at : at + width], "little")
    size = rest + 1
    if kind == 1:
        offset |= (rest >> 3) << 8
        size = (rest & 7) + 4
    if not 0 < offset <= len(made):
        raise _damaged(name)
    start = len(made) - offset
    # A copy may reach into what it writes itself.
    piece = bytes(made[start : start + size])
    made += (piece * (size // len(piece) + 1))[:size]
    return at + width
