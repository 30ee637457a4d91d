"""Random values of the gamma, Poisson and binomial distributions.

The stateful ops keep the state of random.py; the stateless ones draw what follows from their seed
alone.  Both give TensorFlow's values; gamma to within the rounding of logarithms.

Source: tensorflow/core/kernels/{random_op,random_poisson_op,random_binomial_op,
stateless_random_gamma_op}.cc; Figurnov et al., "Implicit reparameterization gradients" (2018).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import gradient, not_differentiable
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Effects
from tideflow.graph.shape_rules import ShapeContext, broadcast
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array, DTypeLike, ShapeLike, TensorLike
from tideflow.ops.array import broadcast_dynamic_shape
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import get_seed, shape_argument
from tideflow.ops.random import algorithms as random_draws
from tideflow.ops.random import philox as random_philox
from tideflow.ops.random.algorithms import Source
from tideflow.ops.random.draws import Sequence
from tideflow.ops.state import ResourceVariableState, uninitialized
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.errors import InvalidArgumentError

_PER_ELEMENT = 256
_WORD = (1 << 64) - 1


def _sizes(shape: Any) -> list[int]:
    sizes: list[int] = np.asarray(shape).tolist()
    if np.ndim(shape) != 1 or any(size < 0 for size in sizes):
        raise InvalidArgumentError(f"shape must be a vector of sizes; found {sizes}")
    return sizes


def _layout(samples: int, parameters: int) -> tuple[Any, Any]:
    """Return for each element of [samples, parameters] its place in the sequence, flat.

    All samples of one parameter follow each other there.
    """
    at: Any = np.arange(samples)[:, None] + samples * np.arange(parameters)
    which: Any = np.broadcast_to(np.arange(parameters), (samples, parameters))
    return at.reshape(-1), which.reshape(-1)


def _stateful_source(ctx: KernelContext, seed: int, seed2: int, count: int) -> Source:
    sequence: Sequence = ctx.memo(lambda: Sequence(seed or _chance(seed, seed2), seed2))
    return Source(*sequence.reserve(count * _PER_ELEMENT))


def _chance(seed: int, seed2: int) -> int:
    """Return a seed of the system's for an op that has none."""
    return seed if seed or seed2 else int(np.random.default_rng().integers(1, 1 << 62))


def _split(shape: list[int], parameters: Any, what: str) -> int:
    """Return how many samples of each parameter make up a shape that ends in their shape."""
    rank = parameters.ndim
    if rank > len(shape) or tuple(shape[len(shape) - rank :]) != parameters.shape:
        raise InvalidArgumentError(
            f"Shape passed in must end with broadcasted shape; found {shape} for {what} of shape "
            f"{list(parameters.shape)}"
        )
    return math.prod(shape[: len(shape) - rank])


def _require_some(parameters: Any, what: str) -> None:
    if not parameters.size:
        raise InvalidArgumentError(f"Input {what} should have non-zero element count, got: 0")


# ---- gamma


def _shape_and_second(c: ShapeContext) -> list[Dims]:
    wanted, other = c.value_as_shape(0), c.inputs[1]
    return [None if wanted is None or other is None else (*wanted, *other)]


def _shape_from_first(c: ShapeContext) -> list[Dims]:
    return [c.value_as_shape(0)]


@op(
    """
    RandomGamma(shape: S, alpha: T) -> output: T
    seed: int = 0
    seed2: int = 0
    S: type in indices
    T: type in {half, float, double}
    """,
    shape=_shape_and_second,
    stateful=True,
    effects=Effects.UNSEEN,
)
def random_gamma_kernel(
    ctx: KernelContext, shape: Array, alpha: Array, *, seed: int, seed2: int
) -> Any:
    """Return values [*shape, *alpha.shape] of gamma distributions of scale 1."""
    sizes = _sizes(shape)
    count = math.prod(sizes)
    if not count * alpha.size:
        return np.zeros((*sizes, *alpha.shape), alpha.dtype)
    source = _stateful_source(ctx, seed, seed2, count * alpha.size)
    at, which = _layout(count, alpha.size)
    alphas = alpha.reshape(-1)[which].astype(np.float64)
    made = random_draws.gamma(source, alphas, at).astype(alpha.dtype)
    return made.reshape((*sizes, *alpha.shape))


