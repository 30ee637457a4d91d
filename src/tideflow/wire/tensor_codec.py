"""Tensors between their run-time form and messages.

At run time a tensor is a NumPy array or array scalar; strings are object arrays of bytes,
quantised types plain integer arrays with their DType told beside, or on the way between tasks
arrays of TensorFlow's NumPy types for them, and a scalar resource or variant is the bare object
(see handles.py).  A JAX array is welcome wherever a value is encoded.

A message holds a tensor in one of two ways: `tensor_content`, the elements as little-endian bytes
in row-major order, or a list field for each type, which is for people and for constants (see
constants.py and typed_fields.py).  Peers send content; both are read.

Whoever decodes owns nothing: the arrays are read-only, and numeric content is viewed, not copied.
`decode_for_owner` is for who has received a message for itself alone.
Source: §4 of the recorded behaviour, tensor.proto of TensorFlow 2.21.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.wire import dtypes
from tideflow.wire import messages as pb
from tideflow.wire.constants import make_array
from tideflow.wire.constants import make_tensor_proto as make_tensor_proto
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.errors import InvalidArgumentError, ResourceExhaustedError
from tideflow.wire.fields import Buffer, varint
from tideflow.wire.handles import ResourceHandle, SupportsVariant, read_variant
from tideflow.wire.shapes import count_elements, decode_full_shape
from tideflow.wire.typed_fields import read_typed_fields
from tideflow.wire.work import OBJECT_BYTES, PROTOBUF_BYTES

# An array, an array scalar, or the bare object of a scalar resource or variant.
Value: TypeAlias = Any

_ARRAYS = (np.ndarray, np.generic)

# Copying so little costs less than viewing it.
_SMALL_BYTES = 1024
# Contents of at least this size are worth keeping out of messages: protobuf copies smaller ones in
# less time than it takes to find them.
LARGE_BYTES = 65536
_OBJECT_NUMBERS = frozenset(
    dtype.number for dtype in (dtypes.string, dtypes.resource, dtypes.variant)
)
# Numbers of all types may lie at a multiple of this many bytes.
_ITEM_ALIGNMENT = 8
# Contents begin at a multiple of this many bytes in a message, for whoever receives it into memory
# that does: compiled code asks that of an array that it takes without a copy.
ALIGNMENT = 64


def value_dtype(value: Value) -> DType:
    """Return the DType of a run-time value.

    An object array is judged by its first element, and is of strings when it has none.
    Raises: InvalidArgumentError for a value that no tensor can hold.
    """
    # Arrays first: they are what passes here at every step, and the protocol check is slow.
    if isinstance(value, _ARRAYS):
        if not value.dtype.hasobject:
            try:
                return dtypes.dtype_of(value)
            except KeyError:
                pass
    elif isinstance(value, ResourceHandle):
        return dtypes.resource
    elif isinstance(value, SupportsVariant):
        return dtypes.variant
    array = value if hasattr(value, "dtype") else make_array(value)
    if array.dtype == object and array.size:
        first = array.flat[0]
        if not isinstance(first, bytes | str):
            return value_dtype(first)
    try:
        return dtypes.dtype_of(array)
    except KeyError:
        pass
    try:
        return as_dtype(array.dtype.newbyteorder("="))
    except TypeError:
        raise InvalidArgumentError(
            f"cannot make a tensor of a {type(value).__name__} of NumPy type {array.dtype}"
        ) from None


def value_shape(value: Value) -> tuple[int, ...]:
    """Return the shape of a run-time value; a bare object is a scalar."""
    return tuple(value.shape) if hasattr(value, "shape") else np.shape(value)


def encode_tensor(value: Value, dtype: DType | None = None) -> pb.TensorProto:
    """Return the message of a tensor, its elements in `tensor_content`.

    Args:
      value: any run-time value, or a JAX array, or a Python scalar.
      dtype: needed for quantised types and for empty object arrays, else read off the value.

    Raises: InvalidArgumentError when the value is not of `dtype`.
    """
    tensor_pb = pb.TensorProto()
    content = put_tensor(tensor_pb, value, dtype)
    if content is not None:
        tensor_pb.tensor_content = bytes(content)
    return tensor_pb


def put_tensor(
    tensor_pb: pb.TensorProto, value: Value, dtype: DType | None = None
) -> memoryview | None:
    """Make an empty message that of a tensor, but for a large content, which is returned.

    What is returned is the array's own memory if that is contiguous.
    Raises: as `encode_tensor`.
    """
    array, dtype = _as_array(value, dtype)
    tensor_pb.MergeFromString(_header(dtype.number, array.shape))
    if not array.size:
        return None
    if array.dtype != object and array.nbytes < LARGE_BYTES:
        tensor_pb.tensor_content = array.tobytes()
        return None
    content = _content(array, dtype)
    if content.nbytes < LARGE_BYTES:
        tensor_pb.tensor_content = bytes(content)
        return None
    return content


def tensor_header(value: Value, dtype: DType | None = None) -> tuple[bytes, memoryview]:
    """Return the two halves of a serialised TensorProto: what precedes the elements, and them.

    Joined they are what `encode_tensor(value).SerializeToString()` says.  The second half is the
    array's own memory when that is contiguous: it must not change until it has been sent.
    Raises: InvalidArgumentError when the value is not of `dtype`.
    """
    header, payload = tensor_parts(value, dtype)
    return header + b"\x22" + varint(payload.nbytes) if payload.nbytes else header, payload


def tensor_parts(value: Value, dtype: DType | None = None) -> tuple[bytes, memoryview]:
    """Return a serialised TensorProto without elements, and these, as `tensor_header` does."""
    array, dtype = _as_array(value, dtype)
    header = _header(dtype.number, array.shape)
    return header, _content(array, dtype) if array.size else memoryview(b"")


def _content(array: np.ndarray[Any, Any], dtype: DType) -> memoryview:
    if array.dtype.hasobject:
        return memoryview(_object_content(array, dtype))
    if array.nbytes <= _SMALL_BYTES:
        return memoryview(array.tobytes())
    # Only bytes: half of the element types have no letter in the buffer protocol.
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def decode_tensor(tensor_pb: pb.TensorProto, content: Buffer | None = None) -> Value:
    """Return the value of a message, whichever way it holds its elements.

    A `content` that was kept apart stands for the message's own.

    Content wins over list fields and must have just the right size.  Of a list field, values past
    the end are ignored and the last one stands for those that are missing; without any, elements
    are zeros, empty strings or empty handles.  A missing shape means a scalar.

    Returns: a read-only array, or the bare object for a scalar resource or variant.
    Raises: InvalidArgumentError for an unknown type, a shape that no tensor has, or content of
      another size; ResourceExhaustedError when memory does not suffice.
    """
    dtype = tensor_dtype(tensor_pb)
    shape = decode_full_shape(tensor_pb.tensor_shape)
    content = content or tensor_pb.tensor_content
    if content:
        return decode_content(dtype, shape, content)
    try:
        array = read_typed_fields(tensor_pb, dtype, count_elements(shape)).reshape(shape)
    except MemoryError:
        raise ResourceExhaustedError(
            f"no memory for a tensor of {dtype.name} with shape {list(shape)}"
        ) from None
    return _finished(array, dtype)


def decode_for_owner(tensor_pb: pb.TensorProto, content: Buffer | None = None) -> Value:
    """Return the value of a message that nobody else has, as an array that may be changed.

    Contents are copied for that where they lie in the message, in bytes, or in memory that is
    shared with the sender: the children of this process would share that, too.
    Args, raises: as `decode_tensor`.
    """
    value = decode_tensor(tensor_pb, content)
    if not isinstance(value, np.ndarray):
        return value
    if content is None and value.base is not None:
        return value.copy()
    try:
        value.flags.writeable = True
    except ValueError:  # it lies in memory that must not be changed
        return value.copy()
    return value


def decode_to_keep(tensor_pb: pb.TensorProto, content: Buffer | None = None) -> Value:
    """Return the value of a message as `decode_tensor` does, for one that is kept for long: a
    content that was kept apart is copied, so that the memory in which it came is free again."""
    value = decode_tensor(tensor_pb, content)
    if content is None or not isinstance(value, np.ndarray) or value.base is None:
        return value
    copy = value.copy()
    copy.flags.writeable = False
    return copy


def decode_for_others(tensor_pb: pb.TensorProto, content: Buffer | None = None) -> Value:
    """Return the value of a message as `decode_tensor` does, to be handed on to other tasks.

    Numbers of a quantised type tell it themselves there.
    """
    value, dtype = decode_tensor(tensor_pb, content), tensor_dtype(tensor_pb)
    return dtypes.with_field(value, dtype) if dtype.is_quantized else value


def decode_content(dtype: DType, shape: Sequence[int], content: Buffer) -> Value:
    """Return the value whose elements are the bytes `content`; numbers are viewed in place
    if they lie where numbers may.

    Raises: InvalidArgumentError when the bytes do not hold just the elements of `shape`.
    """
    count = count_elements(shape)
    if dtype.as_numpy_dtype is object:
        # All are there before memory is taken for as many as the shape says.
        elements = list(_split_content(content, count, dtype, shape))
        array = np.empty(count, dtype=object)
        for index, element in enumerate(elements):
            array[index] = _decode_element(element, dtype)
        return _finished(array.reshape(shape), dtype)
    expected_bytes = count * dtype.size
    if len(content) != expected_bytes:
        raise InvalidArgumentError(
            f"tensor_content of a {dtype.name} tensor with shape {list(shape)} has "
            f"{len(content)} bytes; its {count} elements take {expected_bytes}"
        )
    if count == 0:
        return _finished(np.empty(shape, dtype.as_numpy_dtype), dtype)
    array = np.frombuffer(content, dtype.as_numpy_dtype).reshape(shape)
    if not array.flags.aligned:
        array = array.copy()
    # A bool of any other byte would be neither true nor false; real peers refuse it too.
    if dtype is dtypes.bool_ and (array.view(np.uint8) > 1).any():
        raise InvalidArgumentError(
            f"tensor_content of a bool tensor with shape {list(shape)} has bytes above 1; "
            "each byte must be 0 or 1"
        )
    return _finished(array, dtype)


def reading_work(tensor_pb: pb.TensorProto, content: Buffer | None = None) -> int:
    """Return as how many bytes (see work.py) the work of `decode_tensor` counts."""
    count = 1
    for dim in tensor_pb.tensor_shape.dim:
        count *= dim.size
    if content is None and tensor_pb.dtype not in _OBJECT_NUMBERS:
        return PROTOBUF_BYTES * count  # one value may stand for all elements
    return content_work(tensor_pb.dtype, content or b"", count)


def content_work(dtype_number: int, content: Buffer, count: int) -> int:
    """Return as how many bytes the work of `decode_content` counts; numbers that lie where numbers
    may are not gone through."""
    if dtype_number in _OBJECT_NUMBERS:
        return OBJECT_BYTES * count
    is_viewed = dtype_number != dtypes.bool_.number and _address(content) % _ITEM_ALIGNMENT == 0
    return 0 if is_viewed else len(content)


def _address(content: Buffer) -> int:
    return int(np.frombuffer(content, np.uint8).__array_interface__["data"][0])


def tensor_dtype(tensor_pb: pb.TensorProto) -> DType:
    """Return the element type that a message names.

    Raises: InvalidArgumentError when it names none, or a reference, which no tensor has.
    """
    try:
        dtype = as_dtype(int(tensor_pb.dtype))
    except TypeError:
        raise InvalidArgumentError(
            f"tensor has element type {int(tensor_pb.dtype)}, which this version does not know"
        ) from None
    if dtype.is_ref_dtype:
        raise InvalidArgumentError(
            f"tensor has element type {dtype.name}; references stand in op signatures only"
        )
    return dtype


@functools.lru_cache(maxsize=4096)
def _header(dtype_number: int, shape: tuple[int, ...]) -> bytes:
    header_pb = pb.TensorProto(dtype=dtype_number)
    header_pb.tensor_shape.SetInParent()
    for size in shape:
        header_pb.tensor_shape.dim.add(size=size)
    return header_pb.SerializeToString()


def _as_array(value: Value, dtype: DType | None) -> tuple[np.ndarray[Any, Any], DType]:
    """Return the value as an array of the very NumPy type that `dtype` is stored in."""
    if dtype is None:
        dtype = value_dtype(value)
    if isinstance(value, np.ndarray):
        array = value
    elif dtype.as_numpy_dtype is object and not hasattr(value, "shape"):
        array = np.empty((), dtype=object)
        array[()] = value
    elif hasattr(value, "dtype"):
        array = np.asarray(value)
    else:
        array = make_array(value, dtype)
    if array.dtype == dtype.as_numpy_dtype:
        return array, dtype
    if array.dtype.names:
        return dtypes.without_field(array), dtype
    if dtype is dtypes.string and array.dtype.kind in "SU":
        return array.astype(object), dtype
    # The one difference that is no difference is byte order.
    if array.dtype.newbyteorder("=") == dtype.as_numpy_dtype:
        return array.astype(dtype.as_numpy_dtype), dtype
    raise InvalidArgumentError(
        f"cannot encode an array of {array.dtype} as a tensor of {dtype.name}; "
        f"it must be of {np.dtype(dtype.as_numpy_dtype)}"
    )


def _object_content(array: np.ndarray[Any, Any], dtype: DType) -> bytes:
    elements = [_encode_element(element, dtype) for element in array.flat]
    return b"".join([*(varint(len(element)) for element in elements), *elements])


def _encode_element(element: object, dtype: DType) -> bytes:
    if dtype is dtypes.string:
        if isinstance(element, bytes):
            return element
        if isinstance(element, str):
            return element.encode()
    elif dtype is dtypes.resource:
        if isinstance(element, ResourceHandle):
            return element.to_proto().SerializeToString()
    elif isinstance(element, SupportsVariant):
        return element.to_variant().to_proto().SerializeToString()
    raise InvalidArgumentError(
        f"a tensor of {dtype.name} cannot hold a {type(element).__name__}: {element!r:.80}"
    )


def _decode_element(element: bytes, dtype: DType) -> object:
    if dtype is dtypes.string:
        return element
    try:
        if dtype is dtypes.resource:
            return ResourceHandle.from_proto(pb.ResourceHandleProto.FromString(element))
        return read_variant(pb.VariantTensorDataProto.FromString(element))
    except DecodeError:
        raise InvalidArgumentError(
            f"tensor_content of a {dtype.name} tensor holds an element of {len(element)} bytes "
            "that does not parse as one"
        ) from None


def _split_content(
    content: Buffer, count: int, dtype: DType, shape: Sequence[int]
) -> Iterable[bytes]:
    """Yield the elements of object content: all lengths come first, then all bytes."""
    where = f"tensor_content of a {dtype.name} tensor with shape {list(shape)}"
    # Each length takes a byte at least; asked before anything is sized by `count`.
    if count > len(content):
        raise InvalidArgumentError(
            f"{where} has {len(content)} bytes; it must begin with the lengths of {count} elements"
        )
    position = 0
    lengths = []
    for _ in range(count):
        length, position = _read_varint(content, position, where)
        lengths.append(length)
    if position + sum(lengths) != len(content):
        raise InvalidArgumentError(
            f"{where} announces elements of {sum(lengths)} bytes in all, "
            f"but holds {len(content) - position}"
        )
    for length in lengths:
        yield bytes(content[position : position + length])
        position += length


def _read_varint(content: Buffer, position: int, where: str) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if position >= len(content):
            break
        byte = content[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
    raise InvalidArgumentError(f"{where} has a broken element length before byte {position}")


def _finished(array: np.ndarray[Any, Any], dtype: DType) -> Value:
    if dtype in (dtypes.resource, dtypes.variant) and array.ndim == 0:
        return array[()]
    array.flags.writeable = False
    return array
