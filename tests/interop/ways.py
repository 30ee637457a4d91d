"""All the ways in which tideflow can run a program: each tier on each transport.

The core programs give the same on every one of them.  `test_every_way.py` sees to that, and to it
that no tier, no transport and no switch of tideflow's is left out here.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from scenarios import TASKS, Process, RunningCluster, Unexpected, make_spec, run_program

from tideflow.runtime.jit_mode import JitMode
from two_hosts import Host

TIERS = tuple(mode.value for mode in JitMode)

# What a transport's name stands for in the environment of clients and servers.
TRANSPORTS = {
    "in process": {},
    "gRPC": {"TIDEFLOW_PEER": "off", "TIDEFLOW_SHARED_MEMORY": "off", "TIDEFLOW_SPIN": "off"},
    "gRPC with peer extensions": {"TIDEFLOW_PEER": "on", "TIDEFLOW_SHARED_MEMORY": "on"},
    "gRPC with peer extensions, between hosts": {
        "TIDEFLOW_PEER": "on",
        "TIDEFLOW_SHARED_MEMORY": "off",
    },
    "grpcio": {"TIDEFLOW_GRPC": "grpcio", "TIDEFLOW_ONEDNN": "off"},
}
# Each with all its values; they hold for a process, but for the tier, which each session asks for.
SWITCHES = {
    "TIDEFLOW_GRPC": ("h2", "grpcio"),
    "TIDEFLOW_JIT": TIERS,
    "TIDEFLOW_ONEDNN": ("on", "off"),
    "TIDEFLOW_PEER": ("on", "off"),
    "TIDEFLOW_SHARED_MEMORY": ("on", "off"),
    "TIDEFLOW_SPIN": ("on", "off"),
}
_FIRST_PORT = 2222  # namespaces that are made anew have all ports free
DEFAULTS = {
    "TIDEFLOW_GRPC": "h2",
    "TIDEFLOW_ONEDNN": "on",
    "TIDEFLOW_PEER": "on",
    "TIDEFLOW_SHARED_MEMORY": "on",
    "TIDEFLOW_SPIN": "on",
}


@dataclass(frozen=True)
class Way:
    """A tier on a transport."""

    tier: str
    transport: str

    def __str__(self) -> str:
        return f"{self.tier} {self.transport}"

    @property
    def environment(self) -> dict[str, str]:
        """The settings of clients and servers."""
        return {**DEFAULTS, **TRANSPORTS[self.transport], "TIDEFLOW_JIT": self.tier}


WAYS = tuple(Way(tier, transport) for transport in TRANSPORTS for tier in TIERS)
# The others are compared with this one.  Where TensorFlow is there, test_interop.py compares one of
# them with it.
REFERENCE = Way("never", "in process")


class Runner:
    """A client and its cluster on one transport, for one tier after the other.

    Compiled code is kept in the folder cache, for all transports.
    """

    def __init__(self, transport: str, cache: str) -> None:
        environment = {**Way(TIERS[0], transport).environment, "TIDEFLOW_JIT_CACHE": cache}
        self._cluster: RunningCluster | None = None
        if transport == "in process":
            self._client = Process(
                "client.py", "tideflow", json.dumps(make_spec()), environment=environment
            )
            return
        self._client = Process("client.py", "tideflow", environment=environment)
        runtimes = ("tideflow",) * len(TASKS)
        self._cluster = RunningCluster(runtimes, self._client, environment)

    def run(self, way: Way, programs: Iterable[str]) -> dict[str, Any]:
        """Return what programs return, by name.  Raises: Unexpected."""
        processes = [self._client]
        if self._cluster is not None:
            processes += self._cluster.processes.values()
        for process in processes:
            process.ask({"TIDEFLOW_JIT": way.tier})
        targets = {} if self._cluster is None else self._cluster.targets
        return run_all(self._client, targets, programs)

    def close(self) -> None:
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def run_all(client: Process, targets: dict[str, str], programs: Iterable[str]) -> dict[str, Any]:
    """Return what programs return, by name.  Raises: Unexpected."""
    found = {}
    for name in programs:
        try:
            found[name] = run_program(client, name, targets)
        except Unexpected as error:
            raise Unexpected(f"{name}: {error}") from None
    return found


def run_on_two_hosts(hosts: tuple[Host, Host], programs: Iterable[str]) -> dict[str, Any]:
    """Return what programs return, by name, whose client and master are on the first host and whose
    other tasks on the second, in the tier that compiles nothing.  Raises: Unexpected."""
    spec: dict[str, list[str]] = {}
    places = []
    for number, (job, task) in enumerate(TASKS):
        host = hosts[number > 0]
        spec.setdefault(job, []).append(f"{host.address}:{_FIRST_PORT + number}")
        places.append((job, task, host))
    environment = {**DEFAULTS, "TIDEFLOW_JIT": JitMode.NEVER.value, "TIDEFLOW_INSECURE": "on"}
    with contextlib.ExitStack() as stack:

        def start(script: str, host: Host) -> Process:
            made = Process(script, "tideflow", environment=environment, prefix=host.prefix)
            stack.callback(made.close)
            return made

        targets = {
            f"{job}:{task}": start("serve.py", host).ask([spec, job, task]).decode()
            for job, task, host in places
        }
        return run_all(start("client.py", hosts[0]), targets, programs)
