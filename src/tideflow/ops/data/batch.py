"""Datasets whose elements are several of another's, and the other way round.

Source: tensorflow/core/kernels/data/{batch,padded_batch}_dataset_op.cc,
kernels/data/experimental/{unbatch,rebatch}_dataset_op.cc.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

from tideflow.blocking import (
    DATA,
    OBJECT_BYTES,
    Turns,
    item_bytes,
    run_sized,
    work_bytes,
    work_on_alike,
)
from tideflow.graph import shapes as static_shapes
from tideflow.graph.op_def import declare_like
from tideflow.graph.shapes import Dims
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.values import (
    UNKNOWN,
    Dataset,
    Element,
    Iterator,
    batch,
    check_positive,
    fail,
    row,
    vector,
)
from tideflow.wire import errors
from tideflow.wire.dtypes import DType

# Makes one element of several.
Join = Callable[[Sequence[Element]], Awaitable[Element]]


class _Batched:
    __slots__ = ("_collected", "_drop", "_join", "_size", "_source", "_turns")

    def __init__(self, source: Iterator, size: int, drop_remainder: bool, join: Join) -> None:
        self._source: Iterator | None = source
        self._size = size
        self._drop = drop_remainder
        self._join = join
        # A call that is cancelled leaves its elements to the next one.
        self._collected: list[Element] = []
        self._turns = Turns()

    async def next(self) -> Element | None:
        found = None
        try:
            await self._collect()
            elements = self._collected
            if len(elements) == self._size or (elements and not self._drop):
                found = await self._join(elements)
        except Exception:
            self._collected = []
            raise
        self._collected = []
        return found

    async def _collect(self) -> None:
        while self._source is not None and len(self._collected) < self._size:
            element = await self._source.next()
            if element is None:
                self._source = None
            else:
                self._collected.append(element)
                await self._turns.pause()


def batched(
    iterate: Callable[[], Iterator],
    count: Callable[[], int],
    size: int,
    drop_remainder: bool,
    join: Join,
    shapes: Sequence[Dims] | None = None,
) -> Elements:
    """Return the elements of iterators `size` at a time, the last ones fewer or not at all.

    count: tells how many elements there are.
    join: makes one element of several.
    """

    def total() -> int:
        known = count()
        return known if known < 0 else known // size + (not drop_remainder and known % size > 0)

    return Elements(
        lambda: _Batched(iterate(), size, drop_remainder, join),
        total,
        shapes=shapes,
        batch_size=size,
    )


def batches_of(types: Sequence[DType]) -> Join:
    """Return what makes one element of several, whose components have a further axis in front."""

    async def join(elements: Sequence[Element]) -> Element:
        size_bytes = work_on_alike(elements, len(elements))
        return await run_sized(DATA, size_bytes, lambda: batch(elements, types))

    return join


def _batch_shapes(shapes: Sequence[Dims], size: int, drop_remainder: bool) -> list[Dims]:
    """Return the shapes of batches of components."""
    first = size if drop_remainder else None
    return [None if dims is None else (first, *dims) for dims in shapes]


@dataset_op(
    "BatchDataset(input_dataset: variant, batch_size: int64)",
    """
    BatchDatasetV2(input_dataset: variant, batch_size: int64, drop_remainder: bool)
    parallel_copy: bool = false
    """,
    """
    ParallelBatchDataset(
        input_dataset: variant, batch_size: int64, num_parallel_calls: int64,
        drop_remainder: bool
    )
    parallel_copy: bool = false
    deterministic: string = 'default'
    """,
    direct=True,
)
def batch_dataset(
    input_dataset: Dataset,
    batch_size: int,
    output_types: list[DType],
    drop_remainder: bool = False,
    num_parallel_calls: int = 1,
) -> Elements:
    """Return batches of elements; unless they are dropped, those left over are a smaller one."""
    check_positive(batch_size, "Batch size")
    shapes = _batch_shapes(input_dataset.shapes, batch_size, drop_remainder)
    return batched(
        input_dataset.iterator,
        input_dataset.cardinality,
        batch_size,
        drop_remainder,
        batches_of(output_types),
        shapes,
    )


# ---- padded


def _padded_shape(values: Sequence[Any], wanted: Sequence[int], component: int) -> tuple[int, ...]:
    """Return the shape of one component of several elements as one array.

    wanted: the size of each axis, -1 for that of the largest element.
    Raises: InvalidArgumentError for another rank; DataLossError for an element that is too large.
    """
    shapes = [np.shape(value) for value in values]
    for shape in shapes:
        if len(shape) != len(wanted):
            raise fail(
                "All elements in a batch must have the same rank as the padded shape for "
                f"component{component}: expected rank {len(wanted)} but got element with rank "
                f"{len(shape)}"
            )
        if any(0 <= most < size for most, size in zip(wanted, shape)):
            raise errors.DataLossError(
                "Attempted to pad to a smaller size than the input element: component "
                f"{component} has shape {static_shapes.format_dims(shape)}, the padded shape is "
                f"{list(wanted)}"
            )
    full = [most if most >= 0 else max(sizes) for most, sizes in zip(wanted, zip(*shapes))]
    return (len(values), *full)


def _padded(values: Sequence[Any], shape: Sequence[int], filler: object, dtype: DType) -> Any:
    """Return one component of several elements as one array, with filler where they are short."""
    made = np.full(shape, filler, dtype.as_numpy_dtype)
    for i, value in enumerate(values):
        if found := np.shape(value):
            made[i][tuple(slice(size) for size in found)] = value
        else:
            made[i] = value[()] if isinstance(value, np.ndarray) else value
    return made


@dataset_op(
    """
    PaddedBatchDataset(
        input_dataset: variant, batch_size: int64, padded_shapes: N * int64,
        padding_values: *Toutput_types
    )
    N: int >= 1
    """,
    """
    PaddedBatchDatasetV2(
        input_dataset: variant, batch_size: int64, padded_shapes: N * int64,
        padding_values: *Toutput_types, drop_remainder: bool
    )
    parallel_copy: bool = false
    N: int >= 1
    """,
    direct=True,
)
def padded_batch_dataset(
    input_dataset: Dataset,
    batch_size: int,
    padded_shapes: list[Any],
    padding_values: list[Any],
    Toutput_types: list[DType],
    drop_remainder: bool = False,
) -> Elements:
    """Return batches of elements that are padded to one shape."""
    check_positive(batch_size, "Batch size")
    if len(padded_shapes) != len(input_dataset.types):
        raise fail(
            f"Number of padded shapes ({len(padded_shapes)}) must match the number of components "
            f"in the input dataset's elements ({len(input_dataset.types)})"
        )
    wanted = _padded_sizes(padded_shapes)
    fillers = []
    for value in padding_values:
        if not isinstance(value, bytes) and np.ndim(value):
            raise fail("All padding values must be scalars")
        fillers.append(value[()] if isinstance(value, np.ndarray) else value)

    async def join(elements: Sequence[Element]) -> Element:
        least_bytes = OBJECT_BYTES * len(elements) * len(wanted)
        columns = list(zip(*elements))

        def measure() -> list[tuple[int, ...]]:
            pairs = zip(columns, wanted)
            return [_padded_shape(values, sizes, i) for i, (values, sizes) in enumerate(pairs)]

        shapes = await run_sized(DATA, least_bytes, measure)
        full_bytes = sum(
            math.prod(shape) * item_bytes(dtype.as_numpy_dtype)
            for shape, dtype in zip(shapes, Toutput_types)
        )
        parts = zip(columns, shapes, fillers, Toutput_types)
        return await run_sized(
            DATA, least_bytes + full_bytes, lambda: tuple(_padded(*part) for part in parts)
        )

    padded = [tuple(None if size < 0 else size for size in sizes) for sizes in wanted]
    shapes = _batch_shapes(padded, batch_size, drop_remainder)
    return batched(
        input_dataset.iterator, input_dataset.cardinality, batch_size, drop_remainder, join, shapes
    )


def _padded_sizes(padded_shapes: list[Any]) -> list[list[int]]:
    """Return the sizes that shapes name, -1 for that of the largest element."""
    if any(np.ndim(value) != 1 for value in padded_shapes):
        raise fail("All padded shapes must be vectors")
    wanted = [[int(size) for size in vector(value, "padded_shapes")] for value in padded_shapes]
    for sizes in wanted:
        if min(sizes, default=0) < -1:
            raise fail(f"the sizes of padded shapes must be at least -1; they are {sizes}")
    return wanted


# ---- rows


def row_count(element: Element) -> int:
    """Return how many rows the components of an element have.

    Raises: InvalidArgumentError for a scalar, or where components differ.
    """
    shapes = [np.shape(value) for value in element]
    for i, shape in enumerate(shapes):
        if not shape:
            raise fail("Input element must have a non-scalar value in each component.")
        if shape[0] != shapes[0][0]:
            raise fail(
                "Input element must have the same batch size in each component. Component 0 had "
                f"size {shapes[0][0]} but component {i} had size {shape[0]}."
            )
    return int(shapes[0][0])


class _Unbatched:
    __slots__ = ("_at", "_count", "_element", "_source")

    def __init__(self, source: Iterator) -> None:
        self._source: Iterator | None = source
        self._element: Element = ()
        self._at = self._count = 0

    async def next(self) -> Element | None:
        while self._at == self._count:
            if self._source is None:
                return None
            element = await self._source.next()
            if element is None:
                self._source = None
                return None
            self._at, self._count, self._element = 0, row_count(element), element
        found = tuple(row(value, self._at) for value in self._element)
        self._at += 1
        return found


@dataset_op("UnbatchDataset(input_dataset: variant)", direct=True)
def unbatch_dataset(input_dataset: Dataset) -> Elements:
    """Return the rows of each element."""

    def total() -> int:
        known = input_dataset.cardinality()
        sizes = {dims[0] for dims in input_dataset.shapes if dims}
        size = sizes.pop() if len(sizes) == 1 else None
        return known if known <= 0 else UNKNOWN if size is None else known * size

    return Elements(lambda: _Unbatched(input_dataset.iterator()), total)


declare_like("ExperimentalUnbatchDataset", "UnbatchDataset", without=("metadata",))


class _Rebatched:
    __slots__ = (
        "_at", "_count", "_drop", "_element", "_empty", "_parts", "_round", "_sizes", "_source",
        "_turns",
    )  # fmt: skip

    def __init__(self, dataset: Dataset, sizes: Sequence[int], drop_remainder: bool) -> None:
        self._source: Iterator | None = dataset.iterator()
        self._empty: Element = tuple(
            np.empty((0, *(size or 0 for size in (dims or ())[1:])), dtype.as_numpy_dtype)
            for dims, dtype in zip(dataset.shapes, dataset.types)
        )
        self._sizes = sizes
        self._drop = drop_remainder
        self._round = 0
        # The rows of a batch so far, how many they are, and the element that the next ones come
        # from.
        self._parts: list[Element] = []
        self._count = 0
        self._element: Element | None = None
        self._at = 0
        self._turns = Turns()

    async def next(self) -> Element | None:
        wanted = self._sizes[self._round]
        while (missing := wanted - self._count) > 0:
            if self._element is None:
                element = None if self._source is None else await self._source.next()
                if element is None:
                    self._source = None
                    break
                row_count(element)
                self._element, self._at = element, 0
            end = min(self._at + missing, len(self._element[0]))
            self._parts.append(tuple(value[self._at : end] for value in self._element))
            self._count += end - self._at
            self._at = end
            if end == len(self._element[0]):
                self._element = None
            await self._turns.pause()
        parts = self._parts
        if missing > 0 and (self._drop or not parts):
            self._parts, self._count = [], 0
            return None
        try:
            found = await _joined_rows(parts) if parts else self._empty
        except Exception:  # one that is cancelled leaves its rows to the next call
            self._parts, self._count = [], 0
            raise
        self._parts, self._count = [], 0
        self._round = (self._round + 1) % len(self._sizes)
        self._empty = tuple(value[:0] for value in found)
        return found


async def _joined_rows(parts: Sequence[Element]) -> Element:
    """Return the rows of several elements as one."""
    size_bytes = sum(OBJECT_BYTES + work_bytes(value) for part in parts for value in part)
    return await run_sized(
        DATA, size_bytes, lambda: tuple(np.concatenate(column) for column in zip(*parts))
    )


@dataset_op(
    "RebatchDatasetV2(input_dataset: variant, batch_sizes: int64, drop_remainder: bool)",
    metadata=False,
)
def rebatch_dataset_v2(
    input_dataset: Dataset, batch_sizes: Sequence[int], drop_remainder: bool
) -> Elements:
    """Return the rows of all elements in batches of other sizes, which take turns."""
    if not batch_sizes or min(batch_sizes) < 0 or not any(batch_sizes):
        raise fail(
            f"batch_sizes must be at least 0, and one of them greater; they are {batch_sizes}"
        )
    return Elements(
        lambda: _Rebatched(input_dataset, batch_sizes, drop_remainder),
        batch_size=batch_sizes[0] if len(set(batch_sizes)) == 1 else 0,
    )
