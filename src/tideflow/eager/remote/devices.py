"""The devices of a cluster as an eager client sees them: its own, and those of the other tasks."""

from __future__ import annotations

from collections.abc import Mapping

from tideflow.eager.remote.task import RemoteTask
from tideflow.runtime.device import DeviceManager
from tideflow.wire import messages as pb
from tideflow.wire.device_name import matches, parse_device_name, task_name


class ClusterDevices:
    """The devices of all tasks.

    Args:
      own: the client's devices.
      tasks: all other tasks, by name.
    """

    def __init__(self, own: DeviceManager, tasks: Mapping[str, RemoteTask]) -> None:
        self._own = own
        self._tasks = tasks
        # Which device a name means.
        self._found: dict[str, str | None] = {}

    def attributes(self) -> list[pb.DeviceAttributes]:
        """Return what tells tasks of all devices."""
        return [
            *(a for task in self._tasks.values() for a in task.attributes),
            *(device.attributes() for device in self._own.devices),
        ]

    @property
    def incarnations(self) -> dict[str, int]:
        """Incarnations of all devices, the client's first, by full name."""
        found = {device.name: device.incarnation for device in self._own.devices}
        for task in self._tasks.values():
            found.update(task.devices)
        return found

    def tasks_of_job(self, job: str) -> list[str]:
        """Return the names of a job's tasks, in order."""
        return [name for name in self._tasks if parse_device_name(name).job == job]

    def find(self, wanted: str) -> str | None:
        """Return the full name of the first device that a (partial) name means, or None."""
        if wanted not in self._found:
            spec = parse_device_name(wanted)
            self._found[wanted] = next((n for n in self.incarnations if matches(spec, n)), None)
        return self._found[wanted]

    def is_remote(self, device: str) -> bool:
        """Whether a device belongs to another task."""
        return task_name(device) in self._tasks

    def have_changed(self) -> None:
        """Look names up anew: tasks were replaced."""
        self._found.clear()
