"""`tf.config`: devices, threads and the cluster of the eager side.

Source: tensorflow/python/framework/config.py and tensorflow/python/eager/remote.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tideflow.cluster.cluster_spec import ClusterSpec
from tideflow.eager.context import context
from tideflow.eager.device_policy import DevicePolicy
from tideflow.ops.export import export_v2
from tideflow.platform.settings import process_settings
from tideflow.runtime.accelerator import find_accelerators
from tideflow.wire.device_name import parse_device_name


@export_v2("config.PhysicalDevice")
class PhysicalDevice(NamedTuple):
    """A device of the machine."""

    name: str
    device_type: str


@export_v2("config.LogicalDevice")
class LogicalDevice(NamedTuple):
    """A device that operations can be asked to run on."""

    name: str
    device_type: str


@export_v2("config.LogicalDeviceConfiguration", "config.experimental.VirtualDeviceConfiguration")
class LogicalDeviceConfiguration(NamedTuple):
    """One of the devices into which a physical one is divided; limits are not enforced."""

    memory_limit: int | None = None
    experimental_priority: int | None = None
    experimental_device_ordinal: int | None = None


@export_v2("config.list_physical_devices", "config.experimental.list_physical_devices")
def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Return the devices of this machine."""
    found = [PhysicalDevice("/physical_device:CPU:0", "CPU")]
    for i, accelerator in enumerate(find_accelerators(context().config, process_settings())):
        kind = accelerator.device_type
        found.append(PhysicalDevice(f"/physical_device:{kind}:{i}", kind))
    return [device for device in found if device_type in (None, device.device_type)]


@export_v2("config.list_logical_devices", "config.experimental.list_logical_devices")
def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """Return the devices that operations can run on: those of the cluster, once connected."""
    home = context()
    if home.cluster is None:
        names = [f"/device:{_short(device.name)}" for device in home.devices.devices]
    else:
        own = {device.name for device in home.devices.devices}
        names = [
            f"/device:{_short(name)}" if name in own else name
            for name in home.cluster.devices.incarnations
        ]
    found = [LogicalDevice(name, _kind(name)) for name in names]
    return [device for device in found if device_type in (None, device.device_type)]


def _short(name: str) -> str:
    spec = parse_device_name(name)
    return f"{spec.device_type}:{spec.device_index}"


def _kind(name: str) -> str:
    return parse_device_name(name).device_type or ""


@export_v2(
    "config.set_logical_device_configuration",
    "config.experimental.set_virtual_device_configuration",
)
def set_logical_device_configuration(
    device: PhysicalDevice, logical_devices: Sequence[LogicalDeviceConfiguration]
) -> None:
    """Divide the CPU into several devices.

    Raises: RuntimeError once the context has made its devices; ValueError for another device, and
    for a limit on memory, which a CPU does not have.
    """
    if any(one.memory_limit is not None for one in logical_devices):
        raise ValueError("Setting memory limit on CPU virtual devices is currently not supported")
    home = context()
    if home.is_initialized:
        raise RuntimeError(
            "Virtual devices cannot be modified after being initialized: an operation has run "
            "already. Configure devices first thing in the program"
        )
    if device.device_type != "CPU":
        raise ValueError(f"only the CPU can be divided into logical devices, not {device.name}")
    home.config.device_count["CPU"] = max(1, len(logical_devices))


@export_v2(
    "config.get_logical_device_configuration",
    "config.experimental.get_virtual_device_configuration",
)
def get_logical_device_configuration(
    device: PhysicalDevice,
) -> list[LogicalDeviceConfiguration] | None:
    """Return into what a device is divided, None where it is not."""
    count = context().config.device_count.get("CPU", 0)
    if device.device_type != "CPU" or not count:
        return None
    return [LogicalDeviceConfiguration()] * count


@export_v2("config.set_visible_devices", "config.experimental.set_visible_devices")
def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Hide accelerators: an empty list for "GPU" leaves the CPU alone.

    Raises: RuntimeError once the context has made its devices.
    """
    home = context()
    if home.is_initialized:
        raise RuntimeError("Visible devices cannot be modified after being initialized")
    listed = list(devices) if isinstance(devices, (list, tuple)) else [devices]
    if device_type in (None, "GPU") and not any(d.device_type == "GPU" for d in listed):
        home.config.device_count["GPU"] = 0


@export_v2("config.get_visible_devices", "config.experimental.get_visible_devices")
def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Return the devices of this machine that are not hidden."""
    hides = context().config.device_count.get("GPU") == 0
    found = list_physical_devices(device_type)
    return [device for device in found if device.device_type == "CPU" or not hides]


