"""`tideflow run --restart`: tasks that die are started again, within bounds."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.commands import Command, wait_until_dead
from tideflow.cli.restarts import RestartPolicy, Restarts

Start = Callable[..., Command]
Script = Callable[[str], str]

# Each life of a task adds a byte to a file of its own.
_COUNTS = """
import pathlib
lives = pathlib.Path(sys.argv[1]) / f"{job}{index}"
with lives.open("a") as file: file.write("x")
life = lives.stat().st_size
print("life", life, job, index, os.getpid(), flush=True)
"""


def pids_in(lines: list[str]) -> dict[str, int]:
    """Return the process of each task's latest life."""
    told = [line.split("life ")[1].split() for line in lines if "| life " in line]
    return {f"{job}:{index}": int(pid) for _, job, index, pid in told}


# ---- the policy


def test_pauses_grow_within_bounds_until_a_task_died_too_often() -> None:
    policy = RestartPolicy(most=4, first_pause_s=1.0, most_pause_s=3.0)
    restarts = Restarts(policy)
    pauses = [restarts.next_pause_s(0.1) for _ in range(4)]
    for pause_s, most_s in zip(pauses, (1.0, 2.0, 3.0, 3.0)):
        assert pause_s is not None
        assert most_s / 2 <= pause_s <= most_s
    assert restarts.next_pause_s(0.1) is None
    assert restarts.total == 4


def test_a_task_that_ran_for_long_begins_anew() -> None:
    restarts = Restarts(RestartPolicy(most=1, healthy_s=60.0, first_pause_s=1.0))
    for _ in range(5):
        pause_s = restarts.next_pause_s(61.0)
        assert pause_s is not None
        assert pause_s <= 1.0
    assert restarts.next_pause_s(59.0) is None


def test_nothing_is_restarted_by_default() -> None:
    assert Restarts(RestartPolicy()).next_pause_s(1000.0) is None


# ---- with processes


@pytest.mark.processes
def test_a_task_that_dies_is_started_again_in_its_place(
    start: Start, script: Script, tmp_path: Path
) -> None:
    path = script(
        _COUNTS + "print('config', os.environ['TF_CONFIG'])\n"
        "if job == 'ps': signal.pause()\n"
        "if index == 1 and life < 3: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = start("run", "--ps", "1", "--workers", "2", "--restart", path, str(tmp_path))
    code, out, err = command.end()
    assert code == 0
    assert "worker:1 was ended by SIGKILL (exit code 137); it is started again in" in err
    assert "(restart 2 of 10)" in err
    configs = {line for line in out.splitlines() if line.startswith("worker:1 | config")}
    assert len(configs) == 1
    assert (tmp_path / "worker1").read_text() == "xxx"
    assert (tmp_path / "worker0").read_text() == (tmp_path / "ps0").read_text() == "x"


@pytest.mark.processes
def test_one_that_dies_too_often_ends_the_run_with_its_code(
    start: Start, script: Script, tmp_path: Path
) -> None:
    path = script(_COUNTS + "signal.pause() if job == 'ps' else sys.exit(9)\n")
    command = start("run", "--workers", "1", "--restart", "2", path, str(tmp_path))
    code, _, err = command.end()
    assert code == 9
    assert "worker:0 exited with code 9; all tasks were stopped" in err
    assert (tmp_path / "worker0").read_text() == "xxx"


@pytest.mark.processes
def test_a_killed_ps_comes_back_and_its_children_do_not_stay(
    start: Start, script: Script, tmp_path: Path
) -> None:
    path = script(
        _COUNTS + "if job == 'ps' and life == 1:\n"
        "  child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "  print('life 1 child 0', child.pid)\n"
        "signal.pause()\n"
    )
    command = start("run", "--workers", "1", "--restart", path, str(tmp_path))
    lines = command.read_until("life 1 ps 0", "life 1 child 0", "life 1 worker 0")
    first = pids_in(lines)
    os.kill(first["ps:0"], signal.SIGKILL)
    lines = command.read_until("life 2 ps 0")
    wait_until_dead([first["ps:0"], first["child:0"]])
    command.send(signal.SIGINT)
    code, _, _ = command.end(timeout_s=10)
    assert code == 130
    wait_until_dead(pids_in(lines).values())


@pytest.mark.processes
def test_ctrl_c_ends_a_task_that_is_about_to_be_started_again(
    start: Start, script: Script, tmp_path: Path
) -> None:
    path = script(_COUNTS + "if job == 'worker': sys.exit(1)\nsignal.pause()\n")
    command = start("run", "--workers", "1", "--restart", "1000", path, str(tmp_path))
    lines = command.read_until("life 4 worker 0")
    command.send(signal.SIGINT)
    code, out, _ = command.end(timeout_s=10)
    assert code == 130
    wait_until_dead(pids_in([*lines, *out.splitlines()]).values())


@pytest.mark.processes
def test_parameter_servers_outlive_workers_that_take_their_time_to_end(
    start: Start, script: Script, tmp_path: Path
) -> None:
    path = script(
        _COUNTS + "import time\n"
        "def end(*_):\n"
        "  if job == 'worker': time.sleep(0.5)\n"
        "  print('ends', job, flush=True); os._exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('waits', job, flush=True)\n"
        "while True: signal.pause()\n"
    )
    command = start("run", "--workers", "1", path, str(tmp_path))
    command.read_until("waits ps", "waits worker")
    command.send(signal.SIGTERM)
    code, out, _ = command.end(timeout_s=10)
    assert code == 143
    assert out.index("ends worker") < out.index("ends ps")


_TRAINS = """
import time
import tideflow.v1 as tf
server = tf.train.Server(config["cluster"], job, index)
print("life", 0, job, index, os.getpid(), flush=True)
if job == "ps":
    server.join()
own = f"/job:worker/task:{index}"
with tf.device(tf.train.replica_device_setter(worker_device=own, cluster=server.cluster_spec)):
    count = tf.assign_add(tf.train.get_or_create_global_step(), 1)
with tf.train.MonitoredTrainingSession(
    server.target,
    is_chief=index == 0,
    checkpoint_dir=sys.argv[1],
    hooks=[tf.train.StopAtStepHook(last_step=300)],
    config=tf.ConfigProto(device_filters=["/job:ps", own]),
    save_checkpoint_steps=20,
    save_summaries_steps=None,
    log_step_count_steps=None,
) as session:
    while not session.should_stop():
        if session.run(count) >= 100:
            print("over a hundred", flush=True)
        time.sleep(0.005)
"""


@pytest.mark.processes
def test_training_needs_nobody_to_watch_it(start: Start, script: Script, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    command = start("run", "--ps", "1", "--workers", "2", "--restart", script(_TRAINS), str(saved))
    lines = command.read_until("over a hundred")
    for victim in ("ps:0", "worker:0"):
        os.kill(pids_in(lines)[victim], signal.SIGKILL)
    code, _, err = command.end()
    assert code == 0, err
    for victim in ("ps:0", "worker:0"):
        assert f"{victim} was ended by SIGKILL" in err
    assert "model.ckpt-30" in (saved / "checkpoint").read_text()
