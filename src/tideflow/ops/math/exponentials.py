"""Exponentials and logarithms of one operand, what is made of them, and their gradients.

Each op works elementwise and keeps shape and type; see tideflow.ops.math.elementwise.
Source: cwise_op_*.cc of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles, Rows
from tideflow.graph.shape_rules import merged, same_as
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import conj, of_one_shape
from tideflow.ops.math.elementwise import times

_same = same_as(0)


@op(
    """
Exp(x: T) -> y: T
T: type in floats_and_complex
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
    rows=Rows.ELEMENTWISE,
)
def _exp(xp: ArrayNamespace, x: Array) -> Any:
    return xp.exp(x)


@gradient("Exp")
def _exp_grad(op: Operation, grad: Tensor) -> Any:
    return [times(grad, conj(op.outputs[0]))]


@export("math.exp", "exp")
def exp(x: TensorLike, name: str | None = None) -> Any:
    """Return e to the power x.

    Args:
      x: a tensor of float16, bfloat16, float32, float64 or a complex type, of any shape.
    Returns: a tensor of its shape and type.
    """
    return apply_op("Exp", x, name=name)


@op(
    """
Expm1(x: T) -> y: T
T: type in floats_and_complex
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
)
def _expm1(xp: ArrayNamespace, x: Array) -> Any:
    return xp.expm1(x)


@gradient("Expm1")
def _expm1_grad(op: Operation, grad: Tensor) -> Any:
    return [times(grad, apply_op("Exp", conj(op.inputs[0])))]


@export("math.expm1", "expm1")
def expm1(x: TensorLike, name: str | None = None) -> Any:
    """Return exp(x) - 1, exact for small x too.

    Args:
      x: a tensor of float16, bfloat16, float32, float64 or a complex type, of any shape.
    Returns: a tensor of its shape and type.
    """
    return apply_op("Expm1", x, name=name)


@op(
    """
Log(x: T) -> y: T
T: type in floats_and_complex
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
    rows=Rows.ELEMENTWISE,
)
def _log(xp: ArrayNamespace, x: Array) -> Any:
    return xp.log(x)


@gradient("Log")
def _log_grad(op: Operation, grad: Tensor) -> Any:
    return [times(grad, apply_op("Reciprocal", conj(op.inputs[0])))]


@export("math.log", "log")
def log(x: TensorLike, name: str | None = None) -> Any:
    """Return the natural logarithm; NaN for negative numbers.

    Args:
      x: a tensor of float16, bfloat16, float32, float64 or a complex type, of any shape.
    Returns: a tensor of its shape and type.
    """
    return apply_op("Log", x, name=name)


@op(
    """
Log1p(x: T) -> y: T
T: type in floats_and_complex
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
)
def _log1p(xp: ArrayNamespace, x: Array) -> Any:
    return xp.log1p(x)


@gradient("Log1p")
def _log1p_grad(op: Operation, grad: Tensor) -> Any:
    return [apply_op("RealDiv", grad, apply_op("AddV2", conj(op.inputs[0]), 1))]


@export("math.log1p", "log1p")
def log1p(x: TensorLike, name: str | None = None) -> Any:
    """Return log(1 + x), exact for small x too.

    Args:
      x: a tensor of float16, bfloat16, float32, float64 or a complex type, of any shape.
    Returns: a tensor of its shape and type.
    """
    return apply_op("Log1p", x, name=name)


@op(
    """
Tanh(x: T) -> y: T
T: type in floats_and_complex
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
)
def _tanh(xp: ArrayNamespace, x: Array) -> Any:
    return xp.tanh(x)


@op(
    """
TanhGrad(y: T, dy: T) -> z: T
T: type in floats_and_complex
""",
    shape=merged,
    compiles=Compiles.ALWAYS,
)
@of_one_shape
def _tanh_slope(xp: ArrayNamespace, y: Array, dy: Array) -> Any:
    return dy * (1 - y * y)


@gradient("Tanh")
def _tanh_grad(op: Operation, grad: Tensor) -> Any:
    return [apply_op("TanhGrad", conj(op.outputs[0]), grad)]


@gradient("TanhGrad")
def _tanh_grad_grad(op: Operation, grad: Tensor) -> Any:
    y, dy = (conj(t) for t in op.inputs)
    return [times(grad, dy, y, -2), apply_op("TanhGrad", y, grad)]


@export("math.tanh", "tanh")
def tanh(x: TensorLike, name: str | None = None) -> Any:
    """Return the hyperbolic tangent.

    Args:
      x: a tensor of float16, bfloat16, float32, float64 or a complex type, of any shape.
    Returns: a tensor of its shape and type.
    """
    return apply_op("Tanh", x, name=name)


@op(
    """
Sigmoid(x: T) -> y: T
T: type in floats_and_complex
""",
    shape=_same,
    compiles=Compiles.ALWAYS,
)
def _sigmoid(xp: ArrayNamespace, x: Array) -> Any:
    return xp.reciprocal(1 + xp.exp(-x))


@op(
    """
SigmoidGrad(y: T, dy: T) -> z: T
T: type in floats_and_complex
""",
    shape=merged,
    compiles=Compiles.ALWAYS,
)
@of_one_shape
def _sigmoid_slope(xp: ArrayNamespace, y: Array, dy: Array) -> Any:
    return dy * y * (1 - y)


@gradient("Sigmoid")
def _sigmoid_grad(op: Operation, grad: Tensor) -> Any:
    return [apply_op("SigmoidGrad", conj(op.outputs[0]), grad)]


@gradient("SigmoidGrad")
def _sigmoid_grad_grad(op: Operation, grad: Tensor) -> Any:
    y, dy = (conj(t) for t in op.inputs)
    weighted = times(grad, dy)
    slope = apply_op("Sub", weighted, times(weighted, y, 2))
    return [slope, apply_op("SigmoidGrad", y, grad)]


@export("math.sigmoid", "sigmoid")
def sigmoid(x: TensorLike, name: str | None = None) -> Any:
    """Return 1 / (1 + exp(-x)).

    Args:
      x: a tensor of float16, bfloat16, float32, float64 or a complex type, of any shape.
    Returns: a tensor of its shape and type.
    """
    return apply_op("Sigmoid", x, name=name)


@export("math.log_sigmoid", "log_sigmoid")
def log_sigmoid(x: TensorLike, name: str | None = None) -> Any:
    """Return log(sigmoid(x)), without overflow for x far below zero.

    Args:
      x: a tensor of float16, bfloat16, float32 or float64, of any shape.
    Returns: a tensor of its shape and type.
    """
    with get_default_graph().name_scope(name or "LogSigmoid") as scope:
        negated = apply_op("Softplus", apply_op("Neg", x))
        return apply_op("Neg", negated, name=scope)
