"""The example that trains in step, as real processes: one parameter server and two workers."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.commands import Command
from cluster.servers import free_ports

pytestmark = pytest.mark.processes

Start = Callable[..., Command]
EXAMPLE = "examples/digits_sync_replica.py"


def flags(*more: str) -> list[str]:
    ps, *workers = (f"127.0.0.1:{port}" for port in free_ports(3))
    return [f"--ps_hosts={ps}", f"--worker_hosts={','.join(workers)}", "--train_steps=300", *more]


def start_workers(start: Start, given: list[str]) -> list[Command]:
    return [
        start(*given, "--job_name=worker", f"--task_index={index}", program=(EXAMPLE,))
        for index in range(2)
    ]


def check(workers: list[Command]) -> None:
    """See that both workers made steps, and that the chief's model is good."""
    outputs = []
    for worker in workers:
        code, out, err = worker.end()
        assert code == 0, err
        outputs.append(out)
    [accuracy] = re.findall(r"test accuracy ([0-9.]+)", outputs[0])
    assert float(accuracy) >= 0.93
    for out in outputs:
        assert re.search(r"made [1-9][0-9]* of [0-9]+ steps", out)


@pytest.mark.parametrize("sync", ["--sync_replicas", "--nosync_replicas"])
@pytest.mark.parametrize("session", ["supervisor", "monitored"])
def test_replicas_train(start: Start, sync: str, session: str) -> None:
    given = flags(sync, f"--session={session}")
    start(*given, "--job_name=ps", "--task_index=0", program=(EXAMPLE,))
    check(start_workers(start, given))


def test_a_backup_worker_is_not_waited_for(start: Start) -> None:
    given = flags("--sync_replicas", "--replicas_to_aggregate=1")
    start(*given, "--job_name=ps", "--task_index=0", program=(EXAMPLE,))
    check(start_workers(start, given))


def test_servers_may_run_already(start: Start) -> None:
    given = flags("--sync_replicas", "--existing_servers")
    ps, workers = (flag.partition("=")[2].split(",") for flag in given[:2])
    cluster = json.dumps({"ps": ps, "worker": workers})
    for job, index in (("ps", 0), ("worker", 0), ("worker", 1)):
        start("serve", "--cluster", cluster, "--job", job, "--task", str(index))
    check(start_workers(start, given))


def test_a_terminated_chief_leaves_a_checkpoint_to_go_on_from(start: Start, tmp_path: Path) -> None:
    given = flags(f"--logdir={tmp_path}", "--session=monitored")
    start(*given, "--job_name=ps", "--task_index=0", program=(EXAMPLE,))
    more = [*given, "--train_steps=1000000"]
    chief, other = start_workers(start, more)
    chief.read_until("global step")
    chief.send(signal.SIGTERM)
    code, _, err = chief.end(timeout_s=20)
    assert code == 128 + signal.SIGTERM, err
    found = re.search(r"the last checkpoint is that of step (\d+)", err)
    assert found is not None, err
    step = int(found[1])
    assert step >= 100
    assert (tmp_path / f"model.ckpt-{step}.index").exists()
    assert other.process.poll() is None


@pytest.mark.parametrize("sync", ["--sync_replicas", "--nosync_replicas"])
def test_training_goes_on_when_the_parameter_server_is_killed(
    start: Start, tmp_path: Path, sync: str
) -> None:
    given = flags(f"--logdir={tmp_path}", "--session=monitored", sync)
    ps = start(*given, "--job_name=ps", "--task_index=0", program=(EXAMPLE,))
    workers = start_workers(start, [*given, "--train_steps=1500"])
    workers[0].read_until("global step")
    ps.process.kill()
    ps.process.wait()
    start(*given, "--job_name=ps", "--task_index=0", program=(EXAMPLE,))
    check(workers)
