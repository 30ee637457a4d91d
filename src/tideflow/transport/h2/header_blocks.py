"""Header blocks: written without compression state, read with a memory of blocks seen before.

What we send never touches the dynamic table, so a block made once can be sent again, byte for byte,
on any connection.  What we receive is decoded by the hpack library.  A block that leaves the table
as it was means the same whenever it comes again while the table stays so; peers repeat themselves,
so most blocks are found in a dict.
Source: RFC 7541; RFC 9113, section 8.2
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import hpack

from tideflow.transport.h2.faults import ConnectionFault, ErrorCode

Pairs = tuple[tuple[bytes, bytes], ...]

_MOST_REMEMBERED = 256
_MOST_REMEMBERED_BYTES = 1024
_MOST_REMEMBERED_FIELDS = 64
# How many lengths of blocks without their last value are looked up.
_MOST_STEM_LENGTHS = 4
# A string's length takes one byte, and the string is not Huffman's, up to here.
_MOST_PLAIN_VALUE_BYTES = 126

# Fields whose name, or name and value, stand in HPACK's static table.
_STATIC_PAIRS = {
    (b":method", b"POST"): 3,
    (b":scheme", b"http"): 6,
    (b":scheme", b"https"): 7,
    (b":status", b"200"): 8,
}
_STATIC_NAMES = {
    b":authority": 1,
    b":path": 4,
    b":status": 8,
    b"content-type": 31,
    b"user-agent": 58,
}

# What a field begins with whose name follows, and which is not put into the dynamic table.
_LITERAL_FIELD = b"\x00"

_UPPER_CASE = frozenset(range(ord("A"), ord("Z") + 1))
# Headers that describe one HTTP/1.1 connection; in HTTP/2 they make a message malformed.
_FORBIDDEN = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)


def encode_block(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a header block that neither reads nor changes the dynamic table."""
    return b"".join(encode_field(name, value) for name, value in pairs)


def encode_field(name: bytes, value: bytes) -> bytes:
    """Return one field of a header block, never to be put into the dynamic table."""
    whole = _STATIC_PAIRS.get((name, value))
    if whole is not None:
        return bytes([0x80 | whole])
    index = _STATIC_NAMES.get(name)
    if index is None:
        return _LITERAL_FIELD + _string(name) + _string(value)
    return _integer(index, 4) + _string(value)


def _string(data: bytes) -> bytes:
    return _integer(len(data), 7) + data


def _integer(value: int, bits: int) -> bytes:
    most = (1 << bits) - 1
    if value < most:
        return bytes([value])
    made = bytearray([most])
    value -= most
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


class Headers:
    """The fields of one block, in order.

    Attributes:
      pairs: names and values.
      fault: what makes them malformed, or "".
      meaning: what the layer above made of them; it may keep that here, for the next time.
      like: headers that differ in the value of the last field only, if such came before.
    """

    __slots__ = ("fault", "like", "meaning", "pairs")

    def __init__(self, pairs: Pairs, like: Headers | None = None) -> None:
        self.pairs = pairs
        # Values are never at fault.
        self.fault: str = _fault_of(pairs) if like is None else like.fault
        self.meaning: Any = None
        self.like = like

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self.pairs == other.pairs

    def __hash__(self) -> int:
        return hash(self.pairs)

    def __repr__(self) -> str:
        return f"Headers({self.pairs!r})"


def _fault_of(pairs: Pairs) -> str:
    regular = False
    seen: set[bytes] = set()
    for name, _ in pairs:
        if name[:1] == b":":
            if regular:
                return f"{name!r} comes after an ordinary field"
            if name in seen:
                return f"{name!r} comes twice"
            seen.add(name)
        else:
            regular = True
            if not name or not _UPPER_CASE.isdisjoint(name):
                return f"a field is named {name!r}"
            if name in _FORBIDDEN:
                return f"{name!r} has no place in HTTP/2"
    return ""


class HeaderReader:
    """Decodes the header blocks of one connection, in the order in which they came."""

    def __init__(self, max_list_bytes: int) -> None:
        self._decoder = hpack.Decoder(max_header_list_size=max_list_bytes)
        self._table = self._decoder.header_table
        self._remembered: dict[bytes, Headers] = {}
        # Blocks up to the value of their last field, where that stands as it is: clients of
        # TensorFlow number their calls in the last field.
        self._stems: dict[bytes, Headers] = {}
        self._stem_lengths: set[int] = set()

    def read(self, block: bytes) -> Headers:
        """Return the fields of a block.

        Raises: ConnectionFault, as a block that was not decoded leaves the table unknown.
        """
        found = self._remembered.get(block)
        if found is not None:
            return found
        for length in self._stem_lengths:
            like = self._stems.get(block[:length])
            if like is not None and _is_plain_string(block, length):
                last = (like.pairs[-1][0], block[length + 1 :])
                return Headers((*like.pairs[:-1], last), like)
        return self._decode(block)

    def _decode(self, block: bytes) -> Headers:
        entries, most = self._table.dynamic_entries, self._table.maxsize
        # Each insertion makes a new first entry; holding the old one keeps its identity its own.
        first, count = entries[0] if entries else None, len(entries)
        try:
            pairs = tuple((bytes(n), bytes(v)) for n, v in self._decoder.decode(block, raw=True))
        except hpack.OversizedHeaderListError as error:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, str(error)) from None
        except (hpack.HPACKError, ValueError, IndexError) as error:
            raise ConnectionFault(
                ErrorCode.COMPRESSION_ERROR, f"a header block cannot be decoded: {error}"
            ) from None
        headers = Headers(pairs)
        same_first = (entries[0] if entries else None) is first
        if not same_first or len(entries) != count or self._table.maxsize != most:
            self._forget()
        elif len(block) <= _MOST_REMEMBERED_BYTES and len(pairs) <= _MOST_REMEMBERED_FIELDS:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._forget()
            self._remembered[block] = headers
            self._remember_stem(block, headers)
        return headers

    def _remember_stem(self, block: bytes, headers: Headers) -> None:
        """Remember a block that ends in a field which stands there literally, by what precedes its
        value."""
        if not headers.pairs:
            return
        name, value = headers.pairs[-1]
        length = len(block) - len(value) - 1
        if (
            name[:1] != b":"
            and block.endswith(_LITERAL_FIELD + _string(name) + _string(value))
            and _is_plain_string(block, length)
            and (length in self._stem_lengths or len(self._stem_lengths) < _MOST_STEM_LENGTHS)
        ):
            self._stem_lengths.add(length)
            self._stems[block[:length]] = headers

    def _forget(self) -> None:
        self._remembered.clear()
        self._stems.clear()
        self._stem_lengths.clear()


def _is_plain_string(block: bytes, at: int) -> bool:
    """Whether a block ends with a string that begins at a place, as it is and with a short
    length."""
    left = len(block) - at - 1
    return 0 <= left <= _MOST_PLAIN_VALUE_BYTES and block[at] == left
