"""In which context code runs: of one replica, across replicas, or without a strategy.

Each thread has a stack of contexts.  At its bottom is the default strategy, with one replica.
Source: tensorflow/python/distribute/distribute_lib.py (contexts); runtime facts on strategies.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tideflow.distribute.protocols import StrategyLike
from tideflow.distribute.reduce_op import ReduceOp
from tideflow.graph.building import convert_to_tensor
from tideflow.graph.defaults import local
from tideflow.graph.graph import Tensor
from tideflow.ops.export import export_v2
from tideflow.ops.framework import nest
from tideflow.wire import dtypes


class Entry:
    """One level of a thread's stack of contexts.

    Attributes:
      replica: None across replicas.
      device: of an update that is being made, else None.
    """

    __slots__ = ("device", "replica", "strategy")

    def __init__(
        self,
        strategy: StrategyLike,
        replica: ReplicaContext | None,
        device: str | None = None,
    ) -> None:
        self.strategy = strategy
        self.replica = replica
        self.device = device


class _Threads(threading.local):
    def __init__(self) -> None:
        self.stack: list[Entry] = []


_threads = _Threads()
_defaults: list[StrategyLike] = []


def set_default_strategy(strategy: StrategyLike) -> None:
    """Say which strategy there is where no other one is in scope (once, when it is made)."""
    _defaults.append(strategy)


def current() -> Entry:
    """Return the calling thread's innermost context."""
    if _threads.stack:
        return _threads.stack[-1]
    return Entry(_defaults[0], _default_replica())


def _default_replica() -> ReplicaContext:
    return ReplicaContext(_defaults[0], 0)


@contextlib.contextmanager
def entered(entry: Entry) -> Iterator[None]:
    """Be in a context inside `with`."""
    stack = _threads.stack
    stack.append(entry)
    try:
        yield
    finally:
        stack.pop()


@export_v2("distribute.ReplicaContext")
class ReplicaContext:
    """What a function that runs once for each replica can ask, and do together with the others.

    Attributes:
      strategy: whose replica it is.
    """

    def __init__(self, strategy: StrategyLike, replica_id_in_sync_group: int) -> None:
        self.strategy = strategy
        self._replica_id = replica_id_in_sync_group
        # How to stop until all replicas are there, and let a function run across them.
        self.pause: Callable[..., Any] | None = None

    @property
    def replica_id_in_sync_group(self) -> Any:
        """Which replica this is, as an int32 tensor."""
        first = self.strategy.extended.first_replica_id
        return convert_to_tensor(first + self._replica_id, dtypes.int32)

    @property
    def replica_number(self) -> int:
        """Which of this process's replicas this is."""
        return self._replica_id

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas there are in all."""
        return self.strategy.num_replicas_in_sync

    @property
    def devices(self) -> list[str]:
        """The device of this replica."""
        return [self.strategy.extended.worker_devices[self._replica_id]]

    def merge_call(self, merge_fn: Callable[..., Any], args: Any = (), kwargs: Any = None) -> Any:
        """Wait for all replicas, run merge_fn(strategy, *args, **kwargs) once across them, and
        return this replica's part of its result.

        Args:
          merge_fn: its arguments are those of all replicas, joined.
        Raises: RuntimeError inside a tf.function or control flow of one replica, and when the
        replicas make different numbers of calls.
        """
        _require_replica_context(self)
        if self.pause is None:
            with entered(Entry(self.strategy, None)):
                return merge_fn(self.strategy, *args, **(kwargs or {}))
        return self.pause(merge_fn, args, kwargs or {})

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """Return the reduction of every tensor in a structure over all replicas."""
        op = ReduceOp.of(reduce_op)
        flat = nest.flatten(value)
        found = self._all_reduce(op, flat, options)
        for tape in local.tapes:
            # The gradient of a reduction is the same reduction of the gradients.
            for given, reduced in zip(flat, found):
                if isinstance(given, Tensor) and isinstance(reduced, Tensor):
                    tape.record(
                        reduced.op, [given], lambda grad: self._all_reduce(op, [grad], options)
                    )
        return nest.pack_sequence_as(value, found)

    def _all_reduce(self, op: ReduceOp, flat: Any, options: Any) -> list[Any]:
        def reduce_all(strategy: StrategyLike, *values: Any) -> Any:
            extended = strategy.extended
            found = extended.batch_reduce_to(op, [(v, v) for v in values], options)
            return [extended.on_each_device(one) for one in found]

        return list(self.merge_call(reduce_all, flat))

    def all_gather(self, value: Any, axis: int, options: Any = None) -> Any:
        """Return the values of all replicas joined along an axis, for each tensor given."""
        flat = nest.flatten(value)

        def gather_all(strategy: StrategyLike, *values: Any) -> Any:
            extended = strategy.extended
            return [extended.on_each_device(extended.gather_to(v, axis)) for v in values]

        return nest.pack_sequence_as(value, list(self.merge_call(gather_all, flat)))


def _require_replica_context(context: ReplicaContext) -> None:
    found = current().replica
    if found is None:
        raise RuntimeError(
            "merge_call() needs a replica context; this code runs across replicas already "
            "(in strategy.scope(), or in another merge_call)"
        )
    if found is not context and found.strategy is not context.strategy:
        raise RuntimeError("merge_call() of another strategy's replica context")


# ---- public functions


@export_v2("distribute.get_replica_context")
def get_replica_context() -> ReplicaContext | None:
    """Return the replica's context, None across replicas."""
    return current().replica


@export_v2("distribute.get_strategy")
def get_strategy() -> StrategyLike:
    """Return the strategy in scope, or the default one."""
    return current().strategy


@export_v2("distribute.has_strategy")
def has_strategy() -> bool:
    """Whether a strategy other than the default one is in scope."""
    return current().strategy is not _defaults[0]


@export_v2("distribute.in_cross_replica_context")
def in_cross_replica_context() -> bool:
    """Whether code runs across replicas."""
    return current().replica is None


def require_cross_replica_context(strategy: StrategyLike) -> None:
    """Raise RuntimeError in a replica of the strategy, or under another strategy."""
    entry = current()
    if entry.strategy is strategy and entry.replica is None:
        return
    if entry.replica is not None and entry.strategy is strategy:
        raise RuntimeError(
            "Method requires being in cross-replica context, use get_replica_context().merge_call()"
        )
    if has_strategy() and entry.strategy is not strategy:
        raise RuntimeError(
            f"Mixing different tf.distribute.Strategy objects: {entry.strategy} is not {strategy}"
        )
