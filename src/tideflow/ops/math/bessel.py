"""Special functions that SciPy alone has: Bessel functions, integrals of exponentials and waves.

They run as they are, outside compiled regions.  Half-width floats go through float32.
Source: cwise_op_bessel.cc, cwise_op_special_math of TensorFlow 2.21; DLMF, chapters 6, 7 and 10.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import same_as
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import scoped
from tideflow.ops.scipy_functions import special


def _define(
    op_name: str, public: str, summary: str, compute: Callable[[Any], Any], types: str = "floats"
) -> None:
    def kernel(ctx: KernelContext, x: Array) -> Any:
        wide = x.astype(np.float32) if x.dtype.itemsize < 4 else x
        return compute(wide).astype(x.dtype)

    op(f"{op_name}(x: T) -> y: T\nT: type in {types}", shape=same_as(0))(kernel)

    @scoped(public)
    def function(x: TensorLike, name: str | None = None) -> Any:
        return apply_op(op_name, x)

    function.__name__ = function.__qualname__ = public
    function.__doc__ = f"Return {summary}, elementwise."
    export(f"math.special.{public}")(function)


# What TensorFlow gives for all negative numbers, where SciPy knows no value.
_BELOW_ZERO = {
    **dict.fromkeys(("y0", "y1"), -np.inf),
    **dict.fromkeys(("k0", "k0e", "k1", "k1e"), np.inf),
}


def _from_scipy(name: str) -> Callable[[Any], Any]:
    below = _BELOW_ZERO.get(name)

    def compute(x: Array) -> Any:
        found = getattr(special(), name)(x)
        return found if below is None else np.where(x < 0, below, found)

    return compute


def _expint(x: Array) -> Any:
    """Return the exponential integral of positive numbers, the only ones that TensorFlow takes."""
    return np.where((x >= 0) & (x < np.inf), special().expi(x), np.nan)


for _op_name, _public, _summary, _compute in (
    ("BesselJ0", "bessel_j0", "the Bessel function of the first kind of order 0", "j0"),
    ("BesselJ1", "bessel_j1", "the Bessel function of the first kind of order 1", "j1"),
    ("BesselY0", "bessel_y0", "the Bessel function of the second kind of order 0", "y0"),
    ("BesselY1", "bessel_y1", "the Bessel function of the second kind of order 1", "y1"),
    ("BesselK0", "bessel_k0", "the modified Bessel function of the second kind of order 0", "k0"),
    ("BesselK0e", "bessel_k0e", "exp(x) times bessel_k0", "k0e"),
    ("BesselK1", "bessel_k1", "the modified Bessel function of the second kind of order 1", "k1"),
    ("BesselK1e", "bessel_k1e", "exp(x) times bessel_k1", "k1e"),
    ("Dawsn", "dawsn", "Dawson's integral", "dawsn"),
    ("Spence", "spence", "Spence's integral, the dilogarithm of 1 - x", "spence"),
):
    _define(_op_name, _public, _summary, _from_scipy(_compute))

_define("Expint", "expint", "the exponential integral of positive numbers", _expint)
_define("FresnelCos", "fresnel_cos", "Fresnel's cosine integral", lambda x: special().fresnel(x)[1])
_define("FresnelSin", "fresnel_sin", "Fresnel's sine integral", lambda x: special().fresnel(x)[0])


def _of(op_name: str, op: Operation) -> Any:
    return apply_op(op_name, op.inputs[0])


def _register(op_name: str, slope: Callable[[Any, Any, Any], Any]) -> None:
    """Register a derivative, given the op, x and y."""

    @gradient(op_name)
    def found(op: Operation, grad: Tensor) -> list[Any]:
        return [grad * slope(op, op.inputs[0], op.outputs[0])]


def _j1_slope(op: Operation, x: Tensor, y: Tensor) -> Any:
    """Return J0 - J1 / x, which is 1/2 at 0."""
    is_zero = apply_op("Equal", x, 0)
    safe = apply_op("SelectV2", is_zero, apply_op("OnesLike", x), x)
    half = apply_op("OnesLike", x) * 0.5
    return apply_op("SelectV2", is_zero, half, _of("BesselJ0", op) - y / safe)


def _spence_slope(op: Operation, x: Any, y: Tensor) -> Any:
    """Return log(x) / (1 - x), which is -1 at 1."""
    is_one = apply_op("Equal", x, 1)
    minus = apply_op("Neg", apply_op("OnesLike", x))
    return apply_op("SelectV2", is_one, minus, apply_op("Log", x) / (1 - x))


_register("BesselJ0", lambda op, x, y: -_of("BesselJ1", op))
_register("BesselJ1", _j1_slope)
_register("BesselY0", lambda op, x, y: -_of("BesselY1", op))
_register("BesselY1", lambda op, x, y: _of("BesselY0", op) - y / x)
_register("BesselK0", lambda op, x, y: -_of("BesselK1", op))
_register("BesselK0e", lambda op, x, y: y - _of("BesselK1e", op))
_register("BesselK1", lambda op, x, y: -_of("BesselK0", op) - y / x)
_register("BesselK1e", lambda op, x, y: y * (1 - 1 / x) - _of("BesselK0e", op))
_register("Dawsn", lambda op, x, y: 1 - 2 * x * y)
_register("Expint", lambda op, x, y: apply_op("Exp", x) / x)
_register("Spence", _spence_slope)
_register("FresnelCos", lambda op, x, y: apply_op("Cos", x * x * (math.pi / 2)))
_register("FresnelSin", lambda op, x, y: apply_op("Sin", x * x * (math.pi / 2)))
