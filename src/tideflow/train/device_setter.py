"""Where between-graph replicas put things: variables on parameter servers, the rest on a worker.

Source: tensorflow/python/training/device_setter.py and
tensorflow/contrib/training/python/training/device_setter.py for names and defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tideflow.graph import roles, shapes
from tideflow.graph.graph import Operation
from tideflow.ops.export import export
from tideflow.wire.device_name import DeviceSpec


class RoundRobinStrategy:
    """Give each operation the next task in turn."""

    def __init__(self, num_tasks: int) -> None:
        self._num_tasks = num_tasks
        self._next_task = 0

    def __call__(self, op: Operation) -> int:
        """Return the task for an operation."""
        task = self._next_task
        self._next_task = (task + 1) % self._num_tasks
        return task


@export("contrib.training.GreedyLoadBalancingStrategy", "train.GreedyLoadBalancingStrategy")
class GreedyLoadBalancingStrategy:
    """Give each operation to the task with the least load so far, the first among equals.

    load_fn: the load that an operation is; byte_size_load_fn, say.
    """

    def __init__(self, num_tasks: int, load_fn: Callable[[Operation], float]) -> None:
        self._load_fn = load_fn
        self._loads = [0.0] * num_tasks

    def __call__(self, op: Operation) -> int:
        """Return the task for an operation."""
        task = self._loads.index(min(self._loads))
        self._loads[task] += self._load_fn(op)
        return task


@export("contrib.training.byte_size_load_fn", "train.byte_size_load_fn")
def byte_size_load_fn(op: Operation) -> float:
    """Return the size in bytes of the variable that an operation holds.

    Raises: ValueError when its shape is not known in full.
    """
    if op.op_def.role is roles.VARIABLE_HANDLE:
        dtype, dims = op.attrs["dtype"], op.attrs["shape"].sizes
    elif len(op.outputs) == 1:
        dtype, dims = op.outputs[0].dtype.base_dtype, op.outputs[0].dims
    else:
        raise ValueError(
            f"{op.name!r} ({op.type}) holds no variable: it has {len(op.outputs)} outputs"
        )
    count = shapes.num_elements(dims)
    if count is None:
        raise ValueError(f"the size of {op.name!r} is not known: {shapes.format_dims(dims)}")
    return float(count * dtype.size)


class _ReplicaDeviceChooser:
    """The device function that replica_device_setter returns."""

    def __init__(
        self,
        ps_device: str,
        worker_device: str,
        merge_devices: bool,
        ps_ops: Sequence[str] | None,
        ps_strategy: Callable[[Operation], int],
    ) -> None:
        self._ps_device = ps_device
        self._worker_device = worker_device
        self._merge_devices = merge_devices
        self._ps_ops = None if ps_ops is None else frozenset(ps_ops)
        self._ps_strategy = ps_strategy

    def __call__(self, op: Operation) -> str:
        if not self._merge_devices and op.device:
            return op.device
        asked = DeviceSpec.from_string(op.device or "")
        if self._ps_device and self._is_for_ps(op):
            chosen = DeviceSpec.from_string(self._ps_device)
            if chosen.job and (not asked.job or asked.job == chosen.job) and chosen.task is None:
                task = asked.task if asked.task is not None else self._ps_strategy(op)
                chosen = chosen.replace(task=task)
            return chosen.make_merged_spec(asked).to_string()
        worker = DeviceSpec.from_string(self._worker_device or "")
        return worker.make_merged_spec(asked).to_string()

    def _is_for_ps(self, op: Operation) -> bool:
        if self._ps_ops is None:
            return op.op_def.holds_parameters
        return op.type in self._ps_ops


@export("train.replica_device_setter")
def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str = "/job:ps",
    worker_device: str = "/job:worker",
    merge_devices: bool = True,
    cluster: Any = None,
    ps_ops: Sequence[str] | None = None,
    ps_strategy: Callable[[Operation], int] | None = None,
) -> Callable[[Operation], str] | None:
    """Return a device function for `with tf.device(...)` that spreads variables over servers.

    Args:
      ps_tasks: how many tasks the ps job has; taken from cluster if that is given.
      cluster: a ClusterSpec, its proto, or a dict from job to tasks.
      ps_ops: op types that go to the servers; variables, tables and accumulators if left out.
      ps_strategy: gives the task for each of them; round robin if left out.
    Returns: None when there are no servers: everything then stays where it is.
    Raises: TypeError for a ps_strategy that cannot be called or a cluster of another kind.
    """
    if cluster is not None:
        jobs = _jobs(cluster)
        job = DeviceSpec.from_string(ps_device).job
        if job not in jobs or not jobs[job]:
            return None
        ps_tasks = len(jobs[job])
    if not ps_tasks:
        return None
    strategy = ps_strategy if ps_strategy is not None else RoundRobinStrategy(ps_tasks)
    if not callable(strategy):
        raise TypeError(f"ps_strategy must be a function of an operation; found {strategy!r}")
    return _ReplicaDeviceChooser(ps_device, worker_device, merge_devices, ps_ops or None, strategy)


def _jobs(cluster: Any) -> dict[str, Any]:
    if isinstance(cluster, dict):
        return cluster
    if hasattr(cluster, "as_dict"):
        found: dict[str, Any] = cluster.as_dict()
        return found
    if hasattr(cluster, "job"):
        return {job.name: dict(job.tasks) for job in cluster.job}
    raise TypeError(f"cluster must be a ClusterSpec or a dict of jobs; found {cluster!r}")
