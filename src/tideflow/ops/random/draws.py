"""Random values from ops that keep a state of their own.

A seeded op draws TensorFlow's sequence: its Philox generator starts from (seed, seed2), and each
run moves its counter on by 256 for each element asked for.  The state belongs to the node in a
session, so each new session begins anew.  An op whose seeds are both 0 draws from NumPy's
generator, seeded by the system.

Source: tensorflow/core/kernels/random_op.cc, random_shuffle_op.cc, util/guarded_philox_random.cc.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.draws import Draws, Reserve
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.op_traits import Effects
from tideflow.graph.shape_rules import ShapeContext, same_as
from tideflow.graph.shapes import Dims
from tideflow.graph.tracing import is_known, refuse
from tideflow.graph.types import Array, ArrayNamespace, DTypeLike, ShapeLike, TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import get_seed, shape_argument
from tideflow.ops.random import philox as random_philox
from tideflow.ops.random.classes import checked_count, classes_shape, draw_classes
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.errors import InvalidArgumentError

# Counters that an element keeps in reserve, whatever its distribution needs.
_PER_ELEMENT = 256
_WORD = 0xFFFFFFFF_FFFFFFFF


class Sequence:
    """A random op's own state: where in its sequence of counters it is.

    Safe to use from several threads at once: each call gets counters of its own.

    Attributes:
      generator: what draws where nobody asked for a seed, and NumPy computes.
    """

    def __init__(self, seed: int, seed2: int) -> None:
        self.generator = np.random.default_rng() if not (seed or seed2) else None
        seed, seed2 = random_philox.seeds_of(seed, seed2)
        self._key = np.array([seed & _WORD], np.uint64)
        self._counter = (seed2 & _WORD) << 64
        self._returned: list[tuple[int, Any]] = []
        self._lock = threading.Lock()

    def reserve(self, counters: int) -> tuple[Any, Any]:
        """Return the key, and the counter from which so many may be used."""
        with self._lock:
            for i, (count, counter) in enumerate(self._returned):
                if count == counters:
                    del self._returned[i]
                    return self._key, counter
            start = self._counter
            self._counter = (start + counters) % (1 << 128)
        return self._key, np.array([start & _WORD, start >> 64], np.uint64)

    def give_back(self, counter: Any, counters: int) -> None:
        """Have the next call that reserves so many get a counter that was not used."""
        with self._lock:
            self._returned.append((counters, counter))


def _sequence(ctx: KernelContext, seed: int, seed2: int) -> Sequence:
    made: Sequence = ctx.memo(lambda: Sequence(seed, seed2), is_random=True)
    return made


def _checked_sizes(shape: Any) -> list[int]:
    sizes: list[int] = shape.tolist()
    if shape.ndim != 1 or any(size < 0 for size in sizes):
        raise InvalidArgumentError(f"shape must be a vector of sizes; found {sizes}")
    return sizes


def _draw(
    sequence: Sequence,
    shape: Array,
    dtype: DType,
    draw: random_philox.Distribution,
    unseeded: Callable[[np.random.Generator, list[int]], Any],
) -> Any:
    sizes = _checked_sizes(shape)
    if sequence.generator is not None:
        # NumPy's generators lock themselves.
        return np.asarray(unseeded(sequence.generator, sizes)).astype(
            dtype.as_numpy_dtype, copy=False
        )
    return _drawn(np, sequence.reserve, sizes, dtype, draw)


def _drawn(
    xp: Any, reserve: Reserve, sizes: list[int], dtype: DType, draw: random_philox.Distribution
) -> Any:
    count = int(np.prod(sizes, dtype=np.int64))
    key, counter = reserve(count * _PER_ELEMENT)
    return draw(xp, key, counter, count, dtype).reshape(sizes)


def _draws(draw: random_philox.Distribution) -> Draws:
    """Return how floats of a distribution are drawn in compiled code."""

    def rule(
        xp: ArrayNamespace, reserve: Reserve, shape: Array, *, seed: int, seed2: int, dtype: DType
    ) -> Any:
        return _drawn(xp, reserve, _checked_sizes(shape), dtype, draw)

    return Draws(_sequence_of, rule)


def _sequence_of(ctx: KernelContext, attrs: Mapping[str, Any]) -> Sequence:
    return _sequence(ctx, attrs["seed"], attrs["seed2"])


def _float_type(dtype: DType) -> Any:
    return np.float64 if dtype is dtypes.float64 else np.float32


def _shape_from_first(c: ShapeContext) -> list[Dims]:
    return [c.value_as_shape(0)]


@op(
    """
    RandomUniform(shape: T) -> output: dtype
    seed: int = 0
    seed2: int = 0
    dtype: type in floats
    T: type in indices
    """,
    shape=_shape_from_first,
    stateful=True,
    any_device=True,
    effects=Effects.UNSEEN,
    draws=_draws(random_philox.uniform),
)
def random_uniform_kernel(
    ctx: KernelContext, shape: Array, *, seed: int, seed2: int, dtype: DType
) -> Any:
    """Return floats in [0, 1)."""

    def unseeded(generator: np.random.Generator, sizes: list[int]) -> Any:
        if dtype.size >= 4:
            return generator.random(sizes, _float_type(dtype))
        # Made from too many bits, a short float would round up to 1.
        bits = generator.integers(0, 1 << 16, int(np.prod(sizes)), np.uint32)
        return random_philox.bits_as_float(np, bits, dtype).reshape(sizes)

    return _draw(_sequence(ctx, seed, seed2), shape, dtype, random_philox.uniform, unseeded)


@op(
    """
    RandomStandardNormal(shape: T) -> output: dtype
    seed: int = 0
    seed2: int = 0
    dtype: type in floats
    T: type in indices
    """,
    shape=_shape_from_first,
    stateful=True,
    any_device=True,
    effects=Effects.UNSEEN,
    draws=_draws(random_philox.normal),
)
def random_standard_normal_kernel(
    ctx: KernelContext, shape: Array, *, seed: int, seed2: int, dtype: DType
) -> Any:
    """Return values of the standard normal distribution."""

    def unseeded(generator: np.random.Generator, sizes: list[int]) -> Any:
        return generator.standard_normal(sizes, _float_type(dtype))

    return _draw(_sequence(ctx, seed, seed2), shape, dtype, random_philox.normal, unseeded)


@op(
    """
    TruncatedNormal(shape: T) -> output: dtype
    seed: int = 0
    seed2: int = 0
    dtype: type in floats
    T: type in indices
    """,
    shape=_shape_from_first,
    stateful=True,
    any_device=True,
    effects=Effects.UNSEEN,
)
def truncated_normal_kernel(
    ctx: KernelContext, shape: Array, *, seed: int, seed2: int, dtype: DType
) -> Any:
    """Return values of the standard normal distribution that lie within (-2, 2)."""

    def unseeded(generator: np.random.Generator, sizes: list[int]) -> Any:
        values = generator.standard_normal(sizes, _float_type(dtype))
        while True:
            refused = np.abs(values) >= 2
            count = int(np.count_nonzero(refused))
            if not count:
                return values
            again = generator.standard_normal(count, _float_type(dtype))
            values = np.array(values)
            values[refused] = again

    return _draw(
        _sequence(ctx, seed, seed2), shape, dtype, random_philox.truncated_normal, unseeded
    )


def _draw_integers(
    xp: ArrayNamespace,
    reserve: Reserve,
    shape: Array,
    minval: Array,
    maxval: Array,
    *,
    seed: int,
    seed2: int,
    Tout: DType,
) -> Any:
    if not (is_known(minval) and is_known(maxval)):
        raise refuse("the bounds of random integers are checked before any is drawn")
    _check_bounds(minval, maxval)
    return _drawn(xp, reserve, _checked_sizes(shape), Tout, _between(minval, maxval))


def _check_bounds(minval: Array, maxval: Array) -> None:
    if np.ndim(minval) or np.ndim(maxval) or minval >= maxval:
        raise InvalidArgumentError(
            f"minval and maxval must be scalars, minval the lesser; found {np.asarray(minval)} "
            f"and {np.asarray(maxval)}"
        )


def _between(minval: Array, maxval: Array) -> random_philox.Distribution:
    def draw(xp: ArrayNamespace, key: Array, counter: Array, count: int, dtype: DType) -> Any:
        return random_philox.integers(xp, key, counter, count, dtype, minval, maxval)

    return draw


@op(
    """
    RandomUniformInt(shape: T, minval: Tout, maxval: Tout) -> output: Tout
    seed: int = 0
    seed2: int = 0
    Tout: type in indices
    T: type in indices
    """,
    shape=_shape_from_first,
    stateful=True,
    any_device=True,
    effects=Effects.UNSEEN,
    draws=Draws(_sequence_of, _draw_integers),
)
def random_uniform_int_kernel(
    ctx: KernelContext,
    shape: Array,
    minval: Array,
    maxval: Array,
    *,
    seed: int,
    seed2: int,
    Tout: DType,
) -> Any:
    """Return integers in [minval, maxval)."""
    _check_bounds(minval, maxval)

    def unseeded(generator: np.random.Generator, sizes: list[int]) -> Any:
        return generator.integers(int(minval), int(maxval), sizes, Tout.as_numpy_dtype)

    return _draw(_sequence(ctx, seed, seed2), shape, Tout, _between(minval, maxval), unseeded)


@op(
    """
    RandomShuffle(value: T) -> output: T
    seed: int = 0
    seed2: int = 0
    T: type
    """,
    shape=same_as(0),
    stateful=True,
    effects=Effects.UNSEEN,
)
def random_shuffle_kernel(ctx: KernelContext, value: Array, *, seed: int, seed2: int) -> Any:
    """Return value with its rows in another order."""
    size = value.shape[0] if np.ndim(value) else 0
    if size <= 1:
        return value
    sequence = _sequence(ctx, seed, seed2)
    if sequence.generator is not None:
        return value[sequence.generator.permutation(size)]
    key, counter = sequence.reserve(-(-(size - 1) // 4))
    return value[random_philox.permutation(key, counter, size)]


@op(
    """
    Multinomial(logits: T, num_samples: int32) -> output: output_dtype
    seed: int = 0
    seed2: int = 0
    T: type in reals
    output_dtype: type in indices = int64
    """,
    shape=classes_shape,
    stateful=True,
    any_device=True,
    effects=Effects.UNSEEN,
)
def multinomial_kernel(
    ctx: KernelContext,
    logits: Array,
    num_samples: Array,
    *,
    seed: int,
    seed2: int,
    output_dtype: DType,
) -> Any:
    """Return for each row of logits num_samples class numbers, drawn by their probabilities."""
    count = checked_count(logits, num_samples)
    rows = logits.shape[0]
    sequence = _sequence(ctx, seed, seed2)
    if sequence.generator is not None:
        return draw_classes(logits, sequence.generator.random((rows, count)), output_dtype)
    # A sample takes two words, and the samples of a row are rounded up to four.
    key, counter = sequence.reserve(rows * (-(-count // 4) * 4) * 2 * _PER_ELEMENT)
    drawn = random_philox.uniform(np, key, counter, rows * count, dtypes.float64)
    return draw_classes(logits, drawn.reshape(rows, count), output_dtype)


not_differentiable(
    "RandomUniform",
    "RandomStandardNormal",
    "TruncatedNormal",
    "RandomUniformInt",
    "Multinomial",
    "RandomShuffle",
)

# ---- public functions


def _shape_tensor(shape: Any) -> Tensor:
    return convert_to_tensor(shape_argument(shape), name="shape")


def _seeds(seed: int | None) -> dict[str, Any]:
    first, second = get_seed(seed)
    return {"seed": first, "seed2": second}


@export("random_uniform", "random.uniform")
def random_uniform(
    shape: ShapeLike,
    minval: TensorLike = 0,
    maxval: TensorLike | None = None,
    dtype: DTypeLike = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return values spread evenly over [minval, maxval); maxval is 1 by default for floats.

    Raises: ValueError for integers without maxval.
    """
    wanted = as_dtype(dtype)
    if maxval is None:
        if wanted.is_integer:
            raise ValueError("random_uniform of integers needs maxval")
        maxval = 1
    with get_default_graph().name_scope(name or "random_uniform") as scope:
        dims = _shape_tensor(shape)
        from_zero = isinstance(minval, int) and minval == 0
        to_one = isinstance(maxval, int) and maxval == 1
        if not (from_zero and to_one) or wanted.is_integer:
            minval = convert_to_tensor(minval, wanted, "min")
            maxval = convert_to_tensor(maxval, wanted, "max")
        seeds = _seeds(seed)
        made: Tensor
        if wanted.is_integer:
            made = apply_op("RandomUniformInt", dims, minval, maxval, name=scope, **seeds)
            return made
        made = apply_op("RandomUniform", dims, dtype=wanted, **seeds)
        if from_zero and not to_one:
            made = apply_op("Mul", made, maxval)
        elif not from_zero:
            scaled = apply_op("Mul", made, apply_op("Sub", maxval, minval, name="sub"), name="mul")
            made = apply_op("AddV2", scaled, minval, name=scope)
        return made