@export_v2("debugging.set_log_device_placement")
def set_log_device_placement(enabled: bool) -> None:
    """Say whether sessions and functions of a cluster write where their nodes were placed."""
    context().config.log_device_placement = enabled


@export_v2("debugging.get_log_device_placement")
def get_log_device_placement() -> bool:
    """Whether set_log_device_placement is in force."""
    return bool(context().config.log_device_placement)


@export_v2("config.set_soft_device_placement")
def set_soft_device_placement(enabled: bool) -> None:
    """Let operations run elsewhere where a device cannot run them."""
    context().config.allow_soft_placement = enabled


@export_v2("config.get_soft_device_placement")
def get_soft_device_placement() -> bool:
    """Whether set_soft_device_placement is in force."""
    return bool(context().config.allow_soft_placement)


@export_v2("config.experimental.set_device_policy")
def set_device_policy(device_policy: str | None) -> None:
    """Say what becomes of an operation's input that lies on another device than the operation.

    device_policy: "silent" (the default, also None) copies it; "warn" copies and says so;
    "explicit" refuses it; "silent_for_int32" refuses all but int32.
    Raises: ValueError for anything else.
    """
    if device_policy in (None, "silent"):
        context().device_policy = None
        return
    try:
        context().device_policy = DevicePolicy(device_policy)
    except ValueError:
        names = ", ".join(repr(one.value) for one in DevicePolicy)
        raise ValueError(
            f"no device policy is named {device_policy!r}; they are 'silent', {names}"
        ) from None


@export_v2("config.experimental.get_device_policy")
def get_device_policy() -> str:
    """Return the name of the policy in force."""
    policy = context().device_policy
    return "silent" if policy is None else policy.value


@export_v2("config.threading.set_inter_op_parallelism_threads")
def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Note a wish; tideflow's threads are the process's.

    Raises: RuntimeError for another number once operations have run.
    """
    _check_not_begun("Inter", get_inter_op_parallelism_threads(), num_threads)
    context().config.inter_op_parallelism_threads = num_threads


@export_v2("config.threading.get_inter_op_parallelism_threads")
def get_inter_op_parallelism_threads() -> int:
    """Return what was wished for."""
    return context().config.inter_op_parallelism_threads


@export_v2("config.threading.set_intra_op_parallelism_threads")
def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Note a wish; tideflow's threads are the process's.

    Raises: RuntimeError for another number once operations have run.
    """
    _check_not_begun("Intra", get_intra_op_parallelism_threads(), num_threads)
    context().config.intra_op_parallelism_threads = num_threads


def _check_not_begun(which: str, before: int, wanted: int) -> None:
    if wanted != before and context().is_initialized:
        raise RuntimeError(f"{which} op parallelism cannot be modified after initialization.")


@export_v2("config.threading.get_intra_op_parallelism_threads")
def get_intra_op_parallelism_threads() -> int:
    """Return what was wished for."""
    return context().config.intra_op_parallelism_threads


# ---- the cluster


@export_v2("config.experimental_connect_to_host")
def connect_to_host(remote_host: Any, job_name: str = "worker") -> None:
    """Connect to one task, or to several as tasks of one job, by their addresses.

    Raises: ValueError without an address; UnavailableError naming what cannot be reached.
    """
    if not remote_host:
        raise ValueError("Must provide at least one remote_host")
    hosts = remote_host if isinstance(remote_host, (list, tuple)) else [remote_host]
    addresses = [str(host).removeprefix("grpc://") for host in hosts]
    connect_to_cluster(ClusterSpec({job_name: addresses}))


@export_v2("config.experimental_connect_to_cluster")
def connect_to_cluster(
    cluster_spec_or_resolver: Any,
    job_name: str = "localhost",
    task_index: int = 0,
    protocol: str | None = None,
    make_master_device_default: bool = True,
    cluster_device_filters: Any = None,
) -> None:
    """Become a task of a cluster; its devices can be asked for from now on.

    Args:
      cluster_spec_or_resolver: the cluster, or something with a cluster_spec().
      job_name, task_index: the program's own place; added to the cluster where it is missing.
      protocol: "grpc" or None.
    Raises: ValueError for another protocol, or a resolver without a cluster; UnavailableError
    naming a task that cannot be reached.
    """
    if protocol not in (None, "grpc", "grpc+loas"):
        raise ValueError(f"protocol {protocol!r} is not spoken here; use 'grpc'")
    spec = cluster_spec_or_resolver
    if hasattr(spec, "cluster_spec"):
        spec = spec.cluster_spec()
        if not spec:
            raise ValueError("the resolver names no cluster to connect to")
    context().connect(ClusterSpec(spec), job_name, task_index)
