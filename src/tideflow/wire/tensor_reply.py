"""The answer to RecvTensor as a value: what crosses between workers, and what is large.

It stands in the place of the message RecvTensorResponse and reads and writes its bytes itself:
on the way out the elements are the memory of the array, on the way in they are viewed where they
arrived.
Source: worker.proto; runtime facts on RecvTensor; tensor_coding.cc of TensorFlow 2.21.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tideflow.wire import dtypes
from tideflow.wire import messages as pb
from tideflow.wire.fields import (
    VARINT,
    Buffer,
    Field,
    padding,
    read_varint,
    scan,
    tag_of,
    the_one,
    varint,
)
from tideflow.wire.shapes import decode_full_shape
from tideflow.wire.tensor_codec import (
    ALIGNMENT,
    LARGE_BYTES,
    Value,
    content_work,
    decode_content,
    decode_tensor,
    tensor_dtype,
    tensor_header,
)
from tideflow.wire.work import PROTOBUF_BYTES, writing_work

_TENSOR = tag_of(1)
_IS_DEAD = tag_of(2, VARINT)
_SEND_START = tag_of(3, VARINT)
_DTYPE = tag_of(1, VARINT)
_CONTENT = tag_of(4)


@dataclass(slots=True)
class TensorReply:
    """A tensor that one worker gives to another.

    Attributes:
      value: the tensor; a float of shape [0] for a dead one.
      is_dead: whether it was not computed, since control flow went another way.
      send_start_us: wall clock of the sender.
      require_ack: whether the sender wants to hear that it has arrived.
    """

    value: Value
    is_dead: bool = False
    send_start_us: int = 0
    require_ack: bool = False

    def work_to_write(self) -> int:
        """Return as how many bytes (see work.py) the work of `SerializeToParts` counts."""
        return writing_work(self.value)

    @staticmethod
    def work_to_read(data: Buffer) -> int:
        """Return as how many bytes the work of `FromString` counts, of a large message."""
        view = memoryview(data)
        found = _places(view)
        if found is None:
            return PROTOBUF_BYTES * len(data)
        content = view[found.content.body : found.content.end]
        # Each string takes a byte at least.
        return content_work(found.dtype_number(view), content, len(content))

    def SerializeToParts(self) -> list[Buffer]:
        """Return buffers whose bytes, in a row, are those of the RecvTensorResponse.

        The last is memory of the value, which must not change until it has been sent.
        Raises: InvalidArgumentError for a value that no tensor can hold.
        """
        header, payload = tensor_header(self.value)
        parts = [varint(_SEND_START) + varint(self.send_start_us)] if self.send_start_us else []
        if self.is_dead:
            parts.append(varint(_IS_DEAD) + b"\x01")
        if self.require_ack:
            parts.append(b"\x28\x01")
        parts += [varint(_TENSOR), varint(len(header) + payload.nbytes), header]
        if payload.nbytes >= LARGE_BYTES and not self.is_dead:
            parts.insert(0, padding(_IS_DEAD, -sum(map(len, parts)) % ALIGNMENT))
        return [b"".join(parts), payload] if payload.nbytes else [b"".join(parts)]

    def SerializeToString(self) -> bytes:
        """Return the bytes of the RecvTensorResponse; errors as in `SerializeToParts`."""
        return b"".join(self.SerializeToParts())

    @classmethod
    def FromString(cls, data: Buffer) -> TensorReply:
        """Return what the bytes of a RecvTensorResponse say; an empty message means a float of
        shape [0], as peers read it.

        Raises: DecodeError for bytes that are none; InvalidArgumentError for a malformed tensor.
        """
        found = _split(data) if len(data) >= LARGE_BYTES else None
        if found is None:
            response = pb.RecvTensorResponse.FromString(data)  # type: ignore[arg-type]
            return cls._of(response, _decode(response.tensor))
        response = pb.RecvTensorResponse.FromString(found.outside)
        dtype = tensor_dtype(found.tensor_pb)
        shape = decode_full_shape(found.tensor_pb.tensor_shape)
        return cls._of(response, decode_content(dtype, shape, found.content))

    @classmethod
    def _of(cls, response: pb.RecvTensorResponse, value: Value) -> TensorReply:
        return cls(value, response.is_dead, response.send_start_micros, response.require_ack)


def dead_reply(send_start_us: int) -> TensorReply:
    """Return the answer for a tensor that was not computed."""
    return TensorReply(np.zeros([0], np.float32), True, send_start_us)


def _decode(tensor_pb: pb.TensorProto) -> Value:
    if tensor_pb.dtype == 0:
        return decode_tensor(pb.TensorProto(dtype=dtypes.float32.number, tensor_shape=_EMPTY))
    return decode_tensor(tensor_pb)


_EMPTY = pb.TensorShapeProto(dim=[pb.TensorShapeProto.Dim(size=0)])


# ---- reading without copying


class _Split(NamedTuple):
    """A large message taken apart.

    outside: the message without its tensor; tensor_pb: the tensor without its elements.
    """

    outside: bytes
    tensor_pb: pb.TensorProto
    content: memoryview


class _Places(NamedTuple):
    """Where the parts of a large message are: its tensor, the fields of that, and the content."""

    tensor: Field
    fields: list[Field]
    content: Field

    def dtype_number(self, view: memoryview) -> int:
        """Return the number of the element type; 0 where none is told."""
        field = the_one(self.fields, _DTYPE)
        return 0 if field is None else read_varint(view, field.body, field.end, 10)[0]


def _places(view: memoryview) -> _Places | None:
    """Find the elements in a large message; None where they are not one run of content."""
    tensor = the_one(scan(view, 0, len(view)), _TENSOR)
    if tensor is None:
        return None
    fields = scan(view, tensor.body, tensor.end)
    content = the_one(fields, _CONTENT)
    if fields is None or content is None or content.end == content.body:
        return None
    return _Places(tensor, fields, content)


def _split(data: Buffer) -> _Split | None:
    """Take a large message apart; None where its elements are not one run of content."""
    view = memoryview(data)
    found = _places(view)
    if found is None:
        return None
    tensor, _, content = found
    around = bytes(view[tensor.body : content.begin]) + bytes(view[content.end : tensor.end])
    return _Split(
        bytes(view[: tensor.begin]) + bytes(view[tensor.end :]),
        pb.TensorProto.FromString(around),
        view[content.body : content.end],
    )
