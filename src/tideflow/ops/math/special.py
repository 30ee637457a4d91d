"""Trigonometry and the special functions: erf, gamma, Bessel and their kin.

NumPy lacks the special functions: SciPy has them for the NumPy tier (half-width floats go through
float32), jax.scipy for the traced one.
Source: cwise_op_*.cc and special_math of TensorFlow 2.21.
"""

from __future__ import annotations

import functools
import importlib
import math
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Compiles
from tideflow.graph.shape_rules import ShapeContext, broadcast, same_as
from tideflow.graph.shapes import Dims
from tideflow.graph.shapes import broadcast as broadcast_dims
from tideflow.graph.types import Array, ArrayNamespace, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import conj, scoped, unbroadcast
from tideflow.ops.scipy_functions import special
from tideflow.wire.errors import InvalidArgumentError

_same = same_as(0)


@functools.cache
def _for_jax() -> Any:
    """Return jax.scipy.special, which takes long to load and serves traced kernels only."""
    return importlib.import_module("jax.scipy.special")


def _times(x: TensorLike, y: TensorLike) -> Any:
    return apply_op("Mul", x, y)


def _plain(op_name: str, numpy_name: str, summary: str, types: str = "floats_and_complex") -> Any:
    """Define an op that both namespaces compute under one name, and its public function."""

    def kernel(xp: ArrayNamespace, x: Array) -> Any:
        return getattr(xp, numpy_name)(x)

    op(f"{op_name}(x: T) -> y: T\nT: type in {types}", shape=_same, compiles=Compiles.ALWAYS)(
        kernel
    )
    return _publish(op_name, summary)


def _special(
    op_name: str,
    scipy_name: str,
    summary: str,
    other: tuple[float, float] | None = None,
    compiles: Compiles = Compiles.ON_ACCELERATORS,
) -> Any:
    """Define an op that SciPy computes, and its public function.

    other: a point at which TensorFlow has another value than SciPy, and that value.
    """

    def for_numpy(x: Array) -> Any:
        found = getattr(special(), scipy_name)(x)
        return found if other is None else np.where(x == other[0], other[1], found)

    def kernel(xp: ArrayNamespace, x: Array) -> Any:
        dtype = x.dtype
        if xp is not np:
            return getattr(_for_jax(), scipy_name)(x).astype(dtype)
        # SciPy does not know half-width floats.
        return for_numpy(x.astype(np.float32) if dtype.itemsize < 4 else x).astype(dtype)

    op(f"{op_name}(x: T) -> y: T\nT: type in floats", shape=_same, compiles=compiles)(kernel)
    return _publish(op_name, summary)


_TOP_LEVEL = {
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "lgamma",
    "digamma",
}
_PUBLIC_NAMES = {
    "BesselI0": "bessel_i0",
    "BesselI1": "bessel_i1",
    "BesselI0e": "bessel_i0e",
    "BesselI1e": "bessel_i1e",
}
# Functions whose operation lies in a scope of their name.
_SCOPED = {*_PUBLIC_NAMES, "Erfinv", "Ndtri"}


def _publish(op_name: str, summary: str) -> Any:
    public = _PUBLIC_NAMES.get(op_name, op_name.lower())

    def function(x: TensorLike, name: str | None = None) -> Any:
        return apply_op(op_name, x, name=name)

    if op_name in _SCOPED:
        function = scoped(public)(function)
    function.__name__ = function.__qualname__ = public
    function.__doc__ = f"{summary}\n\nElementwise; shape and type stay."
    names = [f"math.{public}", *([public] if public in _TOP_LEVEL else [])]
    if public.startswith("bessel_"):
        names.append(f"math.special.{public}")
    return export(*names)(function)


