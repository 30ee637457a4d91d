"""Datasets of what a function makes of each element where that is a dataset again.

Source: tensorflow/core/kernels/data/{flat_map,interleave,parallel_interleave}_dataset_op.cc,
kernels/data/experimental/parallel_interleave_dataset_op.cc.
"""

from __future__ import annotations

from typing import Any

from tideflow.blocking import Turns
from tideflow.graph.op_def import declare_like
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.functions import CapturedFunction, Function, iterator_of
from tideflow.ops.data.map import parallelism
from tideflow.ops.data.transformations import Prefetched
from tideflow.ops.data.values import (
    Dataset,
    Element,
    Iterator,
    as_dataset,
    check_positive,
    fail,
)
from tideflow.wire import errors


async def made_dataset(function: Function, *args: Any) -> Dataset | None:
    """Return the dataset that a function makes; None where it says that input has ended."""
    found = await function.element(*args)
    if found is None:
        return None
    if len(found) != 1:
        raise fail("The function must return a single scalar of dtype DT_VARIANT.")
    return as_dataset(found[0])


class MadeOf:
    """Gives the elements of the dataset that a function makes of what it is given."""

    __slots__ = ("_args", "_ended", "_function", "_source")

    def __init__(self, function: Function, *args: Any) -> None:
        self._function = function
        self._args = args
        self._source: Iterator | None = None
        self._ended = False

    async def next(self) -> Element | None:
        if self._ended:
            return None
        if self._source is None:
            made = await made_dataset(self._function, *self._args)
            self._source = None if made is None else made.iterator()
        element = None if self._source is None else await self._source.next()
        self._ended = element is None
        return element


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
                self._current = iterator_of(dataset)
            found = await self._current.next()
            if found is not None:
                return found
            self._current = None
            await self._turns.pause()
        return None


@dataset_op(
    """
    FlatMapDataset(input_dataset: variant, other_arguments: *Targuments)
    f: func
    """,
    direct=True,
)
def flat_map_dataset(input_dataset: Dataset, f: CapturedFunction) -> Elements:
    """Return the elements of the datasets that a function makes, one dataset after the other."""
    return Elements(lambda: _FlatMapped(input_dataset.iterator(), f.instantiate()))


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


def _cycle(cycle_length: int, calls: int) -> int:
    """Return how many datasets are open at once, which is no less than are read at once."""
    cycle = parallelism(cycle_length, "cycle_length")
    if parallelism(calls) > cycle and calls > 0:
        raise fail(
            f"num_parallel_calls must be less than or equal to cycle_length; they are {calls} and "
            f"{cycle}"
        )
    return cycle


def _check_buffer(elements: int, what: str, least: int) -> None:
    """Check how many elements are to be kept; -1 leaves it to us."""
    if elements != -1 and elements < least:
        raise fail(f"{what} must be -1 or at least {least}; it is {elements}")


def _interleaved(
    source: Dataset, f: CapturedFunction, cycle: int, block: int, ahead: int = 0
) -> Elements:
    return Elements(lambda: _Interleaved(source.iterator(), f.instantiate(), cycle, block, ahead))


@dataset_op(
    """
    InterleaveDataset(
        input_dataset: variant, other_arguments: *Targuments, cycle_length: int64,
        block_length: int64
    )
    f: func
    """
)
def interleave_dataset(
    input_dataset: Dataset, f: CapturedFunction, cycle_length: int, block_length: int
) -> Elements:
    """Return the elements of the datasets that a function makes, taking turns."""
    cycle = parallelism(cycle_length, "cycle_length")
    check_positive(block_length, "block_length")
    return _interleaved(input_dataset, f, cycle, block_length)


@dataset_op(
    """
    ParallelInterleaveDatasetV2(
        input_dataset: variant, other_arguments: *Targuments, cycle_length: int64,
        block_length: int64, num_parallel_calls: int64
    )
    f: func
    sloppy: bool = false
    """,
    """
    ParallelInterleaveDatasetV3(
        input_dataset: variant, other_arguments: *Targuments, cycle_length: int64,
        block_length: int64, num_parallel_calls: int64
    )
    f: func
    deterministic: string = 'default'
    """,
    """
    ParallelInterleaveDatasetV4(
        input_dataset: variant, other_arguments: *Targuments, cycle_length: int64,
        block_length: int64, buffer_output_elements: int64, prefetch_input_elements: int64,
        num_parallel_calls: int64
    )
    f: func
    deterministic: string = 'default'
    """,
)
def parallel_interleave_dataset(
    input_dataset: Dataset,
    f: CapturedFunction,
    cycle_length: int,
    block_length: int,
    num_parallel_calls: int,
    buffer_output_elements: int = -1,
    prefetch_input_elements: int = -1,
) -> Elements:
    """Return the elements of the datasets that a function makes, taking turns; made ahead."""
    cycle = _cycle(cycle_length, num_parallel_calls)
    check_positive(block_length, "block_length")
    _check_buffer(buffer_output_elements, "buffer_output_elements", 1)
    _check_buffer(prefetch_input_elements, "prefetch_input_elements", 0)
    ahead = buffer_output_elements if buffer_output_elements > 0 else block_length
    return _interleaved(input_dataset, f, cycle, block_length, ahead)


@dataset_op(
    """
    ParallelInterleaveDataset(
        input_dataset: variant, other_arguments: *Targuments, cycle_length: int64,
        block_length: int64, sloppy: bool, buffer_output_elements: int64,
        prefetch_input_elements: int64
    )
    f: func
    """,
    """
    LegacyParallelInterleaveDatasetV2(
        input_dataset: variant, other_arguments: *Targuments, cycle_length: int64,
        block_length: int64, buffer_output_elements: int64, prefetch_input_elements: int64
    )
    f: func
    deterministic: string = 'default'
    """,
)
def legacy_parallel_interleave_dataset(
    input_dataset: Dataset,
    f: CapturedFunction,
    cycle_length: int,
    block_length: int,
    buffer_output_elements: int,
    prefetch_input_elements: int,
    sloppy: bool = False,
) -> Elements:
    """Return the elements of the datasets that a function makes, taking turns; made ahead.

    sloppy: whether the order is free; it is kept all the same.
    """
    check_positive(cycle_length, "cycle_length")
    check_positive(block_length, "block_length")
    check_positive(buffer_output_elements, "buffer_output_elements")
    if prefetch_input_elements < 0:
        raise fail(f"prefetch_input_elements must not be negative; it is {prefetch_input_elements}")
    return _interleaved(input_dataset, f, cycle_length, block_length, block_length)


declare_like(
    "ExperimentalParallelInterleaveDataset", "ParallelInterleaveDataset", without=("metadata",)
)
