"""Starts programs as the tasks of a cluster, each told its place in TF_CONFIG."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from cluster.servers import free_ports, make_environment

SAME_NUMBERS = Path(__file__).with_name("same_numbers.py")
Program: TypeAlias = "subprocess.Popen[str]"
# TensorFlow then loads no Keras, a third of its start.
_QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
    "TF_USE_LEGACY_KERAS": "1",
}


def beside_tensorflow(group: str) -> list[pytest.MarkDecorator]:
    """Return the marks of tests that share programs with a real TensorFlow, in one process."""
    has_one = importlib.util.find_spec("tensorflow") is not None
    return [
        pytest.mark.tensorflow,
        pytest.mark.processes,
        pytest.mark.timeout(200),
        pytest.mark.xdist_group(group),
        pytest.mark.skipif(not has_one, reason="needs a real TensorFlow"),
    ]


def make_cluster(**sizes: int) -> dict[str, list[str]]:
    """Return addresses on free ports, job by job."""
    ports = iter(free_ports(sum(sizes.values())))
    return {job: [f"127.0.0.1:{next(ports)}" for _ in range(n)] for job, n in sizes.items()}


def start_program(
    *arguments: str, cluster: dict[str, Any] | None = None, job: str = "worker", task: int = 0
) -> subprocess.Popen[str]:
    """Start a Python program: a file or -c, and what is passed to it."""
    environment = {**make_environment(), **_QUIET}
    if cluster is not None:
        place = {"cluster": cluster, "task": {"type": job, "index": task}}
        environment["TF_CONFIG"] = json.dumps(place)
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def losses_of(programs: list[subprocess.Popen[str]]) -> list[list[float]]:
    """Wait for programs that train; return the losses of each."""
    found = []
    try:
        for program in programs:
            output, said = program.communicate(timeout=100)
            lines = [line for line in output.splitlines() if line.startswith("losses ")]
            assert lines, said[-3000:]
            found.append(json.loads(lines[0].removeprefix("losses ")))
    finally:
        for program in programs:
            program.kill()
            program.communicate()
    return found


def train_on_workers(libraries: list[str], steps: int) -> list[list[float]]:
    """Return the losses that workers of these kinds see which train in step."""
    cluster = make_cluster(worker=len(libraries))
    return losses_of(
        [
            start_program(str(SAME_NUMBERS), one, "workers", str(steps), cluster=cluster, task=i)
            for i, one in enumerate(libraries)
        ]
    )


def train_alone(library: str, way: str, steps: int) -> list[float]:
    """Return the losses of one process."""
    return losses_of([start_program(str(SAME_NUMBERS), library, way, str(steps))])[0]


_SERVE = """
import importlib, json, os, sys
kind = sys.argv[1]
tf = importlib.import_module("tensorflow.compat.v1" if kind == "tensorflow" else "tideflow.v1")
place = json.loads(os.environ["TF_CONFIG"])
task = place["task"]
spec = tf.train.ClusterSpec(place["cluster"])
config = tf.ConfigProto(device_count={"CPU": 2})
server = tf.train.Server(spec, task["type"], task["index"], config=config)
print("ready", flush=True)
server.join()
"""


def start_servers(cluster: dict[str, Any], kinds: dict[str, Sequence[str]]) -> list[Program]:
    """Start a server for each task of some jobs, of these kinds, with two CPU devices each."""
    servers = [
        start_program("-c", _SERVE, kind, cluster=cluster, job=job, task=task)
        for job, listed in kinds.items()
        for task, kind in enumerate(listed)
    ]
    for server in servers:
        assert server.stdout is not None
        if server.stdout.readline() != "ready\n":
            end_programs(servers)
            raise AssertionError("a server did not start")
    return servers


def end_programs(programs: Sequence[Program]) -> None:
    """End processes at once."""
    for program in programs:
        program.kill()
        program.communicate()


def train_by_coordinator(chief: str, ps: str, workers: Sequence[str], steps: int) -> list[float]:
    """Return the losses that a coordinator sees whose tasks are of these kinds."""
    cluster = make_cluster(ps=1, worker=len(workers), chief=1)
    servers = start_servers(cluster, {"ps": [ps], "worker": workers})
    try:
        arguments = (str(SAME_NUMBERS), chief, "servers", str(steps))
        return losses_of([start_program(*arguments, cluster=cluster, job="chief")])[0]
    finally:
        end_programs(servers)


def train_on_remote_devices(chief: str, workers: Sequence[str], steps: int) -> list[float]:
    """Return the losses of a program that mirrors on two devices of workers of these kinds."""
    cluster = make_cluster(worker=len(workers))
    servers = start_servers(cluster, {"worker": workers})
    try:
        arguments = (str(SAME_NUMBERS), chief, "remote", str(steps))
        return losses_of([start_program(*arguments, cluster=cluster, job="chief")])[0]
    finally:
        end_programs(servers)
