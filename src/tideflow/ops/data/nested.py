"""Datasets of what a function makes of each element where that is a dataset again.

Source: tensorflow/core/kernels/data/{flat_map,interleave,parallel_interleave}_dataset_op.cc,
kernels/data/experimental/parallel_interleave_dataset_op.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph.node import FunctionRef
from tideflow.graph.op_def import declare_like, op
from tideflow.graph.shape_rules import scalar as scalar_shape
from tideflow.graph.shapes import TensorShape
from tideflow.ops.data.functions import Function, Turns
from tideflow.ops.data.map import parallelism
from tideflow.ops.data.transformations import Prefetched
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
from tideflow.wire import errors
from tideflow.wire.dtypes import DType


async def made_dataset(function: Function, *args: Any) -> Dataset | None:
    """Return the dataset that a function makes; None where it says that input has ended."""
    found = await function.element(*args)
    if found is None:
        return None
    if len(found) != 1:
        raise fail("The function must return a single scalar of dtype DT_VARIANT.")
    return as_dataset(found[0])


class _FlatMapped:
    __slots__ = ("_current", "_function", "_source", "_turns")

    def __init__(self, source: Iterator, function: Function) -> None:
        self._source: Iterator | None = source
        self._function = function
        self._current: Iterator | None = None
        self._turns = Turns()

    async def next(self) -> Element | None:
        while self._source is not None:
            if self._current is None:
                element = await self._source.next()
                dataset = None if element is None else await made_dataset(self._function, *element)
                if dataset is None:
                    self._source = None
                    break
                self._current = dataset.iterator()
            found = await self._current.next()
            if found is not None:
                return found
            self._current = None
            await self._turns.pause()
        return None


@op(
    """
    FlatMapDataset(input_dataset: variant, other_arguments: *Targuments) -> handle: variant
    f: func
    Targuments: list(type) >= 0
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def flat_map_dataset(
    ctx: Any,
    input_dataset: Any,
    other_arguments: list[Any],
    *,
    f: FunctionRef,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Return the elements of the datasets that a function makes, one dataset after the other."""
    source = as_dataset(input_dataset)
    captured = [owned(value) for value in other_arguments]
    return Dataset(
        "FlatMap",
        output_types,
        dims_of(output_shapes),
        lambda: _FlatMapped(source.iterator(), Function(ctx, f, captured)),
        UNKNOWN,
        [source],
    )


class _Failed:
    """The iterator of a dataset that could not be made: it raises once, then it has ended."""

    __slots__ = ("_error",)

    def __init__(self, error: errors.OpError) -> None:
        self._error: errors.OpError | None = error

    async def next(self) -> Element | None:
        error, self._error = self._error, None
        if error is not None:
            raise error
        return None


class _Interleaved:
    """Takes turns between the datasets that a function makes.

    Args:
      cycle: how many are open at once.
      block: how many elements are taken of one before it is the next one's turn.
      ahead: how many elements of each are made before they are asked for; 0 for none.
    """

    __slots__ = ("_ahead", "_at", "_begun", "_block", "_function", "_open", "_source", "_taken",
                 "_turns")  # fmt: skip

    def __init__(
        self, source: Iterator, function: Function, cycle: int, block: int, ahead: int
    ) -> None:
        self._source: Iterator | None = source
        self._function = function
        self._open: list[Iterator | None] = [None] * cycle
        self._block = block
        self._ahead = ahead
        self._at = 0
        self._taken = 0
        self._begun = False
        self._turns = Turns()

    async def next(self) -> Element | None:
        if self._ahead:
            await self._open_all()
        while self._source is not None or any(one is not None for one in self._open):
            current = self._open[self._at]
            if current is not None:
                element = await current.next()
                if element is not None:
                    self._taken += 1
                    if self._taken == self._block:
                        self._advance()
                    return element
                self._open[self._at] = None
                self._advance()
            elif self._source is not None:
                self._open[self._at] = await self._open_next()
            else:
                self._advance()
            await self._turns.pause()
        return None

    def _advance(self) -> None:
        self._at = (self._at + 1) % len(self._open)
        self._taken = 0

    async def _open_all(self) -> None:
        """Open the datasets of the first cycle, so that their elements are made at once."""
        if self._begun:
            return
        self._begun = True
        for i in range(len(self._open)):
            self._open[i] = await self._open_next()

    async def _open_next(self) -> Iterator | None:
        element = None if self._source is None else await self._source.next()
        try:
            dataset = None if element is None else await made_dataset(self._function, *element)
        except errors.OpError as error:
            if not self._ahead:
                raise
            # It was made before its turn: what comes before it can still be given.
            return _Failed(error)
        if dataset is None:
            self._source = None
            return None
        if not self._ahead:
            return dataset.iterator()
        opened = Prefetched(dataset.iterator(), self._ahead)
        opened.start()
        return opened


def _cycle(cycle_length: Any, num_parallel_calls: Any) -> int:
    """Return how many datasets are open at once, which is no less than are read at once."""
    cycle = parallelism(cycle_length, "cycle_length")
    calls = int(scalar(num_parallel_calls, "num_parallel_calls"))
    if parallelism(calls) > cycle and calls > 0:
        raise fail(
            f"num_parallel_calls must be less than or equal to cycle_length; they are {calls} and "
            f"{cycle}"
        )
    return cycle


def _buffered(value: Any, what: str, least: int) -> int:
    """Return how many elements are kept; -1 leaves it to us."""
    found = int(scalar(value, what))
    if found != -1 and found < least:
        raise fail(f"{what} must be -1 or at least {least}; it is {found}")
    return found


def _interleaved(
    ctx: Any,
    input_dataset: Any,
    captured: Sequence[Any],
    f: FunctionRef,
    types: Sequence[DType],
    shapes: Sequence[TensorShape],
    cycle: int,
    block: int,
    ahead: int = 0,
) -> Dataset:
    source = as_dataset(input_dataset)
    kept = [owned(value) for value in captured]
    return Dataset(
        "Interleave",
        types,
        dims_of(shapes),
        lambda: _Interleaved(source.iterator(), Function(ctx, f, kept), cycle, block, ahead),
        UNKNOWN,
        [source],
    )


@op(
    """
    InterleaveDataset(
        input_dataset: variant, other_arguments: *Targuments, cycle_length: int64,
        block_length: int64
    ) -> handle: variant
    f: func
    Targuments: list(type) >= 0
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def interleave_dataset(
    ctx: Any,
    input_dataset: Any,
    other_arguments: list[Any],
    cycle_length: Any,
    block_length: Any,
    *,
    f: FunctionRef,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Return the elements of the datasets that a function makes, taking turns."""
    cycle = parallelism(cycle_length, "cycle_length")
    block = positive(block_length, "block_length")
    return _interleaved(
        ctx, input_dataset, other_arguments, f, output_types, output_shapes, cycle, block
    )


@op(
    """
    ParallelInterleaveDatasetV3(
        input_dataset: variant, other_arguments: *Targuments, cycle_length: int64,
        block_length: int64, num_parallel_calls: int64
    ) -> handle: variant
    f: func
    deterministic: string = 'default'
    Targuments: list(type) >= 0
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
)
@op(
    """
    ParallelInterleaveDatasetV4(
        input_dataset: variant, other_arguments: *Targuments, cycle_length: int64,
        block_length: int64, buffer_output_elements: int64, prefetch_input_elements: int64,
        num_parallel_calls: int64
    ) -> handle: variant
    f: func
    deterministic: string = 'default'
    Targuments: list(type) >= 0
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def parallel_interleave_dataset(
    ctx: Any, input_dataset: Any, other_arguments: list[Any], cycle_length: Any, block_length: Any,
    *rest: Any, f: FunctionRef, output_types: list[DType], output_shapes: list[TensorShape],
) -> Any:  # fmt: skip
    """Return the elements of the datasets that a function makes, taking turns; made ahead.

    rest: since the fourth version how it is buffered; last, how many are read at once.
    """
    *buffered, num_parallel_calls = rest
    cycle = _cycle(cycle_length, num_parallel_calls)
    block = positive(block_length, "block_length")
    ahead = 0
    if buffered:
        ahead = _buffered(buffered[0], "buffer_output_elements", 1)
        _buffered(buffered[1], "prefetch_input_elements", 0)
    return _interleaved(
        ctx,
        input_dataset,
        other_arguments,
        f,
        output_types,
        output_shapes,
        cycle,
        block,
        ahead if ahead > 0 else block,
    )


declare_like(
    "ParallelInterleaveDatasetV2",
    "ParallelInterleaveDatasetV3",
    "sloppy: bool = false",
    without=("deterministic",),
)


@op(
    """
    ParallelInterleaveDataset(
        input_dataset: variant, other_arguments: *Targuments, cycle_length: int64,
        block_length: int64, sloppy: bool, buffer_output_elements: int64,
        prefetch_input_elements: int64
    ) -> handle: variant
    f: func
    Targuments: list(type) >= 0
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
)
@op(
    """
    LegacyParallelInterleaveDatasetV2(
        input_dataset: variant, other_arguments: *Targuments, cycle_length: int64,
        block_length: int64, buffer_output_elements: int64, prefetch_input_elements: int64
    ) -> handle: variant
    f: func
    deterministic: string = 'default'
    Targuments: list(type) >= 0
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def legacy_parallel_interleave_dataset(
    ctx: Any, input_dataset: Any, other_arguments: list[Any], cycle_length: Any, block_length: Any,
    *rest: Any, f: FunctionRef, output_types: list[DType], output_shapes: list[TensorShape],
) -> Any:  # fmt: skip
    """Return the elements of the datasets that a function makes, taking turns; made ahead.

    rest: in the first version whether the order is free; last, how it is buffered, in elements of
    the result and of the input.
    """
    cycle = positive(cycle_length, "cycle_length")
    block = positive(block_length, "block_length")
    *sloppy, buffered, prefetched = rest
    for one in sloppy:
        scalar(one, "sloppy")
    positive(buffered, "buffer_output_elements")
    if (found := int(scalar(prefetched, "prefetch_input_elements"))) < 0:
        raise fail(f"prefetch_input_elements must not be negative; it is {found}")
    return _interleaved(
        ctx, input_dataset, other_arguments, f, output_types, output_shapes, cycle, block, block
    )


declare_like(
    "ExperimentalParallelInterleaveDataset", "ParallelInterleaveDataset", without=("metadata",)
)
