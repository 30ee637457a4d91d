"""Accelerators: the GPUs that jax finds, as devices of a task.

jax is imported only where there is hardware that it may know, so a machine without a GPU pays
nothing and is a CPU, without a word.

Tests without a GPU name a platform of jax that stands in for one: TIDEFLOW_ACCELERATORS=cpu=GPU
makes a GPU of each of jax's CPU devices but the first, which stays the CPU.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import pkgutil
from pathlib import Path
from typing import Any

from tideflow.platform.settings import Settings
from tideflow.runtime.jax_internals import load_jax
from tideflow.wire import errors
from tideflow.wire import messages as pb

_LOGGER = logging.getLogger(__name__)

# Any of them is there where a driver for GPUs is.
_DRIVER_FILES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/kfd")
_FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"
_PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"


class Accelerator:
    """One device of jax.

    Attributes:
      device_type: what it is called in device names, "GPU".
      device: jax's.
      sharding: the same, as compilers and copies want it.
    """

    def __init__(self, device_type: str, device: Any) -> None:
        self.device_type = device_type
        self.device = device
        self.sharding = load_jax().sharding.SingleDeviceSharding(device)
        # A CPU in a GPU's place takes NumPy's memory as it is, so what may change is copied.
        self.shares_host_memory = device.platform == "cpu"

    def put(self, value: Any) -> Any:
        """Return a value on this device; the copy may still be under way."""
        jax = load_jax()
        with jax.enable_x64(True):
            return jax.device_put(value, self.sharding)

    def holds(self, value: Any) -> bool:
        """Whether a value is an array of this device."""
        return isinstance(value, load_jax().Array) and value.sharding == self.sharding

    def memory_limit(self) -> int:
        """Return how many bytes may be used here; 0 where nobody knows."""
        found = self.device.memory_stats() or {}
        return int(found.get("bytes_limit", 0))

    def describe(self) -> str:
        """Return the line that peers are shown."""
        return f"device: {self.device.id}, name: {self.device.device_kind}"


def find_accelerators(config: pb.ConfigProto, settings: Settings) -> list[Accelerator]:
    """Return the accelerators that a session or server with these options has.

    device_count["GPU"] is the most that are wanted, gpu_options.visible_device_list names them by
    position; the memory options hold for the process, from the first use of a GPU on.
    Raises: InvalidArgumentError for a malformed visible_device_list.
    """
    most = config.device_count.get("GPU", -1)
    if most == 0 or not _platform(settings):
        return []
    _limit_memory(config.gpu_options)
    found = list(_discover(*_platform(settings)))
    chosen = config.gpu_options.visible_device_list
    if chosen:
        found = _choose(found, chosen)
    return found if most < 0 else found[:most]


def _choose(found: list[Accelerator], chosen: str) -> list[Accelerator]:
    try:
        positions = [int(word) for word in chosen.split(",")]
    except ValueError:
        positions = [-1]
    if any(not 0 <= at < len(found) for at in positions) or len(set(positions)) != len(positions):
        raise errors.InvalidArgumentError(
            f"gpu_options.visible_device_list is {chosen!r}; it must list, parted by commas, some "
            f"of the {len(found)} GPUs by number, from 0, each once"
        )
    return [found[at] for at in positions]


def _platform(settings: Settings) -> tuple[str, ...]:
    """Return jax's platform and our device type; empty when there is nothing to be found."""
    if settings.accelerators:
        platform, _, device_type = settings.accelerators.partition("=")
        return platform, device_type
    return ("gpu", "GPU") if may_have_gpu() else ()


@functools.cache
def may_have_gpu() -> bool:
    """Whether there are a driver and a plugin of jax for it; asks jax nothing."""
    if not any(Path(name).exists() for name in _DRIVER_FILES):
        return False
    plugins = importlib.util.find_spec("jax_plugins")
    if plugins is None:
        return False
    return any(True for _ in pkgutil.iter_modules(plugins.submodule_search_locations))


@functools.cache
def _discover(platform: str, device_type: str) -> tuple[Accelerator, ...]:
    try:
        devices = load_jax().local_devices(backend=platform)
    except RuntimeError:  # jax has no such platform, or was told to leave it alone
        _LOGGER.debug("jax has no %s", platform, exc_info=True)
        return ()
    if platform == "cpu":
        devices = devices[1:]
    return tuple(Accelerator(device_type, device) for device in devices)


def _limit_memory(options: pb.GPUOptions) -> None:
    """Hand the memory options to jax, which reads them when it first uses a GPU."""
    wanted = {}
    if options.per_process_gpu_memory_fraction:
        wanted[_FRACTION] = str(options.per_process_gpu_memory_fraction)
    if options.allow_growth:
        wanted[_PREALLOCATE] = "false"
    for name, value in wanted.items():
        found = os.environ.setdefault(name, value)
        if found != value:
            _LOGGER.warning(
                "%s=%s stands, not the %s of gpu_options: the environment comes first, and the "
                "first session with such options decides for the process", name, found, value
            )  # fmt: skip
