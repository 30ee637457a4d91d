"""Run loads on pairs of runtimes, and keep what was measured."""

from __future__ import annotations

import contextlib
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.figures import Figure, Load
from benchmarks.processes import ROOT, BenchmarkError, Clients, Clusters, Process, environment
from benchmarks.runtimes import MODULES

# By part of a round: seconds.  Hot steps give many, all other parts one.
Samples = dict[str, list[float]]


@dataclass(frozen=True)
class Pair:
    """Whose client and whose servers are measured together."""

    client: str
    servers: str

    def of(self, figure: Figure) -> Pair:
        """Return the pair for a figure, which may insist on a client."""
        return Pair(figure.client or self.client, self.servers)


@dataclass
class Measured:
    """What the rounds of one load on one pair gave.

    Attributes:
      repeated: why rounds had to be run once more; error: why there are no more.
    """

    rounds: list[Samples] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    error: str = ""

    def median(self, part: str) -> float:
        """Return the median of the rounds' medians, in seconds; nan where there is none."""
        found = [statistics.median(one[part]) for one in self.rounds if one.get(part)]
        return statistics.median(found) if found else math.nan

    def percentile(self, part: str, percent: float) -> float:
        """Return a percentile of all samples of all rounds, in seconds; nan where there is none."""
        found = sorted(seconds for one in self.rounds for seconds in one.get(part, ()))
        if not found:
            return math.nan
        return found[min(len(found) - 1, int(len(found) * percent / 100))]


def _import_time(runtime: str) -> Samples:
    # NumPy is what any client has loaded anyway.
    program = (
        "import numpy, time; started = time.perf_counter();"
        f"import {MODULES[runtime]}; print('took', time.perf_counter() - started)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env=environment(runtime),
    )
    if done.returncode:
        raise BenchmarkError(f"import of {MODULES[runtime]}\n{done.stderr[-2000:]}")
    return {"import": [float(done.stdout.split()[-1])]}


@contextlib.contextmanager
def _targets(servers: str, load: Load, clusters: Clusters) -> Iterator[list[str]]:
    if not load.jobs:
        yield [""] * load.clients
        return
    with clusters.of(servers, load) as cluster:
        yield [cluster.target(client) for client in range(load.clients)]


def one_round(
    pair: Pair, load: Load, clusters: Clusters, clients: Clients | None = None
) -> Samples:
    """Measure a load once, with clients that were started for it (by default, new ones).

    Raises:
      BenchmarkError: a process ended or did not answer.
    """
    with contextlib.closing(clients or Clients(pair.client, load)) as running:
        running.loaded()
        if load.program == "import":
            return _import_time(pair.client)
        started = time.perf_counter()
        with _targets(pair.servers, load, clusters) as targets:
            return _step_all(running.processes, targets, started)


def _step_all(running: list[Process], targets: list[str], started: float) -> Samples:
    for process, target in zip(running, targets):
        process.tell(target)
    for process in running:
        process.answer("warm")
    until_warm = time.perf_counter() - started
    for process in running:
        process.tell("go")
    found = [json.loads(process.answer("{")) for process in running]
    return {
        "first": [one["first"] for one in found],
        # Clients that step at the same time share the time: it is that of a step of either.
        "step": [seconds / len(found) for one in found for seconds in one["step"]],
        # Of use only for a load without hot steps on fresh servers.
        "start": [until_warm],
    }
