"""Datasets whose elements are datasets: windows over another's elements.

Source: tensorflow/core/kernels/data/window_dataset_op.cc.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from tideflow.blocking import Turns
from tideflow.graph.shapes import Dims
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.sources import Listed
from tideflow.ops.data.values import Dataset, Element, Iterator, check_positive
from tideflow.wire.dtypes import DType


class _Windowed:
    __slots__ = (
        "_buffer",
        "_drop",
        "_shapes",
        "_shift",
        "_size",
        "_skip",
        "_source",
        "_stride",
        "_turns",
        "_types",
    )  # fmt: skip

    def __init__(self, dataset: Dataset, size: int, shift: int, stride: int, drop: bool) -> None:
        self._source: Iterator | None = dataset.iterator()
        self._types = dataset.types
        self._shapes = dataset.shapes
        self._size = size
        self._shift = shift
        self._stride = stride
        self._drop = drop
        self._buffer: deque[Element | Exception] = deque()
        # Elements that lie between two windows, and are not looked at.
        self._skip = 0
        self._turns = Turns()

    async def _next_item(self) -> Element | Exception | None:
        if self._source is None:
            return None
        try:
            item: Element | Exception | None = await self._source.next()
        except Exception as error:
            item = error
        if item is None:
            self._source = None
        await self._turns.pause()
        return item

    async def next(self) -> Element | None:
        while self._skip and await self._next_item() is not None:
            self._skip -= 1
        reach = (self._size - 1) * self._stride + 1
        while len(self._buffer) < reach:
            item = await self._next_item()
            if item is None:
                break
            self._buffer.append(item)
        if not self._buffer or (self._drop and len(self._buffer) < reach):
            return None
        window = list(self._buffer)[:: self._stride]
        self._skip = max(0, self._shift - len(self._buffer))
        for _ in range(min(self._shift, len(self._buffer))):
            self._buffer.popleft()
        elements: list[Element] = []
        for item in window:
            if isinstance(item, Exception):
                raise item
            elements.append(item)
        columns = zip(zip(*elements), self._types, self._shapes)
        return tuple(_of_values(values, dtype, dims) for values, dtype, dims in columns)


def _of_values(values: Sequence[Any], dtype: DType, dims: Dims) -> Dataset:
    return Dataset(
        "Window", [dtype], [dims], lambda: Listed((value,) for value in values), len(values)
    )


def of_elements(elements: Sequence[Element], like: Dataset) -> Dataset:
    """Return the dataset of given elements."""
    return Dataset("Window", like.types, like.shapes, lambda: Listed(iter(elements)), len(elements))


@dataset_op(
    """
    WindowDataset(
        input_dataset: variant, size: int64, shift: int64, stride: int64, drop_remainder: bool
    )
    """,
    direct=True,
)
def window_dataset(
    input_dataset: Dataset, size: int, shift: int, stride: int, drop_remainder: bool
) -> Elements:
    """Return windows over the elements, each a dataset for each component."""
    check_positive(size, "Window size")
    check_positive(shift, "Window shift")
    check_positive(stride, "Window stride")

    def total() -> int:
        known = input_dataset.cardinality()
        if known < 0:
            return known
        if drop_remainder:
            return max(0, (known - ((size - 1) * stride + 1)) // shift + 1)
        return -(-known // shift)

    return Elements(lambda: _Windowed(input_dataset, size, shift, stride, drop_remainder), total)
