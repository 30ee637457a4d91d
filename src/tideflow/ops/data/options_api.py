"""tf.data.Options: how datasets are made.  They change no element, and are kept and told.

Source: tensorflow/python/data/ops/options.py for names and types.
"""

from __future__ import annotations

import enum
from typing import Any, ClassVar, Self

from tideflow.ops.export import export


@export("data.experimental.AutoShardPolicy")
class AutoShardPolicy(enum.IntEnum):
    """Say what workers share out among themselves: files, elements, or nothing.

    OFF: nothing; each worker has all elements.  FILE: the files that are read.  DATA: the elements.
    AUTO: files where the dataset reads some, else elements.  HINT: what
    `shard(SHARD_HINT, SHARD_HINT)` in the dataset marks.

    Example:
      >>> options = tf.data.Options()
      >>> policies = tf.data.experimental.AutoShardPolicy
      >>> options.experimental_distribute.auto_shard_policy = policies.OFF
      >>> options.experimental_distribute.auto_shard_policy
      <AutoShardPolicy.OFF: -1>
    """

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


@export("data.experimental.AutotuneAlgorithm")
class AutotuneAlgorithm(enum.Enum):
    """Name ways to tune buffers and parallel calls; what is chosen is kept, and changes nothing.

    Example:
      >>> options = tf.data.Options()
      >>> ways = tf.data.experimental.AutotuneAlgorithm
      >>> options.autotune.autotune_algorithm = ways.HILL_CLIMB
      >>> options.autotune.autotune_algorithm.name
      'HILL_CLIMB'
    """

    DEFAULT = 0
    HILL_CLIMB = 1
    GRADIENT_DESCENT = 2
    MAX_PARALLELISM = 3
    STAGE_BASED = 4


@export("data.experimental.ExternalStatePolicy")
class ExternalStatePolicy(enum.Enum):
    """Say what is done where a dataset with state of its own, such as a variable's, is written.

    WARN: it is written without its state, and a warning is logged.  IGNORE: without a warning.
    FAIL: it is an error.

    Example:
      >>> options = tf.data.Options()
      >>> policies = tf.data.experimental.ExternalStatePolicy
      >>> options.experimental_external_state_policy = policies.IGNORE
      >>> options.experimental_external_state_policy.name
      'IGNORE'
    """

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
    """Hold options of how buffers and parallel calls are tuned; None where not set.

    autotune_algorithm is an AutotuneAlgorithm, cpu_budget a number of cores, ram_budget one of
    bytes; enabled is a bool; initial_parallelism and min_parallelism are numbers of parallel calls.

    Raises: AttributeError for another option; TypeError for a value of another type.
    Example:
      >>> options = tf.data.Options()
      >>> options.autotune.enabled = False
      >>> options.autotune.enabled, options.autotune.cpu_budget
      (False, None)
    """

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
    """Hold options of how elements are shared out among workers.

    auto_shard_policy is an AutoShardPolicy, AUTO where not set; num_devices is an int or None.

    Raises: AttributeError for another option; TypeError for a value of another type.
    Example:
      >>> options = tf.data.Options()
      >>> options.experimental_distribute.num_devices = 2
      >>> options.experimental_distribute.auto_shard_policy.name
      'AUTO'
    """

    _types: ClassVar[dict[str, type]] = {"auto_shard_policy": AutoShardPolicy, "num_devices": int}
    _defaults: ClassVar[dict[str, Any]] = {"auto_shard_policy": AutoShardPolicy.AUTO}


@export("data.experimental.OptimizationOptions")
class OptimizationOptions(_Group):
    """Hold options, bools or None, of which rewrites of datasets are wanted.

    apply_default_optimizations, filter_fusion, filter_parallelization, inject_prefetch,
    map_and_batch_fusion, map_and_filter_fusion, map_fusion, map_parallelization, noop_elimination,
    parallel_batch, seq_interleave_prefetch, shuffle_and_repeat_fusion.

    Raises: AttributeError for another option; TypeError for a value of another type.
    Example:
      >>> options = tf.data.Options()
      >>> options.experimental_optimization.map_fusion = True
      >>> options.experimental_optimization.map_fusion
      True
    """

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
    """Hold options of how elements come from a data service.

    pinned says whether elements are wanted in pinned memory, a bool or None.

    Raises: AttributeError for another option; TypeError for a value of another type.
    Example:
      >>> options = tf.data.Options()
      >>> options.experimental_service.pinned = True
      >>> options.experimental_service.pinned
      True
    """

    _types: ClassVar[dict[str, type]] = {"pinned": bool}


@export("data.ThreadingOptions", "data.experimental.ThreadingOptions")
class ThreadingOptions(_Group):
    """Hold options of how many threads make elements.

    max_intra_op_parallelism and private_threadpool_size are ints, or None where not set.

    Raises: AttributeError for another option; TypeError for a value of another type.
    Example:
      >>> options = tf.data.Options()
      >>> options.threading.private_threadpool_size = 2
      >>> options.threading.private_threadpool_size
      2
    """

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
