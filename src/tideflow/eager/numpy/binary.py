"""Functions of two arguments, element by element: both are brought to one type, and broadcast."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from tideflow.eager.numpy.arrays import as_tensor, broadcast_together, promoted, promoted_pair
from tideflow.eager.numpy.elementwise import (
    abs,
    as_float,
    exp,
    exp2,
    is_inexact,
    isnan,
    log1p,
    sqrt,
    square,
)
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.array.searching import where_v2
from tideflow.ops.control_flow import while_loop
from tideflow.ops.export import export_v2
from tideflow.ops.math import clipping, division, elementwise, special
from tideflow.ops.math.casts import cast
from tideflow.wire import dtypes


def _function(
    name: str, op_name: str, what: str, on_bools: str | None = None, bools_as: Any = None
) -> Any:
    """Make a function of two arguments and give it its name.

    Args:
      op_name: the op that computes it.
      what: what it returns, for its docstring.
      on_bools: the op that computes it of bools; None for the same.
      bools_as: the type that bools are converted to; None for none.
    """

    def function(x1: TensorLike, x2: TensorLike) -> Any:
        x, y = promoted_pair(x1, x2)
        if not x.dtype.is_bool:
            return apply_op(op_name, x, y)
        if bools_as is not None:
            x, y = cast(x, bools_as), cast(y, bools_as)
        return apply_op(on_bools or op_name, x, y)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return {what}, element by element."
    return export_v2(f"experimental.numpy.{name}")(function)


@export_v2("experimental.numpy.add")
def add(x1: TensorLike, x2: TensorLike) -> Any:
    """Return x1 + x2, element by element; of bools, whether one of them is; texts are joined."""
    x, y = promoted_pair(x1, x2)
    kinds = {dtypes.bool_: "LogicalOr", dtypes.string: "Add"}
    return apply_op(kinds.get(x.dtype, "AddV2"), x, y)


subtract = _function("subtract", "Sub", "x1 - x2")
multiply = _function("multiply", "Mul", "x1 * x2; of bools, whether both are", "LogicalAnd")
floor_divide = _function(
    "floor_divide", "FloorDiv", "the greatest whole number up to x1 / x2", bools_as=dtypes.int8
)
_REST = "what x1 is above a multiple of x2"
mod = _function("mod", "FloorMod", _REST, bools_as=dtypes.int8)
remainder = _function("remainder", "FloorMod", _REST, bools_as=dtypes.int8)
minimum = _function(
    "minimum", "Minimum", "the lesser one; of bools, whether both are", "LogicalAnd"
)
power = _function("power", "Pow", "x1 to the power x2")
float_power = _function("float_power", "Pow", "x1 to the power x2, of the arguments' type")
arctan2 = _function("arctan2", "Atan2", "the angle of the point (x2, x1)")
nextafter = _function("nextafter", "NextAfter", "the next float after x1 on the way to x2")
bitwise_and = _function("bitwise_and", "BitwiseAnd", "the bits that both have", "LogicalAnd")
bitwise_or = _function("bitwise_or", "BitwiseOr", "the bits that one of them has", "LogicalOr")
bitwise_xor = _function("bitwise_xor", "BitwiseXor", "the bits in which they differ", "NotEqual")


@export_v2("experimental.numpy.maximum")
def maximum(x1: TensorLike, x2: Any) -> Any:
    """Return the greater one, element by element; of bools, whether one of them is.

    With the number 0 it is relu, whose gradient at 0 is 0.
    """
    is_zero = type(x2) is not bool and isinstance(x2, numbers.Real) and x2 == 0
    if is_zero and isinstance(x1, Tensor) and not x1.dtype.is_bool:
        return apply_op("Relu", x1)
    x, y = promoted_pair(x1, x2)
    return apply_op("LogicalOr" if x.dtype.is_bool else "Maximum", x, y)


@export_v2("experimental.numpy.true_divide")
def true_divide(x1: TensorLike, x2: TensorLike) -> Any:
    """Return x1 / x2, element by element; integers and bools become floats first."""
    x, y = promoted_pair(x1, x2)
    if x.dtype.is_bool:
        x, y = as_float(x), as_float(y)
    return division.truediv(x, y)


@export_v2("experimental.numpy.divide")
def divide(x1: TensorLike, x2: TensorLike) -> Any:
    """Return x1 / x2 (see true_divide)."""
    return true_divide(x1, x2)


@export_v2("experimental.numpy.divmod")
def divmod(x1: TensorLike, x2: TensorLike) -> tuple[Any, Any]:
    """Return the greatest whole number up to x1 / x2, and what is left of x1."""
    return floor_divide(x1, x2), mod(x1, x2)


@export_v2("experimental.numpy.heaviside")
def heaviside(x1: TensorLike, x2: TensorLike) -> Any:
    """Return 0 where x1 is negative, 1 where it is positive, and x2 where it is 0, as floats."""
    x, y = promoted_pair(x1, x2)
    zero, one = (as_tensor(value, y.dtype) for value in (0, 1))
    return as_float(where_v2(x < 0, zero, where_v2(x > 0, one, y)))


@export_v2("experimental.numpy.hypot")
def hypot(x1: TensorLike, x2: TensorLike) -> Any:
    """Return sqrt(x1 * x1 + x2 * x2), element by element."""
    return sqrt(add(square(x1), square(x2)))


@export_v2("experimental.numpy.logaddexp")
def logaddexp(x1: TensorLike, x2: TensorLike) -> Any:
    """Return log(exp(x1) + exp(x2)), element by element, without overflow."""
    distance = subtract(x1, x2)
    return _log_of_sum(x1, x2, distance, log1p(exp(-abs(distance))))


@export_v2("experimental.numpy.logaddexp2")
def logaddexp2(x1: TensorLike, x2: TensorLike) -> Any:
    """Return log2(2 ** x1 + 2 ** x2), element by element, without overflow."""
    distance = subtract(x1, x2)
    return _log_of_sum(x1, x2, distance, log1p(exp2(-abs(distance))) / np.log(2))


def _log_of_sum(x1: TensorLike, x2: TensorLike, distance: Any, above: Any) -> Any:
    """Return the greater one and what the sum is above it; NaN and infinities stay."""
    found = promoted_pair(add(x1, x2), add(maximum(x1, x2), above))
    return where_v2(isnan(distance), *found)


@export_v2("experimental.numpy.clip")
def clip(a: TensorLike, a_min: TensorLike | None, a_max: TensorLike | None) -> Any:
    """Return numbers limited to [a_min, a_max], of which one may be None.

    Raises: ValueError where both are None.
    """
    if a_min is None or a_max is None:
        if a_max is not None:
            return minimum(a, a_max)
        if a_min is None:
            raise ValueError("give a_min or a_max, or both")
        return maximum(a, a_min)
    return clipping.clip_by_value(*broadcast_together(promoted(a, a_min, a_max)))


@export_v2("experimental.numpy.polyval")
def polyval(p: TensorLike, x: TensorLike) -> Any:
    """Return the values at x of a polynomial whose coefficients p are given from the highest down.

    Shapes: p is a vector of known size, or a scalar; the result has that of x.
    """
    factors, at = promoted_pair(p, x)
    parts = [factors] if factors.dims == () else list(factors)
    found = special.polyval(parts, at)
    return apply_op("BroadcastTo", found, apply_op("Shape", at)) if len(parts) == 1 else found


# ---- whole numbers


def _whole(x1: TensorLike, x2: TensorLike) -> list[Any]:
    """Return the absolute values of two arguments, broadcast.  Raises: ValueError for floats."""
    x, y = promoted_pair(x1, x2)
    if not x.dtype.is_integer:
        raise ValueError(f"gcd and lcm take integers; these are {x.dtype.name}")
    return [elementwise.abs(one) for one in broadcast_together([x, y])]


def _common_divisor(x: Tensor, y: Tensor) -> Any:
    zeros, ones = apply_op("ZerosLike", y), apply_op("OnesLike", y)

    def goes_on(_: Tensor, rest: Tensor) -> Any:
        return apply_op("Any", apply_op("NotEqual", rest, zeros), _all_axes(rest))

    def divide_on(x: Tensor, rest: Tensor) -> tuple[Any, Any]:
        left = apply_op("NotEqual", rest, zeros)
        divided = apply_op("FloorMod", x, where_v2(left, rest, ones))
        return where_v2(left, rest, x), where_v2(left, divided, zeros)

    return while_loop(goes_on, divide_on, (x, y))[0]


def _all_axes(x: Tensor) -> Any:
    return apply_op("Range", 0, apply_op("Rank", x), 1)


@export_v2("experimental.numpy.gcd")
def gcd(x1: TensorLike, x2: TensorLike) -> Any:
    """Return the greatest common divisor of integers, element by element."""
    return _common_divisor(*_whole(x1, x2))


@export_v2("experimental.numpy.lcm")
def lcm(x1: TensorLike, x2: TensorLike) -> Any:
    """Return the least common multiple of integers, element by element; 0 where both are 0."""
    x, y = _whole(x1, x2)
    divisor = _common_divisor(x, y)
    zeros = apply_op("ZerosLike", divisor)
    none = apply_op("Equal", divisor, zeros)
    safe = where_v2(none, apply_op("OnesLike", divisor), divisor)
    return where_v2(none, zeros, apply_op("Mul", x, apply_op("FloorDiv", y, safe)))


# ---- comparing


def _comparison(name: str, op_name: str, what: str, bools_as: Any = None) -> Any:
    """Make a function that compares, and give it its name (see _function)."""

    def function(x1: TensorLike, x2: TensorLike) -> Any:
        x, y = promoted(x1, x2)
        if x.dtype.is_bool and bools_as is not None:
            x, y = cast(x, bools_as), cast(y, bools_as)
        return apply_op(op_name, x, y)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return whether {what}, element by element."
    return export_v2(f"experimental.numpy.{name}")(function)


equal = _comparison("equal", "Equal", "x1 == x2")
not_equal = _comparison("not_equal", "NotEqual", "x1 != x2")
greater = _comparison("greater", "Greater", "x1 > x2", dtypes.int32)
greater_equal = _comparison("greater_equal", "GreaterEqual", "x1 >= x2", dtypes.int32)
less = _comparison("less", "Less", "x1 < x2", dtypes.int32)
less_equal = _comparison("less_equal", "LessEqual", "x1 <= x2", dtypes.int32)


@export_v2("experimental.numpy.array_equal")
def array_equal(a1: TensorLike, a2: TensorLike) -> Any:
    """Return whether two values have one shape and the same elements: a scalar bool."""
    x, y = promoted(a1, a2)
    if x.shape.is_fully_defined() and y.shape.is_fully_defined() and x.dims != y.dims:
        return convert_to_tensor(False)
    # Where shapes do not broadcast, this is one False.
    same = apply_op("Equal", x, y, incompatible_shape_error=False)
    sizes = apply_op("Equal", *(apply_op("Shape", one) for one in (x, y)),
                     incompatible_shape_error=False)  # fmt: skip
    return apply_op(
        "LogicalAnd",
        apply_op("All", sizes, _all_axes(sizes)),
        apply_op("All", same, _all_axes(same)),
    )


@export_v2("experimental.numpy.isclose")
def isclose(
    a: TensorLike,
    b: TensorLike,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Any:
    """Return whether abs(a - b) <= atol + rtol * abs(b), element by element; of integers, a == b.

    equal_nan: whether NaN is close to NaN.
    """
    x, y = promoted_pair(a, b)
    if not is_inexact(x.dtype):
        return apply_op("Equal", x, y)
    relative, absolute = (convert_to_tensor(bound, x.dtype.real_dtype) for bound in (rtol, atol))
    close = elementwise.abs(x - y) <= absolute + relative * elementwise.abs(y)
    if equal_nan:
        nan = apply_op("LogicalAnd", apply_op("IsNan", x), apply_op("IsNan", y))
        close = apply_op("LogicalOr", close, nan)
    return close


@export_v2("experimental.numpy.allclose")
def allclose(
    a: TensorLike,
    b: TensorLike,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Any:
    """Return whether all elements are close (see isclose)."""
    close = isclose(a, b, rtol, atol, equal_nan)
    return apply_op("All", close, _all_axes(close))


# ---- truth


def _logic(name: str, op_name: str, what: str) -> Any:
    """Make a function of two truths, and give it its name."""

    def function(x1: TensorLike, x2: TensorLike) -> Any:
        return apply_op(op_name, *(as_tensor(x, dtypes.bool_) for x in (x1, x2)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Return whether {what}, element by element; of numbers, those that are not 0."
    )
    return export_v2(f"experimental.numpy.{name}")(function)


logical_and = _logic("logical_and", "LogicalAnd", "both are")
logical_or = _logic("logical_or", "LogicalOr", "one of them is")
logical_xor = _logic("logical_xor", "NotEqual", "one of them is, and not the other")


@export_v2("experimental.numpy.logical_not")
def logical_not(x: TensorLike) -> Any:
    """Return whether it is not, element by element; of numbers, where they are 0."""
    return apply_op("LogicalNot", as_tensor(x, dtypes.bool_))
