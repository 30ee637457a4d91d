"""Comparisons, logic, bits, and choosing between two tensors.

Operands broadcast as in NumPy, but for Select, whose condition may also pick whole rows.
Source: cwise_op_equal_to_1.cc, cwise_op_select.cc and their neighbours of TensorFlow 2.21.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext, broadcast, same_as
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import of_one_shape, scoped, unbroadcast
from tideflow.wire.errors import InvalidArgumentError

_same = same_as(0)

# ---- equality


def _equality_shape(c: ShapeContext) -> list[Dims]:
    """Shapes that do not broadcast compare as unequal when the attr allows them."""
    if c.attrs["incompatible_shape_error"]:
        return broadcast(c)
    try:
        found = shapes.broadcast(*c.inputs)
    except ValueError:
        return [()]
    if found is None or None in c.inputs[0] or None in c.inputs[1]:  # type: ignore[operator]
        return [None]
    return [found]


def _broadcasts(x: Array, y: Array) -> bool:
    pairs = zip(reversed(np.shape(x)), reversed(np.shape(y)))
    return all(a == b or 1 in (a, b) for a, b in pairs)


@op(
    """
Equal(x: T, y: T) -> z: bool
T: type
incompatible_shape_error: bool = true
""",
    shape=_equality_shape,
    commutative=True,
    compiles=Compiles.ALWAYS,
    is_stated=True,
)
def _equal(xp: ArrayNamespace, x: Array, y: Array, *, incompatible_shape_error: bool) -> Any:
    if not incompatible_shape_error and not _broadcasts(x, y):
        return np.False_
    return xp.equal(x, y)


@op(
    """
NotEqual(x: T, y: T) -> z: bool
T: type
incompatible_shape_error: bool = true
""",
    shape=_equality_shape,
    commutative=True,
    compiles=Compiles.ALWAYS,
    is_stated=True,
)
def _not_equal(xp: ArrayNamespace, x: Array, y: Array, *, incompatible_shape_error: bool) -> Any:
    if not incompatible_shape_error and not _broadcasts(x, y):
        return np.True_
    return xp.not_equal(x, y)


@export("math.equal", "equal")
def equal(x: TensorLike, y: object, name: str | None = None) -> Any:
    """Return where x equals y.  Shapes: x and y broadcast.

    Types: any, both of one type; the result is bool.
    Raises: InvalidArgumentError, or ValueError, for shapes that do not broadcast.
    """
    return apply_op("Equal", x, y, name=name)


@export("math.not_equal", "not_equal")
def not_equal(x: TensorLike, y: object, name: str | None = None) -> Any:
    """Return where x differs from y.  Shapes: x and y broadcast."""
    return apply_op("NotEqual", x, y, name=name)


@op(
    """
ApproximateEqual(x: T, y: T) -> z: bool
T: type in numbers
tolerance: float = 9.999999747378752e-06
""",
    shape=broadcast,
    commutative=True,
)
@of_one_shape
def _approximate_equal(xp: ArrayNamespace, x: Array, y: Array, *, tolerance: float) -> Any:
    return xp.less(xp.abs(x - y), tolerance)


@export("math.approximate_equal", "approximate_equal")
def approximate_equal(
    x: TensorLike, y: TensorLike, tolerance: float = 1e-5, name: str | None = None
) -> Any:
    """Return where x and y differ by less than the tolerance."""
    return apply_op("ApproximateEqual", x, y, tolerance=tolerance, name=name)


# ---- order


@op(
    """
Less(x: T, y: T) -> z: bool
T: type in reals
""",
    shape=broadcast,
    compiles=Compiles.ALWAYS,
)
def _less(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.less(x, y)


@op(
    """
LessEqual(x: T, y: T) -> z: bool
T: type in reals
""",
    shape=broadcast,
    compiles=Compiles.ALWAYS,
)
def _less_equal(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.less_equal(x, y)


@op(
    """
Greater(x: T, y: T) -> z: bool
T: type in reals
""",
    shape=broadcast,
    compiles=Compiles.ALWAYS,
)
def _greater(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.greater(x, y)


@op(
    """
GreaterEqual(x: T, y: T) -> z: bool
T: type in reals
""",
    shape=broadcast,
    compiles=Compiles.ALWAYS,
)
def _greater_equal(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.greater_equal(x, y)


@export("math.less", "less")
def less(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return where x < y.  Shapes: x and y broadcast.

    Types: real numbers, both of one type; the result is bool.
    Raises: InvalidArgumentError, or ValueError, for shapes that do not broadcast.
    """
    return apply_op("Less", x, y, name=name)


