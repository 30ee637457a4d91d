"""Random values of Poisson and binomial distributions.

The stateful ops keep the state of random.py; the stateless ones draw what follows from their seed
alone.  Both give TensorFlow's values.

Source: tensorflow/core/kernels/{random_poisson_op,random_binomial_op}.cc.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Effects
from tideflow.graph.types import Array, DTypeLike, ShapeLike, TensorLike
from tideflow.ops.export import export, export_v2
from tideflow.ops.framework import get_seed
from tideflow.ops.random import algorithms as random_draws
from tideflow.ops.random.algorithms import Source
from tideflow.ops.random.parameters import (
    PER_ELEMENT,
    layout,
    samples_each,
    seeded_source,
    shape_and_second,
    shape_from_first,
    shape_tensor,
    sizes_of,
    stateful_source,
)
from tideflow.ops.state import ResourceVariableState, uninitialized
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.errors import InvalidArgumentError

_WORD = (1 << 64) - 1


# ---- Poisson


def _counts(values: Any, is_countable: Any, dtype: DType) -> Any:
    """Return numbers of events in the type wanted; integers are 0 where there is none to count."""
    if not dtype.is_floating:
        values = np.where(is_countable, values, 0)
    with np.errstate(invalid="ignore"):
        return values.astype(dtype.as_numpy_dtype)


def _poisson(source: Source, rate: Any, samples: int, dtype: DType) -> Any:
    at, which = layout(samples, rate.size)
    rates = rate.reshape(-1)[which].astype(np.float64)
    made = random_draws.poisson(source, rates, at)
    return _counts(made, np.isfinite(rates), dtype)


def _stateful_poisson(
    ctx: Any, shape: Array, rate: Any, seeds: tuple[int, int], dtype: DType
) -> Any:
    sizes = sizes_of(shape)
    count = math.prod(sizes)
    if not count * rate.size:
        return np.zeros((*sizes, *rate.shape), dtype.as_numpy_dtype)
    source = stateful_source(ctx, *seeds, count * rate.size)
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
    shape=shape_and_second,
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
    shape=shape_and_second,
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
    shape=shape_from_first,
)
def stateless_random_poisson_kernel(
    ctx: KernelContext, shape: Array, seed: Array, lam: Array, *, dtype: DType
) -> Any:
    """Return numbers of events; shape ends in lam's."""
    source = seeded_source(seed)
    sizes = sizes_of(shape)
    if not math.prod(sizes):
        return np.zeros(sizes, dtype.as_numpy_dtype)
    samples = samples_each(sizes, lam, "lam")
    return _poisson(source, lam, samples, dtype).reshape(sizes)


# ---- binomial


def _binomial(shape: Array, counts: Any, probs: Any, source: Source, dtype: DType) -> Any:
    sizes = sizes_of(shape)
    try:
        counts, probs = np.broadcast_arrays(counts, probs)
    except ValueError:
        raise InvalidArgumentError(
            "counts and probs must have compatible batch dimensions: "
            f"{list(np.shape(counts))} vs. {list(np.shape(probs))}"
        ) from None
    samples = samples_each(sizes, counts, "counts and probs")
    at, which = layout(samples, counts.size)
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
    shape=shape_from_first,
)
def stateless_random_binomial_kernel(
    ctx: KernelContext, shape: Array, seed: Array, counts: Array, probs: Array, *, dtype: DType
) -> Any:
    """Return numbers of successes; shape ends in that of counts and probs together."""
    return _binomial(shape, counts, probs, seeded_source(seed), dtype)


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
    sizes = sizes_of(shape)
    parameters = np.broadcast(counts, probs).shape
    samples_each(sizes, np.broadcast_to(0, parameters), "counts and probs")
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
        after = low + (high << 64) + batches * 200 * (samples + 3) // 4 * PER_ELEMENT
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


def _poisson_tensor(
    shape: ShapeLike, lam: TensorLike, dtype: DTypeLike, seed: int | None, name: str | None
) -> Tensor:
    with get_default_graph().name_scope(name or "random_poisson"):
        first, second = get_seed(seed)
        dims = shape_tensor(shape)
        rate = convert_to_tensor(lam)
        made: Tensor = apply_op(
            "RandomPoissonV2",
            dims,
            rate,
            dtype=as_dtype(dtype),
            seed=first or 0,
            seed2=second or 0,
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
    with get_default_graph().name_scope(name or "stateless_random_poisson"):
        wanted = as_dtype(dtype)
        made: Tensor = apply_op(
            "StatelessRandomPoisson", shape_tensor(shape), seed, lam, dtype=wanted
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
    with get_default_graph().name_scope(name or "stateless_random_binomial"):
        chances = convert_to_tensor(probs, dtype_hint=dtypes.float32, name="probs")
        trials = convert_to_tensor(counts, dtype_hint=chances.dtype, name="counts")
        made: Tensor = apply_op(
            "StatelessRandomBinomial",
            shape_tensor(shape),
            seed,
            trials,
            chances,
            dtype=as_dtype(output_dtype),
        )
        return made
