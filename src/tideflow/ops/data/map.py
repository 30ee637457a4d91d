"""Datasets that run a function on each element of another.

Parallel forms run several calls at once, where calls wait or take long.  With determinism their
order is that of the input.

Source: tensorflow/core/kernels/data/{map,filter,parallel_map,parallel_filter}_dataset_op.cc,
kernels/data/experimental/{take_while,map_and_batch}_dataset_op.cc.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tideflow.graph.node import FunctionRef
from tideflow.graph.op_def import declare_like, op
from tideflow.graph.shape_rules import scalar as scalar_shape
from tideflow.graph.shapes import TensorShape
from tideflow.ops.data.background import Producer, start_task
from tideflow.ops.data.batch import batched
from tideflow.ops.data.functions import Function, Turns
from tideflow.ops.data.values import (
    UNKNOWN,
    Dataset,
    Element,
    Iterator,
    as_dataset,
    dims_of,
    fail,
    owned,
    positive,
    scalar,
)
from tideflow.wire.dtypes import DType


def parallelism(value: Any, what: str = "num_parallel_calls") -> int:
    """Return how many calls may run at once; -1 leaves it to us.

    Raises: InvalidArgumentError for zero and less.
    """
    found = int(scalar(value, what))
    if found == -1:
        return max(2, os.cpu_count() or 1)
    if found <= 0:
        raise fail(f"{what} must be greater than zero; it is {found}")
    return found


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
        begun: asyncio.Future[Element | None]
        if self._function.is_quick:
            begun = loop.create_future()
            try:
                begun.set_result(await call)
            except Exception as error:
                begun.set_exception(error)
                _note(begun)
        else:
            begun = start_task(call)
            begun.add_done_callback(_note)
        return begun


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


def _map_dataset(
    source: Dataset,
    iterate: Callable[[], Iterator],
    types: Sequence[DType],
    shapes: Sequence[TensorShape],
    preserves: bool,
) -> Dataset:
    count = source.cardinality if preserves else UNKNOWN
    return Dataset("Map", types, dims_of(shapes), iterate, count, [source])


@op(
    """
    MapDataset(input_dataset: variant, other_arguments: *Targuments) -> handle: variant
    f: func
    Targuments: list(type) >= 0
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    use_inter_op_parallelism: bool = true
    preserve_cardinality: bool = false
    force_synchronous: bool = false
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def map_dataset(
    ctx: Any,
    input_dataset: Any,
    other_arguments: list[Any],
    *,
    f: FunctionRef,
    output_types: list[DType],
    output_shapes: list[TensorShape],
    preserve_cardinality: bool,
) -> Any:
    """Return what a function makes of each element."""
    source = as_dataset(input_dataset)
    captured = [owned(value) for value in other_arguments]
    return _map_dataset(
        source,
        lambda: _Mapped(source.iterator(), Function(ctx, f, captured), preserve_cardinality),
        output_types,
        output_shapes,
        preserve_cardinality,
    )


declare_like("ExperimentalMapDataset", "MapDataset", without=("metadata",))


def _parallel_map(
    ctx: Any,
    source: Dataset,
    captured: Sequence[Any],
    f: FunctionRef,
    most: int,
    in_order: bool,
    types: Sequence[DType],
    shapes: Sequence[TensorShape],
    preserves: bool,
) -> Dataset:
    kept = [owned(value) for value in captured]

    def iterate() -> Iterator:
        calls = _Calls(source.iterator(), Function(ctx, f, kept), preserves)
        return _ParallelMapped(calls, most, in_order)

    return _map_dataset(source, iterate, types, shapes, preserves)


