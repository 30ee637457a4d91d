"""Functions of one argument, element by element.

Most convert integers and bools to NumPy's floats first, as NumPy does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.eager.numpy.arrays import asarray
from tideflow.eager.numpy.conversions import keeps_weak
from tideflow.eager.numpy.promotion import result_type
from tideflow.graph.building import apply_op
from tideflow.graph.types import TensorLike
from tideflow.ops.array.searching import where_v2
from tideflow.ops.export import export_v2
from tideflow.ops.math import casts, comparison, elementwise
from tideflow.ops.math.casts import cast
from tideflow.wire.dtypes import DType

Function = Callable[[Any], Any]


def is_inexact(dtype: DType) -> bool:
    """Whether a type is one of NumPy's floats or complex numbers."""
    return np.issubdtype(dtype.as_numpy_dtype, np.inexact)


def as_float(x: TensorLike) -> Any:
    """Return a value as a tensor of floats or complex numbers, which integers become."""
    given = asarray(x)
    return given if is_inexact(given.dtype) else cast(given, result_type(float))


def _function(
    name: str, compute: str | Function, what: str, of_floats: bool, weak: bool = True
) -> Any:
    """Make a function of one argument and give it its name.

    Args:
      compute: the name of an op, or a function of a tensor.
      what: what it returns, for its docstring.
      of_floats: whether integers become floats first.
      weak: whether the result of numbers of Python is as weak as they are.
    """

    def function(x: TensorLike) -> Any:
        given = as_float(x) if of_floats else asarray(x)
        return apply_op(compute, given) if isinstance(compute, str) else compute(given)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return {what}, element by element."
    made = keeps_weak(function) if weak else function
    return export_v2(f"experimental.numpy.{name}")(made)


def _of_floats(name: str, compute: str | Function, what: str, weak: bool = True) -> Any:
    return _function(name, compute, what, True, weak)


def _of_any(name: str, compute: str | Function, what: str, weak: bool = True) -> Any:
    return _function(name, compute, what, False, weak)


exp = _of_floats("exp", "Exp", "e to the power x")
expm1 = _of_floats("expm1", "Expm1", "exp(x) - 1, exact for small x too")
log = _of_floats("log", "Log", "the natural logarithm")
log1p = _of_floats("log1p", "Log1p", "log(1 + x), exact for small x too")
sqrt = _of_floats("sqrt", "Sqrt", "the square root")
sin = _of_floats("sin", "Sin", "the sine")
cos = _of_floats("cos", "Cos", "the cosine")
tan = _of_floats("tan", "Tan", "the tangent")
sinh = _of_floats("sinh", "Sinh", "the hyperbolic sine")
cosh = _of_floats("cosh", "Cosh", "the hyperbolic cosine")
tanh = _of_floats("tanh", "Tanh", "the hyperbolic tangent")
arcsin = _of_floats("arcsin", "Asin", "the inverse sine")
arccos = _of_floats("arccos", "Acos", "the inverse cosine")
arctan = _of_floats("arctan", "Atan", "the inverse tangent")
arcsinh = _of_floats("arcsinh", "Asinh", "the inverse hyperbolic sine")
arccosh = _of_floats("arccosh", "Acosh", "the inverse hyperbolic cosine")
arctanh = _of_floats("arctanh", "Atanh", "the inverse hyperbolic tangent")
ceil = _of_floats("ceil", "Ceil", "the least whole number that is not less")
floor = _of_floats("floor", "Floor", "the greatest whole number that is not greater")
isnan = _of_floats("isnan", "IsNan", "whether it is no number", weak=False)
isfinite = _of_floats("isfinite", "IsFinite", "whether it is a finite number", weak=False)

abs = _of_any("abs", elementwise.abs, "the absolute value")
absolute = _of_any("absolute", elementwise.abs, "the absolute value")
fabs = _of_any("fabs", elementwise.abs, "the absolute value, of the argument's type")
negative = _of_any("negative", "Neg", "-x")
positive = _of_any("positive", lambda x: x, "x itself")
reciprocal = _of_any("reciprocal", "Reciprocal", "1 / x")
square = _of_any("square", "Square", "x * x")
conj = _of_any("conj", casts.conj, "the complex conjugate")
conjugate = _of_any("conjugate", casts.conj, "the complex conjugate")


def _inverted(x: Any) -> Any:
    return comparison.logical_not(x) if x.dtype.is_bool else comparison.invert(x)


def _is_negative(x: Any) -> Any:
    if x.dtype.is_bool:
        return apply_op("Fill", apply_op("Shape", x), False)
    return x < 0


def _angle(x: Any) -> Any:
    return casts.angle(x) if x.dtype.is_complex else where_v2(x < 0, np.pi, 0)


def _cube_root(x: Any) -> Any:
    root = elementwise.abs(x) ** (1.0 / 3)
    return where_v2(x < 0, -root, root)


def _toward_zero(x: Any) -> Any:
    return where_v2(x < 0, apply_op("Ceil", x), apply_op("Floor", x))


def _sinc(x: Any) -> Any:
    angle = x * np.pi
    return where_v2(x == 0, apply_op("OnesLike", x), apply_op("Sin", angle) / angle)


