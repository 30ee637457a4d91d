"""Which devices of other tasks a task of a cluster sees."""

from __future__ import annotations

from collections.abc import Sequence

from tideflow.ops.export import export
from tideflow.wire import messages as pb


@export("config.experimental.ClusterDeviceFilters")
class ClusterDeviceFilters:
    """What tf.config.experimental_connect_to_cluster is told of devices that tasks need not see."""

    def __init__(self) -> None:
        self._filters: dict[str, dict[int, list[str]]] = {}

    def set_device_filters(
        self, job_name: str, task_index: int, device_filters: Sequence[str]
    ) -> None:
        """Let a task see devices alone whose names begin as the filters, such as "/job:ps", say.

        Raises: TypeError for arguments of other kinds.
        """
        if not all(isinstance(one, (str, bytes)) for one in (job_name, *device_filters)):
            raise TypeError(f"names must be text; found {job_name!r} and {device_filters!r}")
        if not isinstance(task_index, int):
            raise TypeError(f"the number of a task must be an int; found {task_index!r}")
        self._filters.setdefault(job_name, {})[task_index] = [*device_filters]

    def as_message(self) -> pb.ClusterDeviceFilters:
        """Return the filters as a message, in the order of names and numbers."""
        made = pb.ClusterDeviceFilters()
        for job, tasks in sorted(self._filters.items()):
            job_pb = made.jobs.add(name=job)
            for task, filters in sorted(tasks.items()):
                job_pb.tasks[task].device_filters.extend(filters)
        return made

    _as_cluster_device_filters = as_message
