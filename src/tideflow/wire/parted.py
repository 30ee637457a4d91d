"""Messages whose large tensors lie beside them, so that no copy of the elements is made.

Protobuf copies what it is given, what it writes and what it parses, and lets no other thread run
meanwhile; of a tensor of 64 MiB each copy costs more than its way through a socket.  A Parted
message is a protobuf message in which the large tensors lack their `tensor_content`, and these
contents: on the way out memory of the arrays, on the way in memory that was received into.  On the
wire there is no difference.  Constants of graphs are treated alike, in another way
(graph_contents.py).

Which messages can be parted, and where their large contents are, says one table.
Source: the protobuf wire format; named_tensor.proto and tensor.proto of TensorFlow 2.21
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from tideflow.wire.graph_contents import (
    ContentCutter,
    GraphContents,
    filled_field,
    references_in,
)
from tideflow.wire.tensor_codec import ALIGNMENT, LARGE_BYTES, Value, put_tensor
from tideflow.wire.work import PROTOBUF_BYTES

M = TypeVar("M", bound=Message)

_VERSION = tag_of(pb.TensorProto.DESCRIPTOR.fields_by_name["version_number"].number, VARINT)


class Parted(Generic[M]):
    """A message and its large contents.

    Attributes:
      message: the message; large tensors in it have type and shape, but no content.
      contents: what these hold, by the position of their entries (see `entries_of`).
      of_graphs: large contents to which graphs in the message refer; there may be more than these.
    """

    __slots__ = ("contents", "message", "of_graphs")

    def __init__(
        self, message: M, contents: Mapping[int, memoryview], of_graphs: GraphContents | None = None
    ) -> None:
        self.message = message
        self.contents = contents
        self.of_graphs = of_graphs or _NO_GRAPH_CONTENTS

    def SerializeToParts(self) -> list[Buffer]:
        """Return buffers whose bytes, in a row, are those of the message.

        The contents themselves are among them: they must not change until they have been sent.
        """
        data = self.message.SerializeToString()
        writer = _Writer(data, self.contents, self.of_graphs)
        found = writer.body(0, len(data), _PLACES[type(self.message)], True)
        return [data] if found is None else [part for part in found if len(part)]

    def SerializeToString(self) -> bytes:
        """Return the bytes of the message."""
        return b"".join(self.SerializeToParts())


MaybeParted: TypeAlias = M | Parted[M]


def parted(message: M, contents: Mapping[int, memoryview]) -> MaybeParted[M]:
    """Return a message with contents for some of its entries; itself if there are none."""
    return Parted(message, contents) if contents else message


def take_apart(message: MaybeParted[M]) -> tuple[M, Mapping[int, memoryview]]:
    """Return the message itself, and its large contents by the positions of their entries."""
    if isinstance(message, Parted):
        return message.message, message.contents
    return message, _NONE


_NONE: Mapping[int, memoryview] = {}
_NO_GRAPH_CONTENTS: GraphContents = {}


def with_graphs(message: M, of_graphs: GraphContents) -> MaybeParted[M]:
    """Return a message with the contents to which its graphs refer; itself if there are none."""
    return Parted(message, _NONE, of_graphs) if of_graphs else message


def graph_contents(message: MaybeParted[Any]) -> GraphContents:
    """Return the large contents to which graphs in a message refer."""
    return message.of_graphs if isinstance(message, Parted) else _NO_GRAPH_CONTENTS


def with_tensors(message: M, named: Iterable[tuple[str, Value]]) -> MaybeParted[M]:
    """Return a message with tensors added to its tensor field, under their names if it has names.

    Raises: InvalidArgumentError for a value that no tensor can hold.
    """
    [step] = _PLACES[type(message)].values()
    assert isinstance(step.to, _Entry)
    contents = put_tensors(getattr(message, step.name), named, has_names=bool(step.to.within))
    return parted(message, contents)


def put_tensors(
    entries: Any, named: Iterable[tuple[str, Value]], has_names: bool = False
) -> dict[int, memoryview]:
    """Add tensors to a repeated field; return the large contents, which it lacks, by position.

    has_names: whether the field has tensors under names, not tensors.
    Raises: as `with_tensors`.
    """
    contents: dict[int, memoryview] = {}
    for name, value in named:
        position = len(entries)
        tensor_pb = entries.add(name=name).tensor if has_names else entries.add()
        content = put_tensor(tensor_pb, value)
        if content is not None:
            contents[position] = content
    return contents


def with_content(message: M, entry: Message, field: str, content: Buffer) -> MaybeParted[M]:
    """Return a message in whose only entry a field of bytes has a content."""
    if len(content) >= LARGE_BYTES:
        return Parted(message, {0: memoryview(content)})
    setattr(entry, field, bytes(content))
    return message


def joined(message: M, field: str, items: Sequence[MaybeParted[Any]]) -> MaybeParted[M]:
    """Return a message to whose repeated field items were added, with what lies beside them."""
    contents: dict[int, memoryview] = {}
    if any(isinstance(item, Parted) for item in items):
        first = len(list(entries_of(message)))
        for item, apart in map(take_apart, items):
            contents.update((first + at, content) for at, content in apart.items())
            first += len(list(entries_of(item)))
    getattr(message, field).extend(take_apart(item)[0] for item in items)
    return parted(message, contents)


def of_items(
    items: Iterable[M], contents: Mapping[int, memoryview]
) -> Iterator[tuple[M, Mapping[int, memoryview]]]:
    """Yield the items of a message, each with what lies beside it: `joined` the other way."""
    first = 0
    for item in items:
        if not contents:
            yield item, _NONE
            continue
        end = first + len(list(entries_of(item)))
        yield item, {at - first: content for at, content in contents.items() if first <= at < end}
        first = end


def entries_of(message: Message) -> Iterator[Message]:
    """Yield the parts of a message that may have a large content, in the order that numbers them:
    the entries of its tensor field, each of which is a tensor or has one."""
    return _entries(message, _PLACES[type(message)])


def can_be_parted(message_type: type[Message]) -> bool:
    """Whether messages of this type are read by `parse`."""
    return message_type in _PLACES


def parse(message_type: type[M], data: Buffer) -> MaybeParted[M]:
    """Return the message that bytes hold, parted if it has large tensors: these are views of data.

    Raises: DecodeError for bytes that are no message.
    """
    if len(data) >= LARGE_BYTES:
        found = _cut(message_type, data)
        if found is not None:
            rest, contents, of_graphs = found
            return Parted(message_type.FromString(b"".join(rest)), contents, of_graphs)
    return message_type.FromString(data)  # type: ignore[arg-type]


def work_to_read(message_type: type[M], data: Buffer) -> int:
    """Return as how many bytes (see work.py) the work of `parse` counts, of a large message; into
    its graphs nobody looks, which may have many nodes."""
    found = _cut(message_type, data, enters_graphs=False)
    return PROTOBUF_BYTES * (len(data) if found is None else sum(map(len, found[0])))


# ---- where the contents are


class _Entry(NamedTuple):
    """What may have a large content.

    Attributes:
      within: the tags of the single messages on the way from the entry to that with the content.
      content: the tag of the content.
      is_tensor: whether it is a tensor that has it.
    """

    within: tuple[int, ...]
    content: int
    is_tensor: bool


class _Graphs(NamedTuple):
    """What may hold graphs: the descriptor of a message."""

    descriptor: Any


class _Step(NamedTuple):
    """A field on the way to entries: its name, whether it is repeated, and what it leads to."""

    name: str
    is_repeated: bool
    to: _Entry | _Graphs | _Place


# The fields of a message that lead to entries, by their tags.
_Place: TypeAlias = "dict[int, _Step]"


def _place(message_type: Any, *paths: str) -> _Place:
    """Return where contents are, given the names of the fields on the way to each kind of entry
    and, behind a colon, those from the entry to its content; a way without a colon ends at what
    holds graphs."""
    made: _Place = {}
    for path in paths:
        way, colon, rest = path.partition(":")
        place, descriptor = made, message_type.DESCRIPTOR
        *before, last = way.split(".")
        for name in before:
            field = descriptor.fields_by_name[name]
            descriptor = field.message_type
            known = place.setdefault(tag_of(field.number), _Step(name, _repeats(field), {}))
            assert isinstance(known.to, dict)
            place = known.to
        field = descriptor.fields_by_name[last]
        descriptor = field.message_type
        if not colon:
            place[tag_of(field.number)] = _Step(last, _repeats(field), _Graphs(descriptor))
            continue
        within = []
        *between, content = rest.split(".")
        for name in between:
            inner = descriptor.fields_by_name[name]
            within.append(tag_of(inner.number))
            descriptor = inner.message_type
        entry = _Entry(
            tuple(within),
            tag_of(descriptor.fields_by_name[content].number),
            descriptor is pb.TensorProto.DESCRIPTOR,
        )
        place[tag_of(field.number)] = _Step(last, _repeats(field), entry)
    return made


def _repeats(message_field: Any) -> bool:
    return not message_field.has_presence


_ITEM = (
    "operation.op_inputs:tensor.tensor_content",
    "send_tensor.tensors:tensor_content",
    "register_function",
)
_PATHS: dict[type[Message], tuple[str, ...]] = {
    pb.CreateSessionRequest: ("graph_def",),
    pb.ExtendSessionRequest: ("graph_def",),
    pb.RegisterGraphRequest: ("graph_def",),
    pb.RunStepRequest: ("feed:tensor.tensor_content",),
    pb.RunStepResponse: ("tensor:tensor.tensor_content",),
    pb.RunCallableRequest: ("feed:tensor_content",),
    pb.RunCallableResponse: ("fetch:tensor_content",),
    pb.RunGraphRequest: ("send:tensor.tensor_content",),
    pb.RunGraphResponse: ("recv:tensor.tensor_content",),
    pb.EagerQueueItem: _ITEM,
    pb.EnqueueRequest: tuple(f"queue.{path}" for path in _ITEM),
    pb.RunComponentFunctionResponse: ("tensor:tensor_content",),
    pb.GetElementResponse: ("compressed:data", "uncompressed.components:tensor_content"),
}
_PLACES = {message_type: _place(message_type, *paths) for message_type, paths in _PATHS.items()}


def _entries(message: Any, place: _Place) -> Iterator[Message]:
    for _, step in sorted(place.items()):
        if isinstance(step.to, _Graphs):
            continue
        if step.is_repeated:
            found = getattr(message, step.name)
        else:
            found = [getattr(message, step.name)] if message.HasField(step.name) else []
        for one in found:
            if isinstance(step.to, _Entry):
                yield one
            else:
                yield from _entries(one, step.to)


# ---- writing


class _Writer:
    """Puts contents into a message that protobuf has written without them."""

    def __init__(
        self, data: bytes, contents: Mapping[int, memoryview], of_graphs: GraphContents
    ) -> None:
        self._data = data
        self._contents = contents
        self._of_graphs = of_graphs
        self._references = references_in(data) if of_graphs else []
        self._position = 0

    def body(
        self, begin: int, end: int, place: _Place, is_outermost: bool = False
    ) -> list[Buffer] | None:
        """Return what is at [begin, end) with its contents, in pieces; None where it has none."""
        found = scan(self._data, begin, end, most_fields=None)
        assert found is not None, "protobuf has written it"
        parts: list[Buffer] = []
        size, kept = 0, begin
        for field in found:
            step = place.get(field.tag)
            if step is None:
                continue
            # Only what is at known places can be aligned: not what lies within something whose
            # length is yet to be written.
            at = size + field.begin - kept if is_outermost else None
            made = self._field(field, step.to, at)
            if made is None:
                continue
            parts += [self._data[kept : field.begin], *made]
            size += field.begin - kept + sum(map(len, made))
            kept = field.end
        return [*parts, self._data[kept:end]] if parts else None

    def _field(
        self, field: Field, to: _Entry | _Graphs | _Place, at: int | None
    ) -> list[Buffer] | None:
        if isinstance(to, _Entry):
            self._position += 1
            content = self._contents.get(self._position - 1)
            return None if content is None else self._entry(field, to, content, at)
        if isinstance(to, _Graphs):
            places = [place for place in self._references if field.body <= place < field.end]
            return filled_field(self._data, field, places, self._of_graphs) if places else None
        made = self.body(field.body, field.end, to)
        if made is None:
            return None
        return [varint(field.tag) + varint(sum(map(len, made))), *made]

    def _entry(
        self, field: Field, entry: _Entry, content: memoryview, at: int | None
    ) -> list[Buffer]:
        """Return an entry with its content; `at` is where it begins in what is written."""
        data = self._data
        way = [field]
        for tag in entry.within:
            inner = the_one(scan(data, way[-1].body, way[-1].end, most_fields=None), tag)
            assert inner is not None, "a message that protobuf has written holds each field once"
            way.append(inner)
        fill = b""
        for _ in range(4):
            head = fill + varint(entry.content) + varint(content.nbytes)
            before, after = data[way[-1].body : way[-1].end] + head, b""
            for outer, inner in zip(way[-2::-1], way[:0:-1]):
                size = len(before) + content.nbytes + len(after)
                before = data[outer.body : inner.begin] + varint(inner.tag) + varint(size) + before
                after += data[inner.end : outer.end]
            size = len(before) + content.nbytes + len(after)
            before = varint(field.tag) + varint(size) + before
            if at is None or not entry.is_tensor:
                break
            off = (at + len(before)) % ALIGNMENT
            if not off:
                break
            # More of it may make a length longer by a byte, so it is looked at again; it only
            # grows.
            fill = padding(_VERSION, len(fill) + ALIGNMENT - off)
        return [before, content, after]


# ---- reading


class _StrangeError(Exception):
    """A message is written in a way that is left to protobuf."""


def _cut(
    message_type: type[Message], data: Buffer, enters_graphs: bool = True
) -> tuple[list[Buffer], dict[int, memoryview], GraphContents] | None:
    """Return a message without its large contents, in pieces, these by position, and those of its
    graphs; None where there are none, or too many fields to go through."""
    view = memoryview(data)
    reader = _Reader(view, ContentCutter(view) if enters_graphs else None)
    try:
        rest = reader.body(0, len(view), _PLACES[message_type])
    except _StrangeError:
        return None
    if rest is None:
        return None
    cutter = reader.cutter
    return rest, reader.contents, _NO_GRAPH_CONTENTS if cutter is None else cutter.contents


class _Reader:
    """Takes the large contents out of a message.

    Args:
      cutter: takes them out of its graphs; None leaves these as they are.
    """

    def __init__(self, view: memoryview, cutter: ContentCutter | None) -> None:
        self._view = view
        self.cutter = cutter
        self._position = 0
        self.contents: dict[int, memoryview] = {}

    def body(self, begin: int, end: int, place: _Place) -> list[Buffer] | None:
        """Return what is at [begin, end) without its large contents; None where it has none.

        Raises: _StrangeError.
        """
        found = scan(self._view, begin, end)
        if found is None:
            raise _StrangeError
        rest: list[Buffer] = []
        kept = begin
        has_single = False
        for field in found:
            step = place.get(field.tag)
            if step is None:
                continue
            if not step.is_repeated:
                if has_single:  # of one and the same, or of others that rule each other out
                    raise _StrangeError
                has_single = True
            small = self._field(field, step.to)
            if small is not None:
                rest += [self._view[kept : field.begin], *small]
                kept = field.end
        return [*rest, self._view[kept:end]] if rest else None

    def _field(self, field: Field, to: _Entry | _Graphs | _Place) -> list[Buffer] | None:
        if isinstance(to, _Graphs):
            return None if self.cutter is None else self.cutter.cut(field, to.descriptor)
        if isinstance(to, _Entry):
            position, self._position = self._position, self._position + 1
            found = None
            if field.end - field.body >= LARGE_BYTES:
                found = _without_content(self._view, field, to)
            if found is None:
                return None
            self.contents[position] = found[1]
            return [found[0]]
        made = self.body(field.body, field.end, to)
        if made is None:
            return None
        return [varint(field.tag) + varint(sum(map(len, made))), *made]


def _without_content(
    view: memoryview, field: Field, entry: _Entry
) -> tuple[bytes, memoryview] | None:
    """Return an entry without its content, and that; None where the content is small, or not one.

    A content that stands twice, or a tensor that does, has a meaning that protobuf knows.
    """
    way = [field]
    for tag in entry.within:
        inner = the_one(scan(view, way[-1].body, way[-1].end), tag)
        if inner is None:
            return None
        way.append(inner)
    content = the_one(scan(view, way[-1].body, way[-1].end), entry.content)
    if content is None or content.end - content.body < LARGE_BYTES:
        return None
    made = bytes(view[way[-1].body : content.begin]) + bytes(view[content.end : way[-1].end])
    for outer, inner in zip(way[-2::-1], way[:0:-1]):
        made = b"".join(
            [
                view[outer.body : inner.begin],
                varint(inner.tag),
                varint(len(made)),
                made,
                view[inner.end : outer.end],
            ]
        )
    return varint(field.tag) + varint(len(made)) + made, view[content.body : content.end]