@export("math.less_equal", "less_equal")
def less_equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return where x <= y.  Shapes: x and y broadcast."""
    return apply_op("LessEqual", x, y, name=name)


@export("math.greater", "greater")
def greater(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return where x > y.  Shapes: x and y broadcast.

    Types: real numbers, both of one type; the result is bool.
    Raises: InvalidArgumentError, or ValueError, for shapes that do not broadcast.
    """
    return apply_op("Greater", x, y, name=name)


@export("math.greater_equal", "greater_equal")
def greater_equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return where x >= y.  Shapes: x and y broadcast."""
    return apply_op("GreaterEqual", x, y, name=name)


# ---- logic


@op(
    "LogicalAnd(x: bool, y: bool) -> z: bool",
    shape=broadcast,
    commutative=True,
    compiles=Compiles.ALWAYS,
)
def _logical_and(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.logical_and(x, y)


@op(
    "LogicalOr(x: bool, y: bool) -> z: bool",
    shape=broadcast,
    commutative=True,
    compiles=Compiles.ALWAYS,
)
def _logical_or(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.logical_or(x, y)


@op("LogicalNot(x: bool) -> y: bool", shape=_same, compiles=Compiles.ALWAYS)
def _logical_not(xp: ArrayNamespace, x: Array) -> Any:
    return xp.logical_not(x)


@export("math.logical_and", "logical_and")
def logical_and(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return where both x and y hold.  Shapes: x and y broadcast.

    Types: bool.
    """
    return apply_op("LogicalAnd", x, y, name=name)


