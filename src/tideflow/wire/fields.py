"""Where the fields of a serialised message are, without parsing it.

For readers that want large fields where they lie and leave the rest to protobuf: whatever is
unusual is left to protobuf as a whole, which alone decides what is a message.
Source: the protobuf wire format
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

VARINT, EIGHT_BYTES, DELIMITED, FOUR_BYTES = 0, 1, 2, 5

# A message of more fields is not worth going through here.
_MOST_FIELDS = 4096
# No length of more bytes is less than 2^31, unless it is written in a strange way.
_MOST_LENGTH_BYTES = 5


class Field(NamedTuple):
    """A field at [begin, end) of a buffer; its content, behind tag and length, begins at body."""

    tag: int
    begin: int
    body: int
    end: int


def tag_of(number: int, wire_type: int = DELIMITED) -> int:
    """Return what precedes a field of this number."""
    return number << 3 | wire_type


def scan(
    data: Buffer, begin: int, end: int, most_fields: int | None = _MOST_FIELDS
) -> list[Field] | None:
    """Return the fields of the message at [begin, end), in order.

    None for bytes that are no message, and for messages that hold groups, more fields than are
    worth a look, or numbers in a strange form.
    """
    found: list[Field] = []
    at = begin
    while at < end:
        if len(found) == most_fields:
            return None
        started = at
        tag, at = read_varint(data, at, end, _MOST_LENGTH_BYTES)
        wire_type = tag & 7
        if tag >> 3 == 0:
            return None
        body = at
        if wire_type == DELIMITED:
            length, body = read_varint(data, at, end, _MOST_LENGTH_BYTES)
            if length < 0:
                return None
            at = body + length
        elif wire_type == VARINT:
            number, at = read_varint(data, at, end, 10)
            if number < 0:
                return None
        elif wire_type in (EIGHT_BYTES, FOUR_BYTES):
            at += 8 if wire_type == EIGHT_BYTES else 4
        else:
            return None
        if at > end:
            return None
        found.append(Field(tag, started, body, at))
    return found


def the_one(found: list[Field] | None, tag: int) -> Field | None:
    """Return the field of this tag if there is exactly one."""
    wanted = [field for field in found or () if field.tag == tag]
    return wanted[0] if len(wanted) == 1 else None


def varint(number: int) -> bytes:
    """Return the protocol's variable-length form of a number of 0 or more."""
    if number < 0x80:
        return _SMALL[number]
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_SMALL = [bytes([number]) for number in range(0x80)]


def padding(tag: int, count: int) -> bytes:
    """Return count bytes (or 64 more for a single one) that say again that a number is 0.

    The field must be a varint that comes later, or is 0.
    """
    made = b""
    count += 64 if count == 1 else 0
    while count:
        # Each piece is a tag, and a varint of one to eight bytes; a single byte cannot be left.
        piece = count if count <= 9 else 8
        made += bytes([tag]) + b"\x80" * (piece - 2) + b"\x00"
        count -= piece
    return made


def read_varint(data: Buffer, at: int, end: int, most_bytes: int) -> tuple[int, int]:
    """Return a number and where it stops; -1 for one that does not stop in time."""
    number = 0
    for shift in range(0, 7 * most_bytes, 7):
        if at >= end:
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    return -1, at
