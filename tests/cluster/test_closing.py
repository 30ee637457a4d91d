"""Closing sessions and servers, Ctrl-C and SIGTERM: all end within five seconds, whatever the
peers do.  The peers here are processes that are dead or stopped."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tideflow.v1 as tf
from cluster.servers import ServerProcess, make_environment, make_spec, suspend
from cluster.test_task_watch import Step
from real_time import within

pytestmark = [pytest.mark.processes, pytest.mark.real_time]

Start = Callable[..., ServerProcess]

_PROMISED_S = 5.0

# A worker whose step waits at the ps; it says when it does.
_WORKER = """
import json, sys, threading
import tideflow.v1 as tf
server = tf.train.Server(json.loads(sys.argv[1]), "worker", 0)
with tf.device("/job:ps"):
    never = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="never").dequeue()
    v = tf.Variable(1.0, name="v")
session = tf.Session(server.target)
session.run(v.initializer)
"""
_WAITS = """
print("waits", flush=True)
with session:
    session.run(never)
"""
_LEAVES_A_THREAD = """
thread = threading.Thread(target=session.run, args=[never], daemon=True)
thread.start()
print("waits", flush=True)
sys.stdin.readline()
server.stop()
"""


def stop(process: ServerProcess) -> None:
    suspend(process.process)


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("fate", [stop, ServerProcess.kill])
def test_a_session_closes_whatever_its_ps_does(start_process: Start, fate: Any) -> None:
    spec = make_spec({"ps": 1, "worker": 1})
    ps = start_process(spec, "ps")
    worker = tf.train.Server(spec, "worker", 0)
    with tf.device("/job:ps"):
        v = tf.Variable(1.0, name="v")
        never = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="never").dequeue()
    session = tf.Session(worker.target)
    session.run(v.initializer)
    step = Step(session, never)
    step.wait_running(worker)
    fate(ps)
    with within(_PROMISED_S):
        session.close()
    assert isinstance(step.end(), tf.errors.OpError)
    with within(_PROMISED_S):
        worker.stop()


def test_a_session_closes_whatever_its_master_does(start_process: Start) -> None:
    spec = make_spec({"worker": 1})
    worker = start_process(spec, "worker")
    never = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="never")
    waits, size = never.dequeue(), never.size()
    session = tf.Session(worker.target)
    session.run(size)
    step = Step(session, waits)
    stop(worker)
    with within(_PROMISED_S):
        session.close()
    assert isinstance(step.end(), tf.errors.OpError)


def test_a_server_stops_whatever_its_clients_and_masters_do(start_process: Start) -> None:
    spec = make_spec({"ps": 1, "worker": 1})
    ps = tf.train.Server(spec, "ps", 0)
    worker = start_process(spec, "worker")
    with tf.device("/job:ps"):
        never = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="never")
        waits, size = never.dequeue(), never.size()
    session = tf.Session(worker.target)
    session.run(size)
    step = Step(session, waits)
    step.wait_running(ps)
    stop(worker)
    with within(_PROMISED_S):
        ps.stop()
    with within(_PROMISED_S):
        session.close()
    assert isinstance(step.end(), tf.errors.OpError)


@contextlib.contextmanager
def waiting_worker(spec: Any, then: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", _WORKER + then, json.dumps(spec)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=make_environment(),
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "waits\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("fate", [stop, ServerProcess.kill, None])
def test_ctrl_c_ends_a_worker_that_waits(start_process: Start, fate: Any) -> None:
    spec = make_spec({"ps": 1, "worker": 1})
    ps = start_process(spec, "ps")
    with waiting_worker(spec, _WAITS) as worker:
        if fate is not None:
            fate(ps)
        with within(_PROMISED_S):
            worker.send_signal(signal.SIGINT)
            _, err = worker.communicate(timeout=30)
    assert "KeyboardInterrupt" in err or "UnavailableError" in err


def test_a_program_ends_though_a_step_of_a_thread_waits(start_process: Start) -> None:
    spec = make_spec({"ps": 1, "worker": 1})
    ps = start_process(spec, "ps")
    with waiting_worker(spec, _LEAVES_A_THREAD) as worker:
        stop(ps)
        with within(_PROMISED_S):
            worker.communicate("\n", timeout=30)
    assert worker.returncode == 0


def test_a_served_task_ends_on_sigterm_whatever_its_peers_do(start_process: Start) -> None:
    spec = make_spec({"ps": 1, "worker": 1})
    command = [sys.executable, "-m", "tideflow", "serve", "--cluster", json.dumps(spec)]
    with subprocess.Popen(
        [*command, "--job", "ps", "--task", "0", "--session-gc", "600"],
        stdout=subprocess.PIPE,
        text=True,
        env=make_environment(),
    ) as ps:
        try:
            assert ps.stdout is not None
            assert "is ready" in ps.stdout.readline()
            with waiting_worker(spec, _WAITS) as worker:
                suspend(worker)
                with within(_PROMISED_S):
                    ps.terminate()
                    assert ps.wait(30) == 0
        finally:
            ps.kill()
