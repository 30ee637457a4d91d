"""One process that trains a model, with the servers that it needs, and what it tells."""

from __future__ import annotations

import contextlib
import json
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from benchmarks.models.rows import Row
from benchmarks.processes import Cluster, Process

_MODULE = "benchmarks.models.client"
_JOBS = (("ps", 1), ("worker", 1))


@dataclass(frozen=True)
class Engine:
    """A runtime, and what it starts with.

    Attributes:
      key: its name in files of results.
      runtime: one of benchmarks.runtimes.RUNTIMES.
      environment: variables for its processes.
      rate: the learning rate, where the model's own is 1.
      shape: that of its programs, where it is not the row's.
    """

    key: str
    title: str
    runtime: str
    environment: Mapping[str, str] = field(default_factory=dict)
    rate: float = 1.0
    shape: str = ""


_PLAIN = {"TF_ENABLE_ONEDNN_OPTS": "0"}
# At their own rates most models take a difference in the last bit further and further; at this part
# of it losses stay comparable.
SMALL_RATE = 0.01

TENSORFLOW = Engine("tensorflow", "TensorFlow", "tensorflow")
COLD = Engine("cold", "tideflow, cold", "tideflow")
CACHED = Engine("cached", "tideflow, from a cache", "tideflow")
JAX = Engine("jax", "bare jax", "jax", shape="bare")
# These are only asked for their losses.  Without oneDNN TensorFlow adds up in another order.
PLAIN = Engine("plain", "TensorFlow without oneDNN", "tensorflow", _PLAIN)
SMALL_TENSORFLOW = Engine("small", "TensorFlow at a small rate", "tensorflow", rate=SMALL_RATE)
SMALL_PLAIN = Engine(
    "small-plain", "TensorFlow without oneDNN at a small rate", "tensorflow", _PLAIN, SMALL_RATE
)
SMALL_TIDEFLOW = Engine("small-tideflow", "tideflow at a small rate", "tideflow", rate=SMALL_RATE)
FOR_LOSSES = (PLAIN, SMALL_TENSORFLOW, SMALL_PLAIN, SMALL_TIDEFLOW)


@dataclass(frozen=True)
class Effort:
    """How much one process does.

    Attributes:
      steps: how many are taken from the start.
      warm_s: for how long, from the first one on, steps are not hot yet.
      hot_s: for how long hot steps are taken; at least ten are.
      limit_s: after which neither the first steps nor the warming go on.
    """

    steps: int = 300
    warm_s: float = 10.0
    hot_s: float = 3.0
    limit_s: float = 120.0


@dataclass(frozen=True)
class Run:
    """What one process told.

    Attributes:
      steps: seconds of each step from the start; fewer than asked for where they took too long.
      cpu: processor time of the client and its servers in each of them, in seconds.
      losses: of each of them.
      hot: seconds of each hot step.
      memory: bytes that client and servers took at most.
      held: bytes that they took before, when the package was imported and the batches were made.
    """

    steps: list[float]
    cpu: list[float]
    losses: list[float]
    hot: list[float]
    memory: int
    held: int

    @property
    def hot_s(self) -> float:
        """The median of a hot step."""
        return statistics.median(self.hot) if self.hot else math.nan

    def first_s(self, count: int) -> float:
        """Return the time of the first steps; nan where there were not so many."""
        return sum(self.steps[:count]) if len(self.steps) >= count else math.nan

    def first_cpu_s(self, count: int) -> float:
        """Return the processor time of the first steps; nan where there were not so many."""
        return sum(self.cpu[:count]) if len(self.cpu) >= count else math.nan

    def percentile_s(self, percent: float) -> float:
        """Return a percentile of the steps from the start."""
        return float(np.percentile(self.steps, percent))


def train(engine: Engine, row: Row, effort: Effort, cache: str | None = None) -> Run:
    """Train in processes of their own.

    Args:
      cache: the folder for compiled code, None for none.

    Raises:
      BenchmarkError: a process ended before its answer.
    """
    more = dict(engine.environment)
    if cache is not None:
        more["TIDEFLOW_JIT_CACHE"] = cache
    which = {"shape": engine.shape or row.shape, "model": row.model, "rate": engine.rate}
    asked = json.dumps({**which, "effort": vars(effort)})
    told: dict[str, object] = {"target": "", "servers": [], "cluster": None}
    with contextlib.ExitStack() as stack:
        if row.shape in ("ps", "in-worker"):
            # The worker's own process is the client's, where it is in there.
            absent = ("worker",) if row.shape == "in-worker" else ()
            cluster = stack.enter_context(
                contextlib.closing(Cluster(engine.runtime, _JOBS, more=more, absent=absent))
            )
            told["servers"] = [server.pid for server in cluster.servers.values()]
            if absent:
                told["cluster"] = cluster.addresses
            else:
                told["target"] = cluster.target(0)
        client = Process("train", engine.runtime, asked, module=_MODULE, more=more)
        stack.enter_context(contextlib.closing(client))
        client.answer("loaded")
        client.tell(json.dumps(told))
        return Run(**json.loads(client.answer("{")))
