"""What replicas, variables and datasets ask of the strategy that they belong to.

`strategy.Strategy` and `strategy.StrategyExtended` are these, with all that programs and libraries
use besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tideflow.distribute.reduce_op import ReduceOp
from tideflow.graph.graph import Tensor


class ReplicaOperations(Protocol):
    """How a strategy reduces, gathers and shards (see strategy.StrategyExtended)."""

    worker_devices: tuple[str, ...]
    first_replica_id: int

    def add_up(self, op: ReduceOp, tensors: Sequence[Any]) -> Any:
        """Return the sum or mean of tensors (or slices) that lie anywhere."""

    def require_reducible(self, op: ReduceOp, value: Any) -> None:
        """Raise ValueError for the sum over replicas of what is no value of each replica."""

    def reduce_to(self, reduce_op: Any, value: Any, destinations: Any, options: Any = None) -> Any:
        """Return the reduction of a value over the replicas."""

    def batch_reduce_to(
        self,
        reduce_op: Any,
        value_destination_pairs: Sequence[tuple[Any, Any]],
        options: Any = None,
    ) -> list[Any]:
        """Return reduce_to of several values."""

    def gather_to(self, value: Any, axis: int) -> Any:
        """Return the values of the replicas, joined along an axis."""

    def on_each_device(self, value: Any) -> Any:
        """Return a value with a copy on each device, where there are several."""

    def read_var(self, var: Any) -> Tensor:
        """Return a variable's value across replicas."""

    def input_contexts(self) -> Sequence[Any]:
        """Return one input context for each input pipeline of this process."""

    def shard(self, dataset: Any) -> Any:
        """Return this process's part of a dataset."""


class StrategyLike(Protocol):
    """A strategy, as its replicas, variables and datasets know it (see strategy.Strategy)."""

    @property
    def extended(self) -> ReplicaOperations:
        """How it reduces, gathers and shards."""

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas there are in all."""
