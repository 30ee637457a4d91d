"""Messages of any type, known by name: their descriptors, and what their fields are as tensors.

Where descriptors come from is a text: "local://" (or none) for those of this process, the name of a
file that holds a FileDescriptorSet, or "bytes://" and then such a set.
Source: tensorflow/core/util/proto/descriptors.cc, proto_utils.h; the protobuf wire format
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from tideflow.formats import open_file
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError
from tideflow.wire.fields import DELIMITED, EIGHT_BYTES, FOUR_BYTES, VARINT, varint

START_GROUP, END_GROUP = 3, 4

# TensorFlow has them linked in; importing them is what puts them into the pool of this process.
_WELL_KNOWN = (any_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)

_LOCAL = ("", "local://")
_BYTES = "bytes://"
# TensorFlow's messages are in a package of that name, and ours are the same.
_THEIRS, _OURS = "tensorflow.", "tideflow."


class Kind(NamedTuple):
    """What a type of fields is on the wire and in tensors.

    types: the dtypes that it may become.
    read: a value from what is on the wire: an unsigned integer, or bytes.
    write: what is on the wire, behind the tag, for a value.
    """

    name: str
    types: tuple[DType, ...]
    wire_type: int
    read: Callable[[Any], Any]
    write: Callable[[Any], bytes]


def _signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def _integer(bits: int, signed: bool) -> tuple[Callable[[int], int], Callable[[Any], bytes]]:
    def read(number: int) -> int:
        return _signed(number, bits) if signed else number & ((1 << bits) - 1)

    # A negative number takes 64 bits, whatever the width of its field.
    return read, lambda value: varint(read(int(value)) & ((1 << 64) - 1))


def _zigzag(bits: int) -> tuple[Callable[[int], int], Callable[[Any], bytes]]:
    def read(number: int) -> int:
        number &= (1 << bits) - 1
        return (number >> 1) ^ -(number & 1)

    def write(value: Any) -> bytes:
        number = _signed(int(value), bits)
        return varint((number << 1 ^ number >> (bits - 1)) & ((1 << bits) - 1))

    return read, write


def _fixed(form: str, bits: int = 0) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    """Return how to read and write numbers of a struct format; bits: of what are integers."""
    packer = struct.Struct(form)

    def write(value: Any) -> bytes:
        if form == "<f":
            # A number beyond its range becomes infinite.
            return packer.pack(ctypes.c_float(value).value)
        if not bits:
            return packer.pack(value)
        return (int(value) & ((1 << bits) - 1)).to_bytes(bits // 8, "little")

    return lambda data: packer.unpack(data)[0], write


def _delimited(data: Any) -> bytes:
    content = bytes(data)
    return varint(len(content)) + content


_SIGNED = (dtypes.int32, dtypes.int64)
_UNSIGNED = (dtypes.uint32, dtypes.uint64)
_F = FieldDescriptor

KINDS: dict[int, Kind] = {
    _F.TYPE_DOUBLE: Kind("double", (dtypes.float64,), EIGHT_BYTES, *_fixed("<d")),
    _F.TYPE_FLOAT: Kind("float", (dtypes.float32, dtypes.float64), FOUR_BYTES, *_fixed("<f")),
    _F.TYPE_INT64: Kind("int64", (dtypes.int64,), VARINT, *_integer(64, signed=True)),
    _F.TYPE_UINT64: Kind("uint64", (dtypes.uint64,), VARINT, *_integer(64, signed=False)),
    _F.TYPE_INT32: Kind("int32", _SIGNED, VARINT, *_integer(32, signed=True)),
    _F.TYPE_FIXED64: Kind("fixed64", (dtypes.uint64,), EIGHT_BYTES, *_fixed("<Q", 64)),
    _F.TYPE_FIXED32: Kind("fixed32", _UNSIGNED, FOUR_BYTES, *_fixed("<I", 32)),
    _F.TYPE_BOOL: Kind("bool", (dtypes.bool_,), VARINT, bool, lambda value: varint(int(value))),
    _F.TYPE_STRING: Kind("string", (dtypes.string,), DELIMITED, bytes, _delimited),
    _F.TYPE_GROUP: Kind("group", (dtypes.string,), START_GROUP, bytes, bytes),
    _F.TYPE_MESSAGE: Kind("message", (dtypes.string,), DELIMITED, bytes, _delimited),
    _F.TYPE_BYTES: Kind("bytes", (dtypes.string,), DELIMITED, bytes, _delimited),
    _F.TYPE_UINT32: Kind("uint32", _UNSIGNED, VARINT, *_integer(32, signed=False)),
    _F.TYPE_ENUM: Kind("enum", (dtypes.int32,), VARINT, *_integer(32, signed=True)),
    _F.TYPE_SFIXED32: Kind("sfixed32", _SIGNED, FOUR_BYTES, *_fixed("<i", 32)),
    _F.TYPE_SFIXED64: Kind("sfixed64", (dtypes.int64,), EIGHT_BYTES, *_fixed("<q", 64)),
    _F.TYPE_SINT32: Kind("sint32", _SIGNED, VARINT, *_zigzag(32)),
    _F.TYPE_SINT64: Kind("sint64", (dtypes.int64,), VARINT, *_zigzag(64)),
}


class Message(NamedTuple):
    """A type of messages, and the pool that has it."""

    descriptor: Descriptor
    pool: descriptor_pool.DescriptorPool


def find_message(source: str, message_type: str) -> Message:
    """Return a type of messages by its full name.

    Raises: InvalidArgumentError for a source without descriptors, and a name that it does not have.
    """
    names = [message_type]
    if source in _LOCAL:
        pool = descriptor_pool.Default()
        if message_type.startswith(_THEIRS):
            names.append(_OURS + message_type.removeprefix(_THEIRS))
    else:
        pool = _pool_of(source, _content_of(source))
    for name in names:
        with contextlib.suppress(KeyError):
            return Message(pool.FindMessageTypeByName(name), pool)
    raise InvalidArgumentError(f"No descriptor found for message type {message_type}")


def _content_of(source: str) -> bytes:
    encoded = source.encode("utf-8", "surrogateescape")
    if source.startswith(_BYTES):
        return encoded.removeprefix(_BYTES.encode())
    try:
        with open_file(source) as file:
            return file.read()
    except (OSError, ValueError):
        raise _no_descriptors(source) from None


@functools.lru_cache(maxsize=32)
def _pool_of(source: str, content: bytes) -> descriptor_pool.DescriptorPool:
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(content)
    except DecodeError:
        raise _no_descriptors(source) from None
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        try:
            pool.Add(file)
        except TypeError as error:
            raise InvalidArgumentError(
                f"Failed to load FileDescriptorProto: {file.name}: {error}; a file comes after "
                "those that it imports"
            ) from None
    return pool


def _no_descriptors(source: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Source does not represent serialized file descriptor set proto: {source[:60]!r}; give "
        '"local://", the name of a file that holds a FileDescriptorSet, or "bytes://" and the set'
    )


def find_field(message: Message, name: str, *, extensions: bool) -> FieldDescriptor:
    """Return a field by its name; extensions: or an extension by its full name.

    Raises: InvalidArgumentError for a name that the type does not have.
    """
    descriptor = message.descriptor
    found = descriptor.fields_by_name.get(name)
    if found is None and extensions:
        with contextlib.suppress(KeyError):
            extension = message.pool.FindExtensionByName(name)
            owner = extension.containing_type
            if owner is not None and owner.full_name == descriptor.full_name:
                found = extension
    if found is None:
        raise InvalidArgumentError(f"Unknown field: {name} in message type {descriptor.full_name}")
    return found
