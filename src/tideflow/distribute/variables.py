"""Variables with a copy for each replica.

A distributed variable is a variable: what is not said otherwise here does what it does to the copy
of the replica in whose context it is called, or to the first copy across replicas.

Source: tensorflow/python/distribute/values.py; runtime facts on strategies (variables).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from tideflow.distribute.protocols import StrategyLike
from tideflow.distribute.reduce_op import ReduceOp
from tideflow.distribute.replica_context import current
from tideflow.distribute.values import DistributedValues, PerReplica, local_results
from tideflow.eager.variable import EagerVariable
from tideflow.graph.building import apply_op
from tideflow.graph.defaults import local
from tideflow.graph.graph import Graph, Operation, Tensor
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export_v2
from tideflow.ops.state import VariableAggregation, VariableSynchronization
from tideflow.wire.dtypes import DType


class DistributedVariable(EagerVariable, DistributedValues):
    """A variable with one copy for each replica of this process.

    Attributes:
      values: the copies, by replica.
    """

    is_distributed = True
    # When the copies are made equal.
    _when = VariableSynchronization.ON_WRITE

    def __init__(
        self,
        strategy: StrategyLike,
        copies: Sequence[EagerVariable],
        aggregation: VariableAggregation,
    ) -> None:
        self._strategy = strategy
        self._values: tuple[EagerVariable, ...] = tuple(copies)
        self._dist_aggregation = aggregation
        for copy in copies:
            copy._distributed_container = weakref.ref(self)  # type: ignore[attr-defined]

    @property
    def values(self) -> tuple[EagerVariable, ...]:
        """The copies, by replica."""
        return self._values

    # ---- which copy

    def here(self) -> EagerVariable:
        """Return the copy of the replica or update in which the caller is, else the first one."""
        entry = current()
        if entry.replica is not None and entry.strategy is self._strategy:
            return self.values[entry.replica.replica_number]
        if entry.device is not None:
            for copy in self.values:
                if copy.device == entry.device:
                    return copy
        return self.values[0]

    @property
    def _node(self) -> Tensor:  # type: ignore[override]
        return self.here()._node

    @property
    def _eager_name(self) -> str:  # type: ignore[override]
        return self.values[0]._eager_name

    @property
    def _unique_id(self) -> int:  # type: ignore[override]
        return self.values[0]._unique_id

    @property
    def _dtype(self) -> DType:  # type: ignore[override]
        return self.values[0].dtype

    @property
    def _trainable(self) -> bool:  # type: ignore[override]
        return self.values[0].trainable

    @property
    def _constraint(self) -> Any:
        return self.values[0].constraint

    @property
    def _declared(self) -> TensorShape:  # type: ignore[override]
        return self.values[0].shape

    @property
    def distribute_strategy(self) -> StrategyLike:
        """The strategy that made it."""
        return self._strategy

    def __repr__(self) -> str:
        parts = ",".join(f"\n  {i}: {copy!r}" for i, copy in enumerate(self.values))
        return f"{type(self).__name__}:{{{parts}\n}}"

    @property
    def synchronization(self) -> VariableSynchronization:
        """When the copies are made equal."""
        return self._when

    @property
    def aggregation(self) -> VariableAggregation:
        """How updates of copies become one."""
        return self._dist_aggregation

    @property
    def handle(self) -> Tensor:
        """The handle of the copy here; tapes in force watch it from now on."""
        copy = self.here()
        if copy.trainable:
            for tape in local.tapes:
                tape.watch_accessed(self)
        return copy._node

    def __bool__(self) -> bool:
        # As for TensorFlow's, which do not look at the value.
        return True

    def _is_in_replica(self) -> bool:
        entry = current()
        return entry.replica is not None and entry.strategy is self._strategy

    def _is_in_update(self) -> bool:
        return current().device is not None

    def _change(self, method: str, value: TensorLike, **kwargs: Any) -> Any:
        """Change copies by one of EagerVariable's methods."""
        raise TypeError(f"{type(self).__name__} cannot be changed")

    def assign(self, value: TensorLike, *args: Any, **kwargs: Any) -> Any:
        """Give the copies a value; see the classes for which value and which copies."""
        return self._change("assign", value, **kwargs)

    def assign_add(self, delta: TensorLike, *args: Any, **kwargs: Any) -> Any:
        """Add to the copies."""
        return self._change("assign_add", delta, **kwargs)

    def assign_sub(self, delta: TensorLike, *args: Any, **kwargs: Any) -> Any:
        """Subtract from the copies."""
        return self._change("assign_sub", delta, **kwargs)

    def _scatter(self, suffix: str, slices: Any, name: str | None) -> Any:
        return self._change("_scatter", slices, prefix=suffix, name=name)

    def _update(self, op_name: str, *inputs: Any, name: str | None) -> Operation:
        made: Operation = apply_op(op_name, self.here().handle, *inputs, name=name)
        return made

    def _apply(self, copy: EagerVariable, method: str, value: TensorLike, **kwargs: Any) -> None:
        if method == "_scatter":
            copy._scatter(kwargs["prefix"], value, kwargs.get("name"))
            return
        getattr(copy, method)(value, **kwargs)


