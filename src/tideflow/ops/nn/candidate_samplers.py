"""Samplers of classes for losses over so many classes that all of them would be too many.

Each gives candidates, and how often the true classes and the candidates are to be expected among
them.  A seeded op draws TensorFlow's very numbers.

Source: tensorflow/core/kernels/candidate_sampler_ops.cc, range_sampler.cc; lib/random/
simple_philox.cc and distribution_sampler.cc for how many random words a draw takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.formats import open_file
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.graph import Tensor
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, with_rank
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.ops.framework import get_seed
from tideflow.ops.random import Sequence
from tideflow.ops.random import philox as random_philox
from tideflow.wire import dtypes, errors

# Random words that an op keeps in reserve for each candidate.
_WORDS_PER_SAMPLE = 2048
_BLOCKS_AT_ONCE = 64


class Words:
    """Gives random numbers one after the other, made from words of Philox or of NumPy."""

    def __init__(self, sequence: Sequence, samples: int) -> None:
        self._generator = sequence.generator
        if self._generator is None:
            blocks = (_WORDS_PER_SAMPLE * samples + 3) // 4
            self._key, self._counter = sequence.reserve(blocks)
        self._blocks = 0
        self._ready: list[int] = []

    def word(self) -> int:
        """Return 32 random bits."""
        if not self._ready:
            self._ready = self._more()
            self._ready.reverse()
        return self._ready.pop()

    def _more(self) -> list[int]:
        if self._generator is not None:
            drawn = self._generator.integers(0, 1 << 32, 4 * _BLOCKS_AT_ONCE, np.uint32)
        else:
            offsets = np.arange(self._blocks, self._blocks + _BLOCKS_AT_ONCE, dtype=np.uint64)
            drawn = random_philox.random_words(np, self._key, self._counter, offsets).reshape(-1)
            self._blocks += _BLOCKS_AT_ONCE
        words: list[int] = drawn.tolist()
        return words

    def double(self) -> float:
        """Return a number in [0, 1)."""
        high = self.word() & 0xFFFFF
        return math.ldexp((high << 32) | self.word(), -52)

    def float(self) -> float:
        """Return a number in [0, 1) of 23 bits."""
        return math.ldexp(self.word() & 0x7FFFFF, -23)

    def below(self, end: int, bits: int = 32) -> int:
        """Return an integer in [0, end), which is made of so many bits."""
        drawn = self._integer(bits)
        if end & (end - 1) == 0:
            return drawn & (end - 1)
        # The first so many would make some remainders likelier than others.
        refused = ((1 << bits) - 1) % end + 1
        while drawn < refused:
            drawn = self._integer(bits)
        return drawn % end

    def _integer(self, bits: int) -> int:
        low = self.word()
        return low if bits == 32 else low | self.word() << 32


class SeededWords(Words):
    """The words of a seed of 64 bits, without end."""

    def __init__(self, seed: int) -> None:
        self._generator = None
        self._key = np.array([seed & (1 << 64) - 1], np.uint64)
        self._counter = np.zeros(2, np.uint64)
        self._blocks = 0
        self._ready: list[int] = []


class _Fixed:
    """Classes of which true ones tell nothing new."""

    def learn(self, classes: list[int]) -> None:
        """Take no notice of true classes."""


class LogUniform(_Fixed):
    """Small numbers are likelier: P(k) = log((k + 2) / (k + 1)) / log(range + 1)."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._log = math.log1p(size)

    def draw(self, words: Words) -> int:
        """Return a class."""
        return (int(math.exp(words.double() * self._log)) - 1) % self.size

    def probability(self, value: int) -> float:
        """Return how likely a class is."""
        return math.log((value + 2.0) / (value + 1.0)) / self._log


class Uniform(_Fixed):
    """All classes are equally likely."""

    def __init__(self, size: int) -> None:
        self.size = size

    def draw(self, words: Words) -> int:
        """Return a class."""
        return words.below(self.size, 64)

    def probability(self, value: int) -> float:
        """Return how likely a class is."""
        return float(np.float32(1.0 / self.size))


class Unigram(_Fixed):
    """Classes are as likely as the weights that are given for each.

    Draws take two words: a class, and whether it stays or gives way to its alias.
    """

    def __init__(self, weights: list[float]) -> None:
        self.size = len(weights)
        self._weights = np.asarray(weights, np.float32)
        self._total = float(np.add.reduce(self._weights.astype(np.float64)))
        self._keep, self._alias = self._pair_up()

    def _pair_up(self) -> tuple[list[float], list[int]]:
        keep = [1.0] * self.size
        alias = [-1] * self.size
        total = np.float32(0)
        for weight in self._weights:
            total += weight
        share = [float(np.float32(w * np.float32(self.size)) / total) for w in self._weights]
        high = [i for i, p in enumerate(share) if p >= 1.0]
        low = [i for i, p in enumerate(share) if p < 1.0]
        while high and low:
            small, large = low.pop(), high.pop()
            keep[small], alias[small] = share[small], large
            share[large] -= 1.0 - share[small]
            (high if share[large] >= 1.0 else low).append(large)
        return [float(np.float32(p)) for p in keep], alias

    def draw(self, words: Words) -> int:
        """Return a class."""
        mark = words.float()
        chosen = words.below(self.size)
        return chosen if mark < self._keep[chosen] else self._alias[chosen]

    def probability(self, value: int) -> float:
        """Return how likely a class is."""
        if not 0 <= value < self.size:
            return 0.0
        return float(self._weights[value]) / self._total


