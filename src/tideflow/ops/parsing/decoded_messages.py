"""Fields of serialised messages as tensors: tf.io.decode_proto.

What counts is what is on the wire: a field that is there with its default value is there, and of a
field that is no list the last value is taken, without merging messages.  Where messages are parsed
first, two things are protobuf's for Python: text must be UTF-8, and a map keeps a key once.
Source: tensorflow/core/kernels/decode_proto_op.cc, core/ops/decode_proto_ops.cc
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.parsing.message_fields import (
    END_GROUP,
    KINDS,
    START_GROUP,
    Message,
    find_field,
    find_message,
)
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.errors import DataLossError, InvalidArgumentError
from tideflow.wire.fields import DELIMITED, EIGHT_BYTES, FOUR_BYTES, VARINT, read_varint

_VARINT_BYTES = 10
_MOST_DEPTH = 100
_32_BITS = (1 << 32) - 1


class _Field:
    """A field that is asked for."""

    def __init__(self, field: FieldDescriptor, dtype: DType) -> None:
        kind = KINDS[field.type]
        if dtype not in kind.types:
            raise InvalidArgumentError(
                f"Unexpected output type for {field.full_name}: {kind.name} to {dtype.name}; it "
                f"may be {' or '.join(one.name for one in kind.types)}"
            )
        self.field, self.kind, self.dtype = field, kind, dtype
        self.is_list = field.is_repeated
        # TensorFlow widens the numbers of a packed list of int32 without their sign.
        self._loses_sign = field.type == FieldDescriptor.TYPE_INT32 and dtype is dtypes.int64

    @property
    def default(self) -> Any:
        """The value where there is none."""
        if self.dtype is not dtypes.string:
            return 0 if self.is_list else self.field.default_value
        given = None if self.is_list else self.field.default_value
        return (given.encode() if isinstance(given, str) else given) or b""

    def takes(self, wire_type: int) -> bool:
        """Whether a value may be on the wire in this way."""
        return wire_type in (self.kind.wire_type, DELIMITED)

    def add(self, found: list[Any], wire_type: int, content: Any) -> None:
        """Put what is on the wire into the values found before."""
        if wire_type == self.kind.wire_type:
            value = self.kind.read(content)
            if not self.is_list:
                found.clear()
            found.append(value)
            return
        values = self._packed(content)
        if self.is_list:
            found += values
        elif found and found[0] is not None:
            raise DataLossError(
                "ReadPackedValues: Tried to write more entries than allowed.  Field tag: "
                f"{self.field.number}, Max entries allowed: 1"
            )
        elif values:
            # TensorFlow counts them, and keeps the default.
            found[:] = [None]

    def _packed(self, content: bytes) -> list[Any]:
        wire_type, read = self.kind.wire_type, self.kind.read
        if wire_type == START_GROUP:
            raise DataLossError("TYPE_GROUP encountered as packed")
        if wire_type != VARINT:
            size = _SIZES[wire_type]
            if len(content) % size:
                raise DataLossError(
                    f"Illegal data length for packed fixed-size type: {len(content)}"
                )
            return [read(content[at : at + size]) for at in range(0, len(content), size)]
        found, at = [], 0
        while at < len(content):
            number, at = read_varint(content, at, len(content), _VARINT_BYTES)
            if number < 0:
                raise DataLossError("Corrupt packed varint")
            found.append(number & _32_BITS if self._loses_sign else read(number))
        return found


_SIZES = {EIGHT_BYTES: 8, FOUR_BYTES: 4}


def _values(data: bytes, fields: Sequence[_Field]) -> list[list[Any]]:
    """Return the values of each field in a message; of a field that comes twice, in the first."""
    found: list[list[Any]] = [[] for _ in fields]
    index: dict[int, int] = {}
    for place, field in enumerate(fields):
        index.setdefault(field.field.number, place)
    at, end = 0, len(data)
    while at < end:
        begin = at
        tag, at = _tag(data, at)
        if tag <= 0 or tag & 7 == END_GROUP:
            raise DataLossError("CountFields: Failed to consume entire buffer")
        wanted = index.get(tag >> 3)
        is_wanted = wanted is not None and fields[wanted].takes(tag & 7)
        content, at = _content(data, at, tag, 0)
        if at < 0:
            raise DataLossError(
                "ReadValue: Failed skipping field when counting"
                if is_wanted
                else "Failed skipping unrequested field"
            )
        if wanted is not None and is_wanted:
            is_group = tag & 7 == START_GROUP
            fields[wanted].add(found[wanted], tag & 7, data[begin:at] if is_group else content)
    return found


def _tag(data: bytes, at: int) -> tuple[int, int]:
    """Return a tag and where it stops; -1 for one that does not stop."""
    tag, at = read_varint(data, at, len(data), _VARINT_BYTES)
    return (tag if tag < 0 else tag & _32_BITS), at


def _content(data: bytes, at: int, tag: int, depth: int) -> tuple[Any, int]:
    """Return what is behind a tag, and where it stops, which is -1 for what does not fit.

    It is a number, or bytes; None for a group.
    """
    wire_type, end = tag & 7, len(data)
    if not tag >> 3 or depth > _MOST_DEPTH:
        return None, -1
    if wire_type == VARINT:
        number, at = read_varint(data, at, end, _VARINT_BYTES)
        return number, at if number >= 0 else -1
    if wire_type == START_GROUP:
        while at < end:
            inner, after = _tag(data, at)
            if inner <= 0:
                return None, -1
            if inner & 7 == END_GROUP:
                return None, after if inner >> 3 == tag >> 3 else -1
            _, at = _content(data, after, inner, depth + 1)
            if at < 0:
                return None, -1
        return None, -1
    size = _SIZES.get(wire_type, -1)
    if wire_type == DELIMITED:
        size, at = read_varint(data, at, end, _VARINT_BYTES)
        size = size if size < 0 else size & _32_BITS
    if size < 0 or at + size > end:
        return None, -1
    return data[at : at + size], at + size


# ---- the op


def _parsed(message: Message, text: bytes, is_text: bool) -> bytes:
    """Return a message as it is written after it was parsed."""
    made = GetMessageClass(message.descriptor)()
    try:
        if is_text:
            text_format.Parse(text, made, descriptor_pool=message.pool)
        else:
            made.ParseFromString(text)
        return bytes(made.SerializeToString())
    except (text_format.ParseError, DecodeError, EncodeError, ValueError):
        form = "text" if is_text else "binary"
        raise DataLossError(f"Unable to parse {form} protobuf") from None


def _shapes(c: ShapeContext) -> list[Dims]:
    batch, count = c.shape(0), len(c.attrs["output_types"])
    if batch is None:
        return [None] * (1 + count)
    return [(*batch, len(c.attrs["field_names"])), *[(*batch, None)] * count]


@op(
    """
    DecodeProtoV2(bytes: string) -> sizes: int32, values: *output_types
    message_type: string
    field_names: list(string)
    output_types: list(type) >= 0
    descriptor_source: string = 'local://'
    message_format: string = 'binary'
    sanitize: bool = false
    """,
    shape=_shapes,
    blocks="files",
)
def decode_proto_kernel(
    ctx: KernelContext,
    data: Array | bytes,
    *,
    message_type: str,
    field_names: list[str],
    output_types: list[DType],
    descriptor_source: str,
    message_format: str,
    sanitize: bool,
) -> Any:
    """Return how many values each field has in each message, and the values."""
    message = find_message(descriptor_source, message_type)
    if len(field_names) != len(output_types):
        raise InvalidArgumentError(
            "field_names and output_types attributes must have the same length; found "
            f"{len(field_names)} and {len(output_types)}"
        )
    fields = [
        _Field(find_field(message, name, extensions=True), dtype)
        for name, dtype in zip(field_names, output_types, strict=True)
    ]
    if message_format not in ("binary", "text"):
        raise InvalidArgumentError(
            f"format must be one of binary or text; found {message_format!r}"
        )
    batch = np.shape(data)
    contents: list[bytes] = np.asarray(data, object).reshape(-1).tolist()
    if not contents:
        raise InvalidArgumentError("Bufs argument must contain at least one value")
    is_text = message_format == "text"
    if is_text or sanitize:
        contents = [_parsed(message, content, is_text) for content in contents]
    rows = [_values(content, fields) for content in contents]
    counts = np.array([[len(values) for values in row] for row in rows], np.int32)
    columns = [_column([row[place] for row in rows], field) for place, field in enumerate(fields)]
    return counts.reshape(*batch, len(fields)), [
        column.reshape(*batch, column.shape[1]) for column in columns
    ]


def _column(rows: list[list[Any]], field: _Field) -> np.ndarray[Any, Any]:
    """Return the values of a field in all messages, filled up with the default."""
    width = max(1, *map(len, rows))
    made = np.full((len(rows), width), field.default, field.dtype.as_numpy_dtype)
    for at, values in enumerate(rows):
        if values and values[0] is not None:
            made[at, : len(values)] = values
    return made


class DecodedProto(NamedTuple):
    """What decode_proto returns; sizes [..., fields], values a tensor [..., most] for each."""

    sizes: Any
    values: Any


@export("io.decode_proto")
def decode_proto(
    bytes: TensorLike,
    message_type: str,
    field_names: Sequence[str],
    output_types: Sequence[DTypeLike],
    descriptor_source: str | bytes = "local://",
    message_format: str = "binary",
    sanitize: bool = False,
    name: str | None = None,
) -> DecodedProto:
    """Return fields of serialised messages as tensors.

    Args:
      bytes: messages, strings of any shape.
      message_type: the full name of their type.
      field_names: of fields; extensions by their full names.
      output_types: of each field: what its type becomes; of messages strings, their content.
      descriptor_source: what has the type: "local://", this process; the name of a file that holds
        a FileDescriptorSet; or "bytes://" and such a set.
      message_format: "binary" or "text".
      sanitize: whether messages are parsed and written again first, which joins what is there
        twice.
    Returns: (sizes, values): how many values each field has in each message, with an axis of
      fields; and for each field a tensor of the shape of bytes and one axis more, as long as the
      most values, with the field's default where there are fewer.
    Raises: InvalidArgumentError for descriptors that are not there and types that do not fit;
      DataLossError for bytes that are no message.
    """
    types = [as_dtype(one) for one in output_types]
    found = apply_op(
        "DecodeProtoV2",
        bytes,
        message_type=message_type,
        field_names=list(field_names),
        output_types=types,
        descriptor_source=descriptor_source,
        message_format=message_format,
        sanitize=sanitize,
        name=name,
    )
    return DecodedProto(*found)


not_differentiable("DecodeProtoV2")
