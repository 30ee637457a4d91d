"""Two chiefs for one checkpoint directory: the second is told so; a killed one comes back."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tideflow.v1 as tf
from cluster.servers import make_environment
from interleaving import run_interrupted
from tideflow.train.threads import ChiefLock, chief_lock
from tideflow.wire import errors

# Holds the directory, with a child that outlives it, until it is killed or told to end.
_HOLD = """
import os, signal, sys
from tideflow.train.threads.chief_lock import ChiefLock
lock = ChiefLock(sys.argv[1])
child = os.fork()
if not child:
    signal.alarm(60)  # longer than any test
    signal.pause()
print("holds", flush=True)
sys.stdin.readline()
lock.release()
print("let go", flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def holder(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that is chief."""
    environment = {**make_environment(), "TF_CONFIG": '{"task": {"type": "worker", "index": 7}}'}
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "holds\n"
            yield process
        finally:
            process.kill()


def say(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.processes
def test_a_second_chief_is_told_who_the_first_is(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        pattern = rf"{re.escape(str(tmp_path))} has a chief already: process {first.pid} on .*:7"
        with pytest.raises(errors.FailedPreconditionError, match=pattern):
            ChiefLock(str(tmp_path), handover_s=0.1)


@pytest.mark.processes
def test_a_monitored_session_is_not_a_second_chief(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideflow.train.threads.chief_lock.HANDOVER_S", 0.1)
    with holder(tmp_path), tf.Graph().as_default():
        tf.train.get_or_create_global_step()
        with pytest.raises(errors.FailedPreconditionError, match="has a chief already"):
            tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path))
    assert not list(tmp_path.glob("*ckpt*"))


@pytest.mark.processes
def test_neither_is_a_supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tideflow.train.threads.chief_lock.HANDOVER_S", 0.1)
    with tf.Graph().as_default():
        tf.train.get_or_create_global_step()
        supervisor = tf.train.Supervisor(logdir=str(tmp_path))
        with holder(tmp_path), pytest.raises(errors.FailedPreconditionError, match="has a chief"):
            supervisor.prepare_or_wait_for_session()
        with supervisor.managed_session():
            assert (tmp_path / "chief.lock").exists()
        assert not (tmp_path / "chief.lock").exists()


@pytest.mark.processes
def test_a_killed_chief_can_come_back_at_once_though_its_child_lives(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        first.kill()
        first.wait()
        lock = ChiefLock(str(tmp_path), handover_s=0.0)
        assert f'"pid": {os.getpid()}' in (tmp_path / "chief.lock").read_text()
        lock.release()


@pytest.mark.processes
def test_a_chief_waits_for_one_that_is_about_to_end(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with holder(tmp_path) as first:
        say(first)
        lock = ChiefLock(str(tmp_path), handover_s=30.0)
        lock.release()
        assert first.poll() is None


@pytest.mark.processes
def test_a_closed_session_lets_another_process_be_chief(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        count = tf.assign_add(tf.train.get_or_create_global_step(), 1)
        with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path)) as session:
            session.run(count)
    with holder(tmp_path) as other:
        assert other.poll() is None


def test_one_process_may_claim_a_directory_twice(tmp_path: Path) -> None:
    locks = [ChiefLock(str(tmp_path / "new")) for _ in range(2)]
    file = tmp_path / "new" / "chief.lock"
    locks[0].release()
    locks[0].release()
    assert file.exists()
    locks[1].release()
    assert not file.exists()


def test_a_lock_may_be_collected_wherever_another_one_is_at(tmp_path: Path) -> None:
    file = tmp_path / "chief.lock"
    for at in itertools.count(1):
        dropped = [ChiefLock(str(tmp_path))]

        def lock_and_release() -> None:
            lock = ChiefLock(str(tmp_path))
            assert file.exists()
            lock.release()

        was_reached = run_interrupted(chief_lock, at, lock_and_release, dropped.clear)
        dropped.clear()
        assert not file.exists(), f"at line {at}"
        if not was_reached:
            break
    assert at > 10


def test_a_directory_that_cannot_be_written_is_left_to_the_saver(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ChiefLock(str(tmp_path / "file" / "below"), handover_s=0.0).release()
    assert (tmp_path / "file").read_text() == ""
