"""Batches of other kinds: sparse ones, windows that overlap, and batches that are split.

Source: tensorflow/core/kernels/data/experimental/{dense_to_sparse_batch,sliding_window,rebatch}
_dataset_op.cc.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.blocking import DATA, OBJECT_BYTES, Turns, run_sized, work_bytes
from tideflow.graph import shapes as static_shapes
from tideflow.graph.op_def import declare_like
from tideflow.ops.data.batch import batched, batches_of, row_count
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.values import (
    UNKNOWN,
    Dataset,
    Element,
    Iterator,
    check_positive,
    fail,
)
from tideflow.ops.sparse import TensorElement
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType


def _sparse(elements: Sequence[Element], row_shape: Sequence[int], dtype: DType) -> Element:
    """Return tensors as one sparse tensor, which is three variants.

    row_shape: the shape of a row; -1 for the largest size among the tensors.
    Raises: InvalidArgumentError for another rank; DataLossError for a tensor that is larger.
    """
    values = [np.asarray(value, dtype.as_numpy_dtype) for (value,) in elements]
    for value in values:
        if value.ndim != len(row_shape):
            raise fail(
                f"Input element had shape ({static_shapes.format_dims(value.shape)}) that is "
                f"incompatible with the row shape {list(row_shape)}."
            )
        if any(0 <= most < size for most, size in zip(row_shape, value.shape)):
            raise errors.DataLossError(
                f"Input element had shape ({static_shapes.format_dims(value.shape)}) that is "
                f"incompatible with the row shape {list(row_shape)}."
            )
    largest = np.max([value.shape for value in values], axis=0) if row_shape else []
    sizes = [most if most >= 0 else size for most, size in zip(row_shape, largest)]
    places = [
        np.column_stack([np.full(value.size, i), np.indices(value.shape).reshape(value.ndim, -1).T])
        for i, value in enumerate(values)
    ]
    parts = [
        (np.concatenate(places).astype(np.int64), dtypes.int64),
        (np.concatenate([value.reshape(-1) for value in values]), dtype),
        (np.array([len(values), *sizes], np.int64), dtypes.int64),
    ]
    made = np.empty(3, object)
    made[:] = [TensorElement(value, kind) for value, kind in parts]
    return (made,)


@dataset_op(
    """
    DenseToSparseBatchDataset(
        input_dataset: variant, batch_size: int64, row_shape: int64
    )
    """,
    metadata=False,
)
def dense_to_sparse_batch_dataset(
    input_dataset: Dataset, batch_size: int, row_shape: Any
) -> Elements:
    """Return batches of tensors as sparse tensors."""
    check_positive(batch_size, "Batch size")
    if np.ndim(row_shape) != 1:
        raise fail("row_shape must be a vector")
    sizes = np.asarray(row_shape).tolist()
    if min(sizes, default=0) < -1:
        raise fail(f"the sizes of row_shape must be at least -1; they are {sizes}")
    if len(input_dataset.types) != 1:
        raise fail(
            "DenseToSparseBatchDataset only supports inputs with a single component; there are "
            f"{len(input_dataset.types)}"
        )
    [dtype] = input_dataset.types

    async def join(elements: Sequence[Element]) -> Element:
        work = sum(OBJECT_BYTES + work_bytes(value) for (value,) in elements)
        return await run_sized(DATA, work, lambda: _sparse(elements, sizes, dtype))

    return batched(
        input_dataset.iterator,
        input_dataset.cardinality,
        batch_size,
        drop_remainder=False,
        join=join,
    )


declare_like("ExperimentalDenseToSparseBatchDataset", "DenseToSparseBatchDataset")


# ---- windows that overlap


class _Sliding:
    """Gives batches of elements that are a stride apart, each a shift after the one before."""

    def __init__(
        self, dataset: Dataset, size: int, shift: int, stride: int, drop_remainder: bool
    ) -> None:
        self._source: Iterator | None = dataset.iterator()
        self._join = batches_of(dataset.types)
        self._size, self._shift, self._stride = size, shift, stride
        self._drop = drop_remainder
        self._held: deque[Element] = deque()
        # How many elements are left out before the next one that is held.
        self._skipped = 0
        self._turns = Turns()

    async def next(self) -> Element | None:
        await self._fill(self._stride * (self._size - 1) + 1)
        if not self._held:
            return None
        found = list(self._held)[:: self._stride][: self._size]
        if len(found) < self._size and self._drop:
            self._held.clear()
            return None
        try:
            made = await self._join(found)
        except Exception:  # a call that is cancelled leaves its elements to the next one
            self._go_on()
            raise
        self._go_on()
        return made

    def _go_on(self) -> None:
        self._skipped = max(self._shift - len(self._held), 0)
        for _ in range(min(self._shift, len(self._held))):
            self._held.popleft()

    async def _fill(self, wanted: int) -> None:
        while self._source is not None and len(self._held) < wanted:
            element = await self._source.next()
            if element is None:
                self._source = None
            elif self._skipped:
                self._skipped -= 1
            else:
                self._held.append(element)
            await self._turns.pause()


@dataset_op(
    """
    SlidingWindowDataset(
        input_dataset: variant, window_size: int64, window_shift: int64, window_stride: int64
    )
    drop_remainder: bool = true
    """,
    """
    ExperimentalSlidingWindowDataset(
        input_dataset: variant, window_size: int64, window_shift: int64, window_stride: int64
    )
    """,
    metadata=False,
)
def sliding_window_dataset(
    input_dataset: Dataset,
    window_size: int,
    window_shift: int,
    window_stride: int,
    drop_remainder: bool = True,
) -> Elements:
    """Return batches of elements that may overlap."""
    check_positive(window_size, "Window size")
    check_positive(window_shift, "Window shift")
    check_positive(window_stride, "window_stride")

    def count() -> int:
        known = input_dataset.cardinality()
        if known < 0:
            return known
        least = (window_size - 1) * window_stride + 1 if drop_remainder else 1
        return max(0, (known - least) // window_shift + 1)

    sizes = window_size, window_shift, window_stride
    return Elements(lambda: _Sliding(input_dataset, *sizes, drop_remainder), count)


# ---- batches that are split


class _Split:
    """Gives each batch in so many parts, the last of which may be smaller, or empty."""

    def __init__(self, dataset: Dataset, parts: int) -> None:
        self._source: Iterator | None = dataset.iterator()
        self._parts = parts
        self._waiting: deque[Element] = deque()

    async def next(self) -> Element | None:
        if not self._waiting:
            element = None if self._source is None else await self._source.next()
            if element is None:
                self._source = None
                return None
            rows = row_count(element)
            size = -(-rows // self._parts)
            for i in range(self._parts):
                start, end = min(i * size, rows), min((i + 1) * size, rows)
                self._waiting.append(tuple(value[start:end] for value in element))
        return self._waiting.popleft()


@dataset_op(
    """
    RebatchDataset(input_dataset: variant, num_replicas: int64)
    use_fallback: bool = true
    """,
    metadata=False,
)
def rebatch_dataset(input_dataset: Dataset, num_replicas: int) -> Elements:
    """Return each batch in parts, one for each replica."""
    check_positive(num_replicas, "num_replicas")

    def count() -> int:
        known = input_dataset.cardinality()
        return known * num_replicas if known >= 0 else known if known != UNKNOWN else UNKNOWN

    return Elements(lambda: _Split(input_dataset, num_replicas), count)


declare_like("ExperimentalRebatchDataset", "RebatchDataset")
