"""Datasets that take elements of others in the order in which a further one names them.

Source: tensorflow/core/kernels/data/experimental/directed_interleave_dataset_op.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from tideflow.blocking import Turns
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.values import Dataset, Element, Iterator, fail


class _Directed:
    __slots__ = ("_selector", "_sources", "_stop_on_empty", "_turns")

    def __init__(
        self, selector: Iterator, sources: Sequence[Iterator], stop_on_empty: bool
    ) -> None:
        self._selector = selector
        self._sources: list[Iterator | None] = [*sources]
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


@dataset_op(
    """
    DirectedInterleaveDataset(
        selector_input_dataset: variant, data_input_datasets: N * variant
    )
    N: int >= 1
    stop_on_empty_dataset: bool = false
    """,
    """
    ExperimentalDirectedInterleaveDataset(
        selector_input_dataset: variant, data_input_datasets: N * variant
    )
    N: int >= 1
    """,
    metadata=False,
)
def directed_interleave_dataset(
    selector_input_dataset: Dataset,
    data_input_datasets: list[Dataset],
    stop_on_empty_dataset: bool = False,
) -> Elements:
    """Return elements of the datasets in the order in which a selector names them."""
    return Elements(
        lambda: _Directed(
            selector_input_dataset.iterator(),
            [source.iterator() for source in data_input_datasets],
            stop_on_empty_dataset,
        )
    )
