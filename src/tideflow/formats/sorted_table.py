"""Sorted tables: keys and values in the file format that TensorFlow shares with LevelDB.

A table is data blocks, an index block (the last key of each data block and where it lies), an empty
block of further facts, and 48 bytes that say where those two lie.  Behind each block come a byte
for its compression and its masked CRC-32C.  Keys in a block share the beginnings of those before.

Source: tensorflow/core/lib/io/{format,block_builder,table_builder}.cc
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from tideflow.formats.snappy import decompress
from tideflow.wire.checksum import extend, mask
from tideflow.wire.errors import DataLossError, UnimplementedError
from tideflow.wire.fields import varint

_MAGIC = 0xDB4775248B80FB57
_FOOTER_BYTES = 48
_BLOCK_BYTES = 256 << 10
# After so many entries a block spells a key out in full, for readers that search.
_RESTART_INTERVAL = 16
# The kind of compression, behind a block.
_SNAPPY = 1
_TRAILER = struct.Struct("<BI")


class _Block:
    """Entries on their way into one block."""

    def __init__(self, restart_interval: int) -> None:
        self.data = bytearray()
        self.last_key = b""
        self._interval = restart_interval
        self._restarts = [0]
        self._count = 0

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self._count == self._interval:
            self._restarts.append(len(self.data))
            self._count = 0
        else:
            shared = _common_length(self.last_key, key)
        self.data += varint(shared) + varint(len(key) - shared) + varint(len(value))
        self.data += key[shared:] + value
        self.last_key = key
        self._count += 1

    def finish(self) -> bytes:
        restarts = [*self._restarts, len(self._restarts)]
        content = bytes(self.data) + struct.pack(f"<{len(restarts)}I", *restarts)
        checksum = mask(extend(extend(0, content), b"\0"))
        return content + _TRAILER.pack(0, checksum)


def _common_length(a: bytes, b: bytes) -> int:
    most = min(len(a), len(b))
    for i in range(most):
        if a[i] != b[i]:
            return i
    return most


def write_table(entries: Iterable[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """Yield the bytes of a table, in pieces.  Entries must come in the order of their keys.

    Raises: ValueError for keys out of order.
    """
    offset = 0
    index = _Block(1)
    block = _Block(_RESTART_INTERVAL)
    last: bytes | None = None

    def handle(content: bytes) -> bytes:
        return varint(offset) + varint(len(content) - _TRAILER.size)

    for key, value in entries:
        if last is not None and key <= last:
            raise ValueError(f"key {key!r} comes after {last!r}; keys must ascend")
        last = key
        block.add(key, value)
        if len(block.data) >= _BLOCK_BYTES:
            content = block.finish()
            index.add(key, handle(content))
            yield content
            offset += len(content)
            block = _Block(_RESTART_INTERVAL)
    if block.data:
        content = block.finish()
        index.add(block.last_key, handle(content))
        yield content
        offset += len(content)
    content = _Block(_RESTART_INTERVAL).finish()
    facts = handle(content)
    yield content
    offset += len(content)
    content = index.finish()
    footer = facts + handle(content)
    yield content
    yield footer.ljust(_FOOTER_BYTES - 8, b"\0") + struct.pack("<Q", _MAGIC)


def read_table(data: bytes, name: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of a table in order.

    Args:
      data: the whole file.
      name: of the file, for messages.
    Raises: DataLossError for a file that is no table or is damaged; UnimplementedError for one
    with another compression than Snappy.
    """
    if len(data) < _FOOTER_BYTES or data[-8:] != struct.pack("<Q", _MAGIC):
        raise DataLossError(
            f"{name} is not a sorted table: its {len(data)} bytes do not end in the magic number; "
            "it may have been cut short"
        )
    at = len(data) - _FOOTER_BYTES
    numbers = []
    for _ in range(4):
        number, at = _read_varint(data, at, len(data) - 8, name)
        numbers.append(number)
    for _, handle in _block_entries(data, numbers[2], numbers[3], name):
        offset, at = _read_varint(handle, 0, len(handle), name)
        size, _ = _read_varint(handle, at, len(handle), name)
        yield from _block_entries(data, offset, size, name)


def _block_entries(data: bytes, offset: int, size: int, name: str) -> Iterator[tuple[bytes, bytes]]:
    stop = offset + size
    if stop + _TRAILER.size > len(data):
        raise DataLossError(f"{name} is truncated: a block ends at {stop} of {len(data)} bytes")
    compression, stored = _TRAILER.unpack_from(data, stop)
    found = mask(extend(0, data[offset : stop + 1]))
    if found != stored:
        raise DataLossError(
            f"{name}: the block at {offset} is corrupt; its checksum is {found:#010x}, "
            f"{stored:#010x} is stored"
        )
    if compression == _SNAPPY:
        yield from _entries(decompress(bytes(data[offset:stop]), name), offset, name)
    elif compression:
        raise UnimplementedError(
            f"{name}: the block at {offset} is compressed (kind {compression}); only plain blocks "
            "and those of Snappy are read here"
        )
    else:
        yield from _entries(data[offset:stop], offset, name)


def _entries(data: bytes, offset: int, name: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of a block's content.

    offset: of the block in the file, for messages.
    """
    stop = size = len(data)
    restarts = struct.unpack_from("<I", data, stop - 4)[0] if size >= 4 else -1
    end = stop - 4 * (restarts + 1)
    if restarts < 0 or end < 0:
        raise DataLossError(f"{name}: the block at {offset} has no list of restarts")
    key = b""
    at = 0
    while at < end:
        shared, at = _read_varint(data, at, end, name)
        rest, at = _read_varint(data, at, end, name)
        value_bytes, at = _read_varint(data, at, end, name)
        if shared > len(key) or at + rest + value_bytes > end:
            raise DataLossError(f"{name}: an entry of the block at {offset} leaves the block")
        key = key[:shared] + data[at : at + rest]
        at += rest
        yield key, data[at : at + value_bytes]
        at += value_bytes


def _read_varint(data: bytes, at: int, end: int, name: str) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if at >= end:
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise DataLossError(f"{name}: a number at byte {at} does not end")
