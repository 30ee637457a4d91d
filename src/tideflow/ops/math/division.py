"""Quotients and remainders.

Operands broadcast as in NumPy.  An integer divided by zero is an error.
Source: tensorflow/core/ops/math_ops.cc; tensorflow/core/kernels/cwise_op_div.cc,
cwise_op_floor_div.cc, cwise_op_mod_1.cc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles, Rows
from tideflow.graph.shape_rules import broadcast
from tideflow.graph.tracing import Trace
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import conj, unbroadcast
from tideflow.ops.math.arithmetic import ARITHMETIC, convert_pair_below
from tideflow.wire import dtypes
from tideflow.wire.errors import InvalidArgumentError


def _is_integer(x: Any) -> bool:
    return bool(x.dtype.kind in "iu")


def _refuse_zero(xp: ArrayNamespace, x: Array, y: Array) -> None:
    """Raise when integers are divided by zero; only concrete values can be asked."""
    if xp is np and y.dtype.kind in "iu" and not y.all() and x.size:
        raise InvalidArgumentError("Integer division by zero")


def _check_divisor(trace: Trace, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Have integers be checked that others are divided by; the kernel then serves."""
    divisor = inputs[1]
    if divisor.dtype.kind in "iu":
        trace.check((divisor != 0).all())
    return NotImplemented


