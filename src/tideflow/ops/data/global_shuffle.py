"""Datasets whose elements go by an index: shuffled as a whole, and flat maps by index.

Source: tensorflow/core/kernels/data/experimental/{global_shuffle,index_flat_map,weighted_flat_map}
_dataset_op.cc; runtime behaviour of TensorFlow 2.21.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.blocking import DATA, Turns, run_blocking
from tideflow.graph.kernel import KernelContext
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.functions import CapturedFunction, Function
from tideflow.ops.data.places import drawn
from tideflow.ops.data.shuffle import find_seeds, make_seeds
from tideflow.ops.data.values import (
    INFINITE,
    UNKNOWN,
    Dataset,
    Element,
    Iterator,
    fail,
    row,
    scalar,
)
from tideflow.ops.random import seeds_of, shuffled_indices
from tideflow.wire import errors

# ---- shuffled as a whole

# Those of which TensorFlow gives elements in any order; the others refuse.
_KINDS = """
    AssertCardinality Batch Cache Concatenate Finalize IndexFlatMap Map Model Options ParallelMap
    Prefetch Range Repeat Shard Skip Take Tensor TensorSlice Zip
"""
_IN_ANY_ORDER = frozenset(_KINDS.split())
# Of the cipher that makes the order.
_ROUNDS = 8


def _check_order_is_free(dataset: Dataset) -> None:
    """Raise FailedPreconditionError for a dataset that only gives its elements in its order."""
    why = ""
    if dataset.kind not in _IN_ANY_ORDER:
        why = f"{dataset.kind}Dataset does not support random access."
    elif dataset.kind == "Repeat" and dataset.cardinality() == INFINITE:
        why = "`repeat(-1)` does not support random access of tf.data datasets."
    elif dataset.kind == "Batch" and not all(dims and dims[0] for dims in dataset.shapes):
        why = "BatchDatasetV2 does not support global shuffling with `drop_remainder=False`."
    if why:
        raise errors.FailedPreconditionError(
            "`global_shuffle` requires all upstream transformations be compatible with random "
            f"access. Got: FAILED_PRECONDITION: {why}"
        )
    for source in dataset.inputs:
        _check_order_is_free(source)


class _ShuffledWhole:
    """Gives all elements in an order of a key; they are held in memory for that."""

    def __init__(self, dataset: Dataset, count: int, key: Sequence[int]) -> None:
        self._source: Iterator | None = dataset.iterator()
        self._count = count
        self._key = key
        self._held: list[Element] = []
        self._order: list[int] = []
        self._at = 0
        self._turns = Turns()

    async def next(self) -> Element | None:
        if self._source is not None:
            await self._fill(self._source)
            self._source = None
        while self._at < len(self._order):
            index = self._order[self._at]
            self._at += 1
            if index < len(self._held):
                return self._held[index]
        return None

    async def _fill(self, source: Iterator) -> None:
        while len(self._held) < self._count:
            element = await source.next()
            if element is None:
                break
            self._held.append(element)
            await self._turns.pause()
        self._order = await run_blocking(
            DATA, lambda _: shuffled_indices(self._count, self._key, _ROUNDS)
        )


@dataset_op(
    """
    GlobalShuffleDataset(
        input_dataset: variant, seed: int64, seed2: int64, seed_generator: resource
    )
    reshuffle_each_iteration: bool = true
    """,
    same_elements=True,
    stateful=True,
)
def global_shuffle_dataset(
    ctx: KernelContext,
    input_dataset: Dataset,
    seed: int,
    seed2: int,
    seed_generator: Any,
    reshuffle_each_iteration: bool,
) -> Elements:
    """Return the elements in a random order, of all orders.

    Raises: FailedPreconditionError for a dataset that gives its elements in its own order only;
      InvalidArgumentError for one that is empty, or without a known end.
    """
    _check_order_is_free(input_dataset)
    count = input_dataset.cardinality()
    if count <= 0:
        raise fail(
            "`global_shuffle` requires the input dataset to have a non-empty finite cardinality. "
            f"Got cardinality {count} for dataset {input_dataset.kind}"
        )
    own = make_seeds(seeds_of(seed, seed2), reshuffle_each_iteration)
    seeds = find_seeds(ctx, seed_generator) or own

    def iterate() -> Iterator:
        first, second = drawn(seeds)
        third, _ = drawn(seeds)
        return _ShuffledWhole(input_dataset, count, (first, second, third))

    return Elements(iterate, count, seeds=seeds)


# ---- flat maps by index


class _FlatByIndex:
    """Gives parts of what a function makes of elements, as another one tells for each index.

    The elements are walked over in their order: an index beyond the last one's element leads to the
    one that follows.
    """

    def __init__(self, source: Iterator, parts: Function, places: Function) -> None:
        self._source: Iterator | None = source
        self._parts = parts
        self._places = places
        self._at = 0
        self._current: Element | None = None
        self._current_index = 0

    async def next(self) -> Element | None:
        if self._source is None:
            return None
        index, offset = await self._place(self._at)
        if self._current is None or index > self._current_index:
            element = await self._source.next()
            if element is None:
                self._source = None
                return None
            self._current = tuple(await self._parts(*element))
            self._current_index = index
        self._at += 1
        return tuple(_part(value, offset) for value in self._current)

    async def _place(self, at: int) -> tuple[int, int]:
        found = await self._places(np.int64(at))
        if len(found) != 2 or any(np.size(one) != 1 for one in found):
            raise fail(
                "The `index_map_fn` for `index_flat_map` is expected to return two int values "
                f"representing the element index and an offset within the element. Got: {found}"
            )
        # Both are unsigned where they are compared.
        first, second = (int(np.reshape(one, ())) % 2**64 for one in found)
        return first, second


def _part(value: Any, offset: int) -> Any:
    if not np.ndim(value):
        return value
    if offset >= len(value):
        raise fail(
            "`index_flat_map` got invalid `index_map_func` which returns offset "
            f"{offset}, but the input element has {len(value)} elements: {value}"
        )
    return row(value, offset)


@dataset_op(
    """
    IndexFlatMapDataset(
        input_dataset: variant, map_func_other_args: *Tmap_func_args,
        index_map_func_other_args: *Tindex_map_func_args, output_cardinality: int64
    )
    map_func: func
    index_map_func: func
    """
)
def index_flat_map_dataset(
    input_dataset: Dataset,
    map_func: CapturedFunction,
    index_map_func: CapturedFunction,
    output_cardinality: int,
) -> Elements:
    """Return rows of what a function makes of elements.

    index_map_func: gives, for the index of a result, that of an element and the row in what is made
      of it.
    """
    return Elements(
        lambda: _FlatByIndex(
            input_dataset.iterator(), map_func.instantiate(), index_map_func.instantiate()
        ),
        output_cardinality,
    )


# ---- parts of datasets by their weights


class _FirstOfEach:
    """Gives so many elements of each dataset, one after the other."""

    def __init__(self, sources: Sequence[tuple[Iterator, int]]) -> None:
        self._left = list(sources)
        self._taken = 0
        self._turns = Turns()

    async def next(self) -> Element | None:
        while self._left:
            source, count = self._left[0]
            element = await source.next() if self._taken < count else None
            if element is not None:
                self._taken += 1
                return element
            del self._left[0]
            self._taken = 0
            await self._turns.pause()
        return None


def _known_counts(datasets: Sequence[Dataset]) -> list[int]:
    counts = [dataset.cardinality() for dataset in datasets]
    for i, count in enumerate(counts):
        if count in (INFINITE, UNKNOWN):
            kind = "INFINITE" if count == INFINITE else "UNKNOWN"
            raise fail(
                f"Cardinalities of the inputs must be known. Input {i} has {kind} cardinality."
            )
    return counts


def _counts_by_weight(known: Sequence[int], weights: Sequence[float]) -> list[int]:
    """Return how many elements are taken of each dataset.

    As TensorFlow has it, the dataset with the least product of count and weight says how many there
    are in all; the order of the operations decides where a result lies close to an integer.
    Raises: InvalidArgumentError where a dataset then has too few.
    """
    greatest = max(weights)
    shares = [count * weight / greatest for count, weight in zip(known, weights)]
    least = min(shares)
    divisor = weights[shares.index(least)]
    counts = [int(weight * least / divisor) for weight in weights]
    for i, (has, needs) in enumerate(zip(known, counts)):
        if has < needs:
            raise fail(
                f"Input {i} needs to have at least {needs} elements. It only has {has} elements."
            )
    return counts


@dataset_op(
    """
    WeightedFlatMapDataset(input_datasets: N * variant, weights: M * double)
    N: int >= 2
    M: int >= 2
    """
)
def weighted_flat_map_dataset(input_datasets: list[Dataset], weights: list[Any]) -> Elements:
    """Return as many elements of each dataset as keep to their weights, until one is used up."""
    if len(input_datasets) != len(weights):
        raise fail(
            "`input_datasets` and `weights` of the WeightedFlatMap must have the same size. Got "
            f"{len(input_datasets)} datasets and {len(weights)} weights."
        )
    given = [float(scalar(weight, "a weight")) for weight in weights]
    for i, weight in enumerate(given):
        if not weight > 0:
            raise fail(f"`weights` must be greater than 0.0. Input {i} has a weight of {weight:g}")
    first = input_datasets[0]
    for i, dataset in enumerate(input_datasets):
        if dataset.types != first.types:
            raise fail(
                "All inputs to WeightedFlatMap must have the same output types. Input "
                f"{i} has output types: {', '.join(one.name for one in dataset.types)}. Expected: "
                f"{', '.join(one.name for one in first.types)}."
            )
    counts = _counts_by_weight(_known_counts(input_datasets), given)
    return Elements(
        lambda: _FirstOfEach(
            [(source.iterator(), count) for source, count in zip(input_datasets, counts)]
        ),
        sum(counts),
    )
