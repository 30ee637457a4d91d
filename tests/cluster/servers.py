"""Clusters for tests: servers in this process, and servers in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loop_monitor import watching_path
from tideflow.cluster.cluster_spec import ClusterSpec
from tideflow.cluster.server import Server
from tideflow.wire import messages as pb

SOURCE = Path(__file__).parents[2] / "src"

_SERVE = """
import json, sys
from tideflow.cluster.server import Server
cluster, job, task = json.loads(sys.argv[1])
server = Server(cluster, job, task)
print(server.target, flush=True)
server.join()
"""


def free_ports(count: int) -> list[int]:
    """Return ports that nobody uses now; all are held until all are known."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


def suspend(process: subprocess.Popen[Any]) -> None:
    """Stop a process; return when it stands still, which it does a moment after the signal."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def make_spec(sizes: Mapping[str, int]) -> dict[str, list[str]]:
    """Return a cluster on free ports of this machine, from the number of each job's tasks."""
    ports = iter(free_ports(sum(sizes.values())))
    return {job: [f"127.0.0.1:{next(ports)}" for _ in range(n)] for job, n in sizes.items()}


def make_environment() -> dict[str, str]:
    """Return the environment of a process that is to import tideflow, and to watch its loop."""
    return {**os.environ, "PYTHONPATH": watching_path(), "OMP_NUM_THREADS": "1"}


class LocalCluster:
    """Servers of a whole cluster in this process.

    Args:
      sizes: the number of each job's tasks.
      config: of each server.
    """

    def __init__(self, sizes: Mapping[str, int], config: pb.ConfigProto | None = None) -> None:
        self.spec = ClusterSpec(make_spec(sizes))
        self.config = config
        self.servers: dict[tuple[str, int], Server] = {}
        for job in self.spec.jobs:
            for task in self.spec.task_indices(job):
                self.start(job, task)

    def start(self, job: str, task: int) -> Server:
        """Start a task's server; also a new one in place of one that was stopped."""
        server = Server(self.spec, job, task, config=self.config)
        self.servers[job, task] = server
        return server

    def server(self, job: str, task: int = 0) -> Server:
        return self.servers[job, task]

    def target(self, job: str, task: int = 0) -> str:
        return self.servers[job, task].target

    def stop(self) -> None:
        for server in self.servers.values():
            server.stop()


class ServerProcess:
    """One task's server in a process of its own, ready when this is made."""

    def __init__(self, spec: Mapping[str, Any], job: str, task: int = 0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, json.dumps([spec, job, task])],
            stdout=subprocess.PIPE,
            text=True,
            env=make_environment(),
        )
        assert self.process.stdout is not None
        self.target = self.process.stdout.readline().strip()
        assert self.target.startswith("grpc://"), "the server did not start"

    def kill(self) -> None:
        """End the process at once, as a crash does."""
        self.process.kill()
        self.close()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