sin = _plain("Sin", "sin", "Return the sine of angles in radians.")
cos = _plain("Cos", "cos", "Return the cosine of angles in radians.")
tan = _plain("Tan", "tan", "Return the tangent of angles in radians.")
asin = _plain("Asin", "arcsin", "Return the angle in radians whose sine is x.")
acos = _plain("Acos", "arccos", "Return the angle in radians whose cosine is x.")
atan = _plain("Atan", "arctan", "Return the angle in radians whose tangent is x.")
sinh = _plain("Sinh", "sinh", "Return the hyperbolic sine.")
cosh = _plain("Cosh", "cosh", "Return the hyperbolic cosine.")
asinh = _plain("Asinh", "arcsinh", "Return the inverse hyperbolic sine.")
acosh = _plain("Acosh", "arccosh", "Return the inverse hyperbolic cosine.")
atanh = _plain("Atanh", "arctanh", "Return the inverse hyperbolic tangent.")
erf = _special("Erf", "erf", "Return the error function.", compiles=Compiles.ALWAYS)
erfc = _special(
    "Erfc", "erfc", "Return 1 - erf(x), exact for large x too.", compiles=Compiles.ALWAYS
)
erfinv = _special("Erfinv", "erfinv", "Return the inverse of the error function.")
ndtri = _special("Ndtri", "ndtri", "Return the inverse of the normal distribution function.")
lgamma = _special("Lgamma", "gammaln", "Return the logarithm of |gamma(x)|.", (-np.inf, np.inf))
digamma = _special("Digamma", "digamma", "Return the derivative of lgamma.", (0, np.nan))
bessel_i0 = _special("BesselI0", "i0", "Return the modified Bessel function I0.")
bessel_i1 = _special("BesselI1", "i1", "Return the modified Bessel function I1.")
bessel_i0e = _special("BesselI0e", "i0e", "Return exp(-|x|) times the Bessel function I0.")
bessel_i1e = _special("BesselI1e", "i1e", "Return exp(-|x|) times the Bessel function I1.")


@gradient("Sin")
def _sin_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [_times(grad, apply_op("Cos", conj(op.inputs[0])))]


@gradient("Cos")
def _cos_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("Neg", _times(grad, apply_op("Sin", conj(op.inputs[0]))))]


@gradient("Tan")
def _tan_grad(op: Operation, grad: Tensor) -> list[Any]:
    secant = apply_op("Reciprocal", apply_op("Cos", conj(op.inputs[0])))
    return [_times(grad, apply_op("Square", secant))]


def _one_minus_square(x: Tensor) -> Any:
    return apply_op("Sub", np.ones((), x.dtype.as_numpy_dtype), apply_op("Square", x))


@gradient("Asin")
def _asin_grad(op: Operation, grad: Tensor) -> list[Any]:
    x = conj(op.inputs[0])
    return [_times(grad, apply_op("Rsqrt", _one_minus_square(x)))]


@gradient("Acos")
def _acos_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("Neg", _asin_grad(op, grad)[0])]


@gradient("Atan")
def _atan_grad(op: Operation, grad: Tensor) -> list[Any]:
    square = apply_op("Square", conj(op.inputs[0]))
    return [apply_op("RealDiv", grad, apply_op("AddV2", square, 1))]


@gradient("Sinh")
def _sinh_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [_times(grad, apply_op("Cosh", conj(op.inputs[0])))]


@gradient("Cosh")
def _cosh_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [_times(grad, apply_op("Sinh", conj(op.inputs[0])))]


@gradient("Asinh")
def _asinh_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("RealDiv", grad, apply_op("Cosh", conj(op.outputs[0])))]


@gradient("Acosh")
def _acosh_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("RealDiv", grad, apply_op("Sinh", conj(op.outputs[0])))]


@gradient("Atanh")
def _atanh_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("RealDiv", grad, _one_minus_square(conj(op.inputs[0])))]


def _bell(x: Tensor, factor: float, exponent: Tensor) -> Any:
    """Return factor * exp(exponent) in the type of x."""
    return _times(np.array(factor).astype(x.dtype.as_numpy_dtype), apply_op("Exp", exponent))


