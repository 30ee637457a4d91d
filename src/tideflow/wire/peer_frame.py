"""A frame between tideflow workers: a small message, and the elements of its tensors beside it.

On the wire a frame is one protobuf message whose last field holds the elements, each tensor's at a
multiple of 64 bytes.  They are written from where they lie, and viewed where they arrive.
Source: tideflow/wire/proto/peer.proto
"""

from __future__ import annotations

import functools
from itertools import accumulate
from typing import Any

from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.fields import VARINT, Buffer, padding, scan, tag_of, varint
from tideflow.wire.shapes import decode_full_shape
from tideflow.wire.tensor_codec import (
    ALIGNMENT,
    LARGE_BYTES,
    Value,
    decode_content,
    decode_tensor,
    tensor_dtype,
    tensor_parts,
)

_PADDING = tag_of(pb.PeerFrame.DESCRIPTOR.fields_by_name["padding"].number, VARINT)
_CONTENT = tag_of(pb.PeerFrame.DESCRIPTOR.fields_by_name["content"].number)
_FILL = bytes(ALIGNMENT)

_REPEATED = frozenset(("refused", "tensor", "run", "given_up_step", "run_end", "over_step"))
# In this order the entries of a frame can be told one after the other.  What is refused comes
# before the count of what was seen, after which its sender does not know it any more.
_ORDER = (
    "hello", "refused", "seen_count", "tensor", "run", "given_up_step", "run_end", "over_step"
)  # fmt: skip


class PeerFrame:
    """Stands for the message of that name where services declare it.

    Attributes:
      message: the frame without its content.
      content: the elements of its tensors, in pieces that are theirs in a row.
      size_bytes: of the content.
    """

    __slots__ = ("content", "message", "size_bytes")

    def __init__(self, message: pb.PeerFrame | None = None, content: Buffer = b"") -> None:
        self.message = pb.PeerFrame() if message is None else message
        self.size_bytes = len(content)
        self.content: list[Buffer] = [content] if self.size_bytes else []

    def add(self, step_id: int, key: str, value: Value, is_dead: bool) -> None:
        """Add a tensor; of a dead one there is no value.

        Its memory must not change until the frame has been sent.
        Raises: InvalidArgumentError for a value that no tensor can hold.
        """
        if is_dead:
            self.message.tensor.add(step_id=step_id, rendezvous_key=key, is_dead=True)
            return
        header, elements = tensor_parts(value)
        size = len(elements)
        begin = self.size_bytes
        if size:
            begin += -begin % ALIGNMENT
        self.message.tensor.add(
            step_id=step_id, rendezvous_key=key, header=header, begin=begin, size=size
        )
        if size:
            self._place(elements, begin)

    def _place(self, elements: Buffer, begin: int) -> None:
        fill = begin - self.size_bytes
        if fill:
            self.content.append(_FILL[:fill])
        self.content.append(elements)
        self.size_bytes = begin + len(elements)

    def halves(self) -> tuple[PeerFrame, PeerFrame] | None:
        """Return two frames that say, one after the other, what this one says.

        Each has half of the entries; None for a frame that has one at most.  For frames that were
        written here, not received.
        """
        entries = [
            (name, entry)
            for field, found in self.message.ListFields()
            for name in [field.name]
            for entry in (found if name in _REPEATED else [found])
        ]
        if len(entries) < 2:
            return None
        entries.sort(key=lambda entry: _ORDER.index(entry[0]))
        pieces = dict(zip(accumulate(map(len, self.content), initial=0), self.content))
        middle = len(entries) // 2
        return _frame_of(entries[:middle], pieces), _frame_of(entries[middle:], pieces)

    def SerializeToParts(self) -> list[Buffer]:
        """Return buffers whose bytes, in a row, are those of the frame."""
        data = self.message.SerializeToString()
        if not self.size_bytes:
            return [data] if data else [b"\x70\x00"]
        head = varint(_CONTENT) + varint(self.size_bytes)
        fill = b""
        if self.size_bytes >= LARGE_BYTES:
            fill = padding(_PADDING, -(len(data) + len(head)) % ALIGNMENT)
        return [data + fill + head, *self.content]

    def SerializeToString(self) -> bytes:
        """Return the bytes of the frame."""
        return b"".join(self.SerializeToParts())

    @classmethod
    def FromString(cls, data: Buffer) -> PeerFrame:
        """Return the frame that bytes hold; its content is a view of them, if it is large.

        Raises: DecodeError for bytes that are none.
        """
        if len(data) >= LARGE_BYTES:
            view = memoryview(data)
            found = scan(view, 0, len(view))
            if found is not None and found[-1].tag == _CONTENT:
                last = found[-1]
                message = pb.PeerFrame.FromString(bytes(view[: last.begin]))
                return cls(message, view[last.body : last.end])
        message = pb.PeerFrame.FromString(data)  # type: ignore[arg-type]
        content = message.content
        return cls(message, memoryview(content) if content else b"")

    def value(self, entry_pb: pb.PeerTensor) -> Value:
        """Return the value of one of a received frame's tensors, read-only.

        Raises: InvalidArgumentError for a tensor that is none, or lies outside of the content.
        """
        dtype, shape = _read_header(entry_pb.header)
        begin, size = entry_pb.begin, entry_pb.size
        if not size:
            return decode_tensor(pb.TensorProto.FromString(entry_pb.header))
        if begin + size > self.size_bytes:
            raise errors.InvalidArgumentError(
                f"a tensor is said to lie at bytes {begin} to {begin + size} of a frame's content, "
                f"which has {self.size_bytes}"
            )
        return decode_content(dtype, shape, self.content[0][begin : begin + size])


def _frame_of(entries: list[tuple[str, Any]], pieces: dict[int, Buffer]) -> PeerFrame:
    """Return a frame of some entries of another, whose content has these pieces at these places."""
    frame = PeerFrame()
    message = frame.message
    for name, entry in entries:
        if name == "hello":
            message.hello.CopyFrom(entry)
        elif name == "seen_count":
            message.seen_count = entry
        else:
            getattr(message, name).append(entry)
        if name == "tensor" and entry.size:
            begin = frame.size_bytes + -frame.size_bytes % ALIGNMENT
            message.tensor[-1].begin = begin
            frame._place(pieces[entry.begin], begin)
    return frame


@functools.lru_cache(maxsize=4096)
def _read_header(header: bytes) -> tuple[DType, tuple[int, ...]]:
    tensor_pb = pb.TensorProto.FromString(header)
    return tensor_dtype(tensor_pb), tuple(decode_full_shape(tensor_pb.tensor_shape))
