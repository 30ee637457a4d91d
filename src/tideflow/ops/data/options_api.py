"""tf.data.Options: how datasets are made.  They change no element, and are kept and told.

Source: tensorflow/python/data/ops/options.py for names and types.
"""

from __future__ import annotations

import enum
from typing import Any, ClassVar, Self

from tideflow.ops.export import export


@export("data.experimental.AutoShardPolicy")
class AutoShardPolicy(enum.IntEnum):
    """What workers share out among themselves: files, elements, or nothing."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


@export("data.experimental.AutotuneAlgorithm")
class AutotuneAlgorithm(enum.Enum):
    """How buffers and parallel calls are tuned."""

    DEFAULT = 0
    HILL_CLIMB = 1
    GRADIENT_DESCENT = 2
    MAX_PARALLELISM = 3
    STAGE_BASED = 4


@export("data.experimental.ExternalStatePolicy")
class ExternalStatePolicy(enum.Enum):
    """What is done where a dataset with state of its own is written."""

    WARN = 0
    IGNORE = 1
    FAIL = 2


class _Group:
    """Options with types: what is not set is None, or what the group begins with.

    Raises: AttributeError for an option that there is not; TypeError for a value of another type.
    """

    _types: ClassVar[dict[str, type]] = {}
    _defaults: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        object.__setattr__(self, "_set", {})

    def _name(self, name: str) -> str:
        return name

    def __getattr__(self, name: str) -> Any:
        own = self._name(name)
        if name.startswith("__") or own not in self._types:
            raise AttributeError(f"{type(self).__name__} has no option {name!r}")
        values: dict[str, Any] = self.__dict__["_set"]
        if own not in values and issubclass(self._types[own], _Group):
            values[own] = self._types[own]()
        return values.get(own, self._defaults.get(own))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._types})

    def __setattr__(self, name: str, value: Any) -> None:
        own = self._name(name)
        if own not in self._types:
            raise AttributeError(f"Cannot set the property {name} on {type(self).__name__}.")
        if not isinstance(value, self._types[own]):
            raise TypeError(
                f'Property "{own}" must be of type {self._types[own]}, got: {value} (type: '
                f"{type(value)})"
            )
        self.__dict__["_set"][own] = value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            getattr(self, name) == getattr(other, name) for name in self._types
        )

    __hash__ = None  # type: ignore[assignment]

    def merge(self, options: Self) -> Self:
        """Return these options with others, which come first."""
        made = type(self)()
        for source in (self, options):
            for name, value in source.__dict__["_set"].items():
                held = made.__dict__["_set"].get(name)
                made.__dict__["_set"][name] = (
                    held.merge(value) if isinstance(held, _Group) else value
                )
        return made


@export("data.experimental.AutotuneOptions")
class AutotuneOptions(_Group):
    """How buffers and parallel calls are tuned."""

    _types: ClassVar[dict[str, type]] = {
        "autotune_algorithm": AutotuneAlgorithm,
        "cpu_budget": int,
        "enabled": bool,
        "initial_parallelism": int,
        "min_parallelism": int,
        "ram_budget": int,
    }


@export("data.experimental.DistributeOptions")
class DistributeOptions(_Group):
    """How elements are shared out among workers."""

    _types: ClassVar[dict[str, type]] = {"auto_shard_policy": AutoShardPolicy, "num_devices": int}
    _defaults: ClassVar[dict[str, Any]] = {"auto_shard_policy": AutoShardPolicy.AUTO}


@export("data.experimental.OptimizationOptions")
class OptimizationOptions(_Group):
    """Which rewrites of datasets are wanted."""

    _types: ClassVar[dict[str, type]] = dict.fromkeys(
        (
            *("apply_default_optimizations", "filter_fusion", "filter_parallelization"),
            *("inject_prefetch", "map_and_batch_fusion", "map_and_filter_fusion", "map_fusion"),
            *("map_parallelization", "noop_elimination", "parallel_batch"),
            *("seq_interleave_prefetch", "shuffle_and_repeat_fusion"),
        ),
        bool,
    )


@export("data.experimental.ServiceOptions")
class ServiceOptions(_Group):
    """How elements come from a data service."""

    _types: ClassVar[dict[str, type]] = {"pinned": bool}


@export("data.ThreadingOptions", "data.experimental.ThreadingOptions")
class ThreadingOptions(_Group):
    """How many threads make elements."""

    _types: ClassVar[dict[str, type]] = {
        "max_intra_op_parallelism": int,
        "private_threadpool_size": int,
    }


@export("data.Options")
class Options(_Group):
    """Options of datasets, set as attributes; see Dataset.with_options.

    Example:
      >>> options = tf.data.Options()
      >>> options.deterministic = False
      >>> options.threading.private_threadpool_size = 2
    """

    _types: ClassVar[dict[str, type]] = {
        "autotune": AutotuneOptions,
        "dataset_name": str,
        "deterministic": bool,
        "experimental_distribute": DistributeOptions,
        "experimental_external_state_policy": ExternalStatePolicy,
        "experimental_optimization": OptimizationOptions,
        "experimental_service": ServiceOptions,
        "experimental_slack": bool,
        "experimental_symbolic_checkpoint": bool,
        "experimental_warm_start": bool,
        "framework_type": list,
        "threading": ThreadingOptions,
    }

    def _name(self, name: str) -> str:
        return {
            "experimental_deterministic": "deterministic",
            "experimental_threading": "threading",
        }.get(name, name)
