"""Python's operators on tensors: x + y, x @ y, -x, x < y and the rest.

Importing this module installs them on Tensor; `install_operators` gives them to another class
(variables), too.  == and != compare elementwise where the graph says so (the TF2 shape), and
identity elsewhere; indexing belongs to tideflow.ops.array.slicing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph.behavior import behavior
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.type_spec import Composite
from tideflow.graph.types import TensorLike
from tideflow.ops.framework import IndexedSlices
from tideflow.ops.linalg import products as matmul
from tideflow.ops.math import arithmetic, comparison, division, elementwise, powers
from tideflow.wire import dtypes

Binary = Callable[[Any, Any, str], Any]


def _add(x: Tensor, y: Tensor, name: str) -> Any:
    return arithmetic.add(x, y, name)


def _multiply(x: TensorLike, y: TensorLike, name: str) -> Any:
    # Slices times a number stay slices.
    if isinstance(y, IndexedSlices):
        return arithmetic.scalar_mul(x, y, name)
    return arithmetic.multiply(x, y, name)


def _matmul(x: Tensor, y: Tensor, name: str) -> Any:
    return matmul.matmul(x, y, name=name)


def _logical(on_bools: Binary, on_integers: Binary) -> Binary:
    def combine(x: Any, y: TensorLike, name: str) -> Any:
        is_bool = x.dtype.base_dtype == dtypes.bool_
        return (on_bools if is_bool else on_integers)(x, y, name)

    return combine


_BINARY: dict[str, Binary] = {
    "add": _add,
    "sub": arithmetic.subtract,
    "mul": _multiply,
    "truediv": division.truediv,
    "floordiv": division.floordiv,
    "mod": division.floormod,
    "pow": powers.pow,
    "matmul": _matmul,
    "and": _logical(comparison.logical_and, comparison.bitwise_and),
    "or": _logical(comparison.logical_or, comparison.bitwise_or),
    "xor": _logical(comparison.logical_xor, comparison.bitwise_xor),
}


_deferred: list[type] = []


def defer_to(kind: type) -> None:
    """Let the operators of a class come before those of a tensor on its left."""
    _deferred.append(kind)


def _forward(name: str, function: Binary) -> Callable[[Any, Any], Any]:
    def operate(self: Any, other: TensorLike) -> Any:
        if type(other) in _deferred:
            return NotImplemented
        with get_default_graph().name_scope(name) as scope:
            if behavior.operate is not None:
                return behavior.operate(name, lambda x, y: function(x, y, scope), self, other)
            x = convert_to_tensor(self)
            if isinstance(other, Composite):
                return _with_composite(name, function, x, other, scope)
            if not isinstance(other, IndexedSlices):
                other = arithmetic.like_operand(other, x, hint=name == "add")
            return function(x, other, scope)

    operate.__name__ = operate.__qualname__ = f"__{name}__"
    return operate


def _with_composite(name: str, function: Binary, x: Tensor, y: Composite, scope: str) -> Any:
    """Return what dispatch makes of a tensor and a value of a user's class, or its own operator.

    As with TensorFlow, + does not dispatch: what is added must be a tensor.
    """
    try:
        return function(x, convert_to_tensor(y) if name == "add" else y, scope)
    except (TypeError, ValueError):
        own = getattr(type(y), f"__r{name}__", None)
        found = NotImplemented if own is None else own(y, x)
        if found is NotImplemented:
            raise
        return found


def _reflected(name: str, function: Binary) -> Callable[[Any, Any], Any]:
    def operate(self: Any, other: TensorLike) -> Any:
        with get_default_graph().name_scope(name) as scope:
            if behavior.operate is not None:
                return behavior.operate(name, lambda x, y: function(x, y, scope), other, self)
            y = convert_to_tensor(self)
            return function(convert_to_tensor(other, y.dtype.base_dtype, "x"), y, scope)

    operate.__name__ = operate.__qualname__ = f"__r{name}__"
    return operate


def _comparison(name: str, function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def compare(self: Any, other: TensorLike) -> Any:
        if type(other) in _deferred:
            return NotImplemented
        if behavior.operate is not None:
            return behavior.operate(name, function, self, other)
        x = convert_to_tensor(self)
        return function(x, other)

    compare.__name__ = function.__name__
    return compare


def _invert(self: Any) -> Any:
    x = convert_to_tensor(self)
    if x.dtype.base_dtype == dtypes.bool_:
        return comparison.logical_not(x)
    return comparison.invert(x)


_OTHERS: dict[str, Callable[..., Any]] = {
    "__lt__": _comparison("lt", comparison.less),
    "__le__": _comparison("le", comparison.less_equal),
    "__gt__": _comparison("gt", comparison.greater),
    "__ge__": _comparison("ge", comparison.greater_equal),
    "__neg__": lambda self: elementwise.negative(convert_to_tensor(self)),
    "__abs__": lambda self: elementwise.abs(convert_to_tensor(self)),
    "__invert__": _invert,
    "__round__": lambda self: elementwise.round(convert_to_tensor(self)),
}


def install_operators(target: type) -> None:
    """Give a class the operators; its objects must convert to tensors."""
    for name, function in _BINARY.items():
        setattr(target, f"__{name}__", _forward(name, function))
        setattr(target, f"__r{name}__", _reflected(name, function))
    for name, function in _OTHERS.items():
        setattr(target, name, function)


def _equality(op_name: str, when_different: bool) -> Callable[[Any, Any], Any]:
    """Return == or != of tensors; shapes that cannot be compared are different."""
    name = "ne" if when_different else "eq"

    def apply(x: Any, y: Any) -> Any:
        return apply_op(op_name, x, y, incompatible_shape_error=False)

    def compare(self: Tensor, other: object) -> Any:
        if type(other) in _deferred:
            return NotImplemented
        if self is other and not self.graph.compares_elementwise:
            return not when_different
        if other is None or not self.graph.compares_elementwise:
            return when_different
        if behavior.operate is not None:
            return behavior.operate(name, apply, self, other)
        return apply(self, other)

    compare.__name__ = compare.__qualname__ = f"__{name}__"
    return compare


install_operators(Tensor)
Tensor.__eq__ = _equality("Equal", False)  # type: ignore[method-assign]
Tensor.__ne__ = _equality("NotEqual", True)  # type: ignore[method-assign]
