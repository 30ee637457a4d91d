"""Types of messages with a field of every type, as descriptors, and fields as they are written."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from tideflow.wire.fields import tag_of, varint

_F = FieldDescriptorProto
# The dtypes that a type of fields becomes.
TYPES: dict[str, list[str]] = {
    "double": ["float64"],
    "float": ["float32", "float64"],
    "int64": ["int64"],
    "uint64": ["uint64"],
    "int32": ["int32", "int64"],
    "fixed64": ["uint64"],
    "fixed32": ["uint32", "uint64"],
    "bool": ["bool"],
    "string": ["string"],
    "group": ["string"],
    "message": ["string"],
    "bytes": ["string"],
    "uint32": ["uint32", "uint64"],
    "enum": ["int32"],
    "sfixed32": ["int32", "int64"],
    "sfixed64": ["int64"],
    "sint32": ["int32", "int64"],
    "sint64": ["int64"],
}
_NOT_PACKED = ("string", "group", "message", "bytes")
_DEFAULTS = {
    "int32": "7",
    "string": "dflt",
    "enum": "BLUE",
    "uint64": "18446744073709551615",
    "double": "2.5",
    "bool": "true",
    "bytes": "by\\377",
    "int64": "-4",
}
_INNER = {"message": ".sample.Inner", "group": ".sample.All.Group", "enum": ".sample.Color"}


def _add(to: Any, name: str, number: int, kind: str, label: int, **more: Any) -> None:
    type_number = _F.Type.Value(f"TYPE_{kind.upper()}")
    made = to.add(name=name, number=number, type=type_number, label=label, **more)
    if kind in _INNER:
        made.type_name = _INNER[kind]


def descriptors() -> FileDescriptorSet:
    """Return the types: All has one_X (1 to 18), some_X (21 on) and packed_X (41 on) of each type.

    default_X (61 on) have defaults; oneof: this or that.  Asking needs its field q.
    """
    file = FileDescriptorProto(name="sample.proto", package="sample", syntax="proto2")
    every = file.message_type.add(name="All")
    every.nested_type.add(name="Group").field.add(name="x", number=1, type=5, label=1)
    for number, kind in enumerate(TYPES, 1):
        _add(every.field, f"one_{kind}", number, kind, _F.LABEL_OPTIONAL)
        _add(every.field, f"some_{kind}", number + 20, kind, _F.LABEL_REPEATED)
        if kind not in _NOT_PACKED:
            packed = {"options": {"packed": True}}
            _add(every.field, f"packed_{kind}", number + 40, kind, _F.LABEL_REPEATED, **packed)
    for number, (kind, text) in enumerate(_DEFAULTS.items(), 61):
        given = {"default_value": text}
        _add(every.field, f"default_{kind}", number, kind, _F.LABEL_OPTIONAL, **given)
    every.oneof_decl.add(name="choice")
    for number, name in enumerate(("this", "that"), 81):
        _add(every.field, name, number, "int32", _F.LABEL_OPTIONAL, oneof_index=0)
    every.extension_range.add(start=100, end=200)
    _add(file.extension, "extra", 100, "int32", _F.LABEL_OPTIONAL, extendee=".sample.All")
    _inner(file.message_type.add(name="Inner"))
    needy = file.message_type.add(name="Needy")
    _add(needy.field, "q", 1, "int32", _F.LABEL_REQUIRED)
    _add(needy.field, "w", 2, "int32", _F.LABEL_OPTIONAL)
    color = file.enum_type.add(name="Color")
    for name, value in {"RED": 0, "BLUE": 5, "NEGATIVE": -1}.items():
        color.value.add(name=name, number=value)
    return FileDescriptorSet(file=[file])


def _inner(message: DescriptorProto) -> None:
    _add(message.field, "a", 1, "int32", _F.LABEL_OPTIONAL)
    _add(message.field, "b", 2, "string", _F.LABEL_OPTIONAL)
    _add(message.field, "c", 3, "int32", _F.LABEL_REPEATED)


SOURCE = b"bytes://" + descriptors().SerializeToString()


def number_of(name: str) -> int:
    """Return the number of a field of All."""
    return next(x.number for x in descriptors().file[0].message_type[0].field if x.name == name)


def field(number: int, wire_type: int, content: bytes) -> bytes:
    """Return a field as it is written; content: all that is behind the tag."""
    return varint(tag_of(number, wire_type)) + content


def delimited(number: int, content: bytes) -> bytes:
    """Return a field of text, or of packed numbers."""
    return field(number, 2, varint(len(content)) + content)
