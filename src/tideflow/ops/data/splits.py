"""Sources of which several processes take elements in turn, one split each.

A split is a scalar int64 that names an element of a source.  Whoever shares them out asks the
source for the keys of all; whoever walks over the dataset has its sources give the elements of the
splits that it gets.

Source: tensorflow/core/framework/dataset.h (SplitProvider), dataset.cc (MakeSplitProviders).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tideflow.ops.data.transformations import sharded
from tideflow.ops.data.values import Dataset, Element, Splits
from tideflow.wire import errors

# Datasets of several inputs, each of which is shared out by itself.
_OF_ALL_INPUTS = frozenset({"Concatenate", "DirectedInterleave", "Zip"})


class SplitFeed(Protocol):
    """Gives splits of one repetition of a source."""

    async def next(self) -> int | None:
        """Return the next split; None when there are no more."""


class SplitFeeds(Protocol):
    """Gives the splits of all sources of a dataset."""

    def begin(self, source: int) -> SplitFeed:
        """Begin the next repetition of a source, by its place among the sources."""


def split_sources(dataset: Dataset) -> list[Splits]:
    """Return how the sources of a dataset are shared out, from the first input on.

    Raises: UnimplementedError for a dataset with a source that cannot be shared out.
    """
    return [splits for _, splits in _sources(dataset)]


def read_splits(dataset: Dataset, feeds: SplitFeeds, count: int) -> None:
    """Have a dataset that nobody has walked over give the elements of splits alone.

    count: how many sources whoever gives the splits knows of.
    Raises: as split_sources, and where there are more or fewer sources.
    """
    sources = _sources(dataset)
    if len(sources) != count:
        raise errors.UnimplementedError(
            f"the splits are those of {count} sources; the dataset is read here as one of "
            f"{len(sources)}"
        )
    for place, (source, splits) in enumerate(sources):
        _read_from(source, splits, feeds, place)


def _read_from(source: Dataset, splits: Splits, feeds: SplitFeeds, place: int) -> None:
    element = splits.element
    if element is not None:
        source.iterate_by(lambda: _OfSplits(feeds.begin(place), element))


def _sources(dataset: Dataset) -> list[tuple[Dataset, Splits]]:
    if dataset.splits is not None:
        return [(dataset, dataset.splits)]
    if dataset.kind in _OF_ALL_INPUTS or len(dataset.inputs) == 1:
        return [one for source in dataset.inputs for one in _sources(source)]
    raise errors.UnimplementedError(
        f"Cannot create split providers for dataset of type {dataset.kind}, because the dataset is "
        f"not unary (instead having arity {len(dataset.inputs)}), and no custom implementation of "
        "`MakeSplitProvider` is defined."
    )


def share_of(dataset: Dataset, count: int, index: int) -> Dataset:
    """Return every count-th element of a dataset, from the index-th on.

    Where TensorFlow would share out a dataset's files, the elements are shared out.
    """
    found = sharded(dataset, count, index)
    assert found.iterate is not None
    return Dataset("Shard", dataset.types, dataset.shapes, found.iterate, inputs=[dataset])


class _OfSplits:
    """Gives the elements of the splits that a feed gives."""

    __slots__ = ("_element", "_feed")

    def __init__(self, feed: SplitFeed, element: Callable[[int], Element]) -> None:
        self._feed = feed
        self._element = element

    async def next(self) -> Element | None:
        key = await self._feed.next()
        return None if key is None else self._element(key)
