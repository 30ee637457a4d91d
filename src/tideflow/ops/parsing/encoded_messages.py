"""Tensors as fields of serialised messages: tf.io.encode_proto.

Source: tensorflow/core/kernels/encode_proto_op.cc, core/ops/encode_proto_ops.cc
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor

from tideflow.graph import shapes
from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.ops.parsing.message_fields import (
    END_GROUP,
    KINDS,
    START_GROUP,
    find_field,
    find_message,
)
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError
from tideflow.wire.fields import tag_of, varint


def _shape(c: ShapeContext) -> list[Dims]:
    batch: Dims = None
    for dims in c.inputs[1:]:
        if dims is None or len(dims) == 0:
            return [None]
        batch = shapes.merge(batch, dims[:-1])
    return [batch]


def _written(field: FieldDescriptor, values: list[Any]) -> bytes:
    """Return values as a field of a message."""
    kind, number = KINDS[field.type], field.number
    contents = [kind.write(value) for value in values]
    if field.is_packed and contents:
        whole = b"".join(contents)
        return varint(tag_of(number)) + varint(len(whole)) + whole
    before = varint(tag_of(number, kind.wire_type))
    after = varint(tag_of(number, END_GROUP)) if kind.wire_type == START_GROUP else b""
    return b"".join(before + content + after for content in contents)


def _check_type(field: FieldDescriptor, dtype: DType) -> None:
    kind = KINDS[field.type]
    if dtype not in kind.types:
        raise InvalidArgumentError(
            f"Incompatible type for field {field.name}.  Saw dtype: {dtype.name} but field type "
            f"is: {kind.name}"
        )


def _check_shapes(counts: Any, values: list[Any], field_names: list[str]) -> tuple[int, ...]:
    """Return the shape of the batch."""
    for value, name in zip(values, field_names, strict=True):
        if np.ndim(value) < 2:
            raise InvalidArgumentError(
                f"Invalid shape for field {name}.  Saw shape "
                f"{shapes.format_dims(np.shape(value))} but it should be at least a matrix."
            )
    batch: tuple[int, ...] = np.shape(values[0])[:-1]
    if np.shape(counts) != (*batch, len(field_names)):
        raise InvalidArgumentError(
            "sizes should be batch_size + [len(field_names)].  Saw: "
            f"{shapes.format_dims(np.shape(counts))} but expected: "
            f"{shapes.format_dims((*batch, len(field_names)))}"
        )
    for value in values:
        if np.shape(value)[:-1] != batch:
            raise InvalidArgumentError(
                "Values must match up to the last dimension; found "
                f"{shapes.format_dims(np.shape(value))} and {shapes.format_dims(batch)}"
            )
    return batch


@op(
    """
    EncodeProto(sizes: int32, values: *Tinput_types) -> bytes: string
    field_names: list(string)
    message_type: string
    descriptor_source: string = 'local://'
    Tinput_types: list(type) >= 1
    """,
    shape=_shape,
    blocks="files",
)
def encode_proto_kernel(
    ctx: KernelContext,
    sizes: Array,
    values: list[Any],
    *,
    field_names: list[str],
    message_type: str,
    descriptor_source: str,
    Tinput_types: list[DType],
) -> Any:
    """Return messages, their fields in the order of their numbers."""
    message = find_message(descriptor_source, message_type)
    fields = [find_field(message, name, extensions=False) for name in field_names]
    if len(values) != len(fields):
        raise InvalidArgumentError(
            f"Length of inputs list must match field_names; found {len(values)} and {len(fields)}"
        )
    batch = _check_shapes(sizes, values, field_names)
    for field, dtype in zip(fields, Tinput_types, strict=True):
        _check_type(field, dtype)
    counts = np.asarray(sizes).reshape(-1, len(fields)).tolist()
    rows = [_rows(value, batch) for value in values]
    order = sorted(range(len(fields)), key=lambda place: fields[place].number)
    made = np.empty(len(counts), object)
    for at, row in enumerate(counts):
        for place, count in enumerate(row):
            most = np.shape(values[place])[-1]
            if count > most:
                raise InvalidArgumentError(
                    "Size to write must not be larger than value tensor; but saw: "
                    f"{count} > {most} at message {at} field {place}"
                )
        made[at] = b"".join(
            _written(fields[place], rows[place][at][: max(row[place], 0)]) for place in order
        )
    return made.reshape(batch)


def _rows(value: TensorLike, batch: tuple[int, ...]) -> list[list[Any]]:
    array = np.asarray(value)
    found: list[list[Any]] = array.reshape(int(np.prod(batch)), array.shape[-1]).tolist()
    return found


@export("io.encode_proto")
def encode_proto(
    sizes: TensorLike,
    values: Sequence[TensorLike],
    field_names: Sequence[str],
    message_type: str,
    descriptor_source: str | bytes = "local://",
    name: str | None = None,
) -> Tensor:
    """Return serialised messages with tensors as fields.

    Args:
      sizes: how many values each field has in each message, of the shape of the result and an axis
        of fields.
      values: for each field a tensor of the shape of the result and one axis more, of the values.
      field_names, message_type, descriptor_source: as of decode_proto, but no extensions.
    Raises: InvalidArgumentError for descriptors that are not there, and types and shapes that do
      not fit.
    """
    made: Tensor = apply_op(
        "EncodeProto",
        sizes,
        list(values),
        field_names=list(field_names),
        message_type=message_type,
        descriptor_source=descriptor_source,
        name=name,
    )
    return made


not_differentiable("EncodeProto")
