"""The named state of all CPU devices of a task, seen as one.

CPU devices of one task differ in nothing but their names.  A graph on several of them then needs
not be split: it runs as one program, and compiles as one, with the things of all of them at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tideflow.runtime.device import Device
from tideflow.runtime.resources import ResourceManager

T = TypeVar("T")


class HostResources:
    """Finds a thing on the device that its handle names (see tideflow.graph.kernel.Resources).

    What has no handle yet is made on the first device.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self._managers = [device.resources for device in devices]
        self._by_device = {device.name: device.resources for device in devices}

    @property
    def drops(self) -> int:
        """How many things were dropped, on all devices."""
        return sum(manager.drops for manager in self._managers)

    def lookup(self, handle: Any, kind: type[T]) -> T:
        """Return what a handle names; errors as those of a device's own."""
        return self._of(handle).lookup(handle, kind)

    def _of(self, handle: Any) -> ResourceManager:
        device = getattr(handle, "device", "")
        return self._by_device.get(device, self._managers[0])

    def find(self, container: str, name: str, kind: type[T]) -> T | None:
        """Return a thing by name, on whichever device, or None."""
        for manager in self._managers:
            found = manager.find(container, name, kind)
            if found is not None:
                return found
        return None

    def lookup_or_create(
        self, container: str, name: str, kind: type[T], make: Callable[[], T]
    ) -> T:
        """Return a thing by name, made first if it is not there."""
        found = self.find(container, name, kind)
        if found is not None:
            return found
        return self._managers[0].lookup_or_create(container, name, kind, make)

    def create(self, container: str, name: str, thing: Any) -> None:
        """Enter a thing.  Raises: AlreadyExistsError."""
        self._managers[0].create(container, name, thing)

    def delete(self, handle: Any, kind: type[Any]) -> None:
        """Drop what a handle names.  Raises: NotFoundError."""
        self._of(handle).delete(handle, kind)

    def handle(self, container: str, name: str, kind: type[Any], **facts: Any) -> Any:
        """Return a handle on the first device."""
        return self._managers[0].handle(container, name, kind, **facts)

    def anonymous_handle(self, kind: type[Any], **facts: Any) -> Any:
        """Return a handle to a new name on the first device."""
        return self._managers[0].anonymous_handle(kind, **facts)