def _stateless_gamma(shape: Array, alpha: Any, source: Source) -> Any:
    sizes = _sizes(shape)
    if not math.prod(sizes):
        return np.zeros(sizes, alpha.dtype)
    samples = _split(sizes, alpha, "alpha")
    _require_some(alpha, "alpha")
    at, which = _layout(samples, alpha.size)
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
    shape=_shape_from_first,
)
def stateless_random_gamma_v2_kernel(
    ctx: KernelContext, shape: Array, seed: Array, alpha: Array
) -> Any:
    """Return values of gamma distributions of scale 1; shape ends in alpha's."""
    return _stateless_gamma(shape, alpha, _seeded(seed))


@op(
    """
    StatelessRandomGammaV3(shape: shape_dtype, key: uint64, counter: uint64, alg: int32, \
alpha: dtype) -> output: dtype
    dtype: type in {half, float, double}
    shape_dtype: type in indices = int32
    """,
    shape=_shape_from_first,
)
def stateless_random_gamma_v3_kernel(
    ctx: KernelContext, shape: Array, key: Array, counter: Array, alg: Array, alpha: Array
) -> Any:
    """Return values of gamma distributions of scale 1; shape ends in alpha's."""
    return _stateless_gamma(shape, alpha, philox_source(key, counter, alg))


def _seeded(seed: Any) -> Source:
    if np.shape(seed) != (2,):
        raise InvalidArgumentError(f"seed must have shape [2], not {list(np.shape(seed))}")
    return Source(*random_philox.scramble_seed(np, seed))


def philox_source(key: Array, counter: Array, alg: Array) -> Source:
    """Return where the inputs of a sampler begin.  Raises: InvalidArgumentError."""
    if np.ndim(alg) or int(alg) not in (1, 3):
        raise InvalidArgumentError(f"algorithm {np.asarray(alg).tolist()} is not offered; 1 is")
    if np.shape(key) != (1,) or np.ndim(counter) != 1 or np.shape(counter)[0] < 2:
        raise InvalidArgumentError(
            f"Philox wants a key of shape [1] and a counter of shape [2]; found "
            f"{list(np.shape(key))} and {list(np.shape(counter))}"
        )
    return Source(np.asarray(key), np.asarray(counter)[:2])


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
    return -(x / a) * (total * (np.log(x) - special.digamma(a + 1)) + total_slope)


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
    return x * (value * (np.log(x) - special.digamma(a)) + slope)


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


# ---- Poisson


def _counts(values: Any, is_countable: Any, dtype: DType) -> Any:
    """Return numbers of events in the type wanted; integers are 0 where there is none to count."""
    if not dtype.is_floating:
        values = np.where(is_countable, values, 0)
    with np.errstate(invalid="ignore"):
        return values.astype(dtype.as_numpy_dtype)


def _poisson(source: Source, rate: Any, samples: int, dtype: DType) -> Any:
    at, which = _layout(samples, rate.size)
    rates = rate.reshape(-1)[which].astype(np.float64)
    made = random_draws.poisson(source, rates, at)
    return _counts(made, np.isfinite(rates), dtype)


def _stateful_poisson(
    ctx: Any, shape: Array, rate: Any, seeds: tuple[int, int], dtype: DType
) -> Any:
    sizes = _sizes(shape)
    count = math.prod(sizes)
    if not count * rate.size:
        return np.zeros((*sizes, *rate.shape), dtype.as_numpy_dtype)
    source = _stateful_source(ctx, *seeds, count * rate.size)
    return _poisson(source, rate, count, dtype).reshape((*sizes, *rate.shape))


@op(
    """
    RandomPoissonV2(shape: S, rate: R) -> output: dtype
    seed: int = 0
    seed2: int = 0
    S: type in indices
    R: type in {half, float, double, int32, int64} = double
    dtype: type in {half, float, double, int32, int64} = int64
    """,
    shape=_shape_and_second,
    stateful=True,
    effects=Effects.UNSEEN,
)
def random_poisson_v2_kernel(
    ctx: KernelContext, shape: Array, rate: Array, *, seed: int, seed2: int, dtype: DType
) -> Any:
    """Return numbers of events [*shape, *rate.shape]."""
    return _stateful_poisson(ctx, shape, rate, (seed, seed2), dtype)


@op(
    """
    RandomPoisson(shape: S, rate: dtype) -> output: dtype
    seed: int = 0
    seed2: int = 0
    S: type in indices
    dtype: type in {half, float, double}
    """,
    shape=_shape_and_second,
    stateful=True,
)
def random_poisson_kernel(
    ctx: KernelContext, shape: Array, rate: Array, *, seed: int, seed2: int, dtype: DType
) -> Any:
    """Return numbers of events [*shape, *rate.shape]."""
    return _stateful_poisson(ctx, shape, rate, (seed, seed2), dtype)


