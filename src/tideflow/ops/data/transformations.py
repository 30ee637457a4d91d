"""Datasets that choose, repeat and join the elements of others, without functions.

Source: tensorflow/core/kernels/data/{take,skip,repeat,concatenate,zip,shard,prefetch}
_dataset_op.cc, kernels/data/experimental/{unique,ignore_errors,sleep}_dataset_op.cc.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.graph import shapes as static_shapes
from tideflow.graph.op_def import declare_like, op
from tideflow.graph.shape_rules import scalar as scalar_shape
from tideflow.graph.shapes import TensorShape
from tideflow.ops.data.background import Producer
from tideflow.ops.data.functions import Turns
from tideflow.ops.data.values import (
    INFINITE,
    UNKNOWN,
    Dataset,
    Element,
    Iterator,
    as_dataset,
    fail,
    scalar,
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


@op(
    """
    TakeDataset(input_dataset: variant, count: int64) -> handle: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def take_dataset(ctx: Any, input_dataset: Any, count: Any) -> Any:
    """Return the first elements; all for a negative count."""
    source = as_dataset(input_dataset)
    most = int(scalar(count, "count"))
    if most < 0:
        return source.like("Take")

    def total() -> int:
        known = source.cardinality()
        return known if known == UNKNOWN else most if known == INFINITE else min(known, most)

    return source.like("Take", lambda: _Taken(source.iterator(), most), count=total)


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


