"""Datasets that run a function on each element of another.

Parallel forms run several calls at once, where calls wait or take long.  With determinism their
order is that of the input.

Source: tensorflow/core/kernels/data/{map,filter,parallel_map,parallel_filter}_dataset_op.cc,
kernels/data/experimental/{take_while,map_and_batch}_dataset_op.cc.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tideflow.blocking import Turns, spawn
from tideflow.graph.op_def import declare_like
from tideflow.ops.data.background import Producer
from tideflow.ops.data.batch import batched, batches_of
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.functions import CapturedFunction, Function
from tideflow.ops.data.values import UNKNOWN, Dataset, Element, Iterator, check_positive
from tideflow.platform.processors import usable_processors
from tideflow.wire.dtypes import DType


def parallelism(calls: int, what: str = "num_parallel_calls") -> int:
    """Return how many calls may run at once; -1 leaves it to us.

    Raises: InvalidArgumentError for zero and less.
    """
    if calls == -1:
        return max(2, usable_processors())
    return check_positive(calls, what)


class _Mapped:
    __slots__ = ("_ended", "_function", "_preserves", "_source", "_turns")

    def __init__(self, source: Iterator, function: Function, preserves: bool) -> None:
        self._source = source
        self._function = function
        self._preserves = preserves
        self._ended = False
        self._turns = Turns()

    async def next(self) -> Element | None:
        if self._ended:
            return None
        element = await self._source.next()
        if element is not None:
            await self._turns.pause()
            element = await self._function.element(*element, preserves_cardinality=self._preserves)
        self._ended = element is None
        return element


class _Calls:
    """Starts calls of a function on the elements of an iterator; each is a future."""

    __slots__ = ("_function", "_preserves", "_source")

    def __init__(self, source: Iterator, function: Function, preserves: bool) -> None:
        self._source = source
        self._function = function
        self._preserves = preserves

    async def start(self) -> asyncio.Future[Element | None] | None:
        element = await self._source.next()
        if element is None:
            return None
        loop = asyncio.get_running_loop()
        call = self._function.element(*element, preserves_cardinality=self._preserves)
        started: asyncio.Future[Element | None]
        if self._function.is_quick:
            started = loop.create_future()
            try:
                started.set_result(await call)
            except Exception as error:
                started.set_exception(error)
                _note(started)
        else:
            started = spawn(call)
            started.add_done_callback(_note)
        return started


def _note(future: asyncio.Future[Any]) -> None:
    """Ask for the error of a call, so that it is not complained of when nobody takes it."""
    if not future.cancelled():
        future.exception()


class _ParallelMapped:
    __slots__ = ("_ended", "_in_order", "_producer")

    def __init__(self, calls: _Calls, most: int, in_order: bool) -> None:
        self._producer = Producer(calls.start, most)
        self._in_order = in_order
        self._ended = False

    async def next(self) -> Element | None:
        if self._ended:
            return None
        call = await self._producer.take_done(self._in_order)
        element: Element | None = None if call is None else call.result()
        self._ended = element is None
        return element


def is_deterministic(text: str) -> bool:
    """Return what a `deterministic` attr means; the default is true."""
    return text != "false"


@dataset_op(
    """
    MapDataset(input_dataset: variant, other_arguments: *Targuments)
    f: func
    use_inter_op_parallelism: bool = true
    preserve_cardinality: bool = false
    force_synchronous: bool = false
    """,
    direct=True,
)
def map_dataset(
    input_dataset: Dataset, f: CapturedFunction, preserve_cardinality: bool
) -> Elements:
    """Return what a function makes of each element."""
    return Elements(
        lambda: _Mapped(input_dataset.iterator(), f.instantiate(), preserve_cardinality),
        input_dataset.cardinality if preserve_cardinality else UNKNOWN,
    )


declare_like("ExperimentalMapDataset", "MapDataset", without=("metadata",))


def _parallel_map(
    source: Dataset, f: CapturedFunction, calls: int, in_order: bool, preserves: bool
) -> Callable[[], Iterator]:
    most = parallelism(calls)

    def iterate() -> Iterator:
        started = _Calls(source.iterator(), f.instantiate(), preserves)
        return _ParallelMapped(started, most, in_order)

    return iterate


@dataset_op(
    """
    ParallelMapDataset(
        input_dataset: variant, other_arguments: *Targuments, num_parallel_calls: int32
    )
    f: func
    use_inter_op_parallelism: bool = true
    sloppy: bool = false
    preserve_cardinality: bool = false
    """,
    """
    ParallelMapDatasetV2(
        input_dataset: variant, other_arguments: *Targuments, num_parallel_calls: int64
    )
    f: func
    use_inter_op_parallelism: bool = true
    deterministic: string = 'default'
    preserve_cardinality: bool = false
    use_unbounded_threadpool: bool = false
    """,
)
def parallel_map_dataset(
    input_dataset: Dataset,
    f: CapturedFunction,
    num_parallel_calls: int,
    preserve_cardinality: bool,
    sloppy: bool = False,
    deterministic: str = "default",
) -> Elements:
    """Return what a function makes of each element; several calls run at once."""
    in_order = is_deterministic(deterministic) and not sloppy
    return Elements(
        _parallel_map(input_dataset, f, num_parallel_calls, in_order, preserve_cardinality),
        input_dataset.cardinality if preserve_cardinality else UNKNOWN,
    )


@dataset_op(
    """
    MapAndBatchDataset(
        input_dataset: variant, other_arguments: *Targuments, batch_size: int64,
        num_parallel_calls: int64, drop_remainder: bool
    )
    f: func
    preserve_cardinality: bool = false
    """
)
def map_and_batch_dataset(
    input_dataset: Dataset,
    f: CapturedFunction,
    batch_size: int,
    num_parallel_calls: int,
    drop_remainder: bool,
    preserve_cardinality: bool,
    output_types: list[DType],
) -> Elements:
    """Return batches of what a function makes of each element."""
    check_positive(batch_size, "batch_size")
    return batched(
        _parallel_map(input_dataset, f, num_parallel_calls, True, preserve_cardinality),
        input_dataset.cardinality if preserve_cardinality else lambda: UNKNOWN,
        batch_size,
        drop_remainder,
        batches_of(output_types),
    )


declare_like("ExperimentalMapAndBatchDataset", "MapAndBatchDataset", without=("metadata",))


# ---- choosing by a function


class _Filtered:
    __slots__ = ("_holds", "_source", "_turns")

    def __init__(self, source: Iterator, holds: Callable[..., Awaitable[bool]]) -> None:
        self._source = source
        self._holds = holds
        self._turns = Turns()

    async def next(self) -> Element | None:
        while True:
            element = await self._source.next()
            if element is None or await self._holds(element):
                return element
            await self._turns.pause()


@dataset_op(
    """
    FilterDataset(input_dataset: variant, other_arguments: *Targuments)
    predicate: func
    """,
    """
    ParallelFilterDataset(
        input_dataset: variant, other_arguments: *Targuments, num_parallel_calls: int64
    )
    predicate: func
    deterministic: string = 'default'
    """,
    same_elements=True,
    direct=True,
)
def filter_dataset(
    input_dataset: Dataset, predicate: CapturedFunction, num_parallel_calls: int = -1
) -> Elements:
    """Return the elements for which a function gives true."""
    parallelism(num_parallel_calls)

    def iterate() -> Iterator:
        function = predicate.instantiate()

        async def holds(element: Element) -> bool:
            return await function.truth(*element, what="Filter predicate `f`")

        return _Filtered(input_dataset.iterator(), holds)

    return Elements(iterate, UNKNOWN)


@dataset_op(
    "FilterByLastComponentDataset(input_dataset: variant) -> output: variant", metadata=False
)
def filter_by_last_component_dataset(input_dataset: Dataset) -> Elements:
    """Return the elements whose last component is true, without that component."""

    async def holds(element: Element) -> bool:
        return bool(element[-1])

    return Elements(
        lambda: _WithoutLast(_Filtered(input_dataset.iterator(), holds)),
        batch_size=input_dataset.batch_size,
    )


class _WithoutLast:
    __slots__ = ("_source",)

    def __init__(self, source: Iterator) -> None:
        self._source = source

    async def next(self) -> Element | None:
        element = await self._source.next()
        return None if element is None else element[:-1]


class _TakenWhile:
    __slots__ = ("_function", "_source")

    def __init__(self, source: Iterator, function: Function) -> None:
        self._source: Iterator | None = source
        self._function = function

    async def next(self) -> Element | None:
        if self._source is None:
            return None
        element = await self._source.next()
        if element is not None and await self._function.truth(*element, what="`predicate`"):
            return element
        self._source = None
        return None


@dataset_op(
    """
    TakeWhileDataset(input_dataset: variant, other_arguments: *Targuments)
    predicate: func
    """,
    same_elements=True,
    direct=True,
)
def take_while_dataset(input_dataset: Dataset, predicate: CapturedFunction) -> Elements:
    """Return the elements up to the first for which a function gives false."""
    return Elements(lambda: _TakenWhile(input_dataset.iterator(), predicate.instantiate()), UNKNOWN)


declare_like("ExperimentalTakeWhileDataset", "TakeWhileDataset", without=("metadata",))