@op(
    f"""
RealDiv(x: T, y: T) -> z: T
T: type in {ARITHMETIC}
""",
    shape=broadcast,
    compiles=Compiles.FLOATS,
    traced=_check_divisor,
    divides=True,
    rows=Rows.ELEMENTWISE,
)
def _real_div(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    if _is_integer(x):
        # Each number of 32 bits is a float64; compiled code would take float32 by itself.
        return xp.true_divide(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
    return xp.true_divide(x, y)


@op(
    f"""
Div(x: T, y: T) -> z: T
T: type in {ARITHMETIC}
""",
    shape=broadcast,
    compiles=Compiles.FLOATS,
    traced=_check_divisor,
    divides=True,
    rows=Rows.ELEMENTWISE,
)
def _div(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    if _is_integer(x):
        return _truncate_div(xp, x, y)
    return xp.true_divide(x, y)


@gradient("RealDiv", "Div")
def _div_grad(op: Operation, grad: Tensor) -> list[Any]:
    a, b = op.inputs
    x, y = conj(a), conj(b)
    divide_op = op.type
    grad_x = apply_op(divide_op, grad, y)
    slope = apply_op(divide_op, apply_op(divide_op, apply_op("Neg", x), y), y)
    return unbroadcast(a, b, grad_x, apply_op("Mul", grad, slope))


@op(
    f"""
TruncateDiv(x: T, y: T) -> z: T
T: type in {ARITHMETIC}
""",
    shape=broadcast,
    compiles=Compiles.FLOATS,
    traced=_check_divisor,
    divides=True,
)
def _truncate_div(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    if not _is_integer(x):
        return xp.trunc(xp.true_divide(x, y))
    _refuse_zero(xp, x, y)
    quotient = xp.floor_divide(x, y)
    if x.dtype.kind == "u":
        return quotient
    inexact = (quotient < 0) & (quotient * y != x)
    return quotient + inexact.astype(x.dtype)


@op(
    f"""
FloorDiv(x: T, y: T) -> z: T
T: type in {ARITHMETIC}
""",
    shape=broadcast,
    compiles=Compiles.FLOATS,
    traced=_check_divisor,
    divides=True,
)
def _floor_div(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    if not _is_integer(x):
        return xp.floor(xp.true_divide(x, y))
    _refuse_zero(xp, x, y)
    return xp.floor_divide(x, y)


not_differentiable("FloorDiv", "TruncateDiv")


@op(
    """
DivNoNan(x: T, y: T) -> z: T
T: type in floats_and_complex
""",
    shape=broadcast,
    compiles=Compiles.ALWAYS,
    divides=True,
    rows=Rows.ELEMENTWISE,
)
def _div_no_nan(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    quotient = xp.true_divide(x, y)
    return xp.where(y == 0, xp.zeros_like(y), quotient)


@gradient("DivNoNan")
def _div_no_nan_grad(op: Operation, grad: Tensor) -> list[Any]:
    a, b = op.inputs
    x, y = conj(a), conj(b)
    grad_x = apply_op("DivNoNan", grad, y)
    slope = apply_op("DivNoNan", apply_op("DivNoNan", apply_op("Neg", x), y), y)
    return unbroadcast(a, b, grad_x, apply_op("Mul", grad, slope))


@export("math.divide_no_nan", "div_no_nan")
def divide_no_nan(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return x / y, and 0 where y is 0.  Shapes: x and y broadcast.

    Types: floats or complex numbers, both of one type.
    Raises: InvalidArgumentError, or ValueError, for shapes that do not broadcast.
    """
    return apply_op("DivNoNan", x, y, name=name or "div_no_nan")


@export("math.truediv", "truediv")
def truediv(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return x / y as Python 3 does: integers are converted to floats first.

    Integers of 8 and 16 bits become float32, wider ones float64.
    Raises: TypeError when x and y have different types.
    """
    x, y, name = convert_pair_below(name or "truediv", x, y)
    wide = x.dtype.base_dtype
    if not wide.is_integer:
        return apply_op("RealDiv", x, y, name=name)
    if wide is not y.dtype.base_dtype:
        raise TypeError(f"x and y must have one type; they are {wide.name} and {y.dtype.name}")
    target = dtypes.float32 if wide.size <= 2 else dtypes.float64
    with get_default_graph().name_scope(name) as scope:
        x, y = (apply_op("Cast", t, DstT=target) for t in (x, y))
        return apply_op("RealDiv", x, y, name=scope)


@export("math.divide", "divide")
def divide(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return x / y in the manner of Python 3 (see truediv).

    Shapes: x and y broadcast.
    Types: both of one type; integers give floats.
    """
    return truediv(x, y, name)


@export("div")
def div(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return x / y in the manner of Python 2: integers give their floor quotient."""
    x, y, name = convert_pair_below(name or "div", x, y)
    return apply_op("FloorDiv" if x.dtype.is_integer else "RealDiv", x, y, name=name)


@export("realdiv")
def realdiv(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return x / y for floating-point and complex operands."""
    return apply_op("RealDiv", x, y, name=name)


@export("math.floordiv", "floordiv", "floor_div")
def floordiv(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return the greatest whole number that is at most x / y.

    Raises: InvalidArgumentError, when run, for integers divided by zero.
    """
    return apply_op("FloorDiv", x, y, name=name or "floordiv")


@export("truncatediv")
def truncatediv(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return x / y rounded toward zero, as C does for integers."""
    return apply_op("TruncateDiv", x, y, name=name)


# ---- remainders


@op(
    """
FloorMod(x: T, y: T) -> z: T
T: type in reals
""",
    shape=broadcast,
    compiles=Compiles.FLOATS,
    traced=_check_divisor,
)
def _floor_mod(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    _refuse_zero(xp, x, y)
    return xp.remainder(x, y)


@op(
    """
TruncateMod(x: T, y: T) -> z: T
T: type in {int32, int64, bfloat16, half, float, double}
""",
    shape=broadcast,
    compiles=Compiles.FLOATS,
    traced=_check_divisor,
)
def _truncate_mod(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    _refuse_zero(xp, x, y)
    return xp.fmod(x, y)


@op(
    """
Mod(x: T, y: T) -> z: T
T: type in {int32, int64, half, bfloat16, float, double}
""",
    shape=broadcast,
    compiles=Compiles.FLOATS,
    traced=_check_divisor,
)
def _mod(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return _truncate_mod(xp, x, y)


@gradient("FloorMod")
def _floor_mod_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs
    slope = apply_op("Neg", apply_op("FloorDiv", x, y))
    return unbroadcast(x, y, grad, apply_op("Mul", grad, slope))


@gradient("TruncateMod")
def _truncate_mod_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs
    slope = apply_op("Neg", apply_op("TruncateDiv", x, y))
    return unbroadcast(x, y, grad, apply_op("Mul", grad, slope))


@export("math.floormod", "floormod", "mod", "math.mod")
def floormod(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return the remainder of x / y, with the sign of y.

    Raises: InvalidArgumentError, when run, for integers divided by zero.
    """
    return apply_op("FloorMod", x, y, name=name)


@export("truncatemod")
def truncatemod(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return the remainder of x / y, with the sign of x, as C does."""
    return apply_op("TruncateMod", x, y, name=name)
