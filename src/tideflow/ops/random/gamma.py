"""Random values of gamma distributions, and their gradients by alpha.

The stateful op keeps the state of random.py; the stateless ones draw what follows from their seed
alone.  Both give TensorFlow's values, to within the rounding of logarithms.

Source: tensorflow/core/kernels/{random_op,stateless_random_gamma_op}.cc; Figurnov et al.,
"Implicit reparameterization gradients" (2018).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Effects
from tideflow.graph.shape_rules import broadcast
from tideflow.graph.types import Array, DTypeLike, ShapeLike, TensorLike
from tideflow.ops.array import broadcast_dynamic_shape
from tideflow.ops.export import export
from tideflow.ops.framework import get_seed
from tideflow.ops.random import algorithms as random_draws
from tideflow.ops.random.algorithms import Source
from tideflow.ops.random.parameters import (
    layout,
    philox_source,
    require_some,
    samples_each,
    seeded_source,
    shape_and_second,
    shape_from_first,
    shape_tensor,
    sizes_of,
    stateful_source,
)
from tideflow.ops.scipy_functions import special
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.errors import InvalidArgumentError


@op(
    """
    RandomGamma(shape: S, alpha: T) -> output: T
    seed: int = 0
    seed2: int = 0
    S: type in indices
    T: type in {half, float, double}
    """,
    shape=shape_and_second,
    stateful=True,
    effects=Effects.UNSEEN,
)
def random_gamma_kernel(
    ctx: KernelContext, shape: Array, alpha: Array, *, seed: int, seed2: int
) -> Any:
    """Return values [*shape, *alpha.shape] of gamma distributions of scale 1."""
    sizes = sizes_of(shape)
    count = math.prod(sizes)
    if not count * alpha.size:
        return np.zeros((*sizes, *alpha.shape), alpha.dtype)
    source = stateful_source(ctx, seed, seed2, count * alpha.size)
    at, which = layout(count, alpha.size)
    alphas = alpha.reshape(-1)[which].astype(np.float64)
    made = random_draws.gamma(source, alphas, at).astype(alpha.dtype)
    return made.reshape((*sizes, *alpha.shape))


def _stateless_gamma(shape: Array, alpha: Any, source: Source) -> Any:
    sizes = sizes_of(shape)
    if not math.prod(sizes):
        return np.zeros(sizes, alpha.dtype)
    samples = samples_each(sizes, alpha, "alpha")
    require_some(alpha, "alpha")
    at, which = layout(samples, alpha.size)
    alphas = alpha.reshape(-1)[which].astype(np.float64)
    made = random_draws.gamma(source, alphas, at)
    return made.astype(alpha.dtype).reshape(sizes)


@op(
    """
    StatelessRandomGammaV2(shape: T, seed: Tseed, alpha: dtype) -> output: dtype
    dtype: type in {half, float, double}
    T: type in indices
    Tseed: type in indices = int64
    """,
    shape=shape_from_first,
)
def stateless_random_gamma_v2_kernel(
    ctx: KernelContext, shape: Array, seed: Array, alpha: Array
) -> Any:
    """Return values of gamma distributions of scale 1; shape ends in alpha's."""
    return _stateless_gamma(shape, alpha, seeded_source(seed))


@op(
    """
    StatelessRandomGammaV3(shape: shape_dtype, key: uint64, counter: uint64, alg: int32, \
alpha: dtype) -> output: dtype
    dtype: type in {half, float, double}
    shape_dtype: type in indices = int32
    """,
    shape=shape_from_first,
)
def stateless_random_gamma_v3_kernel(
    ctx: KernelContext, shape: Array, key: Array, counter: Array, alg: Array, alpha: Array
) -> Any:
    """Return values of gamma distributions of scale 1; shape ends in alpha's."""
    return _stateless_gamma(shape, alpha, philox_source(key, counter, alg))


@op(
    """
    RandomGammaGrad(alpha: T, sample: T) -> output: T
    T: type in {float, double}
    """,
    shape=broadcast,
)
def random_gamma_grad_kernel(ctx: KernelContext, alpha: Array, sample: Array) -> Any:
    """Return by how much a sample of a gamma distribution grows with alpha."""
    try:
        a, x = np.broadcast_arrays(alpha.astype(np.float64), sample.astype(np.float64))
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from None
    made = np.full(a.shape, np.nan)
    made[(x == 0) | (a > 0) & (x > 0) & np.isinf(a + x)] = 0
    valid = (a > 0) & (x > 0) & np.isfinite(a + x)
    for chosen, slope in (
        (valid & (x <= a + 1), _slope_by_series),
        (valid & (x > a + 1), _slope_by_fraction),
    ):
        if chosen.any():
            made[chosen] = slope(a[chosen], x[chosen])
    return made.astype(alpha.dtype)


@op(
    """
    IgammaGradA(a: T, x: T) -> z: T
    T: type in {float, double}
    """,
    shape=broadcast,
)
def igamma_grad_a_kernel(ctx: KernelContext, a: Array, x: Array) -> Any:
    """Return the derivative of igamma(a, x) by a: the density times how a sample moves with a."""
    moved = random_gamma_grad_kernel(ctx, a.astype(np.float64), x.astype(np.float64))
    with np.errstate(all="ignore"):
        density = np.exp(special().xlogy(a - 1.0, x) - x - special().gammaln(a))
        made = np.where(moved == 0, 0.0, -moved * density)
    return np.where(np.isinf(a + x) & (moved == 0), 0.0, made).astype(a.dtype)


