"""Datasets that take elements of others in the order in which a further one names them.

Source: tensorflow/core/kernels/data/experimental/directed_interleave_dataset_op.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import scalar as scalar_shape
from tideflow.graph.shapes import TensorShape
from tideflow.ops.data.functions import Turns
from tideflow.ops.data.values import UNKNOWN, Dataset, Element, Iterator, as_dataset, dims_of, fail
from tideflow.wire.dtypes import DType


class _Directed:
    __slots__ = ("_selector", "_sources", "_stop_on_empty", "_turns")

    def __init__(self, selector: Iterator, sources: list[Any], stop_on_empty: bool) -> None:
        self._selector = selector
        self._sources: list[Iterator | None] = sources
        self._stop_on_empty = stop_on_empty
        self._turns = Turns()

    async def next(self) -> Element | None:
        while any(source is not None for source in self._sources):
            choice = await self._selector.next()
            if choice is None:
                break
            index = int(choice[0])
            if not 0 <= index < len(self._sources):
                raise fail(f"Selector index out of range: {index} >= {len(self._sources)}")
            source = self._sources[index]
            if source is not None:
                element = await source.next()
                if element is not None:
                    return element
                self._sources[index] = None
                if self._stop_on_empty:
                    break
            await self._turns.pause()
        self._sources = []
        return None


def _directed(
    selector_input_dataset: Any,
    data_input_datasets: list[Any],
    types: Sequence[DType],
    shapes: Sequence[TensorShape],
    stops: bool,
) -> Dataset:
    selector = as_dataset(selector_input_dataset)
    sources = [as_dataset(value) for value in data_input_datasets]
    return Dataset(
        "DirectedInterleave",
        types,
        dims_of(shapes),
        lambda: _Directed(selector.iterator(), [source.iterator() for source in sources], stops),
        UNKNOWN,
        [selector, *sources],
    )


@op(
    """
    DirectedInterleaveDataset(
        selector_input_dataset: variant, data_input_datasets: N * variant
    ) -> handle: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    N: int >= 1
    stop_on_empty_dataset: bool = false
    """,
    shape=scalar_shape,
)
def directed_interleave_dataset(
    ctx: Any,
    selector_input_dataset: Any,
    data_input_datasets: list[Any],
    *,
    output_types: list[DType],
    output_shapes: list[TensorShape],
    stop_on_empty_dataset: bool,
) -> Any:
    """Return elements of the datasets in the order in which a selector names them."""
    return _directed(
        selector_input_dataset,
        data_input_datasets,
        output_types,
        output_shapes,
        stop_on_empty_dataset,
    )


@op(
    """
    ExperimentalDirectedInterleaveDataset(
        selector_input_dataset: variant, data_input_datasets: N * variant
    ) -> handle: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    N: int >= 1
    """,
    shape=scalar_shape,
)
def experimental_directed_interleave_dataset(
    ctx: Any,
    selector_input_dataset: Any,
    data_input_datasets: list[Any],
    *,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Return elements of the datasets in the order in which a selector names them."""
    return _directed(
        selector_input_dataset, data_input_datasets, output_types, output_shapes, False
    )