@op(
    """
    StatelessRandomPoisson(shape: T, seed: Tseed, lam: Rtype) -> output: dtype
    Rtype: type in {half, float, double, int32, int64}
    dtype: type in {half, float, double, int32, int64}
    T: type in indices
    Tseed: type in indices = int64
    """,
    shape=_shape_from_first,
)
def stateless_random_poisson_kernel(
    ctx: KernelContext, shape: Array, seed: Array, lam: Array, *, dtype: DType
) -> Any:
    """Return numbers of events; shape ends in lam's."""
    source = _seeded(seed)
    sizes = _sizes(shape)
    if not math.prod(sizes):
        return np.zeros(sizes, dtype.as_numpy_dtype)
    samples = _split(sizes, lam, "lam")
    return _poisson(source, lam, samples, dtype).reshape(sizes)


# ---- binomial


def _binomial(shape: Array, counts: Any, probs: Any, source: Source, dtype: DType) -> Any:
    sizes = _sizes(shape)
    try:
        counts, probs = np.broadcast_arrays(counts, probs)
    except ValueError:
        raise InvalidArgumentError(
            "counts and probs must have compatible batch dimensions: "
            f"{list(np.shape(counts))} vs. {list(np.shape(probs))}"
        ) from None
    samples = _split(sizes, counts, "counts and probs")
    at, which = _layout(samples, counts.size)
    trials, chances = counts.reshape(-1)[which], probs.reshape(-1)[which]
    made = random_draws.binomial(source, trials, chances, at)
    return _counts(made, ~np.isnan(chances), dtype).reshape(sizes)


@op(
    """
    StatelessRandomBinomial(shape: S, seed: Tseed, counts: T, probs: T) -> output: dtype
    S: type in indices
    Tseed: type in indices = int64
    T: type in {half, float, double, int32, int64} = double
    dtype: type in {half, float, double, int32, int64} = int64
    """,
    shape=_shape_from_first,
)
def stateless_random_binomial_kernel(
    ctx: KernelContext, shape: Array, seed: Array, counts: Array, probs: Array, *, dtype: DType
) -> Any:
    """Return numbers of successes; shape ends in that of counts and probs together."""
    return _binomial(shape, counts, probs, _seeded(seed), dtype)


@op(
    """
    StatefulRandomBinomial(resource: resource, algorithm: int64, shape: S, counts: T, probs: T) \
-> output: dtype
    S: type in indices
    T: type in {half, float, double, int32, int64} = double
    dtype: type in {half, float, double, int32, int64} = int64
    """,
    shape=lambda c: [c.value_as_shape(2)],
    stateful=True,
)
def stateful_random_binomial_kernel(
    ctx: KernelContext,
    resource: object,
    algorithm: Array,
    shape: Array,
    counts: Array,
    probs: Array,
    *,
    dtype: DType,
) -> Any:
    """Return numbers of successes, and move the generator's state [counter, counter, key] on."""
    if np.ndim(algorithm) or int(algorithm) != 1:
        raise InvalidArgumentError(f"Unsupported algorithm id: {np.asarray(algorithm).tolist()}")
    sizes = _sizes(shape)
    parameters = np.broadcast(counts, probs).shape
    _split(sizes, np.broadcast_to(0, parameters), "counts and probs")
    batches = math.prod(parameters)
    samples = math.prod(sizes[: len(sizes) - len(parameters)])
    state = ctx.resources.lookup(resource, ResourceVariableState)
    with state.lock:
        if state.value is None:
            raise uninitialized(state.name, state.container)
        words = np.asarray(state.value)
        if words.dtype != np.int64 or words.ndim != 1 or words.size < 3:
            raise InvalidArgumentError("the state of Philox is a vector of three int64 at least")
        low, high, key = words[:3].view(np.uint64).tolist()
        after = low + (high << 64) + batches * 200 * (samples + 3) // 4 * _PER_ELEMENT
        moved = np.array([after & _WORD, (after >> 64) & _WORD], np.uint64).view(np.int64)
        state.value = np.concatenate([moved, words[2:]])
    source = Source(np.array([key], np.uint64), np.array([low, high], np.uint64))
    return _binomial(shape, counts, probs, source, dtype)


not_differentiable(
    "StatefulRandomBinomial",
    "RandomGammaGrad",
    "RandomPoisson",
    "RandomPoissonV2",
    "StatelessRandomPoisson",
    "StatelessRandomBinomial",
)

# ---- public functions


def _shape_tensor(shape: Any) -> Tensor:
    return convert_to_tensor(shape_argument(shape), name="shape")


