"""Datasets in random order, and of random numbers: TensorFlow's own, for the same seeds.

Source: tensorflow/core/kernels/data/{shuffle,random_seed}_..., random_seed_ops.{h,cc},
kernels/data/experimental/random_dataset_op.cc.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from tideflow.blocking import Turns
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import declare_like, op
from tideflow.graph.shape_rules import no_outputs
from tideflow.graph.shape_rules import scalar as scalar_shape
from tideflow.graph.types import Array
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.iterators import Deleter
from tideflow.ops.data.places import drawn
from tideflow.ops.data.transformations import repeated_count
from tideflow.ops.data.values import (
    INFINITE,
    UNKNOWN,
    Dataset,
    Element,
    Iterator,
    SeedSource,
    Splits,
    fail,
    scalar,
)
from tideflow.ops.node_resources import add_anonymous
from tideflow.ops.random import Samples, bits_as_float, seeds_of
from tideflow.wire import dtypes

# More epochs than these do not meet in one buffer.
_MOST_EPOCHS = 3


class FixedSeeds:
    """The same seeds for each epoch."""

    __slots__ = ("_seeds",)

    def __init__(self, seeds: tuple[int, int]) -> None:
        self._seeds = seeds

    def next(self) -> tuple[int, int]:
        return self._seeds

    def state(self) -> list[int]:
        return list(self._seeds)

    def restore(self, state: Sequence[int]) -> None:
        first, second = state
        self._seeds = first, second


class RandomSeeds:
    """Other seeds for each epoch, made of a pair of seeds."""

    __slots__ = ("_count", "_samples", "_seeds")

    def __init__(self, seeds: tuple[int, int]) -> None:
        self._seeds = seeds
        self._samples = Samples(*seeds)
        self._count = 0

    def next(self) -> tuple[int, int]:
        self._count += 1
        return self._samples.next(), self._samples.next()

    def state(self) -> list[int]:
        return [*self._seeds, self._count]

    def restore(self, state: Sequence[int]) -> None:
        *seeds, count = state
        self._seeds = seeds[0], seeds[1]
        self._samples = Samples(*seeds)
        self._count = 0
        for _ in range(count):
            self.next()


def _read_seeds(seed: Any, seed2: object) -> tuple[int, int]:
    return seeds_of(int(scalar(seed, "seed")), int(scalar(seed2, "seed2")))


def make_seeds(seeds: tuple[int, int], reshuffle: bool) -> SeedSource:
    """Return what gives the same seeds to each walk, or other ones."""
    return RandomSeeds(seeds) if reshuffle else FixedSeeds(seeds)


# ---- seeds that datasets share


class SeedGenerator:
    """Seeds that a handle names."""

    type_name: ClassVar[str] = "tensorflow::data::SeedGeneratorManager"

    def __init__(self, seeds: SeedSource) -> None:
        self.seeds = seeds


def _new_generator(ctx: KernelContext, seeds: SeedSource) -> Any:
    handle = add_anonymous(ctx, SeedGenerator, SeedGenerator(seeds))
    return handle, Deleter(handle)


def find_seeds(ctx: Any, handle: Any) -> SeedSource | None:
    """Return the seeds that a handle names, if it names any."""
    found = None
    if handle is not None:
        found = ctx.resources.find(handle.container, handle.name, SeedGenerator)
    return None if found is None else found.seeds


@op(
    """
    AnonymousSeedGenerator(
        seed: int64, seed2: int64, reshuffle: bool
    ) -> handle: resource, deleter: variant
    """,
    shape=scalar_shape,
    stateful=True,
)
def anonymous_seed_generator(
    ctx: KernelContext, seed: Array, seed2: Array, reshuffle: Array
) -> Any:
    """Return the handle of seeds, and what deletes them."""
    again = bool(scalar(reshuffle, "reshuffle"))
    return _new_generator(ctx, make_seeds(_read_seeds(seed, seed2), again))


@op(
    """
    AnonymousRandomSeedGenerator(seed: int64, seed2: int64) -> handle: resource, deleter: variant
    """,
    shape=scalar_shape,
    stateful=True,
)
def anonymous_random_seed_generator(ctx: KernelContext, seed: Array, seed2: Array) -> Any:
    """Return the handle of seeds that change, and what deletes them."""
    return _new_generator(ctx, RandomSeeds(_read_seeds(seed, seed2)))


@op(
    """
    DeleteSeedGenerator(handle: resource, deleter: variant)
    """,
    shape=no_outputs,
    stateful=True,
)
def delete_seed_generator(ctx: KernelContext, handle: object, deleter: object) -> None:
    """Drop seeds."""
    ctx.resources.delete(handle, SeedGenerator)


declare_like("DeleteRandomSeedGenerator", "DeleteSeedGenerator")


@op(
    """
    DummySeedGenerator() -> handle: resource
    """,
    shape=scalar_shape,
    stateful=True,
)
def dummy_seed_generator(ctx: KernelContext) -> Any:
    """Return a handle that names no seeds: each dataset has its own."""
    return ctx.resources.anonymous_handle(SeedGenerator)


# ---- shuffling


class _Shuffled:
    """Gives random elements of a buffer that is kept full.

    The buffer is a ring of slices, one for each epoch of the input that it has elements of;
    numbers count elements from the beginning of time.  Elements are drawn of the first slice only.

    Args:
      size: of the buffer; None for one that holds everything.
      epochs: how often the input is read; -1 for no end.
    """

    __slots__ = ("_buffer", "_dataset", "_epoch", "_epochs", "_produced", "_samples", "_seeds",
                 "_size", "_slices", "_source", "_turns")  # fmt: skip

    def __init__(self, dataset: Dataset, size: int | None, seeds: SeedSource, epochs: int) -> None:
        self._dataset = dataset
        self._size = size
        self._seeds = seeds
        self._epochs = epochs
        self._samples = Samples(*drawn(seeds))
        self._buffer: dict[int, Element] = {}
        self._slices: deque[list[int]] = deque()
        self._source: Iterator | None = None
        self._epoch = 0
        self._produced = False
        self._turns = Turns()

    async def next(self) -> Element | None:
        await self._fill()
        if not self._buffer:
            return None
        while self._slices[0][0] == self._slices[0][1]:
            # The next epoch begins with numbers of its own.
            self._slices.popleft()
            self._samples = Samples(*drawn(self._seeds))
        first = self._slices[0]
        start = first[0]
        chosen = start + self._samples.next() % (first[1] - start)
        element = self._buffer[chosen]
        last = self._buffer.pop(start)
        if chosen != start:
            self._buffer[chosen] = last
        first[0] += 1
        return element

    def _has_room(self) -> bool:
        if self._source is None and 0 <= self._epochs <= self._epoch:
            return False
        if len(self._slices) > _MOST_EPOCHS and self._buffer:
            return False
        return self._size is None or len(self._buffer) < self._size

    async def _fill(self) -> None:
        while self._has_room():
            if self._source is None:
                end = self._slices[-1][1] if self._slices else 0
                self._slices.append([end, end])
                self._source = self._dataset.iterator()
                self._epoch += 1
            element = await self._source.next()
            if element is not None:
                self._produced = True
                self._buffer[self._slices[-1][1]] = element
                self._slices[-1][1] += 1
            else:
                self._source = None
                if not self._produced and self._epochs < 0:
                    # What is empty would be repeated forever without giving anything.
                    self._epochs = self._epoch
                    return
            await self._turns.pause()


@dataset_op(
    """
    ShuffleDataset(input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64)
    reshuffle_each_iteration: bool = true
    """,
    same_elements=True,
)
@dataset_op(
    "ShuffleDatasetV2(input_dataset: variant, buffer_size: int64, seed_generator: resource)",
    """
    ShuffleDatasetV3(
        input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64,
        seed_generator: resource
    )
    reshuffle_each_iteration: bool = true
    """,
    same_elements=True,
    stateful=True,
)
@dataset_op(
    """
    ShuffleAndRepeatDataset(
        input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64, count: int64
    )
    reshuffle_each_iteration: bool = true
    """,
    same_elements=True,
)
@dataset_op(
    """
    ShuffleAndRepeatDatasetV2(
        input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64, count: int64,
        seed_generator: resource
    )
    reshuffle_each_iteration: bool = true
    """,
    same_elements=True,
    stateful=True,
    direct=True,
)
def shuffle_dataset(
    ctx: KernelContext,
    input_dataset: Dataset,
    buffer_size: int,
    seed: int = 0,
    seed2: int = 0,
    reshuffle_each_iteration: bool = True,
    seed_generator: Any = None,
    count: int = 1,
) -> Elements:
    """Return the elements in random order, count times.

    seed_generator: a handle that may name seeds, which then stand for the others.
    """
    own = make_seeds(seeds_of(seed, seed2), reshuffle_each_iteration)
    seeds = find_seeds(ctx, seed_generator) or own
    if buffer_size <= 0 and buffer_size != UNKNOWN:
        raise fail(
            f"buffer_size must be greater than zero or UNKNOWN_CARDINALITY; it is {buffer_size}"
        )
    if count <= 0 and count != INFINITE:
        raise fail(f"count must be greater than zero or equal to -1; it is {count}")
    size = None if buffer_size == UNKNOWN else buffer_size
    return Elements(
        lambda: _Shuffled(input_dataset, size, seeds, count),
        lambda: repeated_count(input_dataset.cardinality(), count),
        seeds=seeds,
    )


# ---- samples


class _Sampled:
    """Gives elements for which a number in [0, 1) is drawn that is at most the rate."""

    def __init__(self, source: Iterator, rate: float, seeds: SeedSource) -> None:
        self._source = source
        self._rate = np.float32(rate)
        self._samples = Samples(*drawn(seeds))
        self._turns = Turns()

    async def next(self) -> Element | None:
        while (element := await self._source.next()) is not None:
            bits = np.array([self._samples.next()], np.uint32)
            if bits_as_float(np, bits, dtypes.float32)[0] <= self._rate:
                return element
            await self._turns.pause()
        return None


@dataset_op(
    "SamplingDataset(input_dataset: variant, rate: float, seed: int64, seed2: int64)",
    metadata=False,
)
def sampling_dataset(input_dataset: Dataset, rate: Any, seed: int, seed2: int) -> Elements:
    """Return elements by chance, each with the same probability."""
    seeds = FixedSeeds(seeds_of(seed, seed2))
    share = float(scalar(rate, "rate"))
    return Elements(lambda: _Sampled(input_dataset.iterator(), share, seeds), seeds=seeds)


# ---- random numbers


class _Random:
    __slots__ = ("_samples",)

    def __init__(self, seeds: tuple[int, int]) -> None:
        self._samples = Samples(*seeds)

    async def next(self) -> Element | None:
        return (np.int64(self._samples.next()),)


@dataset_op(
    "RandomDataset(seed: int64, seed2: int64)",
    """
    RandomDatasetV2(seed: int64, seed2: int64, seed_generator: resource)
    rerandomize_each_iteration: bool = false
    """,
    stateful=True,
)
def random_dataset(
    ctx: KernelContext,
    seed: int,
    seed2: int,
    seed_generator: Any = None,
    rerandomize_each_iteration: bool = False,
) -> Elements:
    """Return random numbers without end.

    seed_generator: a handle that may name seeds, which then stand for the others.
    """
    own = make_seeds(seeds_of(seed, seed2), rerandomize_each_iteration)
    seeds = find_seeds(ctx, seed_generator) or own
    # Numbers without end cannot be shared out: each who walks over them draws its own.
    splits = Splits(range(2**63 - 1), None)
    return Elements(lambda: _Random(drawn(seeds)), INFINITE, seeds=seeds, splits=splits)


declare_like("ExperimentalRandomDataset", "RandomDataset", without=("metadata",))