def _slope_by_series(a: Array, x: Array) -> Any:
    """Differentiate the power series of the distribution's function, P(a, x)."""
    term, total = np.ones_like(x), np.ones_like(x)
    term_slope, total_slope = np.zeros_like(x), np.zeros_like(x)
    for n in range(1, 10_000):
        term_slope = (term_slope - term / (a + n)) * x / (a + n)
        term = term * x / (a + n)
        total += term
        total_slope += term_slope
        if (np.abs(term_slope) <= 1e-16 * np.abs(total_slope)).all():
            break
    return -(x / a) * (total * (np.log(x) - special().digamma(a + 1)) + total_slope)


def _slope_by_fraction(a: Array, x: Array) -> Any:
    """Differentiate the continued fraction of 1 - P(a, x), step by step."""
    h0, h1 = np.zeros_like(x), np.ones_like(x)  # numerators
    k0, k1 = np.ones_like(x), x + 1 - a  # denominators
    dh0, dh1 = np.zeros_like(x), np.zeros_like(x)
    dk0, dk1 = np.zeros_like(x), -np.ones_like(x)
    value, slope = h1 / k1, -h1 * dk1 / (k1 * k1)
    for n in range(1, 10_000):
        top, dtop = n * (a - n), float(n)
        bottom = x + 1 - a + 2 * n
        h0, h1, dh0, dh1 = (
            h1,
            bottom * h1 + top * h0,
            dh1,
            bottom * dh1 - h1 + dtop * h0 + top * dh0,
        )
        k0, k1, dk0, dk1 = (
            k1,
            bottom * k1 + top * k0,
            dk1,
            bottom * dk1 - k1 + dtop * k0 + top * dk0,
        )
        h0, h1, dh0, dh1, k0, dk0, dk1 = (part / k1 for part in (h0, h1, dh0, dh1, k0, dk0, dk1))
        k1 = np.ones_like(x)
        before, value, slope_before, slope = value, h1, slope, dh1 - h1 * dk1
        settled = np.abs(value - before) <= 1e-15 * np.abs(value)
        if (settled & (np.abs(slope - slope_before) <= 1e-14 * np.abs(slope))).all():
            break
    return x * (value * (np.log(x) - special().digamma(a)) + slope)


def _alpha_gradient(op: Operation, alpha: Tensor, grad: Tensor, leading: Tensor) -> Any:
    """Return the gradient of alpha for samples with so many leading dimensions."""
    ones = apply_op("Fill", apply_op("Reshape", leading, [1]), np.int32(1))
    wide = apply_op("Reshape", alpha, apply_op("ConcatV2", [ones, apply_op("Shape", alpha)], 0))
    slope = apply_op("RandomGammaGrad", wide, op.outputs[0])
    axes = apply_op("Range", np.int32(0), leading, np.int32(1))
    return apply_op("Sum", apply_op("Mul", grad, slope), axes)


@gradient("RandomGamma")
def random_gamma_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Differentiate by alpha, implicitly."""
    return [None, _alpha_gradient(op, op.inputs[1], grad, apply_op("Size", op.inputs[0]))]


@gradient("StatelessRandomGammaV2", "StatelessRandomGammaV3")
def stateless_random_gamma_gradient(op: Operation, grad: Tensor) -> list[Any]:
    """Differentiate by alpha, implicitly."""
    alpha = op.inputs[-1]
    leading = apply_op("Sub", apply_op("Size", op.inputs[0]), apply_op("Rank", alpha))
    return [*[None] * (len(op.inputs) - 1), _alpha_gradient(op, alpha, grad, leading)]


def _alpha_and_beta(alpha: object, beta: object, dtype: DType) -> tuple[Tensor, Tensor]:
    """Return alpha in the shape of both, and beta."""
    a = convert_to_tensor(alpha, dtype, "alpha")
    b = convert_to_tensor(1 if beta is None else beta, dtype, "beta")
    return apply_op(
        "BroadcastTo", a, broadcast_dynamic_shape(apply_op("Shape", a), apply_op("Shape", b))
    ), b


def _scaled(drawn: Tensor, beta: Tensor) -> Tensor:
    # No sample is 0, whose logarithm programs may take.
    least = np.array(np.finfo(drawn.dtype.as_numpy_dtype).tiny, drawn.dtype.as_numpy_dtype)
    made: Tensor = apply_op("Maximum", least, apply_op("RealDiv", drawn, beta))
    return made


@export("random_gamma", "random.gamma")
def random_gamma(
    shape: ShapeLike,
    alpha: TensorLike,
    beta: TensorLike | None = None,
    dtype: DTypeLike = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return values of gamma distributions; differentiable in alpha and beta.

    Args:
      alpha: their shapes; beta: their rates, the inverse of the scale (1 by default).
    Shapes: [*shape, *(that of alpha and beta together)].
    """
    with get_default_graph().name_scope(name or "random_gamma"):
        dims = shape_tensor(shape)
        alphas, rates = _alpha_and_beta(alpha, beta, as_dtype(dtype))
        first, second = get_seed(seed)
        drawn = apply_op("RandomGamma", dims, alphas, seed=first or 0, seed2=second or 0)
        return _scaled(drawn, rates)


@export("random.stateless_gamma")
def stateless_random_gamma(
    shape: Array,
    seed: int | None,
    alpha: object,
    beta: object | None = None,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Return values of gamma distributions that follow from the seed (two integers).

    shape: of the result; it ends in that of alpha and beta together.
    """
    with get_default_graph().name_scope(name or "stateless_random_gamma"):
        dims = shape_tensor(shape)
        alphas, rates = _alpha_and_beta(alpha, beta, as_dtype(dtype))
        key, counter = apply_op("StatelessRandomGetKeyCounter", seed)
        drawn = apply_op("StatelessRandomGammaV3", dims, key, counter, np.int32(3), alphas)
        return _scaled(drawn, rates)
