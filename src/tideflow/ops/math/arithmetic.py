"""Arithmetic of two operands: sums and products.

Operands broadcast as in NumPy.  Integers wrap around.
Source: cwise_op_*.cc of TensorFlow 2.21.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles, Rows
from tideflow.graph.shape_rules import broadcast, merged
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import Array, ArrayNamespace, DTypeLike, ShapeLike, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import IndexedSlices, conj, unbroadcast
from tideflow.wire import dtypes
from tideflow.wire.errors import InvalidArgumentError

ARITHMETIC = (
    "{bfloat16, half, float, double, uint8, int8, uint16, int16, int32, uint32, uint64, int64, "
    "complex64, complex128}"
)
_ADDABLE = (
    "{bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128, "
    "string}"
)
_SUMMABLE = (
    "{float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, "
    "bfloat16, qint16, quint16, uint16, complex128, half, uint32, uint64, variant}"
)

# ---- sums


@op(
    f"""
Add(x: T, y: T) -> z: T
T: type in {_ADDABLE}
""",
    shape=broadcast,
    compiles=Compiles.ALWAYS,
    rows=Rows.ELEMENTWISE,
)
def _add(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.add(x, y)


@op(
    f"""
AddV2(x: T, y: T) -> z: T
T: type in {ARITHMETIC}
""",
    shape=broadcast,
    commutative=True,
    aggregate=True,
    compiles=Compiles.ALWAYS,
    rows=Rows.ELEMENTWISE,
)
def _add_v2(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.add(x, y)


@gradient("Add", "AddV2")
def _add_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs
    return unbroadcast(x, y, grad, grad)


@export("math.add", "add")
def add(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return x + y, elementwise; strings are joined.

    Shapes: x and y broadcast.  Source: the ops AddV2, and Add for strings.
    """
    return _add_named(x, y, name or "Add")


def _add_named(x: TensorLike, y: TensorLike, name: str) -> Any:
    x, y, name = convert_pair_below(name, x, y, hint=True)
    is_string = x.dtype.base_dtype == dtypes.string
    return apply_op("Add" if is_string else "AddV2", x, y, name=name)


def convert_pair(
    x: Any, y: object, hint: bool = False, names: tuple[str, str] = ("x", "y")
) -> tuple[Tensor, Tensor]:
    """Return two operands as tensors of one type, which the one that is a tensor decides.

    Types of tensors that differ are left to the operation; with `hint`, where operations are called
    at once, those of Python values too.
    """
    if not isinstance(x, Tensor) and isinstance(y, Tensor):
        # NumPy's numbers have a type of their own, which that of y may not replace.
        is_whole = y.dtype.base_dtype.is_integer and isinstance(x, (np.ndarray, np.generic))
        if not is_whole or x.dtype.kind != "f":
            return convert_to_tensor(x, y.dtype.base_dtype, names[0]), y
    x = convert_to_tensor(x, name=names[0])
    return x, like_operand(y, x, hint, names[1])


def convert_pair_below(
    name: str, x: Any, y: Any, hint: bool = False, names: tuple[str, str] = ("x", "y")
) -> tuple[Tensor, Tensor, str]:
    """Return two operands as convert_pair, constants among them below a name, and the name.

    In a graph, the name that comes back is taken as it is; the constants stand below it.
    """
    graph = get_default_graph()
    if graph.is_eager or (isinstance(x, Tensor) and isinstance(y, Tensor)):
        return (*convert_pair(x, y, hint, names), name)
    with graph.name_scope(name) as scope:
        return (*convert_pair(x, y, hint, names), scope)


def like_operand(value: object, like: Tensor, hint: bool = False, name: str = "y") -> Tensor:
    """Return the second operand of an operation (see convert_pair)."""
    wanted = like.dtype.base_dtype
    if not get_default_graph().is_eager:
        has_type = isinstance(value, Tensor) or hasattr(value, "_as_graph_element")
        return convert_to_tensor(value, None if has_type else wanted, name)
    if hint and not isinstance(value, (np.ndarray, np.generic)):
        return convert_to_tensor(value, dtype_hint=wanted)
    return value if isinstance(value, Tensor) else convert_to_tensor(value, wanted)


