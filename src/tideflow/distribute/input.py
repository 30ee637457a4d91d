"""Datasets whose elements are parted among replicas.

Source: tensorflow/python/distribute/input_lib.py; runtime facts on strategies.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from tideflow.distribute.protocols import StrategyLike
from tideflow.distribute.rows import parted, without_rows
from tideflow.distribute.values import PerReplicaSpec, regroup
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec
from tideflow.ops.control_flow import cond
from tideflow.ops.data import Optional, attrs_of, next_as_optional
from tideflow.ops.export import export_v2
from tideflow.ops.framework import nest


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


@dataclass(frozen=True)
class _Division:
    """How elements of a dataset become one element for all replicas.

    Attributes:
      count: of the replicas.
      parts: whether each element is parted among the replicas; each gets one of its own otherwise.
    """

    count: int
    parts: bool

    @property
    def elements(self) -> int:
        """How many elements of the dataset are needed."""
        return 1 if self.parts else self.count

    def joined(self, elements: Sequence[Any]) -> Any:
        """Return that many elements as one for all replicas."""
        if self.count == 1:
            return elements[0]
        return _parted(elements[0], self.count) if self.parts else regroup(elements)

    def spec(self, element_spec: Any) -> Any:
        """Return the spec of an element for all replicas, by that of an element of the dataset."""
        if self.count == 1:
            return element_spec
        return nest.map_structure(self._spec_of_leaf, element_spec)

    def _spec_of_leaf(self, spec: TypeSpec) -> PerReplicaSpec:
        if not isinstance(spec, TensorSpec):
            return PerReplicaSpec(*[spec] * self.count)
        dims = spec.shape.as_list()
        if self.parts:
            # As for TensorFlow, which raises IndexError for elements without rows.
            rows = dims[0] or 0
            dims[0] = rows // self.count if rows and rows % self.count == 0 else None
        return PerReplicaSpec(*[TensorSpec(dims, spec.dtype)] * self.count)


@export_v2("distribute.DistributedDataset")
class DistributedDataset:
    """Elements for all replicas: each a PerReplica of what one replica gets.

    Args:
      dataset: what they are made from.
      division: how its elements become those of the replicas.
    """

    def __init__(self, dataset: Any, division: _Division) -> None:
        self._dataset = dataset
        self._division = division

    def __iter__(self) -> DistributedIterator:
        return DistributedIterator(iter(self._dataset), self._division)

    @property
    def element_spec(self) -> Any:
        """The specs of an element: a PerReplicaSpec for each tensor, where there are several
        replicas.  A loop over a function's steps can have it in an `input_signature`."""
        return self._division.spec(self._dataset.element_spec)

    @property
    def cardinality(self) -> Any:
        """How many elements the dataset has that is parted."""
        return self._dataset.cardinality()

    # ---- in functions

    def elements_in_graph(self) -> _GraphElements:
        """Return the elements for a loop in a graph."""
        return _GraphElements(self._dataset, self._division)

    @property
    def argument_handle(self) -> Tensor:
        """The tensor by which functions take it."""
        made: Tensor = self._dataset.argument_handle
        return made

    @property
    def argument_kind(self) -> Hashable:
        """What tells the traces of functions apart that take distributed datasets."""
        return (self._division, self._dataset.argument_kind)

    def with_handle(self, handle: Tensor) -> DistributedDataset:
        """Return what stands for it in the trace of a function."""
        return DistributedDataset(self._dataset.with_handle(handle), self._division)


@export_v2("distribute.DistributedIterator")
class DistributedIterator:
    """Walks over a distributed dataset, in a tf.function as well."""

    def __init__(self, elements: Any, division: _Division) -> None:
        self._elements = elements
        self._division = division

    @property
    def element_spec(self) -> Any:
        """The specs of an element, as DistributedDataset.element_spec."""
        return self._division.spec(self._elements.element_spec)

    def __iter__(self) -> DistributedIterator:
        return self

    def __next__(self) -> Any:
        return self._from(next(self._elements))

    def get_next(self) -> Any:
        """Return the next element.  Raises: OutOfRangeError at the end."""
        return self._from(self._elements.get_next())

    def _from(self, first: Any) -> Any:
        """Return the next element for all replicas, given the next one of the dataset."""
        more = range(self._division.elements - 1)
        others = [self._elements.get_next_as_optional() for _ in more]
        return self._division.joined([first, *(_or_empty(one, first) for one in others)])

    def get_next_as_optional(self) -> DistributedOptional:
        """Return the next element, if there is one.

        Example:
          >>> strategy = tf.distribute.get_strategy()
          >>> walk = iter(strategy.experimental_distribute_dataset(tf.data.Dataset.range(1)))
          >>> [bool(walk.get_next_as_optional().has_value()) for _ in range(2)]
          [True, False]
        """
        parts = [self._elements.get_next_as_optional() for _ in range(self._division.elements)]
        return DistributedOptional(parts, self._division)

    # ---- as an argument of a function

    @property
    def argument_handle(self) -> Tensor:
        """The tensor by which functions take it."""
        made: Tensor = self._elements.argument_handle
        return made

    @property
    def argument_kind(self) -> Hashable:
        """What tells the traces of functions apart that take distributed iterators."""
        return (self._division, self._elements.argument_kind)

    def with_handle(self, handle: Tensor) -> DistributedIterator:
        """Return what stands for it in the trace of a function."""
        return DistributedIterator(self._elements.with_handle(handle), self._division)