@gradient("Erf")
def _erf_grad(op: Operation, grad: Tensor) -> list[Any]:
    x = op.inputs[0]
    exponent = apply_op("Neg", apply_op("Square", x))
    return [_times(grad, _bell(x, 2 / math.sqrt(math.pi), exponent))]


@gradient("Erfc")
def _erfc_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [apply_op("Neg", _erf_grad(op, grad)[0])]


@gradient("Erfinv")
def _erfinv_grad(op: Operation, grad: Tensor) -> list[Any]:
    y = op.outputs[0]
    return [_times(grad, _bell(y, math.sqrt(math.pi) / 2, apply_op("Square", y)))]


@gradient("Ndtri")
def _ndtri_grad(op: Operation, grad: Tensor) -> list[Any]:
    y = op.outputs[0]
    half = apply_op("RealDiv", apply_op("Square", y), 2)
    return [_times(grad, _bell(y, math.sqrt(2 * math.pi), half))]


@gradient("Lgamma")
def _lgamma_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [_times(grad, apply_op("Digamma", op.inputs[0]))]


@gradient("Digamma")
def _digamma_grad(op: Operation, grad: Tensor) -> list[Any]:
    x = op.inputs[0]
    return [_times(grad, apply_op("Polygamma", np.ones((), x.dtype.as_numpy_dtype), x))]


@gradient("BesselI0")
def _bessel_i0_grad(op: Operation, grad: Tensor) -> list[Any]:
    return [_times(grad, apply_op("BesselI1", op.inputs[0]))]


@gradient("BesselI1")
def _bessel_i1_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs[0], op.outputs[0]
    is_zero = apply_op("Equal", x, 0)
    safe = apply_op("SelectV2", is_zero, apply_op("OnesLike", x), x)
    slope = apply_op("Sub", apply_op("BesselI0", safe), apply_op("RealDiv", y, safe))
    half = np.array(0.5).astype(x.dtype.as_numpy_dtype)
    return [_times(grad, apply_op("SelectV2", is_zero, half, slope))]


@gradient("BesselI0e")
def _bessel_i0e_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs[0], op.outputs[0]
    slope = apply_op("Sub", apply_op("BesselI1e", x), _times(apply_op("Sign", x), y))
    return [_times(grad, slope)]


@gradient("BesselI1e")
def _bessel_i1e_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, y = op.inputs[0], op.outputs[0]
    is_zero = apply_op("Equal", x, 0)
    safe = apply_op("SelectV2", is_zero, apply_op("OnesLike", x), x)
    slope = apply_op(
        "Sub",
        apply_op("BesselI0e", safe),
        _times(y, apply_op("AddV2", apply_op("Sign", safe), apply_op("Reciprocal", safe))),
    )
    half = np.array(0.5).astype(x.dtype.as_numpy_dtype)
    return [_times(grad, apply_op("SelectV2", is_zero, half, slope))]


# ---- of several operands


def _compute(xp: ArrayNamespace, name: str, *operands: Any) -> Any:
    dtype = operands[0].dtype
    if xp is np:
        if dtype.itemsize < 4:
            operands = tuple(value.astype(np.float32) for value in operands)
        return getattr(special(), name)(*operands).astype(dtype)
    return getattr(_for_jax(), name)(*operands).astype(dtype)


@op(
    """
Polygamma(a: T, x: T) -> z: T
T: type in {float, double}
""",
    shape=broadcast,
)
def _polygamma(xp: ArrayNamespace, a: Array, x: Array) -> Any:
    # Factorials soon exceed float32, in which the product may still lie.
    wide = (a.astype(np.float64), x.astype(np.float64)) if xp is np else (a, x)
    order, point = wide
    factor = xp.where((order + 1) % 2 == 1, -1, 1) * _compute(xp, "gamma", order + 1)
    found = xp.where(
        order == 0, _compute(xp, "digamma", point), factor * _zeta(xp, order + 1, point)
    )
    is_order = (order >= 0) & (order == xp.floor(order))
    return xp.where(is_order & ((order > 0) | (point != 0)), found, xp.nan).astype(x.dtype)


