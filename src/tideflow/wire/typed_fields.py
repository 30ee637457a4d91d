"""The list fields of TensorProto: one for each family of element types.

Constants come this way, since it keeps small values readable in a dumped graph.  Some fields
hold several types: `int_val` integers of up to 32 bits, `half_val` the raw bits of 16-bit floats.
Source: tensor.proto and Tensor::FromProto of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.wire import dtypes
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.handles import ResourceHandle, Variant, read_variant
from tideflow.wire.room import require_room

_INT_VAL = (
    dtypes.int32, dtypes.int16, dtypes.int8, dtypes.int4, dtypes.int2,
    dtypes.uint16, dtypes.uint8, dtypes.uint4, dtypes.uint2,
    dtypes.qint8, dtypes.quint8, dtypes.qint16, dtypes.quint16, dtypes.qint32,
)  # fmt: skip

_FIELDS: dict[DType, str] = {
    dtypes.float32: "float_val",
    dtypes.float64: "double_val",
    dtypes.float16: "half_val",
    dtypes.bfloat16: "half_val",
    dtypes.float8_e5m2: "float8_val",
    dtypes.float8_e4m3fn: "float8_val",
    dtypes.float8_e4m3fnuz: "float8_val",
    dtypes.float8_e4m3b11fnuz: "float8_val",
    dtypes.float8_e5m2fnuz: "float8_val",
    dtypes.float4_e2m1fn: "float8_val",
    **dict.fromkeys(_INT_VAL, "int_val"),
    dtypes.int64: "int64_val",
    dtypes.uint32: "uint32_val",
    dtypes.uint64: "uint64_val",
    dtypes.bool_: "bool_val",
    dtypes.complex64: "scomplex_val",
    dtypes.complex128: "dcomplex_val",
    dtypes.string: "string_val",
    dtypes.resource: "resource_handle_val",
    dtypes.variant: "variant_val",
}


def read_typed_fields(tensor_pb: pb.TensorProto, dtype: DType, count: int) -> np.ndarray[Any, Any]:
    """Return the `count` elements of a tensor, flat, from the list field of its type.

    Values past the end are ignored, the last one stands for those that are missing (of complex
    numbers the last full pair), and without any they are zeros, empty strings or empty handles.
    Values in another type's field count as none.
    Raises: MemoryError, or ResourceExhaustedError, when there is no room for that many elements.
    """
    values = _read_values(tensor_pb, dtype)[:count]
    require_room((count - len(values)) * np.dtype(dtype.as_numpy_dtype).itemsize, "a filled tensor")
    try:
        if not len(values):
            return _defaults(dtype, count)
        elements = np.empty(count, dtype.as_numpy_dtype)
    except ValueError as error:  # NumPy's answer to a size that no address can reach
        raise MemoryError(str(error)) from None
    elements[: len(values)] = values
    elements[len(values) :] = values[-1]
    return elements


def write_typed_fields(
    tensor_pb: pb.TensorProto, dtype: DType, elements: np.ndarray[Any, Any]
) -> None:
    """Put flat elements, already in the type's NumPy form, into the list field of their type."""
    field = _FIELDS[dtype]
    if field == "float8_val":
        tensor_pb.float8_val = elements.tobytes()
    elif field == "half_val":
        tensor_pb.half_val.extend(elements.view(np.uint16).tolist())
    elif field in ("scomplex_val", "dcomplex_val"):
        parts = elements.view(np.float32 if field == "scomplex_val" else np.float64)
        getattr(tensor_pb, field).extend(parts.tolist())
    elif field == "string_val":
        tensor_pb.string_val.extend(elements)
    elif field == "resource_handle_val":
        tensor_pb.resource_handle_val.extend(handle.to_proto() for handle in elements)
    elif field == "variant_val":
        tensor_pb.variant_val.extend(item.to_variant().to_proto() for item in elements)
    elif field == "int_val":
        tensor_pb.int_val.extend(elements.astype(np.int32).tolist())
    else:
        getattr(tensor_pb, field).extend(elements.tolist())


def _defaults(dtype: DType, count: int) -> np.ndarray[Any, Any]:
    if dtype.as_numpy_dtype is not object:
        return np.zeros(count, dtype.as_numpy_dtype)
    empty = {dtypes.string: b"", dtypes.resource: ResourceHandle(), dtypes.variant: Variant()}
    elements = np.empty(count, dtype=object)
    elements[:] = [empty[dtype]] * count if count else []
    return elements


def _read_values(tensor_pb: pb.TensorProto, dtype: DType) -> np.ndarray[Any, Any]:
    field = _FIELDS[dtype]
    values = getattr(tensor_pb, field)
    if field == "float8_val":
        return np.frombuffer(values, dtype.as_numpy_dtype)
    if field == "half_val":
        # Raw bits in an int32 each; what lies above the 16 is dropped.
        return np.array(values, np.int32).astype(np.uint16).view(dtype.as_numpy_dtype)
    if field in ("scomplex_val", "dcomplex_val"):
        part = np.float32 if field == "scomplex_val" else np.float64
        return np.array(values[: len(values) // 2 * 2], part).view(dtype.as_numpy_dtype)
    if dtype.as_numpy_dtype is object:
        return _read_objects(values, dtype)
    if field == "int_val":
        # Cut to the type's width, as a C++ cast does.
        return np.array(values, np.int32).astype(dtype.as_numpy_dtype)
    return np.array(values, dtype.as_numpy_dtype)


def _read_objects(values: Any, dtype: DType) -> np.ndarray[Any, Any]:
    elements = np.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        if dtype is dtypes.resource:
            elements[index] = ResourceHandle.from_proto(value)
        elif dtype is dtypes.variant:
            elements[index] = read_variant(value)
        else:
            elements[index] = value
    return elements
