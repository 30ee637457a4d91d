"""Tasks that are stopped in mid-step are waited for: the step ends as it would have."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tideflow.v1 as tf
from cluster.servers import ServerProcess, make_spec, suspend
from cluster.test_task_watch import Step
from real_time import eventually

pytestmark = pytest.mark.processes

Start = Callable[..., ServerProcess]

_SILENCE_S = 0.4


@pytest.fixture(autouse=True)
def short_silence(monkeypatch: pytest.MonkeyPatch, set_settings: Callable[..., None]) -> None:
    """Hosts may be silent for a moment only, so that stops of a moment are long."""
    monkeypatch.setenv("TIDEFLOW_SILENCE_S", str(_SILENCE_S))
    set_settings(silence_s=_SILENCE_S)


def times_waited_for(caplog: pytest.LogCaptureFixture) -> int:
    return sum("is waited for" in record.getMessage() for record in caplog.records)


@contextlib.contextmanager
def stopped(process: ServerProcess, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Stop a process until its peers here have said several times that they wait for it."""
    suspend(process.process)
    try:
        yield
        eventually(lambda: times_waited_for(caplog) >= 4, "word of who is waited for")
    finally:
        process.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("memory", ["on", "off"])
def test_a_client_waits_for_a_master_that_is_stopped_in_mid_step(
    start_process: Start,
    caplog: pytest.LogCaptureFixture,
    memory: str,
    monkeypatch: pytest.MonkeyPatch,
    set_settings: Callable[..., None],
) -> None:
    monkeypatch.setenv("TIDEFLOW_SHARED_MEMORY", memory)
    set_settings(silence_s=_SILENCE_S, shared_memory=memory == "on")
    spec = make_spec({"worker": 1})
    worker = start_process(spec, "worker")
    with tf.Graph().as_default():
        queue = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="q")
        put, taken = queue.enqueue(3.0), queue.dequeue()
        with tf.Session(worker.target) as session:
            session.run(put)
            session.run(taken)
            step = Step(session, taken)
            with stopped(worker, caplog):
                pass
            session.run(put)
            assert step.end() is None
            assert step.value == 3.0


def test_a_step_begins_at_a_master_that_is_stopped(
    start_process: Start, caplog: pytest.LogCaptureFixture
) -> None:
    spec = make_spec({"worker": 1})
    worker = start_process(spec, "worker")
    with tf.Graph().as_default():
        session = tf.Session(worker.target)
        big = tf.placeholder(tf.float32, [None])
        total = tf.reduce_sum(big)
        assert session.run(total, {big: [1.0]}) == 1.0
        with stopped(worker, caplog):
            # Neither its buffers nor shared memory take that much.
            step = Step(session, total, {big: [1.0] * 5_000_000})
        assert step.end() is None
        assert step.value == 5_000_000.0
        session.close()


@pytest.mark.parametrize("peer_extensions", [True, False])
@pytest.mark.parametrize("waits", ["here", "at_ps"])
def test_a_master_waits_for_a_ps_that_is_stopped_in_mid_step(
    start_process: Start, caplog: pytest.LogCaptureFixture, peer_extensions: bool, waits: str
) -> None:
    spec = make_spec({"ps": 1, "worker": 1})
    ps = start_process(spec, "ps")
    worker = tf.train.Server(spec, "worker", 0, peer_extensions=peer_extensions)
    with tf.Graph().as_default():
        with tf.device("/job:ps"):
            v = tf.Variable(1.0, name="v")
            at_ps = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="at_ps")
        with tf.device("/job:worker"):
            here = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="here")
            fetched: dict[str, Any] = {
                "at_ps": tf.identity(at_ps.dequeue()),
                "here": here.dequeue() + v,
            }
        put = {"at_ps": at_ps.enqueue(3.0), "here": here.enqueue(2.0)}[waits]
        session = tf.Session(worker.target)
        session.run(v.initializer)
        step = Step(session, fetched[waits])
        step.wait_running(worker)
        with stopped(ps, caplog):
            other = Step(session, v)  # begins while it is stopped
        session.run(put)
        assert step.end() is None
        assert step.value == 3.0
        assert other.end() is None
        assert other.value == 1.0
        session.close()
        worker.stop()
