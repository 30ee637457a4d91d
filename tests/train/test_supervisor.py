"""Supervisor: a session with services, for programs without hooks.

What it shares with TensorFlow's is compared in test_hooks_oracle.py.
"""

from __future__ import annotations

import contextlib
import glob
import signal
import threading

import pytest

import tideflow.v1 as tf
from cluster.servers import LocalCluster, ServerProcess, make_spec, suspend
from real_time import eventually, within


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def cluster():
    made = LocalCluster({"worker": 1})
    yield made
    made.stop()


def counter():
    step = tf.train.get_or_create_global_step()
    return tf.assign_add(step, 1), step


def events(directory):
    return [e for f in glob.glob(f"{directory}/events*") for e in tf.train.summary_iterator(f)]


def wait_for(path):
    eventually(path.exists, str(path))


def test_services_save_and_summarize_at_once_and_then_regularly(tmp_path):
    op, step = counter()
    tf.summary.scalar("step", step)
    supervisor = tf.train.Supervisor(
        logdir=str(tmp_path), save_model_secs=0.05, save_summaries_secs=0.05
    )
    with supervisor.managed_session() as session:
        for number in (1, 2):
            session.run(op)
            wait_for(tmp_path / f"model.ckpt-{number}.index")
    tags = {value.tag for e in events(tmp_path) for value in e.summary.value}
    assert tags == {"step", "global_step/sec"}
    kinds = [e.session_log.status for e in events(tmp_path) if e.HasField("session_log")]
    assert kinds[0] == 1  # START
    assert kinds[-1] == 2  # STOP
    assert 3 in kinds  # CHECKPOINT


def test_a_second_session_goes_on_from_the_checkpoint(tmp_path):
    op, step = counter()
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0)
    with supervisor.managed_session() as session:
        for _ in range(4):
            session.run(op)
        supervisor.saver.save(session, supervisor.save_path, step)
    with supervisor.managed_session() as session:
        assert session.run(step) == 4


def test_others_wait_for_the_chief(cluster, graph):
    with tf.device("/job:worker/task:0"):
        op, step = counter()
    chief = tf.train.Supervisor()
    found = []

    def wait():
        with graph.as_default():
            other = tf.train.Supervisor(is_chief=False, recovery_wait_secs=0.05)
            with other.managed_session(cluster.target("worker")) as session:
                found.append(int(session.run(step)))

    waiting = threading.Thread(target=wait)
    waiting.start()
    with chief.managed_session(cluster.target("worker")) as session:
        waiting.join(30)
        session.run(op)
    assert found == [0]


def test_a_loop_runs_until_the_stop():
    counter()
    supervisor = tf.train.Supervisor()
    calls = []

    def call(value):
        calls.append(value)
        if len(calls) == 3:
            supervisor.request_stop()

    with supervisor.managed_session():
        supervisor.loop(0.001, call, args=("x",))
        supervisor.wait_for_stop()
    assert calls == ["x"] * 3
    assert supervisor.should_stop()


def test_stopping_does_not_wait_for_a_queue_runner_that_waits_for_ever():
    counter()
    queue = tf.FIFOQueue(1, tf.int32, shapes=[[]])
    stuck = tf.train.QueueRunner(queue, [queue.enqueue(tf.FIFOQueue(1, "int32", [[]]).dequeue())])
    tf.train.add_queue_runner(stuck)
    # Longer than a test may take.
    supervisor = tf.train.Supervisor(stop_grace_secs=3600)
    with supervisor.managed_session():
        pass


def test_a_training_loop_goes_on_when_a_task_is_lost(capsys):
    op, _ = counter()
    supervisor = tf.train.Supervisor()
    seen = []

    def make_step(session, limit):
        seen.append(int(session.run(op)))
        if len(seen) == 2:
            raise tf.errors.AbortedError(None, None, "lost")
        if len(seen) == limit:
            supervisor.request_stop()

    tf.train.basic_train_loop(supervisor, make_step, args=(4,))
    assert seen == [1, 2, 1, 2]
    assert "waiting for a new session: AbortedError: lost" in capsys.readouterr().err


@pytest.mark.processes
@pytest.mark.real_time
def test_stopping_ends_in_time_when_a_server_does_not_answer(tmp_path):
    spec = make_spec({"ps": 1, "worker": 1})
    ps = ServerProcess(spec, "ps")
    worker = tf.train.Server(spec, "worker", 0)
    try:
        with tf.device("/job:ps/task:0"):
            op, _ = counter()
        supervisor = tf.train.Supervisor(logdir=str(tmp_path), save_model_secs=0.2)
        with contextlib.ExitStack() as stack:
            with pytest.raises((tf.errors.OpError, RuntimeError)):
                with supervisor.managed_session(worker.target) as session:
                    session.run(op)
                    suspend(ps.process)
                    stack.enter_context(within(20))
                    session.run(op, options=tf.RunOptions(timeout_in_ms=300))
    finally:
        ps.process.send_signal(signal.SIGCONT)
        ps.close()
        worker.stop()
