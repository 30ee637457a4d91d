"""Strategies: how one program runs on many replicas.

`Strategy` is what programs use; `StrategyExtended` is what libraries that build on it use, and what
each kind of strategy defines.

Source: tensorflow/python/distribute/distribute_lib.py; runtime facts on strategies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tideflow.distribute.input import InputContext, distribute_dataset, distribute_from_function
from tideflow.distribute.reduce_op import ReduceOp
from tideflow.distribute.replica_context import (
    Entry,
    ReplicaContext,
    current,
    entered,
    has_strategy,
    require_cross_replica_context,
    set_default_strategy,
)
from tideflow.distribute.replica_threads import call_for_each_replica
from tideflow.distribute.values import (
    DistributedValues,
    PerReplica,
    local_results,
    regroup,
    select_replica_tree,
)
from tideflow.distribute.variables import (
    DistributedVariable,
    MirroredVariable,
    SyncOnReadVariable,
    make_copies,
)
from tideflow.eager.functions import Function, distinguish_traces
from tideflow.eager.random_generator import distinguish_replicas
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.ops.data import Dataset
from tideflow.ops.export import export_v2
from tideflow.ops.framework import IndexedSlices, nest
from tideflow.ops.state import (
    Variable,
    VariableAggregation,
    VariableSynchronization,
    variable_creator_scope,
)
from tideflow.wire import errors


@export_v2("distribute.RunOptions")
class RunOptions:
    """Accepted for programs that give them."""

    def __init__(self, **options: Any) -> None:
        self.__dict__.update(options)


@export_v2("distribute.StrategyExtended")
class StrategyExtended:
    """What a strategy does, for libraries.

    Attributes:
      worker_devices: full names, one for each replica of this process.
      first_replica_id: the number of this process's first replica among all.
    """

    first_replica_id = 0

    def __init__(self, strategy: Strategy, worker_devices: Sequence[str]) -> None:
        self._strategy = strategy
        self.worker_devices = tuple(worker_devices)

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        """Where variables are put."""
        return self.worker_devices

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas there are in all."""
        return len(self.worker_devices)

    # ---- running

    def call_for_each_replica(
        self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Return what fn gives in each replica, joined leaf by leaf.

        Raises: RuntimeError in a replica context.
        """
        require_cross_replica_context(self._strategy)
        return call_for_each_replica(self._strategy, fn, args, kwargs or {})

    def update(
        self,
        var: Variable,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        group: bool = True,
    ) -> Any:
        """Call fn(copy, *args) for each copy of a variable, with the replica's part of args."""
        del group
        copies = local_results(var)
        results = []
        for number, copy in enumerate(copies):
            parts, named = _parts_for(number, (list(args), kwargs or {}))
            with (
                entered(Entry(self._strategy, None, copy.device)),
                get_default_graph().device(copy.device),
            ):
                results.append(fn(copy, *parts, **named))
        return regroup(results)

    # ---- reducing

    def add_up(self, op: ReduceOp, tensors: Sequence[Any]) -> Any:
        """Return the sum or mean of tensors (or slices) that lie anywhere."""
        if any(isinstance(t, IndexedSlices) for t in tensors):
            return _add_slices(op, tensors)
        total = tensors[0] if len(tensors) == 1 else apply_op("AddN", list(tensors))
        if op is ReduceOp.MEAN and len(tensors) > 1:
            total = divided(total, len(tensors))
        return total

    def reduce_to(
        self, reduce_op: ReduceOp | str, value: object, destinations: Any, options: object = None
    ) -> Any:
        """Return the reduction of a value over the replicas, for each of the destinations.

        destinations: a variable or distributed value, or a device; what is on several devices gets
        the result on each.
        """
        op = ReduceOp.of(reduce_op)
        parts = local_results(value)
        if len(parts) == 1:
            only = parts[0]
            total = only if op is ReduceOp.MEAN else self._times_replicas(only)
        else:
            total = self.add_up(op, [_tensor(part) for part in parts])
        return self._handed_out(total, destinations)

    def require_reducible(self, op: ReduceOp, value: object) -> None:
        """Raise ValueError for the sum over replicas of what is no value of each replica."""
        is_one = not isinstance(value, DistributedValues)
        if is_one and op is ReduceOp.SUM and len(self.worker_devices) > 1:
            raise ValueError(
                f"A non-DistributedValues value {value} cannot be reduced with the given reduce op "
                f"{op}."
            )

    def _times_replicas(self, value: object) -> Any:
        """Return the sum over the replicas of a value that is the same in all."""
        count = len(self.worker_devices)
        if count == 1:
            return value
        tensor = convert_to_tensor(value)
        return apply_op("Mul", tensor, apply_op("Cast", count, DstT=tensor.dtype.base_dtype))

    def on_each_device(self, value: object) -> Any:
        """Return a value with a copy on each device, where there are several."""
        if len(self.worker_devices) == 1:
            return value
        copies = []
        for device in self.worker_devices:
            with get_default_graph().device(device):
                copies.append(_copy(value))
        return PerReplica(copies)

    def _handed_out(self, total: Any, destinations: Any) -> Any:
        del destinations  # one value serves all devices of a process
        return total

    def batch_reduce_to(
        self,
        reduce_op: ReduceOp | str,
        value_destination_pairs: Sequence[tuple[Any, Any]],
        options: object = None,
    ) -> list[Any]:
        """Return reduce_to of several values; a tensor that all replicas share counts once."""
        return [
            value if counts_once(value) else self.reduce_to(reduce_op, value, destination, options)
            for value, destination in value_destination_pairs
        ]

    # Whether what is no distributed value is gathered, too.
    gathers_single_values = False
    # Whether the mean over the first axis of scalars is the one over the replicas.
    averages_scalars = False

    def gather_to(self, value: object, axis: int) -> Any:
        """Return the values of the replicas, joined along an axis."""
        parts = [_tensor(part) for part in local_results(value)]
        if len(parts) == 1:
            parts *= len(self.worker_devices)
        return parts[0] if len(parts) == 1 else apply_op("ConcatV2", parts, axis)

    def read_var(self, var: Variable) -> Tensor:
        """Return a variable's value across replicas."""
        return convert_to_tensor(var)

    def value_container(self, value: object) -> Any:
        """Return the distributed variable that a copy belongs to, or the value itself."""
        owner = getattr(value, "_distributed_container", None)
        found = owner() if owner is not None else None
        return value if found is None else found

    # ---- variables

    def create_variable(self, next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        """Make a variable in the strategy's scope.

        Raises: ValueError for a synchronization that makes no sense.
        """
        aggregation, on_read = modes_of(kwargs)
        sync = VariableSynchronization
        kwargs["synchronization"] = sync.ON_READ if on_read else sync.ON_WRITE
        graph = get_default_graph()
        copies = make_copies(self.parameter_devices, next_creator, kwargs, graph)
        kind = SyncOnReadVariable if on_read else MirroredVariable
        return kind(self._strategy, copies, aggregation)

    def variable_created_in_scope(self, v: Variable) -> bool:
        """Whether a variable is this strategy's."""
        return _maker_of(v) is self._strategy

    @contextlib.contextmanager
    def colocate_vars_with(self, colocate_with_variable: Variable) -> Iterator[None]:
        """Let variables made inside lie where another one does, as all of them do."""
        if not self.variable_created_in_scope(colocate_with_variable):
            raise ValueError("`colocate_vars_with` needs a variable of this strategy")
        yield

    def experimental_require_static_shapes(self) -> bool:
        """Whether shapes must be known; they need not."""
        return False

    @property
    def should_checkpoint(self) -> bool:
        """Whether this process writes checkpoints."""
        return True

    @property
    def should_save_summary(self) -> bool:
        """Whether this process writes summaries."""
        return True

    def input_contexts(self) -> list[InputContext]:
        """Return one input context for each input pipeline of this process."""
        return [InputContext(1, 0, self.num_replicas_in_sync)]

    def shard(self, dataset: Dataset) -> Any:
        """Return this process's part of a dataset."""
        return dataset

    def non_slot_devices(self, var_list: Any) -> Any:
        """Return where to put state that belongs to no variable."""
        return var_list[0]


@export_v2("distribute.Strategy")
class Strategy:
    """A way to run one program on many replicas.

    Attributes:
      extended: for libraries.
    """

    def __init__(self, extended: StrategyExtended) -> None:
        self.extended = extended
        self._functions: dict[int, tuple[Any, Function]] = {}

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas there are in all."""
        return self.extended.num_replicas_in_sync

    @property
    def cluster_resolver(self) -> Any:
        """What told the strategy of its cluster, or None."""
        return None

    @contextlib.contextmanager
    def scope(self) -> Iterator[Strategy]:
        """Make variables and models for this strategy inside `with`.

        Raises: RuntimeError inside the scope of another one.
        """
        entry = current()
        if has_strategy() and entry.strategy is not self:
            raise RuntimeError(
                f"Mixing different tf.distribute.Strategy objects: {entry.strategy} is not {self}"
            )
        if has_strategy():
            with entered(Entry(self, None)):
                yield self
            return
        with entered(Entry(self, None)), variable_creator_scope(self._create):
            yield self

    def _create(self, next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        if current().strategy is not self:
            return next_creator(**kwargs)
        return self.extended.create_variable(next_creator, **kwargs)

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        options: object = None,
    ) -> Any:
        """Return what fn gives in each replica; distributed arguments are parted among them.

        Raises: RuntimeError in a replica.
        """
        require_cross_replica_context_or_default(self)
        with self.scope():
            return self.extended.call_for_each_replica(fn, args, kwargs)

    def reduce(self, reduce_op: ReduceOp | str, value: object, axis: int | None) -> Any:
        """Return the sum or mean of a value over the replicas, and over an axis of each.

        Raises: ValueError for another reduction.
        """
        op = ReduceOp.of(reduce_op)
        require_cross_replica_context_or_default(self)
        with self.scope():
            return nest.map_structure(lambda leaf: self._reduce(op, leaf, axis), value)

    def _reduce(self, op: ReduceOp, value: object, axis: int | None) -> Any:
        if axis is not None:
            parts = [convert_to_tensor(part) for part in local_results(value)]
            ranks = [part.shape.rank for part in parts]
            is_mean_of_scalars = op is ReduceOp.MEAN and axis == 0 and set(ranks) == {0}
            if is_mean_of_scalars and self.extended.averages_scalars:
                return self.extended.reduce_to(op, value, None)
            if any(rank is not None and not -rank <= axis < rank for rank in ranks):
                raise ValueError(
                    f"`axis` = {axis} must be less than the rank of what is reduced ({ranks})"
                )
            sums = [apply_op("Sum", part, axis) for part in parts]
            total = self.extended.reduce_to(ReduceOp.SUM, PerReplica(sums), None)
            if op is ReduceOp.SUM:
                return total
            sizes = [apply_op("GatherV2", apply_op("Shape", part), axis, 0) for part in parts]
            count = self.extended.reduce_to(ReduceOp.SUM, PerReplica(sizes), None)
            return apply_op("RealDiv", total, apply_op("Cast", count, DstT=total.dtype))
        if not hasattr(value, "is_distributed"):
            self.extended.require_reducible(op, value)
        return self.extended.reduce_to(op, value, None)

    def gather(self, value: object, axis: int) -> Any:
        """Return the values of the replicas, joined along an axis."""
        with self.scope():
            return nest.map_structure(lambda leaf: self._gather(leaf, axis), value)

    def _gather(self, value: object, axis: int) -> Any:
        is_distributed = isinstance(value, DistributedValues) or hasattr(value, "is_distributed")
        if is_distributed or self.extended.gathers_single_values:
            return self.extended.gather_to(value, axis)
        return convert_to_tensor(value)  # there is one, whatever the number of replicas

    def experimental_local_results(self, value: object) -> tuple[Any, ...]:
        """Return the values of this process's replicas; of a structure, one for each of them."""
        if nest.is_nested(value):
            count = len(self.extended.worker_devices)
            return tuple(select_replica_tree(number, value) for number in range(count))
        return local_results(value)

    def experimental_distribute_values_from_function(self, value_fn: Callable[[Any], Any]) -> Any:
        """Return a distributed value of what value_fn(ValueContext) gives for each replica."""
        count = len(self.extended.worker_devices)
        contexts = [ValueContext(i, self.num_replicas_in_sync) for i in range(count)]
        return regroup([value_fn(context) for context in contexts], always_part=True)

    # ---- input

    def experimental_distribute_dataset(self, dataset: Dataset, options: object = None) -> Any:
        """Return a dataset whose elements are parted among the replicas."""
        return distribute_dataset(self, dataset)

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], Any], options: object = None
    ) -> Any:
        """Return a distributed dataset of what dataset_fn gives for each input pipeline; each
        replica takes elements of it in turn."""
        return distribute_from_function(self, dataset_fn)

    def __deepcopy__(self, memo: dict[int, object]) -> Strategy:
        return self