def _part(number: int, value: TensorLike) -> Any:
    """Return a replica's part of a value."""
    parts = local_results(value)
    return parts[number] if len(parts) > 1 else parts[0]


@export_v2("distribute.MirroredVariable")
class MirroredVariable(DistributedVariable):
    """Copies that are equal: every change is made to all of them.

    In a replica a change is aggregated first (`aggregation`); with NONE it is made to the replica's
    own copy alone.
    """

    def _change(self, method: str, value: TensorLike, **kwargs: Any) -> Any:
        if self._is_in_update():
            self._apply(self.here(), method, value, **kwargs)
            return self
        if not self._is_in_replica():
            self._change_all(method, value, kwargs)
            return self
        is_alone = self._strategy.num_replicas_in_sync == 1
        if self._dist_aggregation is VariableAggregation.NONE or is_alone:
            self._apply(self.here(), method, value, **kwargs)
            return self
        replica = current().replica
        assert replica is not None
        replica.merge_call(self._merged, args=(method, value, kwargs))
        return self

    def _merged(
        self, strategy: StrategyLike, method: str, value: TensorLike, kwargs: dict[str, Any]
    ) -> None:
        """Change all copies by what the replicas gave."""
        if self._dist_aggregation is VariableAggregation.ONLY_FIRST_REPLICA:
            value = local_results(value)[0]
        else:
            op = ReduceOp.of(self._dist_aggregation.name)
            strategy.extended.require_reducible(op, value)
            value = strategy.extended.reduce_to(op, value, self)
        self._change_all(method, value, kwargs)

    def _change_all(self, method: str, value: TensorLike, kwargs: dict[str, Any]) -> None:
        for number, copy in enumerate(self.values):
            self._apply(copy, method, _part(number, value), **kwargs)


class AggregatingVariable(MirroredVariable):
    """One variable that all replicas share: what they assign is aggregated first."""

    def here(self) -> EagerVariable:
        """Return the variable."""
        return self.values[0]

    def _change(self, method: str, value: TensorLike, **kwargs: Any) -> Any:
        replica = current().replica
        if not self._is_in_replica() or replica is None:
            self._apply(self.here(), method, value, **kwargs)
            return self
        if self._dist_aggregation is VariableAggregation.NONE:
            raise ValueError(
                "You must specify an aggregation method to update a AggregatingVariable in Replica "
                "Context, such as tf.Variable(..., aggregation=tf.VariableAggregation.SUM)"
            )
        replica.merge_call(self._merged, args=(method, value, kwargs))
        return self


class SyncOnReadVariable(DistributedVariable):
    """Copies that differ, until they are read across replicas: then they are aggregated."""

    _when = VariableSynchronization.ON_READ

    def _change(self, method: str, value: TensorLike, **kwargs: Any) -> Any:
        if self._is_in_replica() or self._is_in_update():
            self._apply(self.here(), method, value, **kwargs)
            return self
        if method != "assign" and self._dist_aggregation is VariableAggregation.SUM:
            raise ValueError(
                "SyncOnReadVariable does not support `assign_add` and `assign_sub` in "
                "cross-replica context when aggregation is set to `VariableAggregation.SUM`: what "
                "each copy should get is not clear"
            )
        if method == "assign" and self._dist_aggregation is VariableAggregation.SUM:
            # So that the sum over all copies is the value.
            count = self._strategy.num_replicas_in_sync
            value = apply_op("RealDiv", value, apply_op("Cast", count, DstT=self.dtype))
        for number, copy in enumerate(self.values):
            self._apply(copy, method, _part(number, value), **kwargs)
        return self

    def _read(self, name: str | None = None) -> Tensor:
        is_alone = self._strategy.num_replicas_in_sync == 1
        if self._is_in_replica() or self._is_in_update() or is_alone:
            return super()._read(name)
        if self._dist_aggregation is VariableAggregation.ONLY_FIRST_REPLICA:
            return self.values[0].read_value()
        if self._dist_aggregation is VariableAggregation.NONE:
            raise ValueError(
                f"variable {self.name!r} is synchronised on read but has no aggregation, so it has "
                "no value across replicas; give it an aggregation, or read the copies with "
                "strategy.experimental_local_results()"
            )
        op = ReduceOp.of(self._dist_aggregation.name)
        copies = [copy.read_value() for copy in self.values]
        found: Tensor = self._strategy.extended.reduce_to(op, PerReplica(copies), None)
        return found


def make_copies(
    devices: Sequence[str], next_creator: Callable[..., Any], kwargs: dict[str, Any], graph: Graph
) -> list[EagerVariable]:
    """Return a variable for each device; copies begin with the first one's value."""
    made: list[EagerVariable] = []
    for number, device in enumerate(devices):
        with graph.device(None), graph.device(device):
            if number:
                kwargs["name"] = f"{made[0].name.rpartition('/')[2].split(':')[0]}/replica_{number}"
                first = made[0]
                kwargs["initial_value"] = first.read_value
            made.append(next_creator(**kwargs))
    return made
