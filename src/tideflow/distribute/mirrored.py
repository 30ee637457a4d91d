"""MirroredStrategy and OneDeviceStrategy: replicas on the devices of this process or its workers.

Source: tensorflow/python/distribute/mirrored_strategy.py, one_device_strategy.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tideflow.distribute.strategy import Strategy, StrategyExtended
from tideflow.eager.context import context
from tideflow.eager.scopes import device_of
from tideflow.graph.build_scopes import with_slash
from tideflow.graph.graph import get_default_graph
from tideflow.ops.export import export_v2
from tideflow.wire.device_name import matches, merge, parse_device_name
from tideflow.wire.errors import InvalidArgumentError


@export_v2("distribute.MirroredStrategy")
class MirroredStrategy(Strategy):
    """One replica on each of several devices, with variables mirrored on all of them.

    Args:
      devices: names, in full or in part; all GPUs, or the CPUs where there are none, by default.
      cross_device_ops: accepted; all reductions add up on one device.
    Raises: ValueError for what is no name; AssertionError for a device that is named twice.
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


def worker_devices() -> list[str]:
    """Return this process's accelerators, or its first CPU where there are none."""
    devices = context().devices.devices
    found = [device.name for device in devices if device.accelerator is not None]
    return found or [devices[0].name]


def _resolve(devices: Sequence[str] | None) -> list[str]:
    """Return full names of devices; those that a task has not are placed softly.

    Raises: ValueError for what is no name, or names a task that is nowhere; AssertionError for one
    that is given twice.
    """
    if not devices:
        return local_devices()
    home = context()
    own = [device.name for device in home.devices.devices]
    found = []
    for wanted in (with_slash(device_of(device)) for device in devices):
        try:
            spec = parse_device_name(wanted)
        except InvalidArgumentError as error:
            raise ValueError(str(error)) from None
        there = own if home.cluster is None else list(home.cluster.devices.incarnations)
        name = next((n for n in there if matches(spec, n)), None)
        if name is None:
            task = replace(spec, device_type=None, device_index=None)
            if not any(matches(task, n) for n in there):
                raise ValueError(f"there is no device {wanted!r}; there are {', '.join(there)}")
            name = merge(home.default_device.name, spec, override=True).to_string()
        found.append(name)
    if len(set(found)) != len(found):
        raise AssertionError(f"All entries in devices must be different; found {found}")
    return found
