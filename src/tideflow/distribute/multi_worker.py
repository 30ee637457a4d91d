"""MultiWorkerMirroredStrategy: the same program on every worker, which compute in step.

Each worker has replicas on its own devices.  What all replicas must agree on goes through
collectives: gradients are added up on each worker first, then among the workers; variables begin
with the first worker's values.

Source: tensorflow/python/distribute/collective_all_reduce_strategy.py; runtime facts on groups and
instances.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tideflow.cluster.cluster_spec import ClusterSpec
from tideflow.distribute.cluster_resolver import ClusterResolver, TFConfigClusterResolver
from tideflow.distribute.input import InputContext
from tideflow.distribute.mirrored import MirroredExtended, worker_devices
from tideflow.distribute.reduce_op import ReduceOp
from tideflow.distribute.strategy import Strategy, counts_once, divided
from tideflow.eager.context import context
from tideflow.eager.functions import call_time_value
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import get_default_graph
from tideflow.ops.data import AutoShardPolicy, Dataset
from tideflow.ops.export import export_v2
from tideflow.ops.framework import IndexedSlices, nest
from tideflow.ops.state import init_scope
from tideflow.wire import dtypes

# The one group, of all workers; instances are numbered from here, as TensorFlow does.
_GROUP_KEY = 1
_FIRST_INSTANCE = 100


@export_v2(
    "distribute.experimental.CommunicationImplementation",
    "distribute.experimental.CollectiveCommunication",
)
class CommunicationImplementation(enum.Enum):
    """By which library devices reduce; there is one here, which serves all."""

    AUTO = "AUTO"
    RING = "RING"
    NCCL = "NCCL"


@export_v2("distribute.experimental.CommunicationOptions")
class CommunicationOptions:
    """How collectives are made.

    Attributes:
      bytes_per_pack: accepted: what is reduced together goes together.
      timeout_seconds: how long a collective may wait for the other workers; None waits for ever.
      implementation: accepted, a CommunicationImplementation.
    Raises: ValueError for a negative size and for an implementation that there is not.
    """

    def __init__(
        self,
        bytes_per_pack: int = 0,
        timeout_seconds: float | None = None,
        implementation: Any = CommunicationImplementation.AUTO,
    ) -> None:
        if bytes_per_pack < 0:
            raise ValueError(f"Argument `bytes_per_pack` must be >=0, Received {bytes_per_pack}.")
        self.bytes_per_pack = bytes_per_pack
        self.timeout_seconds = timeout_seconds
        self.implementation = CommunicationImplementation(
            getattr(implementation, "value", implementation)
        )


@export_v2("distribute.experimental.CollectiveHints")
def collective_hints(
    bytes_per_pack: int = 0, timeout_seconds: float | None = None
) -> CommunicationOptions:
    """Return CommunicationOptions, by their earlier name."""
    return CommunicationOptions(bytes_per_pack, timeout_seconds)


@export_v2(
    "distribute.MultiWorkerMirroredStrategy", "distribute.experimental.MultiWorkerMirroredStrategy"
)
class MultiWorkerMirroredStrategy(Strategy):
    """Synchronous training on several workers, each of which runs the whole program.

    Args:
      cluster_resolver: names the cluster and this program's place in it; TF_CONFIG by default.
      communication_options: see CommunicationOptions.
    Raises: RuntimeError once operations have run in this program.
    """

    def __init__(
        self,
        cluster_resolver: ClusterResolver | None = None,
        communication_options: CommunicationOptions | None = None,
    ) -> None:
        self._resolver = cluster_resolver or TFConfigClusterResolver()
        options = communication_options or CommunicationOptions()
        super().__init__(MultiWorkerExtended(self, self._resolver, options))

    @property
    def cluster_resolver(self) -> ClusterResolver:
        """What told the strategy of its cluster."""
        return self._resolver


class MultiWorkerExtended(MirroredExtended):
    """What MultiWorkerMirroredStrategy does, for libraries."""

    def __init__(
        self, strategy: Strategy, resolver: ClusterResolver, options: CommunicationOptions
    ) -> None:
        spec = resolver.cluster_spec()
        self._workers = _worker_places(spec)
        job, task = resolver.task_type, resolver.task_id
        self._rank = 0
        if len(self._workers) > 1:
            if job is None or task is None or (job, task) not in self._workers:
                raise ValueError(
                    f"this program's place {job!r}:{task} is none of the workers; give task_type "
                    "and task_id, or TF_CONFIG with a task"
                )
            self._rank = self._workers.index((job, task))
            context().join_ring(spec, job, task)
        super().__init__(strategy, worker_devices())
        # The other workers have values of their own, where this one has a single value.
        self.gathers_single_values = len(self._workers) > 1
        # Keras reduces the scalars that its steps give in this way; TensorFlow refuses them.
        self.averages_scalars = self.gathers_single_values
        self._timeout_s = options.timeout_seconds or 0.0
        self._instances = itertools.count(_FIRST_INSTANCE)
        self.first_replica_id = self._rank * len(self.worker_devices)

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas there are in all: as many on each worker."""
        return len(self._workers) * len(self.worker_devices)

    @property
    def should_checkpoint(self) -> bool:
        """Whether this worker writes checkpoints: the first one does."""
        return self._rank == 0

    should_save_summary = should_checkpoint

    def _in_multi_worker_mode(self) -> bool:
        return len(self._workers) > 1

    # ---- collectives

    def _keys(self) -> tuple[Any, ...]:
        """Return the size and key of the group, and the next instance's."""
        instance = call_time_value(lambda: next(self._instances), dtypes.int32)
        return len(self._workers), _GROUP_KEY, instance

    def _all_reduce(self, tensor: Any) -> Any:
        """Return the sum over all workers."""
        return apply_op(
            "CollectiveReduceV2",
            tensor,
            *self._keys(),
            [],
            merge_op="Add",
            final_op="Id",
            timeout_seconds=self._timeout_s,
        )

    def _gather(self, tensor: Any) -> Any:
        """Return tensors of one shape of all workers, joined along the first axis."""
        return apply_op(
            "CollectiveGatherV2", tensor, *self._keys(), [], timeout_seconds=self._timeout_s
        )

    def _all_gather(self, tensor: Any) -> Any:
        """Return the tensors of all workers, joined along the first axis.

        They may differ in how many rows they have.
        """
        rows = apply_op("StridedSlice", apply_op("Shape", tensor), [0], [1], [1])
        counts = self._gather(rows)
        most = apply_op("Max", counts, [0])
        rank = len(tensor.shape.as_list())
        missing = apply_op("Sub", most, apply_op("Reshape", rows, []))
        first_axis = apply_op("Pack", [0, missing], axis=0)
        widths = apply_op("Pack", [first_axis, *([[0, 0]] * (rank - 1))], axis=0)
        joined = self._gather(apply_op("Pad", tensor, widths))
        pieces = []
        for worker in range(len(self._workers)):
            first = apply_op("Mul", most, worker)
            count = counts[worker]
            taken = apply_op("Range", first, apply_op("AddV2", first, count), 1)
            pieces.append(apply_op("GatherV2", joined, taken, 0))
        return apply_op("ConcatV2", pieces, 0)

    def reduce_to(self, reduce_op: Any, value: Any, destinations: Any, options: Any = None) -> Any:
        """Return the reduction of a value over the replicas of all workers."""
        op = ReduceOp.of(reduce_op)
        total = super().reduce_to(ReduceOp.SUM, value, destinations, options)
        if len(self._workers) > 1:
            total = self._reduced(total)
        if op is ReduceOp.MEAN:
            count = self.num_replicas_in_sync
            if isinstance(total, IndexedSlices):
                values = divided(total.values, count)
                return IndexedSlices(values, total.indices, total.dense_shape)
            return divided(convert_to_tensor(total), count)
        return total

    def _reduced(self, total: Any) -> Any:
        if isinstance(total, IndexedSlices):
            values = self._all_gather(total.values)
            return IndexedSlices(values, self._all_gather(total.indices), total.dense_shape)
        tensor = convert_to_tensor(total)
        if get_default_graph().is_eager:
            return self._all_reduce(tensor)
        # Flat, as TensorFlow's workers send it.
        flat = self._all_reduce(apply_op("Reshape", tensor, [-1]))
        return apply_op("Reshape", flat, apply_op("Shape", tensor))

    def batch_reduce_to(
        self,
        reduce_op: Any,
        value_destination_pairs: Sequence[tuple[Any, Any]],
        options: Any = None,
    ) -> list[Any]:
        """Return reduce_to of several values; dense ones of one type travel as one."""
        op = ReduceOp.of(reduce_op)
        sums = [
            value
            if counts_once(value)
            else super(MultiWorkerExtended, self).reduce_to(ReduceOp.SUM, value, destination)
            for value, destination in value_destination_pairs
        ]
        if len(self._workers) > 1:
            sums = self._reduced_together(sums)
        if op is ReduceOp.SUM:
            return sums
        count = self.num_replicas_in_sync
        return [
            IndexedSlices(divided(s.values, count), s.indices, s.dense_shape)
            if isinstance(s, IndexedSlices)
            else divided(convert_to_tensor(s), count)
            for s in sums
        ]

    def _reduced_together(self, sums: list[Any]) -> list[Any]:
        groups: dict[Any, list[int]] = {}
        found: list[Any] = list(sums)
        # In the order and packs of TensorFlow's workers: the last gradient is ready first.
        for i, total in reversed(list(enumerate(sums))):
            is_dense = not isinstance(total, IndexedSlices)
            if is_dense:
                found[i] = convert_to_tensor(total)
            is_alone = get_default_graph().is_eager or not is_dense
            if is_alone or not found[i].shape.is_fully_defined():
                found[i] = self._reduced(total)
            else:
                groups.setdefault(found[i].dtype, []).append(i)
        for members in groups.values():
            flat = [apply_op("Reshape", found[i], [-1]) for i in members]
            packed = self._all_reduce(flat[0] if len(flat) == 1 else apply_op("ConcatV2", flat, 0))
            sizes = [int(found[i].shape.num_elements() or 0) for i in members]
            parts = apply_op("SplitV", packed, sizes, 0, num_split=len(sizes))
            for i, part in zip(members, parts):
                found[i] = apply_op("Reshape", part, found[i].shape.as_list())
        return found

    def gather_to(self, value: Any, axis: int) -> Any:
        """Return the values of all replicas, joined along an axis."""
        here = convert_to_tensor(super().gather_to(value, axis))
        if len(self._workers) == 1:
            return here
        rank = len(here.shape.as_list())
        axis %= rank
        order = [axis, *(i for i in range(rank) if i != axis)]
        back = [order.index(i) for i in range(rank)]
        gathered = self._all_gather(apply_op("Transpose", here, order))
        return apply_op("Transpose", gathered, back)

    # ---- variables and input

    def create_variable(self, next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        """Make a variable; its copies on all workers begin with the first worker's value."""
        if len(self._workers) > 1:
            initial = kwargs["initial_value"]
            dtype = kwargs.get("dtype")

            def first_workers_value() -> Any:
                with init_scope():
                    own = convert_to_tensor(initial() if callable(initial) else initial, dtype)
                    return self._broadcast(own)

            kwargs["initial_value"] = first_workers_value
        return super().create_variable(next_creator, **kwargs)

    def _broadcast(self, own: Any) -> Any:
        """Return the first worker's value on all of them."""
        if self._rank == 0:
            return apply_op("CollectiveBcastSendV2", own, *self._keys())
        return apply_op(
            "CollectiveBcastRecvV2", *self._keys(), own.shape.as_list(), T=own.dtype.base_dtype
        )

    def input_contexts(self) -> list[InputContext]:
        """Return the input context of this worker."""
        return [InputContext(len(self._workers), self._rank, self.num_replicas_in_sync)]

    def shard(self, dataset: Dataset) -> Any:
        """Return the dataset with this worker's share of each batch.

        A dataset that is sharded by hints gives this worker's elements, the shares of a batch one
        after the other.
        """
        spec, count = dataset.element_spec, len(self._workers)
        by_hints = (
            dataset.options().experimental_distribute.auto_shard_policy is AutoShardPolicy.HINT
        )
        if by_hints:
            dataset = dataset.by_hints(count, self._rank)
        if count == 1:
            return dataset

        def share(*element: Any, rank: Any = self._rank) -> Any:
            whole = element if isinstance(spec, tuple) else element[0]
            return nest.map_structure(lambda leaf: _share(leaf, rank, count), whole)

        if not by_hints:
            return dataset.map(share)
        ranks = Dataset.from_tensor_slices(list(range(count)))
        return dataset.flat_map(lambda *element: ranks.map(lambda rank: share(*element, rank=rank)))


def _share(leaf: Any, rank: Any, count: int) -> Any:
    """Return a worker's share of the rows of a batch."""
    tensor = convert_to_tensor(leaf)
    rows: Any = tensor.shape.as_list()[0]
    if rows is None:
        rows = apply_op("GatherV2", apply_op("Shape", tensor), 0, 0)
    return tensor[rows * rank // count : rows * (rank + 1) // count]


def _worker_places(spec: ClusterSpec) -> list[tuple[str, int]]:
    """Return the places that take part, the chief first."""
    found: list[tuple[str, int]] = []
    for job in ("chief", "worker"):
        if job in spec.jobs:
            found.extend((job, index) for index in spec.tasks(job))
    return found or [("worker", 0)]