@gradient("Polygamma")
def _polygamma_grad(op: Operation, grad: Tensor) -> list[Any]:
    a, x = op.inputs
    slope = apply_op("Polygamma", apply_op("AddV2", a, 1), x)
    return [None, unbroadcast(a, x, None, _times(grad, slope))[1]]


@op(
    """
Zeta(x: T, q: T) -> z: T
T: type in {float, double}
""",
    shape=broadcast,
)
def _zeta(xp: ArrayNamespace, x: Array, q: Array) -> Any:
    found = _compute(xp, "zeta", x, q)
    # Of large exponents one term is all there is; the libraries multiply zeros by infinities.
    least = xp.where(q < 0, xp.abs(q - xp.round(q)), q)
    is_lost = (xp.isnan(found) | (found == 0)) & (x > 1)
    found = xp.where(is_lost, least ** (-x), found)
    # At its poles the sum rises on both sides for even exponents only.
    is_even = x / 2 == xp.floor(x / 2)
    is_pole = (q <= 0) & (q == xp.floor(q))
    found = xp.where(is_pole & (x > 1) & ~is_even | (x < 1) | xp.isnan(x), xp.nan, found)
    return xp.where(is_pole & (x > 1) & is_even, xp.inf, found).astype(x.dtype)


@gradient("Zeta")
def _zeta_grad(op: Operation, grad: Tensor) -> list[Any]:
    x, q = op.inputs
    slope = _times(apply_op("Neg", x), apply_op("Zeta", apply_op("AddV2", x, 1), q))
    return [None, unbroadcast(x, q, None, _times(grad, slope))[1]]


@op(
    """
Igamma(a: T, x: T) -> z: T
T: type in floats
""",
    shape=broadcast,
)
def _igamma(xp: ArrayNamespace, a: Array, x: Array) -> Any:
    return xp.where(a == 0, a.dtype.type(np.nan), _compute(xp, "gammainc", a, x))


@op(
    """
Igammac(a: T, x: T) -> z: T
T: type in floats
""",
    shape=broadcast,
)
def _igammac(xp: ArrayNamespace, a: Array, x: Array) -> Any:
    return xp.where(a == 0, a.dtype.type(np.nan), _compute(xp, "gammaincc", a, x))


def _igamma_slope(a: Tensor, x: Tensor) -> Any:
    """Return the derivative of igamma by x: exp((a - 1) log x - x - lgamma(a))."""
    power = apply_op("Xlogy", apply_op("Sub", a, 1), x)
    return apply_op("Exp", apply_op("Sub", apply_op("Sub", power, x), apply_op("Lgamma", a)))


@gradient("Igamma")
def _igamma_grad(op: Operation, grad: Tensor) -> list[Any]:
    a, x = op.inputs
    by_a = _times(grad, apply_op("IgammaGradA", a, x))
    return list(unbroadcast(a, x, by_a, _times(grad, _igamma_slope(a, x))))


@gradient("Igammac")
def _igammac_grad(op: Operation, grad: Tensor) -> list[Any]:
    a, x = op.inputs
    by_a, slope = (
        apply_op("Neg", each) for each in (apply_op("IgammaGradA", a, x), _igamma_slope(a, x))
    )
    return list(unbroadcast(a, x, _times(grad, by_a), _times(grad, slope)))


def _betainc_shape(c: ShapeContext) -> list[Dims]:
    return [broadcast_dims(c.inputs[0], broadcast_dims(c.inputs[1], c.inputs[2]))]


