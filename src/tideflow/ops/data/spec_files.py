"""Nested structures as messages: by them saved datasets and saved models tell what they hold.

Source: tensorflow/core/protobuf/struct.proto, python/saved_model/nested_structure_coder.py.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import Any

import numpy as np

from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec
from tideflow.ops.data.optional_api import OptionalSpec
from tideflow.ops.data.type_specs import DatasetSpec, NoneTensorSpec
from tideflow.ops.framework import IndexedSlicesSpec
from tideflow.ops.ragged import RaggedTensorSpec
from tideflow.ops.sparse import SparseTensorSpec
from tideflow.ops.tensor_arrays import TensorArraySpec
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.shapes import decode_shape, encode_shape
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor

_CLASSES: dict[type[TypeSpec], str] = {
    SparseTensorSpec: "SPARSE_TENSOR_SPEC",
    RaggedTensorSpec: "RAGGED_TENSOR_SPEC",
    TensorArraySpec: "TENSOR_ARRAY_SPEC",
    DatasetSpec: "DATA_DATASET_SPEC",
    OptionalSpec: "OPTIONAL_SPEC",
    IndexedSlicesSpec: "INDEXED_SLICES_SPEC",
    NoneTensorSpec: "REGISTERED_TYPE_SPEC",
}


def structured_value(value: Any) -> pb.StructuredValue:
    """Return a structure of TypeSpecs, or what a spec says, as a message.

    Raises: TypeError for a value that has no form in messages.
    """
    made = pb.StructuredValue()
    if isinstance(value, bool):
        made.bool_value = value
    elif isinstance(value, int):
        made.int64_value = value
    elif isinstance(value, float):
        made.float64_value = value
    elif isinstance(value, str):
        made.string_value = value
    elif isinstance(value, (np.ndarray, np.generic)):
        made.numpy_value.CopyFrom(encode_tensor(value))
    elif isinstance(value, Tensor) and value.graph.is_eager:
        made.tensor_value.CopyFrom(encode_tensor(value.numpy()))  # type: ignore[attr-defined]
    elif value is None:
        made.none_value.SetInParent()
    elif isinstance(value, DType):
        made.tensor_dtype_value = value.number
    elif isinstance(value, TensorShape):
        made.tensor_shape_value.CopyFrom(encode_shape(value.sizes))
    elif isinstance(value, TensorSpec):
        made.tensor_spec_value.name = value.name or ""
        made.tensor_spec_value.shape.CopyFrom(encode_shape(value.dims))
        made.tensor_spec_value.dtype = value.dtype.number
    elif type(value) in _CLASSES:
        spec = made.type_spec_value
        spec.type_spec_class = getattr(spec, _CLASSES[type(value)])
        spec.type_spec_class_name = type(value).__name__
        spec.num_flat_components = len(value.parts)
        spec.type_state.CopyFrom(structured_value(value._stated()))
    elif isinstance(value, Mapping):
        for name, item in value.items():
            made.dict_value.fields[name].CopyFrom(structured_value(item))
        made.dict_value.SetInParent()
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        made.named_tuple_value.name = type(value).__name__
        for name, item in zip(value._fields, value):
            made.named_tuple_value.values.add(key=name, value=structured_value(item))
    elif isinstance(value, tuple):
        made.tuple_value.values.extend(structured_value(item) for item in value)
        made.tuple_value.SetInParent()
    elif isinstance(value, list):
        made.list_value.values.extend(structured_value(item) for item in value)
        made.list_value.SetInParent()
    else:
        raise TypeError(f"{value!r} cannot be saved as a part of the structure of elements")
    return made


def value_of(message: pb.StructuredValue) -> Any:
    """Return what a message stands for.  Raises: UnimplementedError for what is not known."""
    kind = message.WhichOneof("kind")
    if kind in ("bool_value", "int64_value", "float64_value", "string_value"):
        return getattr(message, kind)
    if kind == "none_value":
        return None
    if kind == "tensor_dtype_value":
        return as_dtype(message.tensor_dtype_value)
    if kind == "tensor_shape_value":
        return TensorShape(decode_shape(message.tensor_shape_value))
    if kind == "tensor_spec_value":
        spec_pb = message.tensor_spec_value
        return TensorSpec(
            decode_shape(spec_pb.shape), as_dtype(spec_pb.dtype), spec_pb.name or None
        )
    if kind == "type_spec_value":
        return _spec_of(message.type_spec_value)
    if kind == "dict_value":
        fields = message.dict_value.fields
        return {name: value_of(fields[name]) for name in sorted(fields)}
    if kind == "named_tuple_value":
        pairs = message.named_tuple_value.values
        made: Any = namedtuple(  # type: ignore[misc]
            message.named_tuple_value.name, [pair.key for pair in pairs]
        )
        return made(*[value_of(pair.value) for pair in pairs])
    if kind in ("tuple_value", "list_value"):
        items = [value_of(item) for item in getattr(message, kind).values]
        return tuple(items) if kind == "tuple_value" else items
    if kind == "numpy_value":
        return decode_tensor(message.numpy_value)
    if kind == "tensor_value":
        return convert_to_tensor(decode_tensor(message.tensor_value))
    raise errors.UnimplementedError(f"the structure of elements has a part of kind {kind!r}")


def _spec_of(message: Any) -> TypeSpec:
    for made, name in _CLASSES.items():
        is_class = message.type_spec_class == getattr(message, name)
        is_named = made is not NoneTensorSpec or "NoneTensorSpec" in message.type_spec_class_name
        if is_class and is_named:
            return made(*value_of(message.type_state))
    raise errors.UnimplementedError(
        f"elements of the class {message.type_spec_class_name!r} cannot be loaded"
    )
