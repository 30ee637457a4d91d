"""tf.config.experimental and tf.config.optimizer: memory of devices, precision, and wishes."""

from __future__ import annotations

from typing import Any

from tideflow.eager.config import PhysicalDevice, list_physical_devices
from tideflow.eager.context import context
from tideflow.graph.behavior import behavior
from tideflow.ops.export import export, export_v2
from tideflow.platform.settings import process_settings
from tideflow.runtime.accelerator import find_accelerators
from tideflow.wire import messages as pb
from tideflow.wire.device_name import parse_device_name

# ---- memory and details of devices


def _check_listed(device: Any) -> PhysicalDevice:
    if device not in list_physical_devices():
        raise ValueError(f"Unrecognized device: {device!r}; tf.config.list_physical_devices lists")
    return device  # type: ignore[no-any-return]


@export("config.experimental.set_memory_growth")
def set_memory_growth(device: Any, enable: bool) -> None:
    """Say whether a GPU's memory is taken as it is needed, and not at once.

    Raises: ValueError for what is no GPU of this machine; RuntimeError once devices are in use.
    """
    if _check_listed(device).device_type != "GPU":
        raise ValueError(f"memory growth can be set for GPUs alone; {device.name} is none")
    options = context().config.gpu_options
    if options.allow_growth == enable:
        return
    if context().is_initialized:
        raise RuntimeError("Physical devices cannot be modified after being initialized")
    options.allow_growth = enable


@export("config.experimental.get_memory_growth")
def get_memory_growth(device: Any) -> bool | None:
    """Return whether a GPU's memory is taken as it is needed; None where nothing was said.

    Raises: ValueError for no device of this machine; KeyError for one that is no GPU.
    """
    if _check_listed(device).device_type != "GPU":
        raise KeyError(device)
    return context().config.gpu_options.allow_growth or None


def _memory_stats(device: str) -> dict[str, Any]:
    """Return what a device counts of its memory; nothing for a CPU."""
    try:
        spec = parse_device_name(device if device.startswith("/") else f"/device:{device}")
    except ValueError:
        raise ValueError(f"Failed parsing device name: {device!r}; one is like 'GPU:0'") from None
    found = find_accelerators(context().config, process_settings())
    number = spec.device_index or 0
    if spec.device_type == "CPU" and number == 0:
        return {}
    if spec.device_type == "CPU" or number >= len(found):
        raise ValueError(f"No matching devices found for {device!r}")
    return found[number].device.memory_stats() or {}


@export("config.experimental.get_memory_info")
def get_memory_info(device: str) -> dict[str, int]:
    """Return the bytes in use on an accelerator: "current", and "peak", the most so far.

    Those of a CPU are not counted, and 0.
    Raises: ValueError for a device that is not there.
    """
    found = _memory_stats(device)
    return {
        "current": int(found.get("bytes_in_use", 0)),
        "peak": int(found.get("peak_bytes_in_use", 0)),
    }


@export("config.experimental.get_memory_usage")
def get_memory_usage(device: str) -> int:
    """Return the bytes in use on an accelerator (see get_memory_info)."""
    return get_memory_info(device)["current"]


@export("config.experimental.reset_memory_stats")
def reset_memory_stats(device: str) -> None:
    """Ask for an accelerator's peak to be forgotten; XLA's allocators keep theirs.

    Raises: ValueError for a device that is not there.
    """
    _memory_stats(device)


@export("config.experimental.get_device_details")
def get_device_details(device: Any) -> dict[str, Any]:
    """Return what a device says of itself: "device_name" and "compute_capability" of a GPU.

    Raises: ValueError for no device of this machine.
    """
    if not isinstance(device, PhysicalDevice):
        raise ValueError(f"device must be a tf.config.PhysicalDevice; found {device!r}")
    if _check_listed(device).device_type == "CPU":
        return {}
    number = int(device.name.rpartition(":")[2])
    found = find_accelerators(context().config, process_settings())[number].device
    details: dict[str, Any] = {"device_name": found.device_kind}
    capability = getattr(found, "compute_capability", None)
    if capability is not None:
        details["compute_capability"] = tuple(int(part) for part in capability.split("."))
    return details