def sample(sampler: Any, words: Words, count: int, unique: bool) -> tuple[list[int], int]:
    """Return candidates, and how many draws they took."""
    if not unique:
        return [sampler.draw(words) for _ in range(count)], count
    chosen: dict[int, None] = {}
    tries = 0
    while len(chosen) < count:
        tries += 1
        chosen.setdefault(sampler.draw(words))
    return list(chosen), tries


def expected_count(probability: float, count: int, tries: int) -> float:
    """Return how often a class is to be expected among so many candidates."""
    rounded = float(np.float32(probability))
    if tries == count:
        return rounded * count
    if rounded >= 1:
        return 1.0
    return -math.expm1(tries * math.log1p(-rounded))


def _true_classes(true_classes: Array, num_true: int) -> Any:
    if np.ndim(true_classes) != 2:
        raise errors.InvalidArgumentError(
            f"true_classes must be a matrix; its shape is {list(np.shape(true_classes))}"
        )
    if true_classes.shape[1] != num_true:
        raise errors.InvalidArgumentError(
            f"true_classes must have num_true = {num_true} columns; it has {true_classes.shape[1]}"
        )
    return true_classes


def _check_range(true_classes: Any, size: int) -> None:
    wrong = true_classes[(true_classes < 0) | (true_classes >= size)]
    if wrong.size:
        raise errors.InvalidArgumentError(
            f"`true_candidate` out of range [0, {size}), received {wrong[0]}"
        )


def candidates(
    ctx: KernelContext,
    true_classes: Array,
    make: Callable[[], Any],
    attrs: tuple[int, int, bool, int, int],
) -> tuple[Any, Any, Any]:
    """Return candidates, and how often true classes and they are to be expected."""
    num_true, num_sampled, unique, seed, seed2 = attrs
    given = _true_classes(true_classes, num_true)
    sampler, sequence = ctx.memo(lambda: (make(), Sequence(seed, seed2)), is_random=True)
    if unique and num_sampled > sampler.size:
        raise errors.InvalidArgumentError(
            f"Sampler's range is too small: {num_sampled} different classes of {sampler.size} are "
            "wanted"
        )
    _check_range(given, sampler.size)
    chosen, tries = sample(sampler, Words(sequence, num_sampled), num_sampled, unique)

    def expected(classes: list[int]) -> Any:
        return np.array(
            [expected_count(sampler.probability(k), num_sampled, tries) for k in classes],
            np.float32,
        )

    flat = given.reshape(-1).tolist()
    found = np.array(chosen, np.int64), expected(flat).reshape(given.shape), expected(chosen)
    sampler.learn(flat)
    return found


def sampler_shape(c: ShapeContext) -> list[Dims]:
    """Return the shapes of candidates and of both expected counts."""
    rows = with_rank(c.inputs[0], 2, "true_classes")[0]
    count = c.attrs["num_sampled"]
    return [(count,), (rows, c.attrs["num_true"]), (count,)]


def sampler_signature(name: str, *further: str) -> str:
    """Return the signature of a sampler, with its own attrs before the seeds."""
    lines = [
        f"{name}(true_classes: int64) -> sampled_candidates: int64, true_expected_count: float, "
        "sampled_expected_count: float",
        "num_true: int >= 1",
        "num_sampled: int >= 1",
        "unique: bool",
        *further,
        "seed: int = 0",
        "seed2: int = 0",
    ]
    return "\n".join(lines)


@op(
    sampler_signature("LogUniformCandidateSampler", "range_max: int >= 1"),
    shape=sampler_shape,
    stateful=True,
)
def log_uniform_kernel(
    ctx: KernelContext,
    true_classes: Array,
    *,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int,
    seed2: int,
) -> Any:
    """Return candidates of which small numbers are the likelier."""
    attrs = (num_true, num_sampled, unique, seed, seed2)
    return candidates(ctx, true_classes, lambda: LogUniform(range_max), attrs)


@op(
    sampler_signature("UniformCandidateSampler", "range_max: int >= 1"),
    shape=sampler_shape,
    stateful=True,
)
def uniform_kernel(
    ctx: KernelContext,
    true_classes: Array,
    *,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int,
    seed2: int,
) -> Any:
    """Return candidates that are all equally likely."""
    attrs = (num_true, num_sampled, unique, seed, seed2)
    return candidates(ctx, true_classes, lambda: Uniform(range_max), attrs)