@op(
    f"""
AddN(inputs: N * T) -> sum: T
N: int >= 1
T: type in {_SUMMABLE}
""",
    shape=merged,
    commutative=True,
    aggregate=True,
    compiles=Compiles.ALWAYS,
    rows=Rows.ELEMENTWISE,
)
def _add_n(xp: ArrayNamespace, inputs: list[Any]) -> Any:
    if len(inputs) == 1:
        return inputs[0]
    kinds = set(map(type, inputs))
    if len(kinds) == 1 and issubclass(kinds.pop(), np.generic):
        return functools.reduce(operator.add, inputs)  # scalars, perhaps hundreds
    shape = inputs[0].shape
    for i, value in enumerate(inputs):
        if value.shape != shape:
            raise InvalidArgumentError(
                f"inputs to AddN must have one shape; input 0 is {shape}, input {i} {value.shape}"
            )
    if inputs[0].dtype == object:
        return functools.reduce(np.add, inputs)  # variants add themselves up
    total = inputs[0] + inputs[1]
    for value in inputs[2:]:
        total += value  # in place: the sum is this kernel's own array
    return total


@gradient("AddN", "AccumulateNV2")
def _add_n_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [grad] * len(op.inputs)


@op(
    """
AccumulateNV2(inputs: N * T) -> sum: T
N: int >= 1
T: type in numbers
shape: shape
""",
    shape=merged,
    commutative=True,
    aggregate=True,
)
def _accumulate_n(xp: ArrayNamespace, inputs: list[Any]) -> Any:
    return _add_n(xp, inputs)


@export("math.add_n", "add_n")
def add_n(inputs: TensorLike, name: str | None = None) -> Any:
    """Return the sum of a list of tensors of one shape and type.

    Raises: ValueError for an empty list or something that is no list.
    """
    if not isinstance(inputs, (list, tuple)):
        inputs = [inputs]
    if not inputs:
        raise ValueError("add_n needs a list of at least one tensor")
    if len(inputs) == 1:
        only = convert_to_tensor(inputs[0])
        return apply_op("Identity", only, name=name) if name else only
    return apply_op("AddN", list(inputs), name=name)


