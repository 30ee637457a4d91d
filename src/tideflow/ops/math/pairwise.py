"""Functions of two operands besides arithmetic: the greater, the lesser, angles, the next float.

Operands broadcast as in NumPy.
Source: cwise_op_*.cc of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles, Rows
from tideflow.graph.shape_rules import broadcast
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import unbroadcast


@op(
    """
Maximum(x: T, y: T) -> z: T
T: type in reals
""",
    shape=broadcast,
    compiles=Compiles.ALWAYS,
    rows=Rows.ELEMENTWISE,
    checked_outputs=0,
)
def _maximum(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.maximum(x, y)


@op(
    """
Minimum(x: T, y: T) -> z: T
T: type in reals
""",
    shape=broadcast,
    compiles=Compiles.ALWAYS,
    rows=Rows.ELEMENTWISE,
    checked_outputs=0,
)
def _minimum(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.minimum(x, y)


@gradient("Maximum")
def _maximum_grad(op: Operation, grad: Tensor) -> list[Any]:
    return _choice_grad("GreaterEqual", op, grad)


@gradient("Minimum")
def _minimum_grad(op: Operation, grad: Tensor) -> list[Any]:
    return _choice_grad("LessEqual", op, grad)


def _choice_grad(chooses_x: str, op: Operation, grad: Tensor) -> list[Any]:
    """Give the gradient to the operand that was chosen; x wins a tie."""
    x, y = op.inputs
    chosen = apply_op(chooses_x, x, y)
    zeros = apply_op("ZerosLike", grad)
    grad_x = apply_op("SelectV2", chosen, grad, zeros)
    return unbroadcast(x, y, grad_x, apply_op("SelectV2", chosen, zeros, grad))


@export("math.maximum", "maximum")
def maximum(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return the greater of x and y, elementwise; NaN if either is NaN.

    Shapes: x and y broadcast.
    Types: real numbers, both of one type.
    Raises: InvalidArgumentError, or ValueError, for shapes that do not broadcast.
    """
    return apply_op("Maximum", x, y, name=name)


@export("math.minimum", "minimum")
def minimum(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return the lesser of x and y, elementwise; NaN if either is NaN.

    Shapes: x and y broadcast.
    Types: real numbers, both of one type.
    Raises: InvalidArgumentError, or ValueError, for shapes that do not broadcast.
    """
    return apply_op("Minimum", x, y, name=name)


@op(
    """
Atan2(y: T, x: T) -> z: T
T: type in floats
""",
    shape=broadcast,
    compiles=Compiles.ALWAYS,
)
def _atan2(xp: ArrayNamespace, y: Array, x: Array) -> Any:
    return xp.arctan2(y, x)


@gradient("Atan2")
def _atan2_grad(op: Operation, grad: Tensor) -> list[Any]:
    y, x = op.inputs
    length = apply_op("AddV2", apply_op("Square", x), apply_op("Square", y))
    scaled = apply_op("RealDiv", grad, length)
    grad_x = apply_op("Mul", apply_op("Neg", y), scaled)
    return unbroadcast(y, x, apply_op("Mul", x, scaled), grad_x)


@export("math.atan2", "atan2")
def atan2(y: TensorLike, x: TensorLike, name: str | None = None) -> Any:
    """Return the angle of the point (x, y) in radians, in [-pi, pi]."""
    return apply_op("Atan2", y, x, name=name)


@op(
    """
NextAfter(x1: T, x2: T) -> output: T
T: type in {double, float} = float
""",
    shape=broadcast,
)
def _next_after(xp: ArrayNamespace, x1: Array, x2: Array) -> Any:
    return xp.nextafter(x1, x2)


not_differentiable("NextAfter")


@export("math.nextafter")
def nextafter(x1: TensorLike, x2: TensorLike, name: str | None = None) -> Any:
    """Return the next number after x1 in the direction of x2 that the type can hold."""
    return apply_op("NextAfter", x1, x2, name=name)
