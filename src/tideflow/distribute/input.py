"""Datasets whose elements are parted among replicas.

Source: tensorflow/python/distribute/input_lib.py; runtime facts on strategies.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tideflow.distribute.protocols import StrategyLike
from tideflow.distribute.values import regroup
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.ops.export import export_v2
from tideflow.ops.framework import nest
from tideflow.wire import errors
from tideflow.wire.dtypes import int32


@export_v2("distribute.InputContext")
class InputContext:
    """Which of several input pipelines a dataset is made for."""

    def __init__(
        self,
        num_input_pipelines: int = 1,
        input_pipeline_id: int = 0,
        num_replicas_in_sync: int = 1,
    ) -> None:
        self.num_input_pipelines = num_input_pipelines
        self.input_pipeline_id = input_pipeline_id
        self.num_replicas_in_sync = num_replicas_in_sync

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """Return a replica's share of a batch.

        Raises: ValueError for a batch that cannot be parted evenly.
        """
        if global_batch_size % self.num_replicas_in_sync:
            raise ValueError(
                f"The `global_batch_size` {global_batch_size} is not divisible by "
                f"`num_replicas_in_sync` {self.num_replicas_in_sync}"
            )
        return global_batch_size // self.num_replicas_in_sync

    def __repr__(self) -> str:
        return (
            f"tf.distribute.InputContext(input pipeline id {self.input_pipeline_id}, total: "
            f"{self.num_input_pipelines})"
        )


@export_v2("distribute.InputOptions")
class InputOptions:
    """Accepted for programs that give them."""

    def __init__(self, **options: Any) -> None:
        self.__dict__.update(options)


class DistributedDataset:
    """Elements for all replicas: each a PerReplica of what one replica gets.

    Args:
      start: begins a walk; gives what returns its next element, or raises StopIteration.
      dataset: what they are made from, or None.
      part: parts an element of the dataset, where that alone makes one for all replicas.

    Attributes:
      whole, part_of_element: the dataset and what parts its elements, for loops in functions.
    """

    def __init__(
        self,
        start: Callable[[], Callable[[], Any]],
        dataset: Any = None,
        part: Callable[[Any], Any] | None = None,
    ) -> None:
        self._start = start
        self._dataset = self.whole = dataset
        self.part_of_element = part

    def __iter__(self) -> DistributedIterator:
        return DistributedIterator(self._start())

    @property
    def element_spec(self) -> Any:
        """The specs of an element before it is parted."""
        return getattr(self._dataset, "element_spec", None)

    def __len__(self) -> int:
        return len(self._dataset)


class DistributedIterator:
    """Walks over a distributed dataset, in a tf.function as well."""

    def __init__(self, take: Callable[[], Any]) -> None:
        self._take = take

    def __iter__(self) -> DistributedIterator:
        return self

    def __next__(self) -> Any:
        return self._take()

    def get_next(self) -> Any:
        """Return the next element.  Raises: OutOfRangeError at the end."""
        try:
            return self._take()
        except StopIteration:
            raise errors.OutOfRangeError("End of sequence") from None


def distribute_dataset(strategy: StrategyLike, dataset: Any) -> DistributedDataset:
    """Return the dataset with every batch parted among the replicas, short ones, too."""
    count = len(strategy.extended.worker_devices)
    sharded = strategy.extended.shard(dataset)

    def start() -> Callable[[], Any]:
        elements = iter(sharded)
        return lambda: _parted(next(elements), count)

    return DistributedDataset(start, sharded, lambda element: _parted(element, count))


def _parted(element: Any, count: int) -> Any:
    """Return a batch as a PerReplica of its parts; the first ones get what is left over."""
    if count == 1:
        return element
    flat = [convert_to_tensor(leaf) for leaf in nest.flatten(element)]
    parts: list[list[Any]] = [[] for _ in range(count)]
    for tensor in flat:
        pieces = apply_op("SplitV", tensor, _shares(tensor, count), 0, num_split=count)
        for part, piece in zip(parts, pieces):
            part.append(piece)
    return regroup([nest.pack_sequence_as(element, part) for part in parts])


def _shares(tensor: Tensor, count: int) -> Any:
    """Return how many rows of a batch each replica gets."""
    rows = tensor.shape.as_list()[0]
    if rows is not None:
        return [rows // count + (i < rows % count) for i in range(count)]
    rows = apply_op("GatherV2", apply_op("Shape", tensor), 0, 0)
    more = apply_op("Less", np.arange(count, dtype=np.int32), apply_op("FloorMod", rows, count))
    return apply_op("AddV2", apply_op("FloorDiv", rows, count), apply_op("Cast", more, DstT=int32))


def distribute_from_function(
    strategy: StrategyLike, dataset_fn: Callable[[InputContext], Any]
) -> DistributedDataset:
    """Return the datasets of the input pipelines, from which each replica takes whole batches; a
    replica for which none is left gets an empty one."""
    count = len(strategy.extended.worker_devices)
    context = strategy.extended.input_contexts()[0]
    dataset = dataset_fn(context)

    def start() -> Callable[[], Any]:
        elements = iter(dataset)
        return lambda: _taken(elements, count)

    return DistributedDataset(start, dataset)


def _taken(elements: Iterator[Any], count: int) -> Any:
    """Return the next elements as one PerReplica.  Raises: StopIteration where none is left."""
    taken = [next(elements)]
    if get_default_graph().is_eager:
        taken.extend(itertools.islice(elements, count - 1))
        while len(taken) < count:
            taken.append(nest.map_structure(_emptied, taken[0]))
    else:
        taken.extend(next(elements) for _ in range(count - 1))
    return taken[0] if count == 1 else regroup(taken)


def _emptied(leaf: Any) -> Any:
    return convert_to_tensor(leaf)[:0]
