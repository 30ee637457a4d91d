"""Functions of one operand: powers, rounding, signs and their gradients.

Each op works elementwise and keeps shape and type.  Where the gradient is cheaper from the output
than from the input, it is an op of its own (SqrtGrad(y, dy) and so on), as in TensorFlow.
Source: cwise_op_*.cc of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles, Rows
from tideflow.graph.shape_rules import merged, same_as
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import conj, of_one_shape
from tideflow.wire.errors import InvalidArgumentError

_same = same_as(0)
_SIGNED = "{bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128}"
_SQUARABLE = (
    "{bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, "
    "complex64, complex128}"
)


def times(*factors: Any) -> Any:
    """Return the product of tensors of one shape."""
    product = factors[0]
    for factor in factors[1:]:
        product = apply_op("Mul", product, factor)
    return product


# ---- signs


@op(
    f"""
Neg(x: T) -> y: T
T: type in {_SIGNED}
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
    rows=Rows.ELEMENTWISE,
)
def _neg(xp: ArrayNamespace, x: Array) -> Any:
    return xp.negative(x)


@gradient("Neg")
def _neg_grad(op: Operation, grad: Tensor) -> Any:
    return [apply_op("Neg", grad)]


@export("math.negative", "negative")
def negative(x: TensorLike, name: str | None = None) -> Any:
    """Return -x.

    Args:
      x: a tensor of numbers, of any shape.
    Returns: a tensor of its shape and type.
    """
    return apply_op("Neg", x, name=name)


@op(
    """
Abs(x: T) -> y: T
T: type in {bfloat16, half, float, double, int8, int16, int32, int64}
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
    rows=Rows.ELEMENTWISE,
)
def _abs(xp: ArrayNamespace, x: Array) -> Any:
    return xp.abs(x)


@gradient("Abs")
def _abs_grad(op: Operation, grad: Tensor) -> Any:
    return [times(grad, apply_op("Sign", op.inputs[0]))]


@export("math.abs", "abs")
def abs(x: object, name: str | None = None) -> Any:
    """Return the absolute value; of a complex number, its modulus as a float.

    Args:
      x: numbers, of any shape.
    Returns: a tensor of its shape.
    """
    if not isinstance(x, Tensor):
        with get_default_graph().name_scope(name or "Abs") as scope:
            return abs(convert_to_tensor(x, name="x"), scope)
    if x.dtype.is_complex:
        return apply_op("ComplexAbs", x, Tout=x.dtype.real_dtype, name=name or "Abs")
    return apply_op("Abs", x, name=name)


@op(
    f"""
Sign(x: T) -> y: T
T: type in {_SIGNED}
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
    rows=Rows.ELEMENTWISE,
)
def _sign(xp: ArrayNamespace, x: Array) -> Any:
    return xp.sign(x)


@gradient("Sign")
def _sign_grad(op: Operation, grad: Tensor) -> Any:
    return [apply_op("ZerosLike", op.inputs[0])]


@export("math.sign", "sign")
def sign(x: TensorLike, name: str | None = None) -> Any:
    """Return -1, 0 or 1 with the sign of x; x / |x| for complex x; NaN for NaN.

    Args:
      x: a tensor of numbers, of any shape.
    Returns: a tensor of its shape and type.
    """
    return apply_op("Sign", x, name=name)


# ---- powers


@op(
    f"""
Square(x: T) -> y: T
T: type in {_SQUARABLE}
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
    rows=Rows.ELEMENTWISE,
)
def _square(xp: ArrayNamespace, x: Array) -> Any:
    return xp.square(x)


@gradient("Square")
def _square_grad(op: Operation, grad: Tensor) -> Any:
    return [times(grad, apply_op("Mul", conj(op.inputs[0]), 2))]


@export("math.square", "square")
def square(x: TensorLike, name: str | None = None) -> Any:
    """Return x * x.

    Args:
      x: a tensor of numbers, of any shape.
    Returns: a tensor of its shape and type.
    """
    return apply_op("Square", x, name=name)


@op(
    """
Sqrt(x: T) -> y: T
T: type in floats_and_complex
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
    rows=Rows.ELEMENTWISE,
)
def _sqrt(xp: ArrayNamespace, x: Array) -> Any:
    return xp.sqrt(x)


@op(
    """
SqrtGrad(y: T, dy: T) -> z: T
T: type in floats_and_complex
""",
    shape=merged,
    compiles=Compiles.ALWAYS,
)
@of_one_shape
def _sqrt_slope(xp: ArrayNamespace, y: Array, dy: Array) -> Any:
    return xp.true_divide(dy, xp.add(y, y) if y.dtype.kind != "c" else 2 * xp.conj(y))


