"""Large contents of tensors in graphs, beside the messages of the graphs.

Protobuf lets no other thread run while it copies, writes or parses a content: of 200 MiB that takes
half a second each time, in which the event loop stands still, too.  Nodes and functions are copied
from message to message, so what they lack cannot be found by its position, as in parted.py.  In
the place of a content stands a reference to it: what no other process knows, and the digest of the
content.  Equal contents have equal references, so that messages can be compared as ever.

References never leave the process: contents take their places when a message is written, and theirs
when one is read.
Source: the protobuf wire format; graph.proto, function.proto and tensor.proto of TensorFlow 2.21
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, TypeAlias

import numpy as np
from google.protobuf.message import Message

from tideflow.wire import messages as pb
from tideflow.wire.fields import DELIMITED, Buffer, Field, scan, tag_of, varint
from tideflow.wire.tensor_codec import LARGE_BYTES

# Contents by their references.
GraphContents: TypeAlias = Mapping[bytes, Buffer]

# So that no content that somebody sends is taken for a reference.
_SECRET = os.urandom(16)
_REFERENCE_BYTES = len(_SECRET) + hashlib.sha256().digest_size
# A message of more fields than these, where contents may be, is left to protobuf.
_MOST_FIELDS = 1 << 17


def put_aside(content: Buffer, contents: MutableMapping[bytes, Buffer]) -> bytes:
    """Add a content to others; return the reference that stands for it."""
    reference = _SECRET + hashlib.sha256(content).digest()
    contents[reference] = content
    return reference


def references_in(data: bytes) -> list[int]:
    """Return where the references are in the bytes of a message, in order."""
    found = []
    at = data.find(_SECRET)
    while at >= 0:
        found.append(at)
        at = data.find(_SECRET, at + _REFERENCE_BYTES)
    return found


def kept(messages: Iterable[Message], contents: GraphContents) -> GraphContents:
    """Return the contents to which messages refer, in memory of their own: that in which they came
    is free again."""
    if not contents:
        return contents
    found: dict[bytes, Buffer] = {}
    for message in messages:
        data = message.SerializeToString()
        for at in references_in(data):
            reference = data[at : at + _REFERENCE_BYTES]
            if reference not in found:
                found[reference] = np.frombuffer(contents[reference], np.uint8).copy().data
    return found


def whole(message: Message, contents: GraphContents) -> Any:
    """Return a message with its contents, as protobuf has it; itself where it lacks none."""
    if not contents:
        return message
    data = message.SerializeToString()
    return type(message).FromString(
        b"".join(filled(data, 0, len(data), references_in(data), contents))
    )


# ---- writing


def filled(
    data: bytes, begin: int, end: int, places: list[int], contents: GraphContents
) -> list[Buffer]:
    """Return the message at [begin, end) with contents for the references at these places."""
    found = scan(data, begin, end, most_fields=None)
    assert found is not None, "protobuf has written it"
    parts: list[Buffer] = []
    kept_from, next_place = begin, 0
    for field in found:
        first = next_place
        while next_place < len(places) and places[next_place] < field.end:
            next_place += 1
        if next_place > first:
            made = filled_field(data, field, places[first:next_place], contents)
            parts += [data[kept_from : field.begin], *made]
            kept_from = field.end
    return [*parts, data[kept_from:end]]


def filled_field(
    data: bytes, field: Field, places: list[int], contents: GraphContents
) -> list[Buffer]:
    """Return a field, as it is written, with contents for the references within."""
    inner: list[Buffer]
    if places[0] == field.body:
        inner = [contents[data[field.body : field.end]]]
    else:
        inner = filled(data, field.body, field.end, places, contents)
    return [varint(field.tag) + varint(sum(map(len, inner))), *inner]


# ---- reading

# The fields on the way to the contents of tensors, by the messages in which they are.
_WAYS: dict[Any, tuple[str, ...]] = {
    pb.RegisterFunctionOp.DESCRIPTOR: ("function_def", "library"),
    pb.GraphDef.DESCRIPTOR: ("node", "library"),
    pb.FunctionDefLibrary.DESCRIPTOR: ("function",),
    pb.FunctionDef.DESCRIPTOR: ("node_def",),
    pb.NodeDef.DESCRIPTOR: ("attr",),
    pb.NodeDef.AttrEntry.DESCRIPTOR: ("value",),
    pb.AttrValue.DESCRIPTOR: ("tensor",),
    pb.TensorProto.DESCRIPTOR: ("tensor_content",),
}
_TAGS = {
    descriptor: {
        tag_of(field.number, DELIMITED): field.message_type
        for field in map(descriptor.fields_by_name.__getitem__, names)
    }
    for descriptor, names in _WAYS.items()
}


class ContentCutter:
    """Puts the large contents of graphs aside, which lie in the bytes of a message.

    Attributes:
      contents: those that were put aside.
    """

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._fields_left = _MOST_FIELDS
        self.contents: dict[bytes, Buffer] = {}

    def cut(self, field: Field, descriptor: Any) -> list[Buffer] | None:
        """Return a field that holds a message, as it is written, with references in the places of
        large contents; None where it has none, or is left to protobuf.

        descriptor: of the field's message; None for a content itself.
        """
        if field.end - field.body < LARGE_BYTES:
            return None
        if descriptor is None:
            reference = put_aside(self._view[field.body : field.end], self.contents)
            return [varint(field.tag) + varint(len(reference)) + reference]
        found = scan(self._view, field.body, field.end, most_fields=self._fields_left)
        if found is None:
            return None
        self._fields_left -= len(found)
        tags = _TAGS[descriptor]
        rest: list[Buffer] = []
        kept_from = field.body
        for inner in found:
            if inner.tag not in tags:
                continue
            made = self.cut(inner, tags[inner.tag])
            if made is not None:
                rest += [self._view[kept_from : inner.begin], *made]
                kept_from = inner.end
        if not rest:
            return None
        rest.append(self._view[kept_from : field.end])
        return [varint(field.tag) + varint(sum(map(len, rest))), *rest]
