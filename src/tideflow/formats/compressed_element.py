"""Elements of datasets in the compressed form in which they travel and are kept.

The bytes of all components stand one after the other and are compressed together; beside them is
the type and shape of each component.  A string is its bytes; what is neither number nor string is
a serialized TensorProto.

Source: tensorflow/core/framework/dataset.proto, core/data/compression_utils.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.formats import snappy
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.fields import Buffer, tag_of, varint
from tideflow.wire.handles import Variant, register_variant
from tideflow.wire.shapes import count_elements, decode_full_shape, encode_shape
from tideflow.wire.tensor_codec import decode_content, decode_tensor, encode_tensor, value_shape

TYPE_NAME = "tensorflow.data.CompressedElement"

_VERSION = 0
_DATA = tag_of(pb.CompressedElement.DESCRIPTOR.fields_by_name["data"].number)
# Snappy has 32 bits for the size.
_MOST_BYTES = (1 << 32) - 1


class CompressedElement:
    """A compressed element, as the value of a variant.

    Attributes:
      message: what it consists of, without its data.
      data: the components, compressed.
    """

    __slots__ = ("data", "message")

    def __init__(self, message: pb.CompressedElement, data: Buffer) -> None:
        self.message = message
        self.data = data

    @property
    def size_bytes(self) -> int:
        """How much memory it takes, but for what is small."""
        return len(self.data)

    def to_variant(self) -> Variant:
        """Return the form in which it travels."""
        # Fields may come in any order, and protobuf would copy the data twice.
        head = varint(_DATA) + varint(len(self.data)) if len(self.data) else b""
        return Variant(TYPE_NAME, b"".join([head, self.data, self.message.SerializeToString()]))

    @classmethod
    def from_variant(cls, variant: Variant) -> CompressedElement:
        """Return what has arrived.  Raises: InvalidArgumentError for bytes that are none."""
        try:
            message = pb.CompressedElement.FromString(variant.metadata)
        except DecodeError:
            raise errors.InvalidArgumentError(
                f"a variant of {TYPE_NAME} has {len(variant.metadata)} bytes that are none"
            ) from None
        return cls.of(message)

    @classmethod
    def of(cls, message: pb.CompressedElement, data: Buffer | None = None) -> CompressedElement:
        """Return what a message holds, which it holds no more then; `data` may lie beside it."""
        if data is None:
            data = message.data
            message.ClearField("data")
        return cls(message, data)


register_variant(TYPE_NAME, CompressedElement.from_variant)


def compress_element(values: Sequence[Any], types: Sequence[DType]) -> CompressedElement:
    """Return the components of an element compressed.

    Raises: OutOfRangeError for an element of 4 GiB or more.
    """
    message = pb.CompressedElement(version=_VERSION)
    parts: list[bytes] = []
    for value, dtype in zip(values, types, strict=True):
        metadata = message.component_metadata.add(dtype=dtype.number)
        metadata.tensor_shape.CopyFrom(encode_shape(value_shape(value)))
        pieces = _pieces(value, dtype)
        metadata.uncompressed_bytes.extend(map(len, pieces))
        parts += pieces
    data = b"".join(parts)
    if len(data) > _MOST_BYTES:
        raise errors.OutOfRangeError(
            f"Encountered dataset element of size {len(data)}, exceeding the 4GB Snappy limit."
        )
    return CompressedElement(message, snappy.compress(data))


def _pieces(value: Any, dtype: DType) -> list[bytes]:
    if dtype is dtypes.string:
        return list(np.asarray(value, object).reshape(-1))
    if dtype.as_numpy_dtype is object:
        return [encode_tensor(value, dtype).SerializeToString()]
    # An array without elements has no piece.
    data = np.asarray(value, dtype.as_numpy_dtype).tobytes()
    return [data] if data else []


def uncompress_element(element: CompressedElement) -> list[Any]:
    """Return the components of an element.

    Raises: InternalError for another version, and where sizes do not agree; DataLossError for
    data that was damaged.
    """
    message = element.message
    if message.version != _VERSION:
        raise errors.InternalError(
            f"Unsupported compressed element version: {message.version}; {_VERSION} is known"
        )
    data = snappy.decompress(element.data, "a compressed element")
    wanted = sum(sum(one.uncompressed_bytes) for one in message.component_metadata)
    if wanted != len(data):
        raise errors.InternalError(
            f"Uncompressed size mismatch. Snappy expects {len(data)} whereas the tensor metadata "
            f"suggests {wanted}"
        )
    found = []
    at = 0
    for metadata in message.component_metadata:
        pieces = []
        for size in metadata.uncompressed_bytes:
            pieces.append(data[at : at + size])
            at += size
        found.append(_value(metadata, pieces))
    return found


def _value(metadata: pb.CompressedComponentMetadata, pieces: list[bytes]) -> Any:
    try:
        dtype = as_dtype(int(metadata.dtype))
    except TypeError as error:
        raise errors.InternalError(f"a component of a compressed element: {error}") from None
    dims = decode_full_shape(metadata.tensor_shape)
    if dtype is dtypes.string:
        if len(pieces) != count_elements(dims):
            raise errors.InternalError(
                f"a compressed element has {len(pieces)} strings for the shape {list(dims)}"
            )
        strings = np.empty(len(pieces), object)
        strings[:] = pieces
        return strings.reshape(dims)
    if not pieces and not count_elements(dims) and dtype.as_numpy_dtype is not object:
        pieces = [b""]
    if len(pieces) != 1:
        raise errors.InternalError(f"a component in {len(pieces)} pieces; one is expected")
    if dtype.as_numpy_dtype is object:
        try:
            return decode_tensor(pb.TensorProto.FromString(pieces[0]))
        except DecodeError:
            raise errors.InternalError("a component is no serialized tensor") from None
    try:
        return decode_content(dtype, dims, pieces[0])
    except errors.InvalidArgumentError as error:
        raise errors.InternalError(error.message) from None