@gradient("Sqrt")
def _sqrt_grad(op: Operation, grad: Tensor) -> Any:
    return [apply_op("SqrtGrad", op.outputs[0], grad)]


@gradient("SqrtGrad")
def _sqrt_grad_grad(op: Operation, grad: Tensor) -> Any:
    y, _ = (conj(t) for t in op.inputs)
    scaled = apply_op("RealDiv", grad, y)
    return [
        apply_op("Neg", times(conj(scaled), op.outputs[0])),
        apply_op("RealDiv", scaled, 2),
    ]


@export("math.sqrt", "sqrt")
def sqrt(x: TensorLike, name: str | None = None) -> Any:
    """Return the square root; NaN for negative numbers.

    Args:
      x: a tensor of float16, bfloat16, float32, float64 or a complex type, of any shape.
    Returns: a tensor of its shape and type.
    """
    return apply_op("Sqrt", x, name=name)


@op(
    """
Rsqrt(x: T) -> y: T
T: type in floats_and_complex
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
    rows=Rows.ELEMENTWISE,
)
def _rsqrt(xp: ArrayNamespace, x: Array) -> Any:
    return xp.reciprocal(xp.sqrt(x))


@op(
    """
RsqrtGrad(y: T, dy: T) -> z: T
T: type in floats_and_complex
""",
    shape=merged,
    compiles=Compiles.ALWAYS,
)
@of_one_shape
def _rsqrt_slope(xp: ArrayNamespace, y: Array, dy: Array) -> Any:
    y = xp.conj(y) if y.dtype.kind == "c" else y
    return dy * (y * y * y) / -2


@gradient("Rsqrt")
def _rsqrt_grad(op: Operation, grad: Tensor) -> Any:
    return [apply_op("RsqrtGrad", op.outputs[0], grad)]


@gradient("RsqrtGrad")
def _rsqrt_grad_grad(op: Operation, grad: Tensor) -> Any:
    y, dy = (conj(t) for t in op.inputs)
    slope = apply_op("RealDiv", times(grad, dy, apply_op("Square", y), 3), -2)
    return [slope, apply_op("RsqrtGrad", op.inputs[0], grad)]


@export("math.rsqrt", "rsqrt")
def rsqrt(x: TensorLike, name: str | None = None) -> Any:
    """Return 1 / sqrt(x).

    Args:
      x: a tensor of float16, bfloat16, float32, float64 or a complex type, of any shape.
    Returns: a tensor of its shape and type.
    """
    return apply_op("Rsqrt", x, name=name)


@op(
    f"""
Reciprocal(x: T) -> y: T
T: type in {_SIGNED}
""",
    shape=_same,
    compiles=Compiles.FLOATS,
    rows=Rows.ELEMENTWISE,
)
def _reciprocal(xp: ArrayNamespace, x: Array) -> Any:
    if x.dtype.kind != "i":
        return xp.reciprocal(x)
    if xp is np and not x.all():
        raise InvalidArgumentError("Integer division by zero")
    # 1 / x toward zero: only 1 and -1 have a reciprocal among the integers.
    return xp.where(xp.abs(x) == 1, x, xp.zeros_like(x))


@op(
    f"""
Inv(x: T) -> y: T
T: type in {_SIGNED}
""",
    shape=_same,
    compiles=Compiles.FLOATS,
)
def _inv(xp: ArrayNamespace, x: Array) -> Any:
    return _reciprocal(xp, x)


@op(
    """
ReciprocalGrad(y: T, dy: T) -> z: T
T: type in floats_and_complex
""",
    shape=merged,
    compiles=Compiles.ALWAYS,
)
@of_one_shape
def _reciprocal_slope(xp: ArrayNamespace, y: Array, dy: Array) -> Any:
    y = xp.conj(y) if y.dtype.kind == "c" else y
    return -(dy * (y * y))


@op(
    """
InvGrad(y: T, dy: T) -> z: T
T: type in floats_and_complex
""",
    shape=merged,
    compiles=Compiles.ALWAYS,
)
@of_one_shape
def _inv_slope(xp: ArrayNamespace, y: Array, dy: Array) -> Any:
    return _reciprocal_slope(xp, y, dy)


@gradient("Reciprocal", "Inv")
def _reciprocal_grad(op: Operation, grad: Tensor) -> Any:
    return [apply_op("ReciprocalGrad", op.outputs[0], grad)]


@gradient("ReciprocalGrad", "InvGrad")
def _reciprocal_grad_grad(op: Operation, grad: Tensor) -> Any:
    y, dy = (conj(t) for t in op.inputs)
    slope = times(grad, dy, y, -2)
    return [slope, apply_op("ReciprocalGrad", op.inputs[0], grad)]


@export("math.reciprocal", "reciprocal")
def reciprocal(x: TensorLike, name: str | None = None) -> Any:
    """Return 1 / x.

    Args:
      x: a tensor of numbers, of any shape.
    Returns: a tensor of its shape and type.
    """
    return apply_op("Reciprocal", x, name=name)


@export("math.reciprocal_no_nan")
def reciprocal_no_nan(x: TensorLike, name: str | None = None) -> Any:
    """Return 1 / x, and 0 where x is 0."""
    x = convert_to_tensor(x)
    one = np.ones((), x.dtype.as_numpy_dtype)
    return apply_op("DivNoNan", one, x, name=name or "reciprocal_no_nan")


# ---- rounding


@op(
    """
Floor(x: T) -> y: T
T: type in floats
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
)
def _floor(xp: ArrayNamespace, x: Array) -> Any:
    return xp.floor(x)