def _alpha_and_beta(alpha: object, beta: object, dtype: DType) -> tuple[Tensor, Tensor]:
    """Return alpha in the shape of both, and beta."""
    a = convert_to_tensor(alpha, dtype, "alpha")
    b = convert_to_tensor(1 if beta is None else beta, dtype, "beta")
    return apply_op(
        "BroadcastTo", a, broadcast_dynamic_shape(apply_op("Shape", a), apply_op("Shape", b))
    ), b


def _scaled(drawn: Tensor, beta: Tensor, name: str) -> Tensor:
    # No sample is 0, whose logarithm programs may take.
    least = np.array(np.finfo(drawn.dtype.as_numpy_dtype).tiny, drawn.dtype.as_numpy_dtype)
    made: Tensor = apply_op("Maximum", least, apply_op("RealDiv", drawn, beta), name=name)
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
    with get_default_graph().name_scope(name or "random_gamma") as scope:
        dims = _shape_tensor(shape)
        alphas, rates = _alpha_and_beta(alpha, beta, as_dtype(dtype))
        first, second = get_seed(seed)
        drawn = apply_op("RandomGamma", dims, alphas, seed=first or 0, seed2=second or 0)
        return _scaled(drawn, rates, scope)


@export("random.stateless_gamma")
def stateless_random_gamma(
    shape: Array,
    seed: int | None,
    alpha: object,
    beta: object | None = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Return values of gamma distributions that follow from the seed (two integers).

    shape: of the result; it ends in that of alpha and beta together.
    """
    with get_default_graph().name_scope(name or "stateless_random_gamma") as scope:
        dims = _shape_tensor(shape)
        alphas, rates = _alpha_and_beta(alpha, beta, as_dtype(dtype))
        key, counter = apply_op("StatelessRandomGetKeyCounter", seed)
        drawn = apply_op("StatelessRandomGammaV3", dims, key, counter, np.int32(3), alphas)
        return _scaled(drawn, rates, scope)


def _poisson_tensor(
    shape: ShapeLike, lam: TensorLike, dtype: DTypeLike, seed: int | None, name: str | None
) -> Tensor:
    with get_default_graph().name_scope(name or "random_poisson") as scope:
        first, second = get_seed(seed)
        seeds = {"seed": first or 0, "seed2": second or 0}
        dims = _shape_tensor(shape)
        rate = convert_to_tensor(lam)
        made: Tensor = apply_op(
            "RandomPoissonV2", dims, rate, dtype=as_dtype(dtype), name=scope, **seeds
        )
        return made


@export("random_poisson")
def random_poisson(
    lam: TensorLike,
    shape: ShapeLike,
    dtype: DTypeLike = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return numbers of events of the rates lam.  Shapes: [*shape, *lam.shape]."""
    return _poisson_tensor(shape, lam, dtype, seed, name)


@export_v2("random.poisson")
def random_poisson_v2(
    shape: ShapeLike,
    lam: TensorLike,
    dtype: DTypeLike = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return numbers of events of the rates lam.  Shapes: [*shape, *lam.shape]."""
    return _poisson_tensor(shape, lam, dtype, seed, name)


@export("random.stateless_poisson")
def stateless_random_poisson(
    shape: ShapeLike,
    seed: int,
    lam: TensorLike,
    dtype: DTypeLike = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Return numbers of events that follow from the seed; shape ends in lam's."""
    with get_default_graph().name_scope(name or "stateless_random_poisson") as scope:
        wanted = as_dtype(dtype)
        made: Tensor = apply_op(
            "StatelessRandomPoisson", _shape_tensor(shape), seed, lam, dtype=wanted, name=scope
        )
        return made


@export("random.stateless_binomial")
def stateless_random_binomial(
    shape: ShapeLike,
    seed: int,
    counts: TensorLike,
    probs: TensorLike,
    output_dtype: DTypeLike = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Return numbers of successes that follow from the seed.

    Args:
      counts: of trials; probs: of success in each.
      shape: of the result; it ends in that of counts and probs together.
    """
    with get_default_graph().name_scope(name or "stateless_random_binomial") as scope:
        chances = convert_to_tensor(probs, dtype_hint=dtypes.float32, name="probs")
        trials = convert_to_tensor(counts, dtype_hint=chances.dtype, name="counts")
        made: Tensor = apply_op(
            "StatelessRandomBinomial",
            _shape_tensor(shape),
            seed,
            trials,
            chances,
            dtype=as_dtype(output_dtype),
            name=scope,
        )
        return made