@op(
    """
    SkipDataset(input_dataset: variant, count: int64) -> handle: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def skip_dataset(ctx: Any, input_dataset: Any, count: Any) -> Any:
    """Return all but the first elements; none for a negative count."""
    source = as_dataset(input_dataset)
    first = int(scalar(count, "count"))
    if first < 0:
        return source.like("Skip", _Ended, count=0)

    def total() -> int:
        known = source.cardinality()
        return known if known < 0 else max(0, known - first)

    return source.like("Skip", lambda: _Skipped(source.iterator(), first), count=total)


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


@op(
    """
    RepeatDataset(input_dataset: variant, count: int64) -> handle: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def repeat_dataset(ctx: Any, input_dataset: Any, count: Any) -> Any:
    """Return the elements again and again; without end for a negative count."""
    source = as_dataset(input_dataset)
    times = int(scalar(count, "count"))
    return source.like(
        "Repeat",
        lambda: _Repeated(source.iterator, times),
        count=lambda: repeated_count(source.cardinality(), times),
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


@op(
    """
    ConcatenateDataset(input_dataset: variant, another_dataset: variant) -> handle: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def concatenate_dataset(
    ctx: Any, input_dataset: Any, another_dataset: Any, *, output_shapes: list[TensorShape]
) -> Any:
    """Return the elements of one dataset followed by those of another."""
    sources = [as_dataset(input_dataset), as_dataset(another_dataset)]
    first, second = sources
    if first.types != second.types:
        names = [", ".join(dtype.name for dtype in source.types) for source in sources]
        raise fail(
            f"input dataset and dataset to concatenate have different output_types {names[0]} and "
            f"{names[1]}"
        )
    shapes = [static_shapes.relax(a, b) for a, b in zip(first.shapes, second.shapes)]
    return Dataset(
        "Concatenate",
        first.types,
        shapes,
        lambda: _Concatenated(sources),
        lambda: total_count([source.cardinality() for source in sources]),
        sources,
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


@op(
    """
    ZipDataset(input_datasets: N * variant) -> handle: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    N: int >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def zip_dataset(ctx: Any, input_datasets: list[Any]) -> Any:
    """Return elements made of one of each dataset, as long as all have one."""
    sources = [as_dataset(value) for value in input_datasets]

    def total() -> int:
        known = [source.cardinality() for source in sources]
        finite = [count for count in known if count != INFINITE]
        return UNKNOWN if UNKNOWN in known else min(finite, default=INFINITE)

    return Dataset(
        "Zip",
        [dtype for source in sources for dtype in source.types],
        [dims for source in sources for dims in source.shapes],
        lambda: _Zipped([source.iterator() for source in sources]),
        total,
        sources,
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
                if self._require_non_empty and self._at < self._count:
                    raise self._too_few()
                return None
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


def sharded(source: Dataset, count: int, index: int, require_non_empty: bool = False) -> Dataset:
    """Return every count-th element of a dataset, from the index-th on."""

    def total() -> int:
        known = source.cardinality()
        return known if known < 0 else known // count + (index < known % count)

    return source.like(
        "Shard",
        lambda: _Sharded(source.iterator(), count, index, require_non_empty),
        count=total,
    )


# A number of shards that stands for one that is not known yet.
_SHARD_HINT = -1


@op(
    """
    ShardDataset(input_dataset: variant, num_shards: int64, index: int64) -> handle: variant
    require_non_empty: bool = false
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def shard_dataset(
    ctx: Any, input_dataset: Any, num_shards: Any, index: Any, *, require_non_empty: bool
) -> Any:
    """Return every num_shards-th element."""
    count, own = int(scalar(num_shards, "num_shards")), int(scalar(index, "index"))
    if count == _SHARD_HINT:
        raise errors.FailedPreconditionError(
            f"num_shards = {count} stands for a number that a strategy puts in its place when it "
            "shards by the hint; no strategy has done so here"
        )
    if count <= 0:
        raise fail(f"Number of shards must be greater than zero (currently num_shards = {count}).")
    if not 0 <= own < count:
        raise fail(
            f"Index must be between 0 and {count - 1} (currently index = {own}, "
            f"num_shards = {count})."
        )
    return sharded(as_dataset(input_dataset), count, own, require_non_empty)


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


@op(
    """
    PrefetchDataset(input_dataset: variant, buffer_size: int64) -> handle: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    slack_period: int = 0
    legacy_autotune: bool = true
    buffer_size_min: int = 0
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def prefetch_dataset(ctx: Any, input_dataset: Any, buffer_size: Any) -> Any:
    """Return the same elements, made ahead."""
    source = as_dataset(input_dataset)
    size = int(scalar(buffer_size, "buffer_size"))
    if size < -1:
        raise fail(
            f"buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning; it is {size}"
        )
    if size == 0:
        return source.like("Prefetch")
    capacity = _AUTOTUNED_BUFFER if size < 0 else size
    return source.like("Prefetch", lambda: Prefetched(source.iterator(), capacity))


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


def _hashable(value: Any) -> Any:
    if isinstance(value, bytes):
        return value
    array = np.asarray(value)
    flat = tuple(array.reshape(-1).tolist()) if array.dtype == object else array.tobytes()
    return array.shape, flat


@op(
    """
    UniqueDataset(input_dataset: variant) -> handle: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def unique_dataset(ctx: Any, input_dataset: Any) -> Any:
    """Return each value once, where it comes first."""
    source = as_dataset(input_dataset)
    if len(source.types) != 1:
        raise fail("UniqueDataset only supports inputs with a single component.")
    return source.like("Unique", lambda: _Unique(source.iterator()), count=UNKNOWN)


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


@op(
    """
    IgnoreErrorsDataset(input_dataset: variant) -> handle: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    log_warning: bool = false
    """,
    shape=scalar_shape,
)
def ignore_errors_dataset(ctx: Any, input_dataset: Any) -> Any:
    """Return the elements that could be made."""
    source = as_dataset(input_dataset)
    return source.like("IgnoreErrors", lambda: _Forgiving(source.iterator()), count=UNKNOWN)


class _Slow:
    __slots__ = ("_seconds", "_source")

    def __init__(self, source: Iterator, seconds: float) -> None:
        self._source = source
        self._seconds = seconds

    async def next(self) -> Element | None:
        await asyncio.sleep(self._seconds)
        return await self._source.next()


@op(
    """
    SleepDataset(input_dataset: variant, sleep_microseconds: int64) -> handle: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=scalar_shape,
)
def sleep_dataset(ctx: Any, input_dataset: Any, sleep_microseconds: Any) -> Any:
    """Return the elements, each after a pause."""
    source = as_dataset(input_dataset)
    pause = int(scalar(sleep_microseconds, "sleep_microseconds"))
    if pause < 0:
        raise fail(f"sleep_microseconds must be >= 0; it is {pause}")
    return source.like("Sleep", lambda: _Slow(source.iterator(), pause / 1e6))


declare_like("ExperimentalSleepDataset", "SleepDataset")
declare_like("ExperimentalIgnoreErrorsDataset", "IgnoreErrorsDataset")
declare_like("ExperimentalUniqueDataset", "UniqueDataset", without=("metadata",))
