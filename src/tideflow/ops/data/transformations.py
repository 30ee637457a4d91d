"""Datasets that choose, repeat and join the elements of others, without functions.

Source: tensorflow/core/kernels/data/{take,skip,repeat,concatenate,zip,shard,prefetch}
_dataset_op.cc, kernels/data/experimental/{unique,ignore_errors,sleep}_dataset_op.cc.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.blocking import Turns
from tideflow.graph import shapes as static_shapes
from tideflow.graph.op_def import declare_like
from tideflow.ops.data.background import Producer
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.values import (
    INFINITE,
    UNKNOWN,
    Dataset,
    Element,
    Iterator,
    fail,
)
from tideflow.wire import errors

# How many elements are prefetched where that is left to us.
_AUTOTUNED_BUFFER = 8


class _Ended:
    """Gives nothing."""

    __slots__ = ()

    async def next(self) -> Element | None:
        return None


class _Taken:
    __slots__ = ("_left", "_source")

    def __init__(self, source: Iterator, count: int) -> None:
        self._source: Iterator | None = source
        self._left = count

    async def next(self) -> Element | None:
        if self._source is None:
            return None
        if self._left:
            element = await self._source.next()
            if element is not None:
                self._left -= 1
                return element
        self._source = None
        return None


@dataset_op("TakeDataset(input_dataset: variant, count: int64)", same_elements=True, direct=True)
def take_dataset(input_dataset: Dataset, count: int) -> Elements:
    """Return the first elements; all for a negative count."""
    if count < 0:
        return Elements()

    def total() -> int:
        known = input_dataset.cardinality()
        return known if known == UNKNOWN else count if known == INFINITE else min(known, count)

    return Elements(lambda: _Taken(input_dataset.iterator(), count), total)


class _Skipped:
    __slots__ = ("_left", "_source", "_turns")

    def __init__(self, source: Iterator, count: int) -> None:
        self._source = source
        self._left = count
        self._turns = Turns()

    async def next(self) -> Element | None:
        while self._left:
            if await self._source.next() is None:
                self._left = 0
                self._source = _Ended()
                break
            self._left -= 1
            await self._turns.pause()
        return await self._source.next()


@dataset_op("SkipDataset(input_dataset: variant, count: int64)", same_elements=True, direct=True)
def skip_dataset(input_dataset: Dataset, count: int) -> Elements:
    """Return all but the first elements; none for a negative count."""
    if count < 0:
        return Elements(_Ended, 0)

    def total() -> int:
        known = input_dataset.cardinality()
        return known if known < 0 else max(0, known - count)

    return Elements(lambda: _Skipped(input_dataset.iterator(), count), total)


class _Repeated:
    __slots__ = ("_left", "_make", "_source", "_turns", "_yielded")

    def __init__(self, make: Callable[[], Iterator], count: int) -> None:
        self._make = make
        self._left = count
        self._source: Iterator | None = None
        self._yielded = False
        self._turns = Turns()

    async def next(self) -> Element | None:
        while self._left:
            if self._source is None:
                self._source = self._make()
                self._yielded = False
            element = await self._source.next()
            if element is not None:
                self._yielded = True
                return element
            self._source = None
            # What is empty would be repeated forever without giving anything.
            self._left = self._left - 1 if self._left > 0 else -1 if self._yielded else 0
            await self._turns.pause()
        return None


def repeated_count(known: int, times: int) -> int:
    """Return how many elements there are when `known` ones are repeated."""
    if times == 0 or known == 0:
        return 0
    if times < 0:
        return INFINITE
    return known if known < 0 else known * times


@dataset_op("RepeatDataset(input_dataset: variant, count: int64)", same_elements=True, direct=True)
def repeat_dataset(input_dataset: Dataset, count: int) -> Elements:
    """Return the elements again and again; without end for a negative count."""
    return Elements(
        lambda: _Repeated(input_dataset.iterator, count),
        lambda: repeated_count(input_dataset.cardinality(), count),
    )


class _Concatenated:
    __slots__ = ("_datasets", "_source")

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        self._datasets = list(datasets)
        self._source: Iterator | None = None

    async def next(self) -> Element | None:
        while self._source is not None or self._datasets:
            if self._source is None:
                self._source = self._datasets.pop(0).iterator()
            element = await self._source.next()
            if element is not None:
                return element
            self._source = None
        return None


def total_count(known: Sequence[int]) -> int:
    """Return the cardinality of datasets one after the other."""
    if INFINITE in known:
        return INFINITE
    return UNKNOWN if UNKNOWN in known else sum(known)


@dataset_op(
    "ConcatenateDataset(input_dataset: variant, another_dataset: variant)",
    same_elements=True,
    direct=True,
)
def concatenate_dataset(input_dataset: Dataset, another_dataset: Dataset) -> Elements:
    """Return the elements of one dataset followed by those of another."""
    sources = [input_dataset, another_dataset]
    if input_dataset.types != another_dataset.types:
        names = [", ".join(dtype.name for dtype in source.types) for source in sources]
        raise fail(
            f"input dataset and dataset to concatenate have different output_types {names[0]} and "
            f"{names[1]}"
        )
    return Elements(
        lambda: _Concatenated(sources),
        lambda: total_count([source.cardinality() for source in sources]),
        shapes=[
            static_shapes.relax(a, b) for a, b in zip(input_dataset.shapes, another_dataset.shapes)
        ],
    )


class _Zipped:
    __slots__ = ("_sources",)

    def __init__(self, sources: Sequence[Iterator]) -> None:
        self._sources = sources

    async def next(self) -> Element | None:
        taken: list[Any] = []
        for source in self._sources:
            element = await source.next()
            if element is None:
                self._sources = ()
                break
            taken.extend(element)
        return tuple(taken) if self._sources else None


@dataset_op(
    """
    ZipDataset(input_datasets: N * variant)
    N: int >= 1
    """,
    direct=True,
)
def zip_dataset(input_datasets: list[Dataset]) -> Elements:
    """Return elements made of one of each dataset, as long as all have one."""

    def total() -> int:
        known = [source.cardinality() for source in input_datasets]
        finite = [count for count in known if count != INFINITE]
        return UNKNOWN if UNKNOWN in known else min(finite, default=INFINITE)

    return Elements(
        lambda: _Zipped([source.iterator() for source in input_datasets]),
        total,
        types=[dtype for source in input_datasets for dtype in source.types],
        shapes=[dims for source in input_datasets for dims in source.shapes],
    )


class _Sharded:
    """Gives every count-th element.

    Source: shard_dataset_op.cc; with require_non_empty, each shard must have an element.
    """

    __slots__ = ("_at", "_count", "_index", "_require_non_empty", "_source", "_turns")

    def __init__(self, source: Iterator, count: int, index: int, require_non_empty: bool) -> None:
        self._source = source
        self._count = count
        self._index = index
        self._require_non_empty = require_non_empty
        self._at = 0
        self._turns = Turns()

    async def next(self) -> Element | None:
        while True:
            element = await self._source.next()
            if element is None:
                return None  # a shard without elements ends; the others say what is wrong
            at = self._at
            self._at += 1
            if at % self._count == self._index:
                await self._look_for_others()
                return element
            await self._turns.pause()

    async def _look_for_others(self) -> None:
        """Go on until each shard has had an element, where none may be empty."""
        while self._require_non_empty and self._at < self._count:
            if await self._source.next() is None:
                raise self._too_few()
            self._at += 1
            await self._turns.pause()

    def _too_few(self) -> errors.OpError:
        return fail(
            f"Could not apply FILE based sharding: the dataset only has {self._at} file(s), which "
            f"is not enough for the required {self._count} shards/workers."
        )


def sharded(source: Dataset, count: int, index: int, require_non_empty: bool = False) -> Elements:
    """Return every count-th element of a dataset, from the index-th on."""

    def total() -> int:
        known = source.cardinality()
        return known if known < 0 else known // count + (index < known % count)

    return Elements(lambda: _Sharded(source.iterator(), count, index, require_non_empty), total)


# A number of shards that stands for one that is not known yet (see shard_hints.py).
SHARD_HINT = -1


def _refuse_hint() -> Iterator:
    raise errors.FailedPreconditionError(
        "`tf.data.Dataset.shard(SHARD_HINT, ...)` can only be used where a strategy distributes "
        "datasets with AutoShardPolicy.HINT, or the tf.data service with ShardingPolicy.HINT"
    )


@dataset_op(
    """
    ShardDataset(input_dataset: variant, num_shards: int64, index: int64)
    require_non_empty: bool = false
    """,
    same_elements=True,
    direct=True,
)
def shard_dataset(
    input_dataset: Dataset, num_shards: int, index: int, require_non_empty: bool
) -> Elements:
    """Return every num_shards-th element."""
    if num_shards == SHARD_HINT:
        return Elements(_refuse_hint, UNKNOWN)
    if num_shards <= 0:
        raise fail(
            f"Number of shards must be greater than zero (currently num_shards = {num_shards})."
        )
    if not 0 <= index < num_shards:
        raise fail(
            f"Index must be between 0 and {num_shards - 1} (currently index = {index}, "
            f"num_shards = {num_shards})."
        )
    return sharded(input_dataset, num_shards, index, require_non_empty)


class Prefetched:
    """Gives the elements of another iterator, some of which are made before they are asked for."""

    __slots__ = ("_producer",)

    def __init__(self, source: Iterator, capacity: int) -> None:
        self._producer = Producer(source.next, capacity)

    async def next(self) -> Element | None:
        element: Element | None = await self._producer.take()
        return element

    def start(self) -> None:
        """Begin before the first element is asked for."""
        self._producer.start()


@dataset_op(
    """
    PrefetchDataset(input_dataset: variant, buffer_size: int64)
    slack_period: int = 0
    legacy_autotune: bool = true
    buffer_size_min: int = 0
    """,
    same_elements=True,
)
def prefetch_dataset(input_dataset: Dataset, buffer_size: int) -> Elements:
    """Return the same elements, made ahead."""
    if buffer_size < -1:
        raise fail(
            "buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning; it is "
            f"{buffer_size}"
        )
    if buffer_size == 0:
        return Elements()
    capacity = _AUTOTUNED_BUFFER if buffer_size < 0 else buffer_size
    return Elements(lambda: Prefetched(input_dataset.iterator(), capacity))


class _Unique:
    __slots__ = ("_seen", "_source", "_turns")

    def __init__(self, source: Iterator) -> None:
        self._source = source
        self._seen: set[Any] = set()
        self._turns = Turns()

    async def next(self) -> Element | None:
        while True:
            element = await self._source.next()
            if element is None:
                return None
            key = _hashable(element[0])
            if key not in self._seen:
                self._seen.add(key)
                return element
            await self._turns.pause()


def _hashable(value: object) -> Any:
    if isinstance(value, bytes):
        return value
    array = np.asarray(value)
    flat = tuple(array.reshape(-1).tolist()) if array.dtype == object else array.tobytes()
    return array.shape, flat


@dataset_op("UniqueDataset(input_dataset: variant)", same_elements=True)
def unique_dataset(input_dataset: Dataset) -> Elements:
    """Return each value once, where it comes first."""
    if len(input_dataset.types) != 1:
        raise fail("UniqueDataset only supports inputs with a single component.")
    return Elements(lambda: _Unique(input_dataset.iterator()), UNKNOWN)


class _Forgiving:
    __slots__ = ("_source", "_turns")

    def __init__(self, source: Iterator) -> None:
        self._source = source
        self._turns = Turns()

    async def next(self) -> Element | None:
        while True:
            try:
                return await self._source.next()
            except errors.OpError:
                await self._turns.pause()


@dataset_op(
    """
    IgnoreErrorsDataset(input_dataset: variant)
    log_warning: bool = false
    """,
    same_elements=True,
    metadata=False,
)
def ignore_errors_dataset(input_dataset: Dataset) -> Elements:
    """Return the elements that could be made."""
    return Elements(lambda: _Forgiving(input_dataset.iterator()), UNKNOWN)


class _Slow:
    __slots__ = ("_seconds", "_source")

    def __init__(self, source: Iterator, seconds: float) -> None:
        self._source = source
        self._seconds = seconds

    async def next(self) -> Element | None:
        await asyncio.sleep(self._seconds)
        return await self._source.next()


@dataset_op(
    "SleepDataset(input_dataset: variant, sleep_microseconds: int64)",
    same_elements=True,
    metadata=False,
)
def sleep_dataset(input_dataset: Dataset, sleep_microseconds: int) -> Elements:
    """Return the elements, each after a pause."""
    if sleep_microseconds < 0:
        raise fail(f"sleep_microseconds must be >= 0; it is {sleep_microseconds}")
    return Elements(lambda: _Slow(input_dataset.iterator(), sleep_microseconds / 1e6))


declare_like("ExperimentalSleepDataset", "SleepDataset")
declare_like("ExperimentalIgnoreErrorsDataset", "IgnoreErrorsDataset")
declare_like("ExperimentalUniqueDataset", "UniqueDataset", without=("metadata",))