@op(
    """
Betainc(a: T, b: T, x: T) -> z: T
T: type in {float, double}
""",
    shape=_betainc_shape,
)
def _betainc(xp: ArrayNamespace, a: Array, b: Array, x: Array) -> Any:
    whole = {array.shape for array in (a, b, x)} - {()}
    if len(whole) > 1:
        raise InvalidArgumentError(f"a, b and x must be scalars or of one shape; found {whole}")
    is_known = (a > 0) & (b > 0) & xp.isfinite(a) & xp.isfinite(b)
    return xp.where(is_known, _compute(xp, "betainc", a, b, x), a.dtype.type(np.nan))


@gradient("Betainc")
def _betainc_grad(op: Operation, grad: Tensor) -> list[Any]:
    a, b, x = op.inputs
    log_beta = apply_op(
        "Sub",
        apply_op("AddV2", apply_op("Lgamma", a), apply_op("Lgamma", b)),
        apply_op("Lgamma", apply_op("AddV2", a, b)),
    )
    left = apply_op("Xlog1py", apply_op("Sub", b, 1), apply_op("Neg", x))
    right = apply_op("Xlogy", apply_op("Sub", a, 1), x)
    slope = apply_op("Exp", apply_op("Sub", apply_op("AddV2", left, right), log_beta))
    return [None, None, unbroadcast(x, op.outputs[0], _times(grad, slope), None)[0]]


@export("math.polygamma", "polygamma")
def polygamma(a: TensorLike, x: TensorLike, name: str | None = None) -> Any:
    """Return the derivative of order a of digamma.  a is a whole number, x a float."""
    return apply_op("Polygamma", a, x, name=name)


@export("math.zeta", "zeta")
def zeta(x: TensorLike, q: TensorLike, name: str | None = None) -> Any:
    """Return the Hurwitz zeta function, the sum of (q + n)^-x over n from 0."""
    return apply_op("Zeta", x, q, name=name)


@export("math.igamma", "igamma")
def igamma(a: TensorLike, x: TensorLike, name: str | None = None) -> Any:
    """Return the lower regularised incomplete gamma function."""
    return apply_op("Igamma", a, x, name=name)


@export("math.igammac", "igammac")
def igammac(a: TensorLike, x: TensorLike, name: str | None = None) -> Any:
    """Return the upper regularised incomplete gamma function."""
    return apply_op("Igammac", a, x, name=name)


@export("math.betainc", "betainc")
def betainc(a: TensorLike, b: TensorLike, x: TensorLike, name: str | None = None) -> Any:
    """Return the regularised incomplete beta function.  Its gradient is to x only."""
    return apply_op("Betainc", a, b, x, name=name)


@export("math.erfcinv")
def erfcinv(x: TensorLike, name: str | None = None) -> Any:
    """Return the inverse of the complementary error function."""
    with get_default_graph().name_scope(name or "erfcinv"):
        return ndtri(_times(convert_to_tensor(x), 0.5)) * -math.sqrt(0.5)


@export("math.polyval")
def polyval(coeffs: TensorLike, x: TensorLike, name: str | None = None) -> Any:
    """Return the value at x of a polynomial, whose coefficients are given from the highest down.

    coeffs: a list of tensors that broadcast with x, or an empty one for 0.
    Raises: ValueError for coefficients that are no list.
    """
    if not isinstance(coeffs, list):
        raise ValueError(f"coeffs must be a list; found {type(coeffs).__name__}")
    with get_default_graph().name_scope(name or "polyval"):
        point = convert_to_tensor(x)
        if not coeffs:
            return apply_op("ZerosLike", point)
        found = convert_to_tensor(coeffs[0])
        for factor in coeffs[1:]:
            found = apply_op("AddV2", apply_op("Mul", found, point, name="mul"), factor, name="add")
        return found


@export("math.lbeta", "lbeta")
@scoped("lbeta")
def lbeta(x: TensorLike, name: str | None = None) -> Any:
    """Return the logarithm of the beta function over the last axis.  Shapes: [..., n] to [...]."""
    gammas = apply_op("Sum", apply_op("Lgamma", x), [-1])
    return apply_op("Sub", gammas, apply_op("Lgamma", apply_op("Sum", x, [-1])), name="sub")