@export_v2("distribute.experimental.ValueContext")
class ValueContext:
    """Which replica a value is made for."""

    def __init__(self, replica_id_in_sync_group: int = 0, num_replicas_in_sync: int = 1) -> None:
        self.replica_id_in_sync_group = replica_id_in_sync_group
        self.num_replicas_in_sync = num_replicas_in_sync


def modes_of(kwargs: dict[str, Any]) -> tuple[VariableAggregation, bool]:
    """Return the aggregation that the arguments of a variable ask for, and whether it is made
    when the variable is read.

    Raises: ValueError for what is no mode, and for the synchronization NONE.
    """
    synchronization = kwargs.get("synchronization") or VariableSynchronization.AUTO
    aggregation = kwargs.get("aggregation") or VariableAggregation.NONE
    for what, given, kind in (
        ("synchronization", synchronization, VariableSynchronization),
        ("aggregation", aggregation, VariableAggregation),
    ):
        if not isinstance(given, kind):
            raise ValueError(
                f"Invalid variable {what} mode: {given} for variable: {kwargs.get('name')}"
            )
    if synchronization is VariableSynchronization.NONE:
        raise ValueError(
            "`NONE` variable synchronization mode is not supported with tf.distribute strategy; "
            "use ON_WRITE or ON_READ"
        )
    return aggregation, synchronization is VariableSynchronization.ON_READ