@export("math.logical_or", "logical_or")
def logical_or(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return where x or y holds.  Shapes: x and y broadcast."""
    return apply_op("LogicalOr", x, y, name=name)


@export("math.logical_not", "logical_not")
def logical_not(x: TensorLike, name: str | None = None) -> Any:
    """Return where x does not hold.

    Args:
      x: bool, of any shape.
    Returns: bool, of its shape.
    """
    return apply_op("LogicalNot", x, name=name)


@export("math.logical_xor", "logical_xor")
def logical_xor(x: TensorLike, y: TensorLike, name: str = "LogicalXor") -> Any:
    """Return where exactly one of x and y holds.  Shapes: x and y broadcast."""
    either = apply_op("LogicalOr", x, y)
    both = apply_op("LogicalAnd", x, y)
    return apply_op("LogicalAnd", either, apply_op("LogicalNot", both), name=name)


# ---- bits


@op(
    """
BitwiseAnd(x: T, y: T) -> z: T
T: type in integers
""",
    shape=broadcast,
    commutative=True,
)
def _bitwise_and(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.bitwise_and(x, y)


@op(
    """
BitwiseOr(x: T, y: T) -> z: T
T: type in integers
""",
    shape=broadcast,
    commutative=True,
)
def _bitwise_or(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.bitwise_or(x, y)


@op(
    """
BitwiseXor(x: T, y: T) -> z: T
T: type in integers
""",
    shape=broadcast,
    commutative=True,
)
def _bitwise_xor(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.bitwise_xor(x, y)


@op(
    """
Invert(x: T) -> y: T
T: type in integers
""",
    shape=_same,
)
def _invert(xp: ArrayNamespace, x: Array) -> Any:
    return xp.invert(x)


def _shift_amount(xp: ArrayNamespace, y: Array) -> Any:
    """Limit a shift to what the type has bits for, as TensorFlow does."""
    bits = y.dtype.itemsize * 8
    return xp.clip(y, 0, bits - 1).astype(y.dtype)


@op(
    """
LeftShift(x: T, y: T) -> z: T
T: type in integers
""",
    shape=broadcast,
)
def _left_shift(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.left_shift(x, _shift_amount(xp, y))


@op(
    """
RightShift(x: T, y: T) -> z: T
T: type in integers
""",
    shape=broadcast,
)
def _right_shift(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.right_shift(x, _shift_amount(xp, y))


@op(
    """
PopulationCount(x: T) -> y: uint8
T: type in integers
""",
    shape=_same,
)
def _population_count(xp: ArrayNamespace, x: Array) -> Any:
    # Through the unsigned type: bitwise_count takes the absolute value of what is signed.
    return xp.bitwise_count(x.view(f"uint{x.dtype.itemsize * 8}")).astype(np.uint8)


@export("bitwise.bitwise_and")
def bitwise_and(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return the bits set in both integers."""
    return apply_op("BitwiseAnd", x, y, name=name)


@export("bitwise.bitwise_or")
def bitwise_or(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return the bits set in either integer."""
    return apply_op("BitwiseOr", x, y, name=name)


@export("bitwise.bitwise_xor")
def bitwise_xor(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return the bits set in exactly one of the integers."""
    return apply_op("BitwiseXor", x, y, name=name)


@export("bitwise.invert")
def invert(x: TensorLike, name: str | None = None) -> Any:
    """Return the integer with all bits flipped."""
    return apply_op("Invert", x, name=name)


@export("bitwise.left_shift")
def left_shift(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return x shifted left by y bits."""
    return apply_op("LeftShift", x, y, name=name)


@export("bitwise.right_shift")
def right_shift(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return x shifted right by y bits; signed integers keep their sign."""
    return apply_op("RightShift", x, y, name=name)


not_differentiable(
    "Equal",
    "NotEqual",
    "ApproximateEqual",
    "Less",
    "LessEqual",
    "Greater",
    "GreaterEqual",
    "LogicalAnd",
    "LogicalOr",
    "LogicalNot",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Invert",
    "LeftShift",
    "RightShift",
    "PopulationCount",
)


# ---- choosing


def _select_v2_shape(c: ShapeContext) -> list[Dims]:
    condition, then, otherwise = c.inputs
    return [shapes.broadcast(condition, shapes.broadcast(then, otherwise))]


@op(
    """
SelectV2(condition: bool, t: T, e: T) -> output: T
T: type
""",
    shape=_select_v2_shape,
    compiles=Compiles.ALWAYS,
)
def _select_v2(xp: ArrayNamespace, condition: Array, t: Array, e: Array) -> Any:
    return xp.where(condition, t, e)


@gradient("SelectV2")
def _select_v2_grad(op: Operation, grad: Tensor) -> list[Any]:
    condition, then, otherwise = op.inputs
    zeros = apply_op("ZerosLike", grad)
    result = op.outputs[0]
    grad_t, _ = unbroadcast(then, result, apply_op("SelectV2", condition, grad, zeros), None)
    grad_e, _ = unbroadcast(otherwise, result, apply_op("SelectV2", condition, zeros, grad), None)
    return [None, grad_t, grad_e]


def _select_shape(c: ShapeContext) -> list[Dims]:
    condition, then, otherwise = c.inputs
    found = shapes.merge(then, otherwise)
    if condition is not None and found is not None and len(condition) not in (0, len(found)):
        rows = shapes.merge(condition, found[:1])
        if rows is not None:
            return [rows + found[1:]]
    if condition is not None and found is not None and len(condition) == len(found):
        return [shapes.merge(condition, found)]
    return [found]


@op(
    """
Select(condition: bool, t: T, e: T) -> output: T
T: type
""",
    shape=_select_shape,
    compiles=Compiles.ALWAYS,
)
def _select(xp: ArrayNamespace, condition: Any, t: Array, e: Array) -> Any:
    if np.shape(t) != np.shape(e):
        raise InvalidArgumentError(
            f"Select needs t and e of one shape; found {np.shape(t)} and {np.shape(e)}"
        )
    rank = np.ndim(t)
    given = np.shape(condition)
    if len(given) not in (0, rank):
        if len(given) != 1 or not rank or given[0] != t.shape[0]:
            raise InvalidArgumentError(
                "the condition of Select must be a scalar, of the shape of t, or a vector with "
                f"one element for each row of t; found {given} for t of {np.shape(t)}"
            )
        condition = condition.reshape(given + (1,) * (rank - 1))
    elif given and given != t.shape:
        raise InvalidArgumentError(f"Select needs a condition of shape {t.shape}; found {given}")
    return xp.where(condition, t, e)


@gradient("Select")
def _select_grad(op: Operation, grad: Tensor) -> list[Any]:
    condition, then, _ = op.inputs
    zeros = apply_op("ZerosLike", then)
    return [
        None,
        apply_op("Select", condition, grad, zeros),
        apply_op("Select", condition, zeros, grad),
    ]


@export("debugging.is_strictly_increasing", "is_strictly_increasing", "math.is_strictly_increasing")
@scoped("is_strictly_increasing")
def is_strictly_increasing(x: TensorLike, name: str | None = None) -> Any:
    """Return whether each element, read in order, is greater than the one before."""
    return _holds_between_neighbours("Less", x)


@export("debugging.is_non_decreasing", "is_non_decreasing", "math.is_non_decreasing")
@scoped("is_non_decreasing")
def is_non_decreasing(x: TensorLike, name: str | None = None) -> Any:
    """Return whether each element, read in order, is at least the one before."""
    return _holds_between_neighbours("LessEqual", x)


def _holds_between_neighbours(comparison: str, x: TensorLike) -> Any:
    flat = apply_op("Reshape", convert_to_tensor(x), [-1])
    count = apply_op("Size", flat)
    pairs = apply_op("Maximum", apply_op("Sub", count, 1), 0)
    size = apply_op("Reshape", pairs, [1])
    start = apply_op("Minimum", apply_op("Reshape", count, [1]), 1)
    before = apply_op("Slice", flat, [0], size)
    after = apply_op("Slice", flat, start, size)
    return apply_op("All", apply_op(comparison, before, after), [0])
