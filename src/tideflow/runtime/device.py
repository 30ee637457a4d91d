"""Devices: where kernels run and named state lives."""

from __future__ import annotations

from collections.abc import Iterable

from tideflow.platform.settings import Settings
from tideflow.runtime.accelerator import Accelerator, find_accelerators
from tideflow.runtime.resources import ResourceManager
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import full_name, local_name
from tideflow.wire.ids import new_incarnation

# What TensorFlow's CPU device says of itself; peers show it, nobody acts on it.
_CPU_MEMORY_LIMIT = 256 << 20


class Device:
    """A device of this task.

    Attributes:
      name: full name, /job:worker/replica:0/task:0/device:CPU:0.
      incarnation: a random number for this life of the device.
      resources: variables, queues and tables that live here.
      accelerator: what computes here; None for a CPU.
    """

    def __init__(
        self,
        name: str,
        device_type: str,
        default_container: str,
        accelerator: Accelerator | None = None,
    ) -> None:
        self.name = name
        self.device_type = device_type
        self.accelerator = accelerator
        self.incarnation = new_incarnation()
        self.resources = ResourceManager(name, default_container)

    def attributes(self) -> pb.DeviceAttributes:
        """Return what peers are told of the device."""
        attributes_pb = pb.DeviceAttributes(
            name=self.name,
            device_type=self.device_type,
            memory_limit=_CPU_MEMORY_LIMIT,
            locality=pb.DeviceLocality(),
            incarnation=self.incarnation,
            xla_global_id=-1,
        )
        if self.accelerator is not None:
            attributes_pb.memory_limit = self.accelerator.memory_limit() or _CPU_MEMORY_LIMIT
            attributes_pb.physical_device_desc = self.accelerator.describe()
        return attributes_pb

    def __repr__(self) -> str:
        return f"<Device {self.name}>"


def make_cpu_devices(job: str, task: int, count: int = 1) -> list[Device]:
    """Return the CPU devices of a task; the job's name is their default container."""
    return [Device(full_name(job, task, "CPU", i), "CPU", job) for i in range(count)]


def make_devices(job: str, task: int, config: pb.ConfigProto, settings: Settings) -> list[Device]:
    """Return the devices of a task: CPUs as many as device_count["CPU"] says, then accelerators.

    Raises: InvalidArgumentError for options that make no sense (see find_accelerators).
    """
    devices = make_cpu_devices(job, task, max(1, config.device_count.get("CPU", 1)))
    for i, found in enumerate(find_accelerators(config, settings)):
        name = full_name(job, task, found.device_type, i)
        devices.append(Device(name, found.device_type, job, found))
    return devices


class DeviceManager:
    """The devices of one task, by name.  The first one is the client device."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self.devices = list(devices)
        self._by_name = {device.name: device for device in self.devices}
        self._by_local_name = {local_name(device.name): device for device in self.devices}

    @property
    def client_device(self) -> Device:
        """The device on which feeds and fetches live."""
        return self.devices[0]

    def get(self, name: str) -> Device:
        """Return a device by its full or local name.

        Raises: InvalidArgumentError that lists the devices there are.
        """
        found = self._by_name.get(name) or self._by_local_name.get(name)
        if found is None:
            known = ", ".join(self._by_name)
            raise errors.InvalidArgumentError(
                f"{name} unknown device: this task has no device {name!r}; its devices are {known}"
            )
        return found

    def __contains__(self, name: str) -> bool:
        return name in self._by_name