def counts_once(value: object) -> bool:
    """Return whether a value of a batch is one and the same tensor in all replicas.

    TensorFlow's strategies take it for its own sum.
    """
    return isinstance(value, Tensor) and not isinstance(value, DistributedValues)


def require_cross_replica_context_or_default(strategy: Strategy) -> None:
    """Raise RuntimeError in a replica of the strategy, unless it is the default one."""
    entry = current()
    if has_strategy() and entry.strategy is strategy and entry.replica is not None:
        require_cross_replica_context(strategy)


def _parts_for(number: int, structure: Any) -> Any:
    """Return a replica's part of the arguments of an update; variables become their copies."""
    return nest.map_structure(
        lambda leaf: local_results(leaf)[number] if len(local_results(leaf)) > 1 else leaf,
        structure,
    )


def _copy(value: object) -> Any:
    if isinstance(value, IndexedSlices):
        values, indices = _copy(value.values), _copy(value.indices)
        return IndexedSlices(values, indices, value.dense_shape)
    return apply_op("Identity", value)


def _tensor(value: object) -> Any:
    return value if isinstance(value, IndexedSlices) else convert_to_tensor(value)


def divided(total: Tensor, count: int) -> Any:
    """Return a tensor divided by a number, as an integer where it is of integers."""
    dtype = total.dtype.base_dtype
    op = "RealDiv" if dtype.is_floating or dtype.is_complex else "FloorDiv"
    return apply_op(op, total, apply_op("Cast", count, DstT=dtype))


