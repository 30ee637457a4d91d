"""Programs give the same whoever runs them: clients and servers of TensorFlow's and of ours."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from programs import PROGRAMS
from scenarios import CLUSTERS, Bench, Process, RunningCluster, differences, ways

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.processes,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("interop"),
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="needs a real TensorFlow"
    ),
]


@contextmanager
def losable(bench: Bench, kind: str) -> Iterator[RunningCluster]:
    """Give a cluster of its own whose ps may be ended, and is a process by itself."""
    runtimes = CLUSTERS[kind].runtimes
    server = bench.tensorflow_server
    if runtimes[2] == "tensorflow":
        runtimes, server = (
            (runtimes[0], runtimes[0], "tensorflow"),
            Process("serve.py", "tensorflow"),
        )
    cluster = RunningCluster(runtimes, server)
    cluster.processes.setdefault("ps:0", server)
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.mark.parametrize("name", [name for name, one in PROGRAMS.items() if one.clients])
def test_a_program_gives_what_it_gives_on_tensorflow(bench: Bench, name: str) -> None:
    expected = bench.expected(name)
    found = {
        f"{client} client on {cluster}": list(
            differences(expected, bench.run(name, client, cluster))
        )
        for client, cluster in ways()
        if client in PROGRAMS[name].clients
    }
    assert not {way: one for way, one in found.items() if one}


@pytest.mark.parametrize(
    "name", [name for name, one in PROGRAMS.items() if one.local and "tideflow" in one.clients]
)
def test_a_program_gives_what_it_gives_on_tensorflow_without_a_cluster(
    bench: Bench, name: str
) -> None:
    expected = bench.run_on(name, "tensorflow", {})
    assert not list(differences(expected, bench.run_on(name, "tideflow", {})))


@pytest.mark.parametrize("client", ["tensorflow", "tideflow"])
def test_servers_keep_tensors_as_local_sessions_do(bench: Bench, client: str) -> None:
    name = "keeps_tensors_in_the_session"
    expected = bench.run_on(name, "tensorflow", {})
    assert not list(differences(expected, bench.run(name, client, "tideflow")))
    with pytest.raises(Exception, match="FailedPreconditionError"):
        bench.run(name, client, "tensorflow")


@pytest.mark.parametrize("cluster", ["tideflow", "tensorflow-leads", "tideflow-leads"])
def test_a_missing_op_is_named(bench: Bench, cluster: str) -> None:
    with pytest.raises(Exception, match=r"NotFoundError.*DebugNanCount"):
        bench.run("uses_an_op_that_only_tensorflow_has", "tensorflow", cluster)


@pytest.mark.parametrize("runtimes", ["tideflow", "tensorflow-leads", "tideflow-leads"])
@pytest.mark.parametrize("client", ["tensorflow", "tideflow"])
def test_a_lost_task_fails_its_steps_and_no_others(
    bench: Bench, client: str, runtimes: str
) -> None:
    with losable(bench, runtimes) as cluster:
        targets = {**cluster.targets, "pid of ps:0": str(cluster.processes["ps:0"].pid)}
        lost = bench.run_on("loses_a_task_in_mid_step", client, targets)
        assert lost == [1.0, "UnavailableError", "UnavailableError", 2.0]
        cluster.restart("ps:0")
        found = bench.run_on("meets_a_restarted_task", client, cluster.targets)
        # Until the master's connection is made anew, the task is unavailable still.
        assert found[0] in ("AbortedError", "UnavailableError")
        assert found[1:] == ["FailedPreconditionError", 1.0]


@pytest.mark.parametrize("runtimes", ["tideflow", "tensorflow-leads"])
def test_a_monitored_session_outlives_a_task(bench: Bench, runtimes: str) -> None:
    with losable(bench, runtimes) as cluster:
        targets = {**cluster.targets, "pid of ps:0": str(cluster.processes["ps:0"].pid)}

        def restart() -> None:
            cluster.processes["ps:0"].wait()
            cluster.restart("ps:0")

        restarting = threading.Thread(target=restart)
        restarting.start()
        losses = bench.run_on("trains_over_a_restart", "tensorflow", targets)
        restarting.join()
    assert losses == pytest.approx([20 * 0.64**step for step in range(6)], rel=1e-4)
