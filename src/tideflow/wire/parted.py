"""Messages whose large tensors lie beside them, so that no copy of the elements is made.

Protobuf copies what it is given, what it writes and what it parses; of a tensor of 64 MiB each copy
costs more than its way through a socket.  A Parted message is a protobuf message in which the
large tensors lack their `tensor_content`, and these contents: on the way out memory of the arrays,
on the way in memory that was received into.  On the wire there is no difference.

Which messages can be parted, and where their tensors are, says one table.
Source: the protobuf wire format; named_tensor.proto and tensor.proto of TensorFlow 2.21
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from google.protobuf.message import Message

from tideflow.wire import messages as pb
from tideflow.wire.fields import (
    VARINT,
    Buffer,
    Field,
    padding,
    scan,
    tag_of,
    the_one,
    varint,
)
from tideflow.wire.tensor_codec import ALIGNMENT, LARGE_BYTES, Value, put_tensor
from tideflow.wire.work import PROTOBUF_BYTES

M = TypeVar("M", bound=Message)

_CONTENT = tag_of(pb.TensorProto.DESCRIPTOR.fields_by_name["tensor_content"].number)
_VERSION = tag_of(pb.TensorProto.DESCRIPTOR.fields_by_name["version_number"].number, VARINT)


class Parted(Generic[M]):
    """A message and the contents of its large tensors.

    Attributes:
      message: the message; large tensors in it have type and shape, but no content.
      contents: what these hold, by their position among the tensors of the message.
    """

    __slots__ = ("contents", "message")

    def __init__(self, message: M, contents: Mapping[int, memoryview]) -> None:
        self.message = message
        self.contents = contents

    def SerializeToParts(self) -> list[Buffer]:
        """Return buffers whose bytes, in a row, are those of the message.

        The contents themselves are among them: they must not change until they have been sent.
        """
        place = _PLACES[type(self.message)]
        data = self.message.SerializeToString()
        found = scan(data, 0, len(data))
        if found is None:  # too many fields to go through
            return [_whole(self).SerializeToString()]
        parts: list[Buffer] = []
        size = kept = 0
        entries = (field for field in found if field.tag == place.entry)
        for position, entry in enumerate(entries):
            content = self.contents.get(position)
            if content is None:
                continue
            size += entry.begin - kept
            before, after = _around(data, entry, place, content.nbytes, size)
            parts += [data[kept : entry.begin] + before, content, after]
            size += len(before) + content.nbytes + len(after)
            kept = entry.end
        return [part for part in (*parts, data[kept:]) if len(part)]

    def SerializeToString(self) -> bytes:
        """Return the bytes of the message."""
        return b"".join(self.SerializeToParts())


MaybeParted: TypeAlias = M | Parted[M]


def parted(message: M, contents: Mapping[int, memoryview]) -> MaybeParted[M]:
    """Return a message with contents for some of its tensors; itself if there are none."""
    return Parted(message, contents) if contents else message


def take_apart(message: MaybeParted[M]) -> tuple[M, Mapping[int, memoryview]]:
    """Return the message itself, and the contents of its large tensors by position."""
    if isinstance(message, Parted):
        return message.message, message.contents
    return message, _NONE


_NONE: Mapping[int, memoryview] = {}


def with_tensors(message: M, named: Iterable[tuple[str, Value]]) -> MaybeParted[M]:
    """Return a message with tensors added to its tensor field, under their names if it has names.

    Raises: InvalidArgumentError for a value that no tensor can hold.
    """
    place = _PLACES[type(message)]
    entries: Any = getattr(message, place.name)
    contents: dict[int, memoryview] = {}
    for name, value in named:
        position = len(entries)
        tensor_pb = entries.add() if place.tensor is None else entries.add(name=name).tensor
        content = put_tensor(tensor_pb, value)
        if content is not None:
            contents[position] = content
    return parted(message, contents)


def can_be_parted(message_type: type[Message]) -> bool:
    """Whether messages of this type are read by `parse`."""
    return message_type in _PLACES


def parse(message_type: type[M], data: Buffer) -> MaybeParted[M]:
    """Return the message that bytes hold, parted if it has large tensors: these are views of data.

    Raises: DecodeError for bytes that are no message.
    """
    if len(data) >= LARGE_BYTES:
        found = _parse_parted(message_type, data)
        if found is not None:
            return found
    return message_type.FromString(data)  # type: ignore[arg-type]


def work_to_read(message_type: type[M], data: Buffer) -> int:
    """Return as how many bytes (see work.py) the work of `parse` counts, of a large message."""
    found = _cut(message_type, data)
    return PROTOBUF_BYTES * (len(data) if found is None else sum(map(len, found[0])))


# ---- where the tensors are


class _Place(NamedTuple):
    """The tag of the repeated field with the tensors, and of the tensor within an entry of it;
    None where the entry is the tensor."""

    name: str
    entry: int
    tensor: int | None


def _place(message_type: type[Message], name: str) -> _Place:
    field: Any = message_type.DESCRIPTOR.fields_by_name[name]
    entry_type = field.message_type
    if entry_type is pb.TensorProto.DESCRIPTOR:
        return _Place(name, tag_of(field.number), None)
    return _Place(name, tag_of(field.number), tag_of(entry_type.fields_by_name["tensor"].number))


_PLACES: dict[type[Message], _Place] = {
    message_type: _place(message_type, name)
    for message_type, name in (
        (pb.RunStepRequest, "feed"),
        (pb.RunStepResponse, "tensor"),
        (pb.RunCallableRequest, "feed"),
        (pb.RunCallableResponse, "fetch"),
        (pb.RunGraphRequest, "send"),
        (pb.RunGraphResponse, "recv"),
    )
}


# ---- writing


def _around(
    data: bytes, entry: Field, place: _Place, content_size: int, at: int
) -> tuple[bytes, bytes]:
    """Return what an entry without its content becomes before the content and after it.

    Args: at: where the entry begins in what is written.
    """
    tensor = entry if place.tensor is None else _tensor_of(data, entry, place.tensor)
    inner = data[tensor.body : tensor.end]
    outer, after = data[entry.body : tensor.begin], data[tensor.end : entry.end]
    fill = b""
    for _ in range(4):
        head = fill + varint(_CONTENT) + varint(content_size)
        before = inner + head
        size = len(before) + content_size
        if place.tensor is not None:
            before = outer + varint(place.tensor) + varint(size) + before
            size = len(before) + content_size + len(after)
        before = varint(place.entry) + varint(size) + before
        off = (at + len(before)) % ALIGNMENT
        if not off:
            break
        # More of it may make a length longer by a byte, so it is looked at again; it only grows.
        fill = padding(_VERSION, len(fill) + ALIGNMENT - off)
    return before, after if place.tensor is not None else b""


def _tensor_of(data: Buffer, entry: Field, tag: int) -> Field:
    found = the_one(scan(data, entry.body, entry.end), tag)
    assert found is not None, "a message that protobuf has written holds each field once"
    return found


def _whole(message: Parted[M]) -> M:
    """Return a message with its contents in it."""
    place = _PLACES[type(message.message)]
    made = type(message.message)()
    made.CopyFrom(message.message)
    entries = getattr(made, place.name)
    for position, content in message.contents.items():
        tensor_pb = entries[position] if place.tensor is None else entries[position].tensor
        tensor_pb.tensor_content = bytes(content)
    return made


# ---- reading


def _parse_parted(message_type: type[M], data: Buffer) -> Parted[M] | None:
    found = _cut(message_type, data)
    if found is None:
        return None
    rest, contents = found
    return Parted(message_type.FromString(b"".join(rest)), contents)


def _cut(
    message_type: type[Message], data: Buffer
) -> tuple[list[Buffer], dict[int, memoryview]] | None:
    """Return a message without its large contents, in pieces, and these by position; None where
    there are none, or too many fields to go through."""
    place = _PLACES[message_type]
    view = memoryview(data)
    found = scan(view, 0, len(view))
    if found is None:
        return None
    contents: dict[int, memoryview] = {}
    rest: list[Buffer] = []
    kept = 0
    entries = (field for field in found if field.tag == place.entry)
    for position, entry in enumerate(entries):
        if entry.end - entry.body < LARGE_BYTES:
            continue
        small = _without_content(view, entry, place)
        if small is None:
            continue
        rest += [view[kept : entry.begin], small[0]]
        contents[position] = small[1]
        kept = entry.end
    return ([*rest, view[kept:]], contents) if contents else None


def _without_content(
    view: memoryview, entry: Field, place: _Place
) -> tuple[bytes, memoryview] | None:
    """Return an entry without its content, and that; None where the content is small, or not one.

    A content that stands twice, or a tensor that does, has a meaning that protobuf knows.
    """
    tensor: Field | None = entry
    if place.tensor is not None:
        tensor = the_one(scan(view, entry.body, entry.end), place.tensor)
    if tensor is None:
        return None
    content = the_one(scan(view, tensor.body, tensor.end), _CONTENT)
    if content is None or content.end - content.body < LARGE_BYTES:
        return None
    made = bytes(view[tensor.body : content.begin]) + bytes(view[content.end : tensor.end])
    if place.tensor is not None:
        made = b"".join(
            [
                view[entry.body : tensor.begin],
                varint(place.tensor),
                varint(len(made)),
                made,
                view[tensor.end : entry.end],
            ]
        )
    return varint(place.entry) + varint(len(made)) + made, view[content.body : content.end]
