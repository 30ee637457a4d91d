"""Every benchmark program runs, at a tiny size, on a local session and on a small cluster."""

from __future__ import annotations

import contextlib
import io
import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from benchmarks.__main__ import Comparison
from benchmarks.figures import FIGURES, Figure, Load
from benchmarks.processes import Clusters
from benchmarks.programs import PROGRAMS
from benchmarks.rounds import Pair, one_round
from rich.console import Console

import tideflow.v1 as tf

TINY: dict[str, dict[str, Any]] = {
    "local_add": {},
    "remote_add": {},
    "chain": {"ops": 10},
    "mlp": {"sizes": [4, 3, 2], "batch": 2},
    "ps_mlp": {"sizes": [4, 3, 2], "batch": 2, "task": 1},
    "to_worker": {"count": 4},
    "to_client": {"count": 4},
    "all_reduce": {"workers": 2, "count": 4},
    "fan_in": {"workers": 2},
    "wide": {"nodes": 200},
}
LOCAL = {"local_add", "chain", "mlp"}


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """The master of a worker, beside another worker and a parameter server."""
    jobs = [("ps", 0), ("worker", 0), ("worker", 1)]
    with socket.socket() as a, socket.socket() as b, socket.socket() as c:
        for one in (a, b, c):
            one.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in (a, b, c)]
    spec = tf.train.ClusterSpec(
        {"ps": [f"127.0.0.1:{ports[0]}"], "worker": [f"127.0.0.1:{port}" for port in ports[1:]]}
    )
    servers = [tf.train.Server(spec, job_name=job, task_index=task) for job, task in jobs]
    yield servers[1].target
    for server in servers:
        server.stop()


def run_twice(name: str, target: str) -> list[Any]:
    with tf.Graph().as_default():
        step = PROGRAMS[name](tf, target, **TINY[name])
        return [step(), step()]


def check(name: str, results: list[Any]) -> None:
    wanted = {
        "local_add": lambda x: x == 4.0,
        "remote_add": lambda x: x == 4.0,
        "to_client": lambda x: np.array_equal(x, np.zeros(4)),
        "all_reduce": lambda x: x == [None, None],
        "chain": lambda x: 0.6 < x < 0.7,
        "wide": np.isfinite,
    }.get(name, lambda x: x is None)
    assert all(wanted(one) for one in results), results


@pytest.mark.parametrize("name", sorted(LOCAL))
def test_program_runs_in_a_local_session(name: str) -> None:
    check(name, run_twice(name, ""))


@pytest.mark.parametrize("name", sorted(TINY))
def test_program_runs_on_a_cluster(name: str, target: str) -> None:
    check(name, run_twice(name, target))


def test_every_program_is_tried_here() -> None:
    assert set(TINY) == set(PROGRAMS)


def test_every_figure_has_a_program_and_a_key_of_its_own() -> None:
    assert len({figure.key for figure in FIGURES}) == len(FIGURES)
    assert {figure.load.program for figure in FIGURES} <= {*PROGRAMS, "import"}


@pytest.mark.processes
def test_a_crash_of_a_figure_is_told_and_the_rest_goes_on() -> None:
    broken = Figure("broken", "broken", Load("no_such_program"), 1.0)
    output = io.StringIO()
    console = Console(file=output, width=200)
    with contextlib.closing(Clusters()) as clusters:
        pair = Pair("tideflow", "tideflow")
        (result,) = Comparison((broken,), (pair, pair), 1, console).run(clusters)
    assert result.verdict == "failed"
    assert "KeyError: 'no_such_program'" in output.getvalue()


@pytest.mark.processes
def test_a_round_measures_the_first_run_and_hot_steps_in_processes_of_their_own() -> None:
    load = Load("to_worker", {"count": 4}, (("ps", 1), ("worker", 1)), steps=3)
    with contextlib.closing(Clusters()) as clusters:
        samples = one_round(Pair("tideflow", "tideflow"), load, clusters)
    assert len(samples["first"]) == 1
    assert len(samples["step"]) == 3
    assert all(seconds > 0 for part in samples.values() for seconds in part)
