"""Element types: the protocol's numbers, their names, and the NumPy types that hold them.

Source: the DataType enum of TensorFlow 2.21 (types.proto).  Numbers above 100 are references to
the type that is 100 lower; they stand in op signatures only, never in a tensor.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

_REF_OFFSET = 100


class DType:
    """The element type of a tensor.

    Compare with `==` or `is` (one object for each type); `as_dtype` finds one by number, name or
    NumPy type.
    """

    __slots__ = (
        "as_numpy_dtype",
        "is_bool",
        "is_complex",
        "is_floating",
        "is_integer",
        "is_quantized",
        "is_ref_dtype",
        "is_unsigned",
        "name",
        "number",
        "size",
    )

    def __init__(self, number: int, name: str, numpy_type: Any, kind: str) -> None:
        self.number = number
        self.name = name
        self.as_numpy_dtype: Any = numpy_type
        self.is_ref_dtype = number > _REF_OFFSET
        self.is_bool = kind == "bool"
        self.is_complex = kind == "complex"
        self.is_floating = kind == "float"
        self.is_integer = kind in ("int", "uint")
        self.is_unsigned = kind == "uint"
        self.is_quantized = kind == "quantized"
        # Bytes for one element; the sub-byte integers take one byte each, on the wire as in memory.
        self.size = 1 if numpy_type is object else np.dtype(numpy_type).itemsize

    @property
    def as_datatype_enum(self) -> int:
        """The protocol's number for this type."""
        return self.number

    @property
    def base_dtype(self) -> DType:
        """The type itself without the reference mark."""
        return _BY_NUMBER[self.number - _REF_OFFSET] if self.is_ref_dtype else self

    @property
    def as_ref(self) -> DType:
        """The reference type to this type."""
        return self if self.is_ref_dtype else _BY_NUMBER[self.number + _REF_OFFSET]

    @property
    def real_dtype(self) -> DType:
        """float32 for complex64, float64 for complex128, otherwise the type itself."""
        return {complex64: float32, complex128: float64}.get(self, self)

    @property
    def is_numeric(self) -> bool:
        """Whether arithmetic on it makes sense."""
        return self.is_floating or self.is_integer or self.is_complex or self.is_quantized

    @property
    def min(self) -> Any:
        """The least finite value; TypeError for a type without order."""
        return self._limits().min

    @property
    def max(self) -> Any:
        """The greatest finite value; TypeError for a type without order."""
        return self._limits().max

    def _limits(self) -> Any:
        if self.is_floating:
            return ml_dtypes.finfo(self.as_numpy_dtype)  # type: ignore[no-untyped-call]
        if self.is_integer or self.is_quantized:
            return ml_dtypes.iinfo(self.as_numpy_dtype)  # type: ignore[no-untyped-call]
        raise TypeError(f"{self.name} has no least and greatest value")

    def is_compatible_with(self, other: Any) -> bool:
        """Whether a value of the other type may stand here (a reference reads as its value)."""
        return self.base_dtype is as_dtype(other).base_dtype

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if other is None or isinstance(other, DType):
            return False
        try:
            return as_dtype(other) is self
        except (TypeError, ValueError):
            return False

    def __hash__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: {self.name!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (as_dtype, (self.number,))


_BY_NUMBER: dict[int, DType] = {}
_BY_NAME: dict[str, DType] = {}


def _define(number: int, name: str, numpy_type: Any, kind: str) -> DType:
    for offset, suffix in ((0, ""), (_REF_OFFSET, "_ref")):
        dtype = DType(number + offset, name + suffix, numpy_type, kind)
        _BY_NUMBER[dtype.number] = dtype
        _BY_NAME[dtype.name] = dtype
    return _BY_NUMBER[number]


float32 = _define(1, "float32", np.float32, "float")
float64 = _define(2, "float64", np.float64, "float")
int32 = _define(3, "int32", np.int32, "int")
uint8 = _define(4, "uint8", np.uint8, "uint")
int16 = _define(5, "int16", np.int16, "int")
int8 = _define(6, "int8", np.int8, "int")
string = _define(7, "string", object, "string")
complex64 = _define(8, "complex64", np.complex64, "complex")
int64 = _define(9, "int64", np.int64, "int")
bool_ = _define(10, "bool", np.bool_, "bool")
qint8 = _define(11, "qint8", np.int8, "quantized")
quint8 = _define(12, "quint8", np.uint8, "quantized")
qint32 = _define(13, "qint32", np.int32, "quantized")
bfloat16 = _define(14, "bfloat16", ml_dtypes.bfloat16, "float")
qint16 = _define(15, "qint16", np.int16, "quantized")
quint16 = _define(16, "quint16", np.uint16, "quantized")
uint16 = _define(17, "uint16", np.uint16, "uint")
complex128 = _define(18, "complex128", np.complex128, "complex")
float16 = _define(19, "float16", np.float16, "float")
resource = _define(20, "resource", object, "resource")
variant = _define(21, "variant", object, "variant")
uint32 = _define(22, "uint32", np.uint32, "uint")
uint64 = _define(23, "uint64", np.uint64, "uint")
float8_e5m2 = _define(24, "float8_e5m2", ml_dtypes.float8_e5m2, "float")
float8_e4m3fn = _define(25, "float8_e4m3fn", ml_dtypes.float8_e4m3fn, "float")
float8_e4m3fnuz = _define(26, "float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, "float")
float8_e4m3b11fnuz = _define(27, "float8_e4m3b11fnuz", ml_dtypes.float8_e4m3b11fnuz, "float")
float8_e5m2fnuz = _define(28, "float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, "float")
int4 = _define(29, "int4", ml_dtypes.int4, "int")
uint4 = _define(30, "uint4", ml_dtypes.uint4, "uint")
int2 = _define(31, "int2", ml_dtypes.int2, "int")
uint2 = _define(32, "uint2", ml_dtypes.uint2, "uint")
float4_e2m1fn = _define(33, "float4_e2m1fn", ml_dtypes.float4_e2m1fn, "float")
half = float16
double = float64

_BY_NAME.update({"float": float32, "double": float64, "half": float16, "str": string})
# A NumPy type names the plain type, never the quantised one that is stored the same way.
_BY_NUMPY: dict[Any, DType] = {
    np.dtype(t.as_numpy_dtype): t
    for t in _BY_NUMBER.values()
    if not t.is_ref_dtype and not t.is_quantized and t.as_numpy_dtype is not object
}
_BY_NUMPY[np.dtype(object)] = string
# TensorFlow's own NumPy types for quantised numbers: one field, which has the type's name.
_WITH_FIELD: dict[DType, Any] = {
    t: np.dtype([(t.name, t.as_numpy_dtype)])
    for t in _BY_NUMBER.values()
    if t.is_quantized and not t.is_ref_dtype
}
_BY_NUMPY.update((with_field, t) for t, with_field in _WITH_FIELD.items())
_BY_PYTHON: dict[Any, DType] = {
    float: float32,
    int: int32,
    bool: bool_,
    complex: complex128,
    str: string,
    bytes: string,
    object: string,
}


def as_dtype(type_value: Any) -> DType:
    """Return the DType of a DType, protocol number, name, NumPy or Python type.

    Raises: TypeError for a value that names none.
    """
    if isinstance(type_value, DType):
        return type_value
    try:
        if isinstance(type_value, int) and not isinstance(type_value, bool):
            return _BY_NUMBER[type_value]
        if isinstance(type_value, str):
            return _BY_NAME[type_value]
        if isinstance(type_value, type) and type_value in _BY_PYTHON:
            return _BY_PYTHON[type_value]
        numpy_type = np.dtype(type_value)
        return string if numpy_type.kind in "SU" else _BY_NUMPY[numpy_type]
    except (KeyError, TypeError):
        raise TypeError(
            f"{type_value!r} is not an element type; name one such as tf.float32, 'int64' or "
            "np.bool_"
        ) from None


def dtype_of(value: Any) -> DType:
    """Return the DType of a runtime value: an array or an array scalar."""
    return _BY_NUMPY[value.dtype]


def with_field(value: Any, dtype: DType) -> Any:
    """Return numbers of a quantised type as an array that tells its type, for the way to others."""
    return np.asarray(value).view(_WITH_FIELD[dtype])


def without_field(array: Any) -> Any:
    """Return an array of one of TensorFlow's own types for quantised numbers as plain numbers."""
    return array.view(as_dtype(array.dtype).as_numpy_dtype)


def all_dtypes() -> list[DType]:
    """Return every type that a tensor can have, in the order of their numbers."""
    return [t for n, t in sorted(_BY_NUMBER.items()) if n < _REF_OFFSET]