def _scaled(
    op_name: str, default: str, args: tuple[Any, Any, Any, Any], seed: int | None, name: str | None
) -> Tensor:
    shape, mean, stddev, dtype = args
    wanted = as_dtype(dtype)
    with get_default_graph().name_scope(name or default) as scope:
        dims = _shape_tensor(shape)
        centre = convert_to_tensor(mean, wanted, "mean")
        spread = convert_to_tensor(stddev, wanted, "stddev")
        drawn = apply_op(op_name, dims, dtype=wanted, **_seeds(seed))
        scaled = apply_op("Mul", drawn, spread, name="mul")
        made: Tensor = apply_op("AddV2", scaled, centre, name=scope)
        return made


@export("random_normal", "random.normal")
def random_normal(
    shape: ShapeLike,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DTypeLike = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return normally distributed values."""
    args = (shape, mean, stddev, dtype)
    return _scaled("RandomStandardNormal", "random_normal", args, seed, name)


@export("truncated_normal", "random.truncated_normal")
def truncated_normal(
    shape: ShapeLike,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DTypeLike = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return normally distributed values within two standard deviations of the mean."""
    args = (shape, mean, stddev, dtype)
    return _scaled("TruncatedNormal", "truncated_normal", args, seed, name)


@export("random_shuffle", "random.shuffle")
def random_shuffle(value: TensorLike, seed: int | None = None, name: str | None = None) -> Tensor:
    """Return a tensor with its rows in a random order."""
    made: Tensor = apply_op("RandomShuffle", value, name=name, **_seeds(seed))
    return made


@export("multinomial", "random.multinomial")
def multinomial(
    logits: TensorLike,
    num_samples: TensorLike,
    seed: int | None = None,
    name: str | None = None,
    output_dtype: DTypeLike = dtypes.int64,
) -> Tensor:
    """Return for each row of logits num_samples class numbers, drawn by their probabilities."""
    with get_default_graph().name_scope(name or "multinomial"):
        given = convert_to_tensor(logits, name="logits")
        made: Tensor = apply_op(
            "Multinomial", given, num_samples, output_dtype=output_dtype, **_seeds(seed)
        )
    return made


@export("random.categorical")
def categorical(
    logits: TensorLike,
    num_samples: TensorLike,
    dtype: DTypeLike | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return what multinomial does."""
    kind = dtypes.int64 if dtype is None else dtype
    return multinomial(logits, num_samples, seed, name or "categorical", kind)