class DistributedOptional:
    """An element for all replicas, or none."""

    def __init__(self, parts: Sequence[Optional], division: _Division) -> None:
        self.parts = tuple(parts)
        self._division = division

    def has_value(self, name: str | None = None) -> Tensor:
        """Return whether there is a value for any replica, a bool scalar."""
        return self.parts[0].has_value(name)

    def get_value(self, name: str | None = None) -> Any:
        """Return the value; replicas for which none is left get an empty one.

        Raises: InvalidArgumentError without a value.
        """
        first = self.parts[0].get_value(name)
        others = (_or_empty(part, first) for part in self.parts[1:])
        return self._division.joined([first, *others])

    @property
    def element_spec(self) -> Any:
        """The specs of the value."""
        return self._division.spec(self.parts[0].element_spec)

    def with_parts(self, parts: Sequence[Any]) -> DistributedOptional:
        """Return one of the same kind that other tensors hold."""
        made = [
            nest.pack_sequence_as(one, [part], expand_composites=True)
            for one, part in zip(self.parts, parts, strict=True)
        ]
        return DistributedOptional(made, self._division)


nest.register_composite(
    DistributedOptional,
    lambda given: nest.flatten(list(given.parts), expand_composites=True),
    lambda like, parts: like.with_parts(parts),
)


class _GraphElements:
    """The elements of a dataset in a loop in a graph; a position is the next one, if any."""

    widens = False

    def __init__(self, dataset: Any, division: _Division) -> None:
        self._like = dataset._element
        self._division = division
        self._iterator = apply_op("AnonymousIteratorV3", **attrs_of(self._like))
        apply_op("MakeIterator", dataset.argument_handle, self._iterator)
        self.first = self.following(None)

    def holds(self, position: DistributedOptional) -> Tensor:
        return position.has_value()

    def element(self, position: DistributedOptional) -> Any:
        return position.get_value()

    def following(self, position: Any) -> DistributedOptional:
        more = range(self._division.elements)
        parts = [next_as_optional(self._iterator, self._like) for _ in more]
        return DistributedOptional(parts, self._division)


def _or_empty(found: Optional, like: Any) -> Any:
    """Return an optional's value; one without rows, like a given one, where there is none."""
    if get_default_graph().is_eager:
        return found.get_value() if found.has_value() else nest.map_structure(without_rows, like)
    return cond(found.has_value(), found.get_value, lambda: nest.map_structure(without_rows, like))


def distribute_dataset(strategy: StrategyLike, dataset: Any) -> DistributedDataset:
    """Return the dataset with every batch parted among the replicas, short ones, too.

    Raises: AttributeError for what is no dataset.
    """
    count = len(strategy.extended.worker_devices)
    return DistributedDataset(
        strategy.extended.shard(_require_dataset(dataset)), _Division(count, parts=True)
    )


def _require_dataset(given: Any) -> Any:
    """Return a dataset.  Raises: AttributeError for anything else, as TensorFlow."""
    if not hasattr(given, "element_spec"):
        raise AttributeError(f"a dataset is wanted; {given!r:.80} has no `element_spec`")
    return given


def distribute_from_function(
    strategy: StrategyLike, dataset_fn: Callable[[InputContext], Any]
) -> DistributedDataset:
    """Return the datasets of the input pipelines, from which each replica takes whole batches; a
    replica for which none is left gets an empty one."""
    count = len(strategy.extended.worker_devices)
    dataset = dataset_fn(strategy.extended.input_contexts()[0])
    return DistributedDataset(_require_dataset(dataset), _Division(count, parts=False))


def _parted(element: Any, count: int) -> Any:
    """Return a batch as a PerReplica of its parts; the first ones get what is left over."""
    if count == 1:
        return element
    flat = [parted(leaf, count) for leaf in nest.flatten(element)]
    return regroup([nest.pack_sequence_as(element, list(part)) for part in zip(*flat)])
