"""Changing element types: casts, and the parts of complex numbers.

Source: cast_op.cc, cwise_op_real.cc and their neighbours of TensorFlow 2.21.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles, Rows
from tideflow.graph.shape_rules import broadcast, same_as
from tideflow.graph.static_value import same_sizes
from tideflow.graph.tracing import Trace
from tideflow.graph.types import Array, ArrayNamespace, DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import IndexedSlices, lax, scoped, unbroadcast
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.errors import UnimplementedError

_same = same_as(0)


def _check_traced(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Have floats that become integers be checked to be in range; the kernel then serves.

    Compilers saturate where processors give something else.
    """
    source, target = attrs["SrcT"], attrs["DstT"]
    if target.is_integer and (source.is_floating or source.is_complex):
        x = inputs[0].real if source.is_complex else inputs[0]
        # One more than the greatest is a power of two, which floats hold exactly.
        trace.check(((x >= float(target.min)) & (x < float(int(target.max) + 1))).all())
    return NotImplemented


@op(
    """
Cast(x: SrcT) -> y: DstT
SrcT: type
DstT: type
Truncate: bool = false
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
    traced=_check_traced,
    rows=Rows.ELEMENTWISE,
    partial_value=same_sizes,
    is_stated=True,
    host_types={"SrcT": (dtypes.int32,)},
)
def _cast(xp: ArrayNamespace, x: Array, *, SrcT: DType, DstT: DType, Truncate: bool) -> Any:
    if SrcT is DstT:
        return x
    target = DstT.as_numpy_dtype
    if target is object or SrcT.as_numpy_dtype is object:
        raise UnimplementedError(f"Cast {SrcT.name} to {DstT.name} is not supported")
    if SrcT.is_complex and not DstT.is_complex:
        x = x.real
    if Truncate and DstT.is_floating and x.dtype.kind in "fV":
        x = _drop_low_bits(x, target)
    return x.astype(target)


def _drop_low_bits(x: Array, target: Array) -> Any:
    """Clear the mantissa bits that the target lacks, so that the cast rounds toward zero."""
    extra = _mantissa_bits(x.dtype) - _mantissa_bits(target)
    if extra <= 0:
        return x
    bits = x.dtype.itemsize * 8
    integer = np.dtype(f"uint{bits}")
    mask = integer.type((1 << bits) - (1 << extra))
    return (x.view(integer) & mask).view(x.dtype)


def _mantissa_bits(dtype: Any) -> int:
    limits: Any = ml_dtypes.finfo
    return int(limits(dtype).nmant)


@gradient("Cast")
def _cast_grad(op: Operation, grad: Tensor) -> list[Any]:
    source, target = op.attrs["SrcT"], op.attrs["DstT"]
    flows = all(t.is_floating or t.is_complex for t in (source, target))
    return [apply_op("Cast", grad, DstT=source) if flows else None]


@export("cast", "dtypes.cast")
def cast(x: Any, dtype: DTypeLike, name: str | None = None) -> Any:
    """Return x with another element type.

    Floats become integers by dropping the fraction, numbers become bool by asking whether they
    differ from zero, complex numbers real by dropping the imaginary part.  IndexedSlices and
    SparseTensors keep their indices.  What has the type already is returned as it is.
    """
    target = as_dtype(dtype).base_dtype
    if isinstance(x, Tensor) and x.dtype.base_dtype is target and not x.dtype.is_ref_dtype:
        return x
    # A variable is not read: what is returned shows its later changes.
    if _is_resource_variable(x) and x.dtype.base_dtype is target:
        return x
    if hasattr(x, "indices") and hasattr(x, "values"):
        values = cast(x.values, target, name)
        if isinstance(x, IndexedSlices):
            return IndexedSlices(values, x.indices, x.dense_shape)
        return type(x)(x.indices, values, x.dense_shape)
    if isinstance(x, Tensor):
        return apply_op("Cast", x, DstT=target, name=name)
    with get_default_graph().name_scope(name or "Cast") as scope:
        x = convert_to_tensor(x, name="x")
        if x.dtype.base_dtype is target:
            return x
        return apply_op("Cast", x, DstT=target, name=scope)


def _is_resource_variable(x: object) -> bool:
    """Whether x is one variable behind a handle, not several as those of strategies are."""
    return hasattr(x, "handle") and hasattr(x, "sparse_read") and not hasattr(x, "values")


def as_float(x: TensorLike) -> Tensor:
    """Return numbers as float32, with which losses and metrics compute."""
    tensor = convert_to_tensor(x)
    if tensor.dtype.base_dtype is dtypes.float32:
        return tensor
    made: Tensor = apply_op("Cast", tensor, DstT="float")
    return made


@export("to_float")
def to_float(x: TensorLike, name: str = "ToFloat") -> Any:
    """Return x as float32."""
    return cast(x, dtypes.float32, name)


@export("to_double")
def to_double(x: TensorLike, name: str = "ToDouble") -> Any:
    """Return x as float64."""
    return cast(x, dtypes.float64, name)


@export("to_int32")
def to_int32(x: TensorLike, name: str = "ToInt32") -> Any:
    """Return x as int32."""
    return cast(x, dtypes.int32, name)


@export("to_int64")
def to_int64(x: TensorLike, name: str = "ToInt64") -> Any:
    """Return x as int64."""
    return cast(x, dtypes.int64, name)


@export("to_bfloat16")
def to_bfloat16(x: TensorLike, name: str = "ToBFloat16") -> Any:
    """Return x as bfloat16."""
    return cast(x, dtypes.bfloat16, name)


@export("to_complex64")
def to_complex64(x: TensorLike, name: str = "ToComplex64") -> Any:
    """Return x as complex64."""
    return cast(x, dtypes.complex64, name)


@export("to_complex128")
def to_complex128(x: TensorLike, name: str = "ToComplex128") -> Any:
    """Return x as complex128."""
    return cast(x, dtypes.complex128, name)


@export("saturate_cast", "dtypes.saturate_cast")
def saturate_cast(value: Any, dtype: DTypeLike, name: str | None = None) -> Any:
    """Return value with another type, limited to the range of that type first."""
    value = convert_to_tensor(value)
    source, target = value.dtype.base_dtype, as_dtype(dtype).base_dtype
    with get_default_graph().name_scope(name or "saturate_cast") as scope:
        if source.is_complex and not target.is_complex:
            value = real(value)
            source = value.dtype
        low, high = _limits(source, target)
        if low is not None:
            value = apply_op("Maximum", value, np.array(low, source.as_numpy_dtype))
        if high is not None:
            value = apply_op("Minimum", value, np.array(high, source.as_numpy_dtype))
        return cast(value, target, scope)


def _limits(source: DType, target: DType) -> tuple[Any, Any]:
    """Return the bounds, as values of the source type, that keep a cast inside the target."""
    if source.is_complex or target.is_complex or source.is_bool or target.is_bool:
        return None, None
    low = target.min if float(source.min) < float(target.min) else None
    if float(source.max) <= float(target.max):
        return low, None
    high = np.array(target.max).astype(source.as_numpy_dtype)
    if target.is_integer and source.is_floating and int(float(high)) > int(target.max):
        # The bound itself was rounded up, out of the target's range.
        high = np.nextafter(high, np.zeros_like(high))
    return low, high


# ---- parts of complex numbers


@op(
    """
Real(input: T) -> output: Tout
T: type in {complex64, complex128} = complex64
Tout: type in {float, double} = float
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
)
def _real(xp: ArrayNamespace, input: Array, *, Tout: DType) -> Any:
    return xp.real(input).astype(Tout.as_numpy_dtype)


