"""Values that differ from replica to replica.

Source: tensorflow/python/distribute/values.py, distribute_utils.py; runtime facts on strategies.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tideflow.distribute.replica_context import current
from tideflow.graph.building import convert_to_tensor, register_tensor_conversion
from tideflow.graph.graph import Tensor
from tideflow.graph.type_spec import TypeSpec, register_type_spec, type_spec_of
from tideflow.ops.export import export_v2
from tideflow.ops.framework import nest
from tideflow.wire.dtypes import DType


@export_v2("distribute.DistributedValues")
class DistributedValues:
    """One value for each replica of this process.

    Attributes:
      values: by replica.
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = tuple(values)

    @property
    def values(self) -> tuple[Any, ...]:
        """The values, by replica."""
        return self._values

    def here(self) -> Any:
        """Return the value of the replica in whose context the caller is.

        Raises: ValueError across replicas, where there is not one value.
        """
        replica = current().replica
        if replica is None or replica.replica_number >= len(self.values):
            raise ValueError(
                f"{type(self).__name__} has a value for each replica; across replicas take them "
                "with strategy.experimental_local_results(), or join them with strategy.reduce()"
            )
        return self.values[replica.replica_number]

    def __repr__(self) -> str:
        return self._shown(repr)

    def __str__(self) -> str:
        return self._shown(str)

    def _shown(self, show: Callable[[Any], str]) -> str:
        parts = ",".join(f"\n  {i}: {show(value)}" for i, value in enumerate(self.values))
        return f"{type(self).__name__}:{{{parts}\n}}"


class PerReplica(DistributedValues):
    """Values of the replicas, of one structure."""

    # For libraries that ask whether it is a CompositeTensor.
    counts_as_composite = True

    @property
    def dtype(self) -> Any:
        """The element type of the values."""
        return self.values[0].dtype

    @property
    def shape(self) -> Any:
        """The shape of the first replica's value."""
        return self.values[0].shape

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if current().replica is None:
            raise AttributeError(
                f"{type(self).__name__} has no {name!r}: it holds a value for each replica; take "
                "them with strategy.experimental_local_results()"
            )
        return getattr(self.here(), name)


class PerReplicaSpec(TypeSpec):
    """What is known of a value for each replica.

    Args:
      component_specs: one for each replica.
    """

    def __init__(self, *component_specs: Any) -> None:
        self.component_specs = component_specs

    @classmethod
    def from_value(cls, value: PerReplica) -> PerReplicaSpec:
        """Return the spec of a value for each replica."""
        return cls(*map(type_spec_of, value.values))

    @property
    def value_type(self) -> type:
        """The class of values for each replica."""
        return PerReplica

    def _stated(self) -> tuple[Any, ...]:
        return self.component_specs

    @property
    def parts(self) -> Sequence[Any]:
        """The specs of the tensors of all replicas."""
        return [part for spec in self.component_specs for part in spec.parts]

    def from_parts(self, parts: Sequence[Any]) -> PerReplica:
        """Return the value of its tensors."""
        following = iter(parts)
        return PerReplica(
            [
                spec.from_parts(list(itertools.islice(following, len(spec.parts))))
                for spec in self.component_specs
            ]
        )


def _convert(value: Any, dtype: DType | None, name: str | None) -> Tensor:
    return convert_to_tensor(value.here(), dtype, name)


register_tensor_conversion(PerReplica, _convert)
register_type_spec(PerReplica, PerReplicaSpec.from_value)
nest.register_composite(
    PerReplica,
    lambda value: nest.flatten(list(value.values), expand_composites=True),
    lambda value, parts: PerReplica(
        nest.pack_sequence_as(list(value.values), parts, expand_composites=True)
    ),
)


# ---- joining and parting structures


def regroup(values: Sequence[Any], always_part: bool = False) -> Any:
    """Return one structure of the structures of all replicas, joined leaf by leaf.

    What is the same object in all replicas stays as it is (but for always_part), and so do the
    components of one distributed variable: they become the variable again.
    """
    first = values[0]
    if len(values) == 1:
        return first
    if isinstance(first, (list, tuple)) and all(isinstance(v, (list, tuple)) for v in values):
        if any(len(v) != len(first) for v in values):
            raise ValueError(
                f"replicas gave sequences of different lengths: {[len(v) for v in values]}"
            )
        items = [regroup([v[i] for v in values], always_part) for i in range(len(first))]
        if hasattr(first, "_fields"):
            return type(first)(*items)
        return items if isinstance(first, list) else tuple(items)
    if isinstance(first, Mapping) and all(isinstance(v, Mapping) for v in values):
        if any(set(v) != set(first) for v in values):
            raise ValueError(
                f"replicas gave dicts of different keys: {[sorted(map(str, v)) for v in values]}"
            )
        return {key: regroup([v[key] for v in values], always_part) for key in first}
    if not always_part and all(value is first for value in values):
        return first
    owner = getattr(first, "_distributed_container", None)
    whole = owner() if callable(owner) else None
    if whole is not None and all(v is w for v, w in zip(values, whole.values)):
        return whole
    return PerReplica(values)


def select_replica_tree(number: int, structure: Any) -> Any:
    """Return a replica's part of a structure; distributed variables stay whole."""
    if isinstance(structure, (list, tuple)):
        items = [select_replica_tree(number, item) for item in structure]
        if hasattr(structure, "_fields"):
            return type(structure)(*items)
        return items if isinstance(structure, list) else tuple(items)
    if isinstance(structure, Mapping):
        return {key: select_replica_tree(number, structure[key]) for key in structure}
    if isinstance(structure, PerReplica):
        return structure.values[number]
    return structure


def local_results(value: Any) -> tuple[Any, ...]:
    """Return the values of all replicas; of something that is the same for all, a tuple of it."""
    if isinstance(value, DistributedValues) or hasattr(value, "is_distributed"):
        return tuple(value.values)
    return (value,)