@op(
    """
Ceil(x: T) -> y: T
T: type in floats
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
)
def _ceil(xp: ArrayNamespace, x: Array) -> Any:
    return xp.ceil(x)


@op(
    """
Rint(x: T) -> y: T
T: type in floats
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
)
def _rint(xp: ArrayNamespace, x: Array) -> Any:
    return xp.rint(x)


@op(
    f"""
Round(x: T) -> y: T
T: type in {_SIGNED}
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
)
def _round(xp: ArrayNamespace, x: Array) -> Any:
    return x if x.dtype.kind == "i" else xp.rint(x)


@gradient("Floor", "Ceil", "Rint", "Round")
def _rounding_grad(op: Operation, grad: Tensor) -> Any:
    return [None]


@export("math.floor", "floor")
def floor(x: TensorLike, name: str | None = None) -> Any:
    """Return the greatest whole number that is at most x.

    Args:
      x: a tensor of float16, bfloat16, float32 or float64, of any shape.
    Returns: a tensor of its shape and type.
    """
    return apply_op("Floor", x, name=name)


@export("math.ceil", "ceil")
def ceil(x: TensorLike, name: str | None = None) -> Any:
    """Return the least whole number that is at least x.

    Args:
      x: a tensor of float16, bfloat16, float32 or float64, of any shape.
    Returns: a tensor of its shape and type.
    """
    return apply_op("Ceil", x, name=name)


@export("math.rint", "rint")
def rint(x: TensorLike, name: str | None = None) -> Any:
    """Return the nearest whole number; halves go to the even one.

    Args:
      x: a tensor of float16, bfloat16, float32 or float64, of any shape.
    Returns: a tensor of its shape and type.
    """
    return apply_op("Rint", x, name=name)


@export("math.round", "round")
def round(x: TensorLike, name: str | None = None) -> Any:
    """Return the nearest whole number; halves go to the even one; integers stay.

    Args:
      x: numbers, of any shape.
    Returns: a tensor of its shape and type.
    """
    x = convert_to_tensor(x)
    return x if x.dtype.is_integer else apply_op("Round", x, name=name)


# ---- tests of floats


@op(
    """
IsNan(x: T) -> y: bool
T: type in floats
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
)
def _is_nan(xp: ArrayNamespace, x: Array) -> Any:
    return xp.isnan(x)


@op(
    """
IsInf(x: T) -> y: bool
T: type in floats
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
)
def _is_inf(xp: ArrayNamespace, x: Array) -> Any:
    return xp.isinf(x)


@op(
    """
IsFinite(x: T) -> y: bool
T: type in floats
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
)
def _is_finite(xp: ArrayNamespace, x: Array) -> Any:
    return xp.isfinite(x)


not_differentiable("IsNan", "IsInf", "IsFinite")


@export("math.is_nan", "is_nan", "debugging.is_nan")
def is_nan(x: TensorLike, name: str | None = None) -> Any:
    """Return which elements are NaN.

    Args:
      x: float16, bfloat16, float32 or float64, of any shape.
    Returns: bool, of its shape.
    """
    return apply_op("IsNan", x, name=name)


@export("math.is_inf", "is_inf", "debugging.is_inf")
def is_inf(x: TensorLike, name: str | None = None) -> Any:
    """Return which elements are infinite.

    Args:
      x: float16, bfloat16, float32 or float64, of any shape.
    Returns: bool, of its shape.
    """
    return apply_op("IsInf", x, name=name)


@export("math.is_finite", "is_finite", "debugging.is_finite")
def is_finite(x: TensorLike, name: str | None = None) -> Any:
    """Return which elements are neither infinite nor NaN.

    Args:
      x: float16, bfloat16, float32 or float64, of any shape.
    Returns: bool, of its shape.
    """
    return apply_op("IsFinite", x, name=name)