def _add_slices(op: ReduceOp, slices: Sequence[Any]) -> IndexedSlices:
    values = apply_op("ConcatV2", [s.values for s in slices], 0)
    if op is ReduceOp.MEAN:
        values = divided(values, len(slices))
    indices = apply_op("ConcatV2", [s.indices for s in slices], 0)
    return IndexedSlices(values, indices, slices[0].dense_shape)


class DefaultStrategy(Strategy):
    """What there is without a strategy: one replica, here."""

    def __init__(self) -> None:
        super().__init__(_DefaultExtended(self, [""]))

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        options: object = None,
    ) -> Any:
        """Return what fn gives."""
        return fn(*args, **(kwargs or {}))

    @contextlib.contextmanager
    def scope(self) -> Iterator[Strategy]:
        """Change nothing.  Raises: RuntimeError inside the scope of another strategy."""
        if has_strategy():
            raise RuntimeError("Must not be in the scope of another strategy")
        yield self


@export_v2("distribute.TPUStrategy")
class TPUStrategy(Strategy):
    """The class that programs ask whether a strategy is of; there are no TPUs here.

    Raises: UnimplementedError.
    """

    def __init__(
        self,
        tpu_cluster_resolver: Any = None,
        experimental_device_assignment: Any = None,
        experimental_spmd_xla_partitioning: bool = False,
    ) -> None:
        raise errors.UnimplementedError(
            "tideflow has no TPUs; tf.distribute.MirroredStrategy uses several devices of a task"
        )


class _DefaultExtended(StrategyExtended):
    def create_variable(self, next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        """Make a plain variable."""
        return next_creator(**kwargs)

    def variable_created_in_scope(self, v: Variable) -> bool:
        """Whether a variable was made outside of all strategies."""
        return _maker_of(v) in (None, self._strategy)

    @contextlib.contextmanager
    def colocate_vars_with(self, colocate_with_variable: Variable) -> Iterator[None]:
        """Let variables made inside lie where another one does, whosever that is."""
        with get_default_graph().device(colocate_with_variable.device):
            yield


def _maker_of(variable: Any) -> Any:
    """Return the strategy that made a variable; None where none did."""
    made_by = getattr(variable, "distribute_strategy", None)
    return made_by or getattr(variable, "_distribute_strategy", None)


set_default_strategy(DefaultStrategy())
# In the scope of a strategy a function does other things than outside.
distinguish_traces(lambda: (id(current().strategy), _replica_number(current().replica)))


def _replica_of_generators() -> tuple[bool, int | None]:
    here = current().replica
    return has_strategy(), None if here is None else here.replica_number


distinguish_replicas(_replica_of_generators)


def _replica_number(replica: ReplicaContext | None) -> int:
    return -1 if replica is None else replica.replica_number


__all__ = ["DistributedVariable", "RunOptions", "Strategy", "StrategyExtended", "ValueContext"]
