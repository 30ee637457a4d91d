"""Eager programs give the same whoever runs them: clients and servers of both kinds."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest
from eager_scenarios import CLIENTS, SHARING, WAYS, EagerBench, run_eagerly, ways_of
from scenarios import CLUSTERS, Process, RunningCluster

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.processes,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("interop-eager"),
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="needs a real TensorFlow"
    ),
]


@pytest.fixture(scope="module")
def bench() -> Iterator[EagerBench]:
    made = EagerBench()
    yield made
    made.close()


@pytest.mark.parametrize("way", WAYS, ids=" client on ".join)
def test_eager_programs_give_what_they_give_on_tensorflow(
    bench: EagerBench, way: tuple[str, str]
) -> None:
    names = [name for name in SHARING if way in ways_of(name)]
    assert names
    found = {name: bench.differences(name, *way) for name in names}
    assert not {name: shown for name, shown in found.items() if shown}


# TensorFlow's client waits for ever for a dead task where it streams.
@pytest.mark.parametrize("client", ["tensorflow, unary", "tideflow"])
@pytest.mark.parametrize("kind", ["tideflow", "tensorflow-leads"])
def test_a_worker_is_lost_and_replaced(bench: EagerBench, client: str, kind: str) -> None:
    runtime, environment = CLIENTS[client]
    cluster = RunningCluster(CLUSTERS[kind].runtimes, bench.tensorflow_server)
    process = Process("eager_client.py", runtime, environment=environment)
    try:
        pids = {"worker:1": cluster.processes["worker:1"].pid}
        found = run_eagerly(process, "loses_a_worker", cluster.spec, pids)
        assert found == [1.0, 2.0, 3.0, ["UnavailableError"] * 3, 1.0]
        cluster.restart("worker:1")
        found = run_eagerly(process, "meets_another_worker", cluster.spec, again=True)
        assert found == [2.0, 5.0, "InvalidArgumentError", 2.0, 7.0]
    finally:
        process.close()
        cluster.close()
