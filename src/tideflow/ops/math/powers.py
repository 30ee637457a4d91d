"""Powers, and products and quotients with logarithms that stay 0 where a factor is 0.

Operands broadcast as in NumPy.
Source: cwise_op_pow.cc, cwise_op_xlogy.cc, cwise_op_xdivy.cc of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles, Rows
from tideflow.graph.shape_rules import broadcast
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import conj, scoped, unbroadcast
from tideflow.wire.errors import InvalidArgumentError


@op(
    """
Pow(x: T, y: T) -> z: T
T: type in {bfloat16, float, half, double, int8, int16, int32, int64, complex64, complex128}
""",
    shape=broadcast,
    compiles=Compiles.FLOATS,
    rows=Rows.ELEMENTWISE,
)
def _pow(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    if xp is np and y.dtype.kind == "i" and (y < 0).any() and x.size:
        raise InvalidArgumentError("Integers to negative integer powers are not allowed")
    return xp.power(x, y)


@gradient("Pow")
def _pow_grad(op: Operation, grad: Tensor) -> list[Any]:
    a, b = op.inputs
    x, y = conj(a), conj(b)
    z = conj(op.outputs[0])
    slope_x = apply_op("Mul", y, apply_op("Pow", x, apply_op("Sub", y, 1)))
    grad_x = apply_op("Mul", grad, slope_x)
    # log x counts as 0 where x has none, so that a constant exponent costs no NaN.
    defined = apply_op("NotEqual", x, 0) if x.dtype.is_complex else apply_op("Greater", x, 0)
    safe = apply_op("SelectV2", defined, x, apply_op("OnesLike", x))
    logarithm = apply_op("SelectV2", defined, apply_op("Log", safe), apply_op("ZerosLike", x))
    grad_y = apply_op("Mul", grad, apply_op("Mul", z, logarithm))
    return unbroadcast(a, b, grad_x, grad_y)


@export("math.pow", "pow")
def pow(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return x to the power y, elementwise.

    Raises: InvalidArgumentError, when run, for an integer to a negative power.
    """
    return apply_op("Pow", x, y, name=name)


@op(
    """
Xlogy(x: T, y: T) -> z: T
T: type in floats_and_complex
""",
    shape=broadcast,
    compiles=Compiles.ALWAYS,
)
def _xlogy(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.where(x == 0, xp.zeros_like(x), xp.multiply(x, xp.log(y)))


@gradient("Xlogy")
def _xlogy_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs
    present = apply_op("Cast", apply_op("NotEqual", x, 0), DstT=x.dtype)
    slope_x = apply_op("Xlogy", present, y)
    slope_y = apply_op("Xdivy", x, y)
    return unbroadcast(x, y, apply_op("Mul", slope_x, grad), apply_op("Mul", slope_y, grad))


@export("math.xlogy")
def xlogy(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return x * log(y), and 0 where x is 0.

    Shapes: x and y broadcast.
    Types: floats or complex numbers, both of one type.
    """
    return apply_op("Xlogy", x, y, name=name)


@op(
    """
Xlog1py(x: T, y: T) -> z: T
T: type in floats_and_complex
""",
    shape=broadcast,
)
def _xlog1py(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.where(x == 0, xp.zeros_like(x), xp.multiply(x, xp.log1p(y)))


@gradient("Xlog1py")
def _xlog1py_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs
    present = apply_op("Cast", apply_op("NotEqual", x, 0), DstT=x.dtype)
    slope_x = apply_op("Xlog1py", present, y)
    slope_y = apply_op("Xdivy", x, apply_op("AddV2", y, 1))
    return unbroadcast(x, y, apply_op("Mul", slope_x, grad), apply_op("Mul", slope_y, grad))


@export("math.xlog1py")
@scoped("xlog1py")
def xlog1py(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return x * log(1 + y), and 0 where x is 0."""
    return apply_op("Xlog1py", x, y, name=name)


@op(
    """
Xdivy(x: T, y: T) -> z: T
T: type in floats_and_complex
""",
    shape=broadcast,
    compiles=Compiles.ALWAYS,
)
def _xdivy(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.where(x == 0, xp.zeros_like(x), xp.true_divide(x, y))


@gradient("Xdivy")
def _xdivy_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs
    present = apply_op("Cast", apply_op("NotEqual", x, 0), DstT=x.dtype)
    slope_x = apply_op("Xdivy", present, y)
    slope_y = apply_op("Xdivy", apply_op("Neg", x), apply_op("Square", y))
    return unbroadcast(x, y, apply_op("Mul", slope_x, grad), apply_op("Mul", slope_y, grad))


@export("math.xdivy")
@scoped("xdivy")
def xdivy(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return x / y, and 0 where x is 0.

    Shapes: x and y broadcast.
    Types: floats or complex numbers, both of one type.
    """
    return apply_op("Xdivy", x, y, name=name)