bitwise_not = _of_any("bitwise_not", _inverted, "the inverse of all bits, or of truth")
signbit = _of_any("signbit", _is_negative, "whether it is less than 0", weak=False)
cbrt = _of_floats("cbrt", _cube_root, "the cube root")
exp2 = _of_floats("exp2", lambda x: 2**x, "2 to the power x")
fix = _of_floats("fix", _toward_zero, "the next whole number toward 0")
sinc = _of_floats("sinc", _sinc, "sin(pi x) / (pi x), and 1 for 0")
deg2rad = _of_floats("deg2rad", lambda x: x * (np.pi / 180.0), "degrees as radians")


@export_v2("experimental.numpy.rad2deg")
@keeps_weak
def rad2deg(x: TensorLike) -> Any:
    """Return radians as degrees, element by element."""
    return x * (180.0 / np.pi)  # type: ignore[operator]


@export_v2("experimental.numpy.log2")
@keeps_weak
def log2(x: TensorLike) -> Any:
    """Return the logarithm to base 2, element by element."""
    return log(x) / np.log(2)


@export_v2("experimental.numpy.log10")
@keeps_weak
def log10(x: TensorLike) -> Any:
    """Return the logarithm to base 10, element by element."""
    return log(x) / np.log(10)


@export_v2("experimental.numpy.angle")
@keeps_weak
def angle(z: TensorLike, deg: bool = False) -> Any:
    """Return the angles of complex numbers in radians or degrees; those of floats as float32."""
    found = _angle(as_float(z))
    return rad2deg(found) if deg else found


@export_v2("experimental.numpy.sign")
def sign(x: TensorLike, out: Any = None, where: Any = None, **kwargs: Any) -> Any:
    """Return -1, 0 or 1, element by element; of a complex number x / abs(x).

    Raises: ValueError for other arguments.
    """
    if out or where or kwargs:
        raise ValueError("sign takes one argument alone")
    return elementwise.sign(asarray(x))


@export_v2("experimental.numpy.around")
@keeps_weak
def around(a: TensorLike, decimals: int = 0) -> Any:
    """Return numbers rounded to so many decimals, halves to even; negative ones round above."""
    given = asarray(a)
    x = as_float(given)
    factor = cast(10.0**decimals, x.dtype)
    return cast(elementwise.round(x * factor) / factor, given.dtype)


@export_v2("experimental.numpy.round")
@keeps_weak
def round(a: TensorLike, decimals: int = 0) -> Any:
    """Return numbers rounded to so many decimals (see around)."""
    return around(a, decimals=decimals)


# ---- complex numbers and what they are


@export_v2("experimental.numpy.real")
@keeps_weak
def real(val: TensorLike) -> Any:
    """Return the real part."""
    return casts.real(asarray(val))


@export_v2("experimental.numpy.imag")
@keeps_weak
def imag(val: TensorLike) -> Any:
    """Return the imaginary part; 0 of what is not complex."""
    return casts.imag(asarray(val))


@export_v2("experimental.numpy.iscomplex")
def iscomplex(x: TensorLike) -> Any:
    """Return whether the imaginary part is not 0, element by element."""
    return imag(x) != 0


@export_v2("experimental.numpy.isreal")
def isreal(x: TensorLike) -> Any:
    """Return whether the imaginary part is 0, element by element."""
    return imag(x) == 0


@export_v2("experimental.numpy.iscomplexobj")
def iscomplexobj(x: TensorLike) -> bool:
    """Return whether the elements are complex numbers."""
    return asarray(x).dtype.is_complex  # type: ignore[no-any-return]


@export_v2("experimental.numpy.isrealobj")
def isrealobj(x: TensorLike) -> bool:
    """Return whether the elements are no complex numbers."""
    return not iscomplexobj(x)


# ---- infinity


def _is_float(x: Any) -> bool:
    return asarray(x).dtype.is_floating  # type: ignore[no-any-return]


@export_v2("experimental.numpy.isinf")
def isinf(x: TensorLike) -> Any:
    """Return whether numbers are infinite, element by element; False for all that are no floats."""
    return apply_op("IsInf", asarray(x)) if _is_float(x) else False


@export_v2("experimental.numpy.isposinf")
def isposinf(x: TensorLike) -> Any:
    """Return whether numbers are inf, element by element; False for all that are no floats."""
    return asarray(x) == np.inf if _is_float(x) else False


@export_v2("experimental.numpy.isneginf")
def isneginf(x: TensorLike) -> Any:
    """Return whether numbers are -inf, element by element; False for all that are no floats."""
    return asarray(x) == -np.inf if _is_float(x) else False


@export_v2("experimental.numpy.diff")
@keeps_weak
def diff(a: TensorLike, n: int = 1, axis: int = -1) -> Any:
    """Return the differences of neighbours along an axis, n times; of bools, where they differ.

    Raises: ValueError for a tensor of unknown rank, an axis outside, and a negative n.
    """
    x = asarray(a)
    if x.dims is None:
        raise ValueError(f"diff needs a tensor of known rank; that of {x} is not known")
    count = len(x.dims)
    if axis >= count or axis < -count:
        raise ValueError(f"axis {axis} is not there in shape {x.shape}")
    if n < 0:
        raise ValueError(f"n must not be negative; found {n}")
    before = (slice(None),) * (axis % count)
    for _ in range(n):
        after, first = x[(*before, slice(1, None))], x[(*before, slice(None, -1))]
        x = after != first if x.dtype.is_bool else after - first
    return x
