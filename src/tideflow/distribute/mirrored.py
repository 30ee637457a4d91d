"""MirroredStrategy and OneDeviceStrategy: replicas on the devices of this process or its workers.

Source: tensorflow/python/distribute/mirrored_strategy.py, one_device_strategy.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tideflow.distribute.strategy import Strategy, StrategyExtended, modes_of
from tideflow.distribute.variables import AggregatingVariable
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


@export_v2("distribute.experimental.CentralStorageStrategy")
class CentralStorageStrategy(Strategy):
    """One replica on each of several devices, with variables on one device, which all share.

    Args:
      compute_devices: names, in full or in part; all GPUs, or the first CPU where there are none,
        by default.
      parameter_device: where variables are; the first CPU by default.
    Raises: as MirroredStrategy.

    Source: tensorflow/python/distribute/central_storage_strategy.py
    Example:
      >>> strategy = tf.distribute.experimental.CentralStorageStrategy()
      >>> with strategy.scope():
      ...     v = tf.Variable(1.0)
      >>> float(strategy.run(lambda: v + 1.0))
      2.0
    """

    def __init__(
        self, compute_devices: Sequence[str] | None = None, parameter_device: str | None = None
    ) -> None:
        devices = _resolve(compute_devices) if compute_devices else worker_devices()
        (parameters,) = _resolve([parameter_device or "CPU:0"])
        super().__init__(_CentralStorageExtended(self, devices, parameters))


class _CentralStorageExtended(StrategyExtended):
    def __init__(self, strategy: Strategy, devices: Sequence[str], parameters: str) -> None:
        super().__init__(strategy, devices)
        self._parameters = parameters

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        """Where variables are put."""
        return (self._parameters,)

    def create_variable(self, next_creator: Any, **kwargs: Any) -> Any:
        """Make a variable on the parameter device; a plain one where there is one replica."""
        aggregation, _ = modes_of(kwargs)
        with get_default_graph().device(self._parameters):
            made = next_creator(**kwargs)
        if len(self.worker_devices) == 1:
            return made
        return AggregatingVariable(self._strategy, [made], aggregation)


@export_v2("distribute.OneDeviceStrategy")
class OneDeviceStrategy(Strategy):
    """One replica, on one device."""

    def __init__(self, device: str) -> None:
        super().__init__(OneDeviceExtended(self, _resolve([device])))


class OneDeviceExtended(StrategyExtended):
    """What a strategy of one device does."""

    def create_variable(self, next_creator: Any, **kwargs: Any) -> Any:
        """Make a plain variable on the device, which knows whose it is."""
        kwargs["distribute_strategy"] = self._strategy
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

    Raises: ValueError for what is no name; InvalidArgumentError for one of a task that is nowhere;
    AssertionError for one that is given twice.
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
                raise InvalidArgumentError(f"{wanted} unknown device. There are {', '.join(there)}")
            name = merge(home.default_device.name, spec, override=True).to_string()
        found.append(name)
    if len(set(found)) != len(found):
        raise AssertionError(f"No duplicates allowed in `devices` argument: {found}")
    return found