@op(
    sampler_signature(
        "FixedUnigramCandidateSampler",
        "range_max: int >= 1",
        "vocab_file: string = ''",
        "distortion: float = 1.0",
        "num_reserved_ids: int = 0",
        "num_shards: int >= 1 = 1",
        "shard: int >= 0 = 0",
        "unigrams: list(float) = []",
    ),
    shape=sampler_shape,
    stateful=True,
)
def fixed_unigram_kernel(
    ctx: KernelContext,
    true_classes: Array,
    *,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str,
    distortion: float,
    num_reserved_ids: int,
    num_shards: int,
    shard: int,
    unigrams: list[float],
    seed: int,
    seed2: int,
) -> Any:
    """Return candidates by weights that a file or an attr gives."""

    def make() -> Unigram:
        if bool(vocab_file) == bool(unigrams):
            raise errors.InvalidArgumentError(
                "exactly one of vocab_file and unigrams must be given, to name the weights"
            )
        counts = list(unigrams) or _read_counts(vocab_file)
        every = [0.0] * num_reserved_ids + [count**distortion for count in counts]
        own = [weight for i, weight in enumerate(every) if i % num_shards == shard]
        if len(own) != range_max:
            raise errors.InvalidArgumentError(
                f"range_max is {range_max}, but {len(own)} classes have weights"
            )
        return Unigram(own)

    attrs = (num_true, num_sampled, unique, seed, seed2)
    return candidates(ctx, true_classes, make, attrs)


def _read_counts(path: str) -> list[float]:
    """Read the last column of a file of comma separated values."""
    try:
        with open_file(path) as file:
            lines = file.read().decode().splitlines()
    except FileNotFoundError:
        raise errors.NotFoundError(f"vocab_file {path}: no such file") from None
    try:
        return [float(line.rsplit(",", 1)[-1]) for line in lines]
    except ValueError as error:
        raise errors.InvalidArgumentError(f"vocab_file {path}: wrong vocabulary: {error}") from None


@op(sampler_signature("AllCandidateSampler"), shape=sampler_shape, stateful=True)
def all_kernel(
    ctx: KernelContext,
    true_classes: Array,
    *,
    num_true: int,
    num_sampled: int,
    unique: bool,
    seed: int,
    seed2: int,
) -> Any:
    """Return every class from 0 to num_sampled as a candidate."""
    given = _true_classes(true_classes, num_true)
    _check_range(given, num_sampled)
    ones = np.ones(num_sampled, np.float32)
    return np.arange(num_sampled, dtype=np.int64), np.ones(given.shape, np.float32), ones


def _hits_shape(c: ShapeContext) -> list[Dims]:
    with_rank(c.inputs[0], 2, "true_classes")
    with_rank(c.inputs[1], 1, "sampled_candidates")
    return [(None,), (None,), (None,)]


@op(
    """
    ComputeAccidentalHits(true_classes: int64, sampled_candidates: int64)
    -> indices: int32, ids: int64, weights: float
    num_true: int
    seed: int = 0
    seed2: int = 0
    """,
    shape=_hits_shape,
)
def accidental_hits_kernel(
    ctx: KernelContext, true_classes: Array, sampled_candidates: Array, *, num_true: int
) -> Any:
    """Return where a candidate is a true class: rows, places, and the weights that undo it."""
    given = _true_classes(true_classes, num_true)
    if np.ndim(sampled_candidates) != 1:
        raise errors.InvalidArgumentError(
            "sampled_candidates must be a vector, which is typically an output from "
            f"CandidateSampler; its shape is {list(np.shape(sampled_candidates))}"
        )
    places = {value: at for at, value in enumerate(sampled_candidates.tolist())}
    hits = [
        (row, places[value])
        for row, values in enumerate(given.tolist())
        for value in values
        if value in places
    ]
    rows = np.array([row for row, _ in hits], np.int32)
    found = np.array([at for _, at in hits], np.int64)
    return rows, found, np.full(len(hits), np.finfo(np.float32).min, np.float32)


not_differentiable(
    "LogUniformCandidateSampler",
    "UniformCandidateSampler",
    "FixedUnigramCandidateSampler",
    "AllCandidateSampler",
    "ComputeAccidentalHits",
)


# ---- public functions


def make_sampler(
    op_name: str, true_classes: object, name: str | None, **attrs: Any
) -> tuple[Tensor, ...]:
    """Return what an op gives that draws candidates by the seeds of the graph."""
    first, second = get_seed(attrs.pop("seed"))
    given = convert_to_tensor(true_classes, dtypes.int64)
    return tuple(apply_op(op_name, given, name=name, seed=first, seed2=second, **attrs))
