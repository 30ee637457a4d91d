"""MirroredStrategy and OneDeviceStrategy: replicas on the devices of this process or its workers.

Source: tensorflow/python/distribute/mirrored_strategy.py, one_device_strategy.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.distribute.strategy import Strategy, StrategyExtended
from tideflow.eager.context import context
from tideflow.graph.build_scopes import with_slash
from tideflow.graph.graph import get_default_graph
from tideflow.ops.export import export_v2
from tideflow.wire.device_name import matches, parse_device_name


@export_v2("distribute.MirroredStrategy")
class MirroredStrategy(Strategy):
    """One replica on each of several devices, with variables mirrored on all of them.

    Args:
      devices: names, in full or in part; all GPUs, or the CPUs where there are none, by default.
      cross_device_ops: accepted; all reductions add up on one device.
    Raises: ValueError for a device that is not there, or named twice.
    """

    def __init__(self, devices: Sequence[str] | None = None, cross_device_ops: Any = None) -> None:
        del cross_device_ops
        super().__init__(MirroredExtended(self, _resolve(devices)))


class MirroredExtended(StrategyExtended):
    """What MirroredStrategy does, for libraries."""


@export_v2("distribute.OneDeviceStrategy")
class OneDeviceStrategy(Strategy):
    """One replica, on one device."""

    def __init__(self, device: str) -> None:
        super().__init__(_OneDeviceExtended(self, _resolve([device])))


class _OneDeviceExtended(StrategyExtended):
    def create_variable(self, next_creator: Any, **kwargs: Any) -> Any:
        """Make a plain variable on the device."""
        with get_default_graph().device(self.worker_devices[0]):
            return next_creator(**kwargs)


def local_devices() -> list[str]:
    """Return this process's accelerators, or its CPUs where there are none."""
    devices = context().devices.devices
    found = [device.name for device in devices if device.accelerator is not None]
    return found or [device.name for device in devices]


def _resolve(devices: Sequence[str] | None) -> list[str]:
    """Return full names of devices.  Raises: ValueError."""
    home = context()
    own = [device.name for device in home.devices.devices]
    if devices is None:
        return local_devices()
    found = []
    for wanted in map(with_slash, devices):
        if home.cluster is not None:
            name = home.cluster.devices.find(wanted)
        else:
            name = next((n for n in own if matches(parse_device_name(wanted), n)), None)
        if name is None:
            raise ValueError(f"there is no device {wanted!r}; there are {', '.join(own)}")
        found.append(name)
    if len(set(found)) != len(found):
        raise ValueError(f"the devices of a strategy must differ; found {found}")
    if not found:
        raise ValueError("a strategy needs at least one device")
    return found
