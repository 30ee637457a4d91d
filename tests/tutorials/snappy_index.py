"""Rewrites the index of a checkpoint with compressed blocks, as other builds write them."""

from __future__ import annotations

import struct

from tideflow.formats.sorted_table import read_table
from tideflow.wire.checksum import extend, mask
from tideflow.wire.fields import varint


def compressed(data: bytes) -> bytes:
    """Return data as a block of Snappy, with literals and copies."""
    made = bytearray(varint(len(data)))
    known: dict[bytes, int] = {}
    at = literal = 0

    def write_literal(end: int) -> None:
        for start in range(literal, end, 60):
            piece = data[start : min(end, start + 60)]
            made.append((len(piece) - 1) << 2)
            made.extend(piece)

    while at < len(data):
        word = data[at : at + 4]
        before = known.get(word)
        known[word] = at
        if len(word) < 4 or before is None or at - before > 0xFFFF:
            at += 1
            continue
        size = 4
        while size < 64 and at + size < len(data) and data[before + size] == data[at + size]:
            size += 1
        write_literal(at)
        made.append(((size - 1) << 2) | 2)
        made += struct.pack("<H", at - before)
        at += size
        literal = at
    write_literal(len(data))
    return bytes(made)


def compress_index(path: str) -> None:
    """Write a table anew, with one compressed block for all its entries."""
    with open(path, "rb") as file:
        entries = list(read_table(file.read(), path))
    made = bytearray()

    def add(block: bytes) -> bytes:
        place = varint(len(made)) + varint(len(block))
        made.extend(block + b"\1" + struct.pack("<I", mask(extend(extend(0, block), b"\1"))))
        return place

    def content(pairs: list[tuple[bytes, bytes]]) -> bytes:
        found = bytearray()
        starts = []
        for key, value in pairs:
            starts.append(len(found))
            found += varint(0) + varint(len(key)) + varint(len(value)) + key + value
        starts = starts or [0]
        return bytes(found) + struct.pack(f"<{len(starts) + 1}I", *starts, len(starts))

    place = add(compressed(content(entries)))
    footer = add(compressed(content([]))) + add(compressed(content([(entries[-1][0], place)])))
    with open(path, "wb") as file:
        file.write(made + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57))
