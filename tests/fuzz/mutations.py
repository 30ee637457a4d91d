"""Changes of bytes, and messages with anything in them, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

# Numbers at which programs go wrong.
EDGES = (0, 1, 2, 7, 8, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1)
_MOST_BYTES = 1 << 16
_WORDS = ("", "a", "a:0", "/job:local/replica:0/task:0/device:CPU:0", "\0", "^a", "\u00e9" * 9)


def mutated(rng: random.Random, samples: Sequence[bytes]) -> bytes:
    """Return one of some samples with a few changes."""
    data = bytearray(rng.choice(samples))
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        rng.choice(_CHANGES)(rng, data, samples)
    return bytes(data[:_MOST_BYTES])


def _place(rng: random.Random, data: bytearray) -> int:
    return rng.randrange(len(data) + 1)


def _flip(rng: random.Random, data: bytearray, samples: Sequence[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _put_number(rng: random.Random, data: bytearray, samples: Sequence[bytes]) -> None:
    width = rng.choice((1, 2, 4, 8))
    number = rng.choice(EDGES) % (1 << 8 * width)
    at = _place(rng, data)
    data[at : at + width] = number.to_bytes(width, rng.choice(("little", "big")))


def _cut(rng: random.Random, data: bytearray, samples: Sequence[bytes]) -> None:
    at = _place(rng, data)
    del data[at : at + rng.choice((1, 2, 9, 100, 1 << 20))]


def _repeat(rng: random.Random, data: bytearray, samples: Sequence[bytes]) -> None:
    at = _place(rng, data)
    piece = data[at : at + rng.choice((1, 9, 100))]
    data[at:at] = piece * rng.choice((1, 2, 50))


def _splice(rng: random.Random, data: bytearray, samples: Sequence[bytes]) -> None:
    other = rng.choice(samples)
    begin = rng.randrange(len(other) + 1)
    data[_place(rng, data) :] = other[begin:]


def _noise(rng: random.Random, data: bytearray, samples: Sequence[bytes]) -> None:
    at = _place(rng, data)
    data[at:at] = rng.randbytes(rng.choice((1, 4, 40)))


_CHANGES = (_flip, _flip, _put_number, _put_number, _cut, _repeat, _splice, _noise)


def fill(rng: random.Random, message: Message, depth: int = 0) -> None:
    """Put anything into the fields of a message."""
    for field in message.DESCRIPTOR.fields:
        if rng.random() < (0.5 if depth < 4 else 0.9):
            continue
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        if is_map:
            _fill_map(rng, message, field, depth)
        elif field.is_repeated:
            values = getattr(message, field.name)
            for _ in range(rng.choice((1, 1, 2, 5))):
                if field.message_type is None:
                    values.append(_scalar(rng, field))
                else:
                    fill(rng, values.add(), depth + 1)
        elif field.message_type is not None:
            nested = getattr(message, field.name)
            nested.SetInParent()
            fill(rng, nested, depth + 1)
        else:
            setattr(message, field.name, _scalar(rng, field))


def _fill_map(rng: random.Random, message: Message, field: FieldDescriptor, depth: int) -> None:
    assert field.message_type is not None
    key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    entries: Any = getattr(message, field.name)
    at = _scalar(rng, key)
    if value.message_type is None:
        entries[at] = _scalar(rng, value)
    else:
        fill(rng, entries[at], depth + 1)


def _scalar(rng: random.Random, field: FieldDescriptor) -> Any:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        word = rng.choice(_WORDS)
        return word.encode() if field.type == FieldDescriptor.TYPE_BYTES else word
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        assert field.enum_type is not None
        return rng.choice(field.enum_type.values).number
    is_wide = kind in (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64)
    is_signed = kind in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64)
    number = rng.choice(EDGES) % (1 << (63 if is_wide else 31))
    return -number if is_signed and rng.random() < 0.3 else number