@op(
    """
Imag(input: T) -> output: Tout
T: type in {complex64, complex128} = complex64
Tout: type in {float, double} = float
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
)
def _imag(xp: ArrayNamespace, input: Array, *, Tout: DType) -> Any:
    return xp.imag(input).astype(Tout.as_numpy_dtype)


@op(
    """
Conj(input: T) -> output: T
T: type in {complex64, complex128, variant} = complex64
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
)
def _conj(xp: ArrayNamespace, input: Array, *, T: DType) -> Any:
    return xp.conj(input) if T.is_complex else input


@op(
    """
Complex(real: T, imag: T) -> out: Tout
T: type in {float, double} = float
Tout: type in {complex64, complex128} = complex64
""",
    shape=broadcast,
    compiles=Compiles.ALWAYS,
)
def _complex(xp: ArrayNamespace, real: Array, imag: Array, *, Tout: DType) -> Any:
    real, imag = xp.broadcast_arrays(real, imag)
    if xp is np:
        # Not real + 1j * imag, which turns an infinite part into NaN.
        made = np.empty(real.shape, Tout.as_numpy_dtype)
        made.real = real
        made.imag = imag
        return made
    return lax().complex(real, imag).astype(Tout.as_numpy_dtype)


@op(
    """
ComplexAbs(x: T) -> y: Tout
T: type in {complex64, complex128} = complex64
Tout: type in {float, double} = float
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
)
def _complex_abs(xp: ArrayNamespace, x: Array, *, Tout: DType) -> Any:
    return xp.abs(x).astype(Tout.as_numpy_dtype)


@op(
    """
Angle(input: T) -> output: Tout
T: type in {complex64, complex128} = complex64
Tout: type in {float, double} = float
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
)
def _angle(xp: ArrayNamespace, input: Array, *, Tout: DType) -> Any:
    return xp.angle(input).astype(Tout.as_numpy_dtype)