@op(
    """
    ParallelMapDatasetV2(
        input_dataset: variant, other_arguments: *Targuments, num_parallel_calls: int64
    ) -> handle: variant
    f: func
    Targuments: list(type) >= 0
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    use_inter_op_parallelism: bool = true
    deterministic: string = 'default'
    preserve_cardinality: bool = false
    use_unbounded_threadpool: bool = false
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def parallel_map_dataset_v2(
    ctx: Any,
    input_dataset: Any,
    other_arguments: list[Any],
    num_parallel_calls: Any,
    *,
    f: FunctionRef,
    output_types: list[DType],
    output_shapes: list[TensorShape],
    deterministic: str,
    preserve_cardinality: bool,
) -> Any:
    """Return what a function makes of each element; several calls run at once."""
    return _parallel_map(
        ctx,
        as_dataset(input_dataset),
        other_arguments,
        f,
        parallelism(num_parallel_calls),
        is_deterministic(deterministic),
        output_types,
        output_shapes,
        preserve_cardinality,
    )


@op(
    """
    ParallelMapDataset(
        input_dataset: variant, other_arguments: *Targuments, num_parallel_calls: int32
    ) -> handle: variant
    f: func
    Targuments: list(type) >= 0
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    use_inter_op_parallelism: bool = true
    sloppy: bool = false
    preserve_cardinality: bool = false
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def parallel_map_dataset(
    ctx: Any,
    input_dataset: Any,
    other_arguments: list[Any],
    num_parallel_calls: Any,
    *,
    f: FunctionRef,
    output_types: list[DType],
    output_shapes: list[TensorShape],
    sloppy: bool,
    preserve_cardinality: bool,
) -> Any:
    """Return what a function makes of each element; several calls run at once."""
    return _parallel_map(
        ctx,
        as_dataset(input_dataset),
        other_arguments,
        f,
        parallelism(num_parallel_calls),
        not sloppy,
        output_types,
        output_shapes,
        preserve_cardinality,
    )


@op(
    """
    MapAndBatchDataset(
        input_dataset: variant, other_arguments: *Targuments, batch_size: int64,
        num_parallel_calls: int64, drop_remainder: bool
    ) -> handle: variant
    f: func
    Targuments: list(type) >= 0
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    preserve_cardinality: bool = false
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def map_and_batch_dataset(
    ctx: Any,
    input_dataset: Any,
    other_arguments: list[Any],
    batch_size: Any,
    num_parallel_calls: Any,
    drop_remainder: Any,
    *,
    f: FunctionRef,
    output_types: list[DType],
    output_shapes: list[TensorShape],
    preserve_cardinality: bool,
) -> Any:
    """Return batches of what a function makes of each element."""
    size = positive(batch_size, "batch_size")
    most = parallelism(num_parallel_calls)
    mapped = _parallel_map(
        ctx,
        as_dataset(input_dataset),
        other_arguments,
        f,
        most,
        True,
        output_types,
        [TensorShape(None)] * len(output_types),
        preserve_cardinality,
    )
    drop = bool(scalar(drop_remainder, "drop_remainder"))
    return batched("MapAndBatch", mapped, size, drop, output_types, dims_of(output_shapes))


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


def _filtered(ctx: Any, source: Dataset, captured: list[Any], predicate: FunctionRef) -> Dataset:
    def iterate() -> Iterator:
        function = Function(ctx, predicate, captured)

        async def holds(element: Element) -> bool:
            return await function.truth(*element, what="Filter predicate `f`")

        return _Filtered(source.iterator(), holds)

    return source.like("Filter", iterate, count=UNKNOWN)


@op(
    """
    FilterDataset(input_dataset: variant, other_arguments: *Targuments) -> handle: variant
    predicate: func
    Targuments: list(type) >= 0
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def filter_dataset(
    ctx: Any, input_dataset: Any, other_arguments: list[Any], *, predicate: FunctionRef
) -> Any:
    """Return the elements for which a function gives true."""
    captured = [owned(value) for value in other_arguments]
    return _filtered(ctx, as_dataset(input_dataset), captured, predicate)


@op(
    """
    ParallelFilterDataset(
        input_dataset: variant, other_arguments: *Targuments, num_parallel_calls: int64
    ) -> handle: variant
    predicate: func
    deterministic: string = 'default'
    Targuments: list(type) >= 0
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def parallel_filter_dataset(
    ctx: Any,
    input_dataset: Any,
    other_arguments: list[Any],
    num_parallel_calls: Any,
    *,
    predicate: FunctionRef,
) -> Any:
    """Return the elements for which a function gives true."""
    parallelism(num_parallel_calls)
    captured = [owned(value) for value in other_arguments]
    return _filtered(ctx, as_dataset(input_dataset), captured, predicate)


@op(
    """
    FilterByLastComponentDataset(input_dataset: variant) -> output: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=scalar_shape,
)
def filter_by_last_component_dataset(
    ctx: Any, input_dataset: Any, *, output_types: list[DType], output_shapes: list[TensorShape]
) -> Any:
    """Return the elements whose last component is true, without that component."""
    source = as_dataset(input_dataset)

    async def holds(element: Element) -> bool:
        return bool(element[-1])

    def iterate() -> Iterator:
        return _WithoutLast(_Filtered(source.iterator(), holds))

    return Dataset("Filter", output_types, dims_of(output_shapes), iterate, UNKNOWN, [source])


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


@op(
    """
    TakeWhileDataset(input_dataset: variant, other_arguments: *Targuments) -> handle: variant
    predicate: func
    Targuments: list(type) >= 0
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def take_while_dataset(
    ctx: Any, input_dataset: Any, other_arguments: list[Any], *, predicate: FunctionRef
) -> Any:
    """Return the elements up to the first for which a function gives false."""
    source = as_dataset(input_dataset)
    captured = [owned(value) for value in other_arguments]
    return source.like(
        "TakeWhile",
        lambda: _TakenWhile(source.iterator(), Function(ctx, predicate, captured)),
        count=UNKNOWN,
    )


declare_like("ExperimentalTakeWhileDataset", "TakeWhileDataset", without=("metadata",))