@export("math.accumulate_n", "accumulate_n")
def accumulate_n(
    inputs: Sequence[Any],
    shape: ShapeLike | None = None,
    tensor_dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Any:
    """Return the sum of a list of tensors of one shape and type, as add_n does.

    Raises: ValueError for an empty list or tensors that do not fit the shape given.
    """
    if not inputs:
        raise ValueError("accumulate_n needs a list of at least one tensor")
    tensors = [convert_to_tensor(value, tensor_dtype) for value in inputs]
    found = TensorShape(shape)
    for tensor in tensors:
        found = found.merge_with(tensor.shape)
    if len(tensors) == 1:
        return tensors[0]
    return apply_op("AddN", tensors, name=name)


@op(
    f"""
Sub(x: T, y: T) -> z: T
T: type in {ARITHMETIC}
""",
    shape=broadcast,
    compiles=Compiles.ALWAYS,
    rows=Rows.ELEMENTWISE,
)
def _sub(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.subtract(x, y)


@gradient("Sub")
def _sub_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs
    return unbroadcast(x, y, grad, apply_op("Neg", grad))


@export("math.subtract", "subtract")
def subtract(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return x - y, elementwise.  Shapes: x and y broadcast.

    Args:
      x, y: numbers of one type.
    Returns: a tensor of their type.
    Raises: InvalidArgumentError, or ValueError, for shapes that do not broadcast.
    """
    return apply_op("Sub", x, y, name=name)


# ---- products


@op(
    f"""
Mul(x: T, y: T) -> z: T
T: type in {ARITHMETIC}
""",
    shape=broadcast,
    commutative=True,
    compiles=Compiles.ALWAYS,
    rows=Rows.ELEMENTWISE,
)
def _mul(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.multiply(x, y)


@gradient("Mul")
def _mul_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs
    return unbroadcast(x, y, apply_op("Mul", grad, conj(y)), apply_op("Mul", conj(x), grad))


@export("math.multiply", "multiply")
def multiply(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return x * y, elementwise.  Shapes: x and y broadcast.

    Args:
      x, y: numbers of one type.
    Returns: a tensor of their type.
    Raises: InvalidArgumentError, or ValueError, for shapes that do not broadcast.
    """
    return apply_op("Mul", x, y, name=name)


@export("math.scalar_mul", "scalar_mul")
def scalar_mul(scalar: TensorLike, x: Any, name: str | None = None) -> Any:
    """Return x times a scalar; of IndexedSlices, the values are multiplied.

    Raises: ValueError when `scalar` is not of shape [].
    """
    is_sliced = isinstance(x, IndexedSlices)
    target = x.values if is_sliced else convert_to_tensor(x)
    factor = convert_to_tensor(scalar, target.dtype.base_dtype, name="scalar")
    if factor.dims not in ((), None):
        raise ValueError(f"scalar_mul needs a scalar; found shape {factor.shape}")
    product = apply_op("Mul", factor, target, name=name)
    return IndexedSlices(product, x.indices, x.dense_shape) if is_sliced else product


@export_v2("math.scalar_mul", "scalar_mul")
def scalar_mul_in_scope(scalar: TensorLike, x: Any, name: str | None = None) -> Any:
    """Return x times a scalar as `scalar_mul` does, in a scope of that name.

    Raises: ValueError when `scalar` is not of shape [].
    """
    with get_default_graph().name_scope(name or "scalar_mul") as scope:
        return scalar_mul(scalar, x, scope)


@op(
    """
MulNoNan(x: T, y: T) -> z: T
T: type in floats_and_complex
""",
    shape=broadcast,
    compiles=Compiles.ALWAYS,
    rows=Rows.ELEMENTWISE,
)
def _mul_no_nan(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    return xp.where(y == 0, xp.zeros_like(y), xp.multiply(x, y))


@gradient("MulNoNan")
def _mul_no_nan_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs
    return unbroadcast(x, y, apply_op("MulNoNan", grad, y), apply_op("MulNoNan", x, grad))


@export("math.multiply_no_nan")
def multiply_no_nan(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return x * y, and 0 where y is 0, even if x is infinite or NaN.

    Shapes: x and y broadcast.
    Types: floats or complex numbers, both of one type.
    """
    return apply_op("MulNoNan", x, y, name=name or "multiply_no_nan")


@op(
    """
SquaredDifference(x: T, y: T) -> z: T
T: type in {bfloat16, half, float, double, int32, int64, complex64, complex128}
""",
    shape=broadcast,
    commutative=True,
    compiles=Compiles.ALWAYS,
    rows=Rows.ELEMENTWISE,
)
def _squared_difference(xp: ArrayNamespace, x: Array, y: Array) -> Any:
    difference = xp.subtract(x, y)
    if difference.dtype.kind == "c":
        return xp.multiply(xp.conj(difference), difference)
    return xp.square(difference)


@gradient("SquaredDifference")
def _squared_difference_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs
    scaled = apply_op("Mul", grad, 2)
    grad_x = apply_op("Mul", scaled, apply_op("Sub", x, y))
    return unbroadcast(x, y, grad_x, apply_op("Neg", grad_x))


@export("math.squared_difference", "squared_difference")
def squared_difference(x: TensorLike, y: TensorLike, name: str | None = None) -> Any:
    """Return (x - y) squared, elementwise; for complex x, conj(x - y) * (x - y)."""
    return apply_op("SquaredDifference", x, y, name=name)
