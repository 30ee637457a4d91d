"""Datasets whose elements are datasets: windows over another's elements.

Source: tensorflow/core/kernels/data/window_dataset_op.cc.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import scalar as scalar_shape
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.ops.data.functions import Turns
from tideflow.ops.data.sources import Listed
from tideflow.ops.data.values import (
    Dataset,
    Element,
    Iterator,
    as_dataset,
    dims_of,
    positive,
    scalar,
)
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


@op(
    """
    WindowDataset(
        input_dataset: variant, size: int64, shift: int64, stride: int64, drop_remainder: bool
    ) -> handle: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    metadata: string = ''
    """,
    shape=scalar_shape,
)
def window_dataset(
    ctx: Any,
    input_dataset: Any,
    size: Any,
    shift: Any,
    stride: Any,
    drop_remainder: Any,
    *,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Return windows over the elements, each a dataset for each component."""
    source = as_dataset(input_dataset)
    length = positive(size, "Window size")
    step = positive(shift, "Window shift")
    between = positive(stride, "Window stride")
    drop = bool(scalar(drop_remainder, "drop_remainder"))

    def total() -> int:
        known = source.cardinality()
        if known < 0:
            return known
        if drop:
            return max(0, (known - ((length - 1) * between + 1)) // step + 1)
        return -(-known // step)

    return Dataset(
        "Window",
        output_types,
        dims_of(output_shapes),
        lambda: _Windowed(source, length, step, between, drop),
        total,
        [source],
    )