# ---- precision and repetition

_wishes = {"tensor_float_32": True, "mlir_bridge": False}


@export("config.experimental.enable_tensor_float_32_execution")
def enable_tensor_float_32_execution(enabled: bool) -> None:
    """Note whether GPUs may multiply float32 in fewer bits; XLA decides by its own flags."""
    _wishes["tensor_float_32"] = bool(enabled)


@export("config.experimental.tensor_float_32_execution_enabled")
def tensor_float_32_execution_enabled() -> bool:
    """Return what enable_tensor_float_32_execution noted; True at first."""
    return _wishes["tensor_float_32"]


@export("config.experimental.enable_mlir_bridge")
def enable_mlir_bridge() -> None:
    """Note a wish; there is one way from graphs to XLA."""
    _wishes["mlir_bridge"] = True


@export("config.experimental.disable_mlir_bridge")
def disable_mlir_bridge() -> None:
    """Note a wish; there is one way from graphs to XLA."""
    _wishes["mlir_bridge"] = False


@export_v2("config.experimental.enable_op_determinism")
def enable_op_determinism() -> None:
    """Refuse what would differ from run to run: random operations without any seed.

    All other operations give the same at each run as it is.
    """
    behavior.is_deterministic = True


def disable_op_determinism() -> None:
    """Let random operations without a seed draw other values in each run again."""
    behavior.is_deterministic = False


def is_op_determinism_enabled() -> bool:
    """Whether random operations without a seed are refused."""
    return behavior.is_deterministic


# ---- the optimizer of graphs

_TOGGLES = (
    *("layout_optimizer", "constant_folding", "shape_optimization", "remapping"),
    *("arithmetic_optimization", "dependency_optimization", "loop_optimization"),
    *("function_optimization", "debug_stripper", "scoped_allocator_optimization"),
    *("pin_to_host_optimization", "implementation_selector", "auto_mixed_precision"),
    *("use_plugin_optimizers", "auto_mixed_precision_onednn_bfloat16", "auto_mixed_precision_mkl"),
)
_BOOLS = ("disable_model_pruning", "disable_meta_optimizer")


@export("config.optimizer.set_jit")
def set_jit(enabled: bool | str) -> None:
    """Say whether functions are compiled as wholes: True or "autoclustering" for yes.

    It counts where it comes before devices are in use.
    """
    options = context().config.graph_options.optimizer_options
    is_on = enabled in (True, "autoclustering")
    levels = pb.OptimizerOptions
    options.global_jit_level = levels.ON_1 if is_on else levels.DEFAULT


@export("config.optimizer.get_jit")
def get_jit() -> str:
    """Return "autoclustering" where set_jit turned it on, else ""."""
    levels = pb.OptimizerOptions
    level = context().config.graph_options.optimizer_options.global_jit_level
    return "autoclustering" if level in (levels.ON_1, levels.ON_2) else ""


@export("config.optimizer.set_experimental_options")
def set_experimental_options(options: dict[str, Any]) -> None:
    """Turn passes over graphs on and off, by TensorFlow's names; others stay as they are."""
    rewrite = context().config.graph_options.rewrite_options
    for name, value in options.items():
        if name in _TOGGLES:
            setattr(rewrite, name, pb.RewriterConfig.ON if value else pb.RewriterConfig.OFF)
        elif name in _BOOLS or name == "min_graph_nodes":
            setattr(rewrite, name, value)


@export("config.optimizer.get_experimental_options")
def get_experimental_options() -> dict[str, Any]:
    """Return what set_experimental_options said, and the passes that are always told."""
    rewrite = context().config.graph_options.rewrite_options
    found = {name: getattr(rewrite, name) == pb.RewriterConfig.ON for name in _TOGGLES
             if getattr(rewrite, name)}  # fmt: skip
    found |= {name: getattr(rewrite, name) for name in _BOOLS}
    if rewrite.min_graph_nodes:
        found["min_graph_nodes"] = rewrite.min_graph_nodes
    return found
