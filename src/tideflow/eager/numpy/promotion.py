"""Which element type arguments have in common, by the rules of NumPy or by those of TensorFlow.

NumPy's rules hold unless a program chose the mode "safe" or "all" (`conversions`).
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from tideflow.eager.numpy import conversions
from tideflow.graph.behavior import behavior
from tideflow.ops.export import export_v2, export_value_v2
from tideflow.ops.framework import nest
from tideflow.wire.dtypes import DType, as_dtype

_NAMES = (
    "bool_ complex128 complex64 e float16 float32 float64 iinfo inexact inf int16 int32 int64 int8 "
    "int_ issubdtype object_ pi uint16 uint32 uint64 uint8"
)
# What NumPy 2 calls otherwise.
_RENAMED = {
    "complex_": np.complex128,
    "float_": np.float64,
    "string_": np.bytes_,
    "unicode_": np.str_,
}

for _name in _NAMES.split():
    export_value_v2(f"experimental.numpy.{_name}", getattr(np, _name))
for _name, _kind in _RENAMED.items():
    export_value_v2(f"experimental.numpy.{_name}", _kind)


@export_v2("experimental.numpy.finfo")
def finfo(dtype: Any) -> Any:
    """Return NumPy's limits of a type of floats."""
    return np.finfo(_numpy_type(dtype))


@export_v2("experimental.numpy.promote_types")
def promote_types(type1: Any, type2: Any) -> Any:
    """Return the least type, one of NumPy's, to which both can be cast without loss."""
    return np.promote_types(_numpy_type(type1), _numpy_type(type2))


@export_v2("experimental.numpy.result_type")
def result_type(*arrays_and_dtypes: Any) -> DType:
    """Return the element type that tensors, arrays, numbers and types have in common.

    Lists count by their elements; Python's numbers give way to what has a type.
    Raises: TypeError for arguments that have no type in common, and in the mode "safe" for those
    that have none without loss.
    """
    if behavior.converts_weakly:
        return conversions.result_type(*arrays_and_dtypes)[0]
    return common_type(nest.flatten(arrays_and_dtypes) or [np.float64])


def common_type(values: Any) -> DType:
    """Return the element type that values have in common by NumPy's rules; no lists are among them.

    Raises: TypeError for values that have none.
    """
    return as_dtype(np.result_type(*[_as_numpy_sees(value) for value in values]))


def own_type(value: Any, dtype: Any) -> DType:
    """Return a type that was asked for, or that of a value."""
    if dtype:
        return result_type(dtype)
    if isinstance(value, (str, bytes)):
        return as_dtype(np.bytes_)
    return result_type(value)


def default_float() -> DType:
    """Return the type of Python's floats that stand for themselves."""
    return as_dtype(np.float32 if behavior.prefers_float32 else np.float64)


def _as_numpy_sees(value: Any) -> Any:
    """Return a number as it is, and for what has an element type that type."""
    if isinstance(value, (float, complex)) and behavior.prefers_float32:
        return np.complex64(value) if isinstance(value, complex) else np.float32(value)
    if isinstance(value, numbers.Real):
        return value
    dtype = value if isinstance(value, DType) else getattr(value, "dtype", None)
    return dtype.base_dtype.as_numpy_dtype if isinstance(dtype, DType) else value


def _numpy_type(dtype: Any) -> Any:
    return dtype.as_numpy_dtype if isinstance(dtype, DType) else np.dtype(dtype)
