"""All the ways in which tideflow can run a program: each tier on each transport.

The core programs give the same on every one of them; `test_every_way.py` sees to that, and to it
that no tier and no transport is left out here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from scenarios import TASKS, Process, RunningCluster, make_spec, run_program

from tideflow.runtime.jit_mode import JitMode

TIERS = tuple(mode.value for mode in JitMode)

# What a transport's name stands for in the environment of clients and servers.
TRANSPORTS = {
    "in process": {},
    "gRPC": {"TIDEFLOW_PEER": "off", "TIDEFLOW_SHARED_MEMORY": "off"},
    "gRPC with peer extensions": {"TIDEFLOW_PEER": "on", "TIDEFLOW_SHARED_MEMORY": "on"},
    "grpcio": {"TIDEFLOW_GRPC": "grpcio"},
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
        """The settings that clients and servers are started with."""
        return {"TIDEFLOW_JIT": self.tier, "TIDEFLOW_GRPC": "h2", **TRANSPORTS[self.transport]}


WAYS = tuple(Way(tier, transport) for transport in TRANSPORTS for tier in TIERS)
# The others are compared with this one, which is compared with TensorFlow where that is there.
REFERENCE = Way("never", "gRPC")


class Runner:
    """A client, and its cluster, of one way."""

    def __init__(self, way: Way) -> None:
        self._cluster: RunningCluster | None = None
        if way.transport == "in process":
            self._client = Process(
                "client.py", "tideflow", json.dumps(make_spec()), environment=way.environment
            )
            return
        self._client = Process("client.py", "tideflow", environment=way.environment)
        runtimes = ("tideflow",) * len(TASKS)
        self._cluster = RunningCluster(runtimes, self._client, way.environment)

    def run(self, program: str) -> Any:
        """Return what a program returns.  Raises: Unexpected."""
        targets = {} if self._cluster is None else self._cluster.targets
        return run_program(self._client, program, targets)

    def close(self) -> None:
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()
