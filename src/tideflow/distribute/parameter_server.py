"""ParameterServerStrategy: variables on parameter servers, steps on workers, one coordinator.

Source: tensorflow/python/distribute/parameter_server_strategy_v2.py; runtime facts on
ParameterServerStrategy.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tideflow import logging
from tideflow.distribute.sharded_variable import ShardedVariable, split_evenly
from tideflow.distribute.strategy import Strategy, StrategyExtended
from tideflow.eager.config import connect_to_cluster
from tideflow.eager.context import context
from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.ops.export import export_v2
from tideflow.platform import clock
from tideflow.wire import dtypes, errors

_CPU = "/device:CPU:0"
# How long tasks may take to start, and how often to look.
_CONNECT_S = 60.0
_CONNECT_PAUSE_S = 0.2


@export_v2("distribute.ParameterServerStrategy", "distribute.experimental.ParameterServerStrategy")
class ParameterServerStrategy(Strategy):
    """Variables go to the parameter servers in turn; functions run on workers by a
    ClusterCoordinator.

    Args:
      cluster_resolver: names the cluster, with jobs "ps", "worker" and (this program) "chief".
      variable_partitioner: called with shape and dtype; says into how many parts a variable goes.
    Raises: ValueError for a cluster without parameter servers or workers.
    """

    def __init__(
        self, cluster_resolver: Any, variable_partitioner: Callable[..., Any] | None = None
    ) -> None:
        self._resolver = cluster_resolver
        spec = cluster_resolver.cluster_spec()
        jobs = spec.jobs
        for job in ("ps", "worker"):
            if job not in jobs:
                raise ValueError(f"the cluster has no job {job!r}; it has {', '.join(jobs)}")
        _connect(spec, cluster_resolver.task_type or "chief", cluster_resolver.task_id or 0)
        cluster = context().cluster
        assert cluster is not None
        names = {job: cluster.devices.tasks_of_job(job) for job in ("ps", "worker")}
        self.workers: list[str] = names["worker"]
        super().__init__(_PsExtended(self, names["ps"], variable_partitioner))

    @property
    def cluster_resolver(self) -> Any:
        """What told the strategy of its cluster."""
        return self._resolver


def _connect(spec: Any, job: str, task: int) -> None:
    """Connect, waiting for tasks that are still starting.  Raises: UnavailableError."""
    last = clock.monotonic_s() + _CONNECT_S
    while True:
        try:
            connect_to_cluster(spec, job_name=job, task_index=task)
            return
        except errors.UnavailableError as error:
            if clock.monotonic_s() > last:
                raise
            logging.info(f"waiting for all tasks of the cluster: {error.message}")
            clock.sleep(_CONNECT_PAUSE_S)


class _PsExtended(StrategyExtended):
    """What ParameterServerStrategy does, for libraries."""

    def __init__(
        self,
        strategy: Strategy,
        servers: Sequence[str],
        partitioner: Callable[..., Any] | None,
    ) -> None:
        super().__init__(strategy, [""])
        self._servers = [name + _CPU for name in servers]
        self._partitioner = partitioner
        self._turns = itertools.count()
        # Of the variables beside which others are to lie, the innermost last.
        self._beside: list[str] = []

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        """The parameter servers' devices."""
        return tuple(self._servers)

    def _next_server(self) -> str:
        if self._beside:
            return self._beside[-1]
        return self._servers[next(self._turns) % len(self._servers)]

    def variable_created_in_scope(self, v: Any) -> bool:
        """Whether a variable, or the first of its parts, lies on a parameter server."""
        return getattr(v, "variables", [v])[0].device in self._servers

    @contextlib.contextmanager
    def colocate_vars_with(self, colocate_with_variable: Any) -> Iterator[None]:
        """Let variables made inside lie on the task of another one; parts are dealt out as ever."""
        if not self.variable_created_in_scope(colocate_with_variable):
            raise ValueError("`colocate_vars_with` needs a variable of this strategy")
        if hasattr(colocate_with_variable, "is_sharded_variable"):
            yield
            return
        self._beside.append(colocate_with_variable.device)
        try:
            yield
        finally:
            self._beside.pop()

    def create_variable(self, next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        """Make a variable on the next parameter server, or its parts on several."""
        if self._partitioner is not None:
            shards = self._shards(kwargs)
            if shards > 1:
                return self._create_shards(next_creator, kwargs, shards)
        with get_default_graph().device(None), get_default_graph().device(self._next_server()):
            return next_creator(**kwargs)

    def _shards(self, kwargs: dict[str, Any]) -> int:
        """Return into how many parts a variable goes.  Raises: ValueError for another axis."""
        initial = kwargs["initial_value"]
        value = initial() if callable(initial) else initial
        kwargs["initial_value"] = value = convert_to_tensor(value, kwargs.get("dtype"))
        dims = value.shape.as_list()
        if not dims:
            return 1
        assert self._partitioner is not None
        found = list(self._partitioner(shape=TensorShape(dims), dtype=value.dtype))
        if any(n != 1 for n in found[1:]):
            raise ValueError(
                f"variable_partitioner must part variables along axis 0 only; it returned {found}"
            )
        return min(int(found[0]), int(dims[0] or 1))

    def _create_shards(
        self, next_creator: Callable[..., Any], kwargs: dict[str, Any], count: int
    ) -> ShardedVariable:
        value = kwargs.pop("initial_value")
        name = kwargs.pop("name", None) or "Variable"
        kwargs.pop("shape", None)  # of the whole
        parts = []
        offset = 0
        for number, rows in enumerate(split_evenly(int(value.shape.as_list()[0] or 0), count)):
            piece = value[offset : offset + rows]
            offset += rows
            with get_default_graph().device(None), get_default_graph().device(self._next_server()):
                parts.append(
                    next_creator(initial_value=piece, name=f"{name}/part_{number}", **kwargs)
                )
        return ShardedVariable(parts, name)


@export_v2("distribute.experimental.partitioners.FixedShardsPartitioner")
class FixedShardsPartitioner:
    """Parts every variable into as many parts, along axis 0."""

    def __init__(self, num_shards: int) -> None:
        self._num_shards = num_shards

    def __call__(self, shape: Any, dtype: Any, axis: int = 0) -> list[int]:
        found = [1] * len(shape.as_list())
        found[axis] = min(self._num_shards, int(shape.as_list()[axis]))
        return found


@export_v2("distribute.experimental.partitioners.MinSizePartitioner")
class MinSizePartitioner:
    """Parts variables into at most max_shards parts, of at least min_shard_bytes each.

    Raises: ValueError for a size or number that is not positive.
    """

    def __init__(
        self, min_shard_bytes: int = 256 << 10, max_shards: int = 1, bytes_per_string: int = 16
    ) -> None:
        _require_positive(
            min_shard_bytes=min_shard_bytes,
            max_shards=max_shards,
            bytes_per_string=bytes_per_string,
        )
        self._least, self._most, self._string = min_shard_bytes, max_shards, bytes_per_string

    def __call__(self, shape: Any, dtype: Any, axis: int = 0) -> list[int]:
        return _by_bytes(shape, dtype, axis, self._most, self._least, None, self._string)


@export_v2("distribute.experimental.partitioners.MaxSizePartitioner")
class MaxSizePartitioner:
    """Parts variables into parts of at most max_shard_bytes each.

    Raises: ValueError for a size or number that is not positive.
    """

    def __init__(
        self, max_shard_bytes: int, max_shards: int | None = None, bytes_per_string: int = 16
    ) -> None:
        _require_positive(
            max_shard_bytes=max_shard_bytes,
            max_shards=1 if max_shards is None else max_shards,
            bytes_per_string=bytes_per_string,
        )
        self._bytes, self._most, self._string = max_shard_bytes, max_shards, bytes_per_string

    def __call__(self, shape: Any, dtype: Any, axis: int = 0) -> list[int]:
        return _by_bytes(shape, dtype, axis, self._most, None, self._bytes, self._string)


def _require_positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"Argument `{name}` must be positive. Received {size}")


def _by_bytes(
    shape: Any, dtype: Any, axis: int, most: int | None, least: int | None, size: int | None, s: int
) -> list[int]:
    dims = [int(n) for n in shape.as_list()]
    width = s if dtype == dtypes.string else dtype.size
    total = width
    for n in dims:
        total *= n
    row = max(1, total // max(1, dims[axis]))
    if size is not None:
        rows = max(1, size // row)
        count = -(-dims[axis] // rows)
    else:
        assert least is not None
        count = max(1, total // max(1, least))
    found = [1] * len(dims)
    found[axis] = max(1, min(count, dims[axis], most or count))
    return found