def _zero(like: Any) -> Any:
    return np.zeros((), like.dtype.as_numpy_dtype)


@gradient("Real")
def _real_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("Complex", grad, _zero(grad), Tout=op.attrs["T"])]


@gradient("Imag")
def _imag_grad(op: Operation, grad: Tensor) -> list[Any]:
    # TensorFlow's gradient of a complex function is the conjugate of the textbook's.
    return [apply_op("Complex", _zero(grad), grad, Tout=op.attrs["T"])]


@gradient("Conj")
def _conj_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("Conj", grad)]


@gradient("Complex")
def _complex_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs
    return unbroadcast(x, y, real(grad), imag(grad))


@gradient("ComplexAbs")
def _complex_abs_grad(op: Operation, grad: Tensor) -> list[Any]:
    x = op.inputs[0]
    wide = apply_op("Complex", grad, _zero(grad), Tout=x.dtype)
    return [apply_op("Mul", wide, apply_op("Sign", x))]


@gradient("Angle")
def _angle_grad(op: Operation, grad: Tensor) -> list[Any]:
    x = op.inputs[0]
    turned = apply_op("Complex", imag(x), real(x), Tout=x.dtype)
    wide = apply_op("Complex", grad, _zero(grad), Tout=x.dtype)
    return [apply_op("Neg", apply_op("Mul", wide, apply_op("Reciprocal", turned)))]


@export("math.real", "real")
def real(input: TensorLike, name: str | None = None) -> Any:
    """Return the real part; a real tensor is returned as it is.

    Args:
      input: of any shape.
    Returns: float32 for complex64, float64 for complex128.
    """
    input = convert_to_tensor(input)
    if not input.dtype.is_complex:
        return input
    return apply_op("Real", input, Tout=input.dtype.real_dtype, name=name)


@export("math.imag", "imag")
@scoped("Imag")
def imag(input: TensorLike, name: str | None = None) -> Any:
    """Return the imaginary part; zeros for a real tensor.

    Args:
      input: of any shape.
    Returns: float32 for complex64, float64 for complex128.
    """
    input = convert_to_tensor(input)
    if not input.dtype.is_complex:
        return apply_op("ZerosLike", input, name=name)
    return apply_op("Imag", input, Tout=input.dtype.real_dtype, name=name)


@export("math.conj", "conj")
def conj(x: TensorLike, name: str | None = None) -> Any:
    """Return the complex conjugate; a real tensor is returned as it is.

    Raises: TypeError for a tensor that does not hold numbers.
    """
    x = convert_to_tensor(x)
    if x.dtype.is_complex or x.dtype == dtypes.variant:
        return apply_op("Conj", x, name=name)
    if x.dtype.is_floating or x.dtype.is_integer:
        return x
    raise TypeError(f"conj needs numbers; {x.shown_name} holds {x.dtype.name}")


@export("complex", "dtypes.complex")
def complex(real: TensorLike, imag: TensorLike, name: str | None = None) -> Any:
    """Return complex numbers of two parts, float32 (complex64) or float64 (complex128)."""
    real = convert_to_tensor(real, name="real")
    imag = convert_to_tensor(imag, real.dtype, "imag")
    wide = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}
    target = wide.get(real.dtype.base_dtype)
    if target is None:
        raise TypeError(f"complex needs float32 or float64 parts; found {real.dtype.name}")
    return apply_op("Complex", real, imag, Tout=target, name=name)


@export("math.angle", "angle")
@scoped("Angle")
def angle(input: TensorLike, name: str | None = None) -> Any:
    """Return the argument of complex numbers in radians; 0 or pi for real numbers."""
    input = convert_to_tensor(input)
    if input.dtype.is_complex:
        return apply_op("Angle", input, Tout=input.dtype.real_dtype, name=name)
    pi = np.array(np.pi, input.dtype.as_numpy_dtype)
    below = apply_op("Less", input, _zero(input))
    return apply_op("SelectV2", below, pi, _zero(input), name=name)
