"""Clusters of real processes: what a client sees when one of them dies, and after."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tideflow.v1 as tf
from cluster.servers import ServerProcess, make_spec
from real_time import within
from tideflow.wire import errors
from tideflow.wire import messages as pb

pytestmark = pytest.mark.processes

Start = Callable[..., ServerProcess]


class Cluster:
    """A ps and two workers; the client speaks to worker 0."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.spec = make_spec({"ps": 1, "worker": 2})
        with ThreadPoolExecutor() as threads:
            started = threads.map(
                lambda task: start(self.spec, *task), [("ps", 0), ("worker", 0), ("worker", 1)]
            )
        self.ps, *self.workers = started
        self.target = self.workers[0].target


@pytest.fixture
def cluster(start_process: Start) -> Cluster:
    return Cluster(start_process)


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def in_thread(step: Callable[[], Any]) -> tuple[threading.Thread, list[BaseException]]:
    """Run a step that must fail in a thread; what it raises is put into the list."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            step()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, failures


@pytest.mark.real_time
def test_a_worker_killed_in_mid_step_fails_it_at_once_and_the_rest_goes_on(
    cluster: Cluster,
) -> None:
    with tf.device("/job:ps"):
        ready = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="ready")
        never = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="never")
        v = tf.Variable(1.0, name="v")
        tell = ready.enqueue(1.0)
        wait_ready = ready.dequeue()
    with tf.device("/job:worker/task:1"):
        with tf.control_dependencies([tell]):
            blocked = never.dequeue() + tf.identity(tf.constant(1.0))
    session = tf.Session(cluster.target)
    session.run(v.initializer)
    thread, failures = in_thread(lambda: session.run(blocked))
    session.run(wait_ready)  # the other step runs on all its workers
    cluster.workers[1].kill()
    with within(3):
        thread.join(20)
    assert isinstance(failures[0], errors.UnavailableError), failures[0]
    assert "/job:worker/replica:0/task:1" in str(failures[0])
    assert cluster.spec["worker"][1] in str(failures[0])
    assert session.run(v) == 1.0
    session.close()
    restarted = cluster.start(cluster.spec, "worker", 1)
    assert restarted.target
    with tf.Session(cluster.target) as another:
        another.run(never.enqueue(4.0))
        assert another.run(blocked) == 5.0


def test_a_restarted_worker_aborts_the_sessions_that_knew_it(cluster: Cluster) -> None:
    x = tf.placeholder(tf.float32, [])
    with tf.device("/job:ps"):
        y = x + 1.0
    with tf.Session(cluster.target) as session:
        assert session.run(y, {x: 1.0}) == 2.0
        cluster.ps.kill()
        with pytest.raises(errors.UnavailableError, match="/job:ps/replica:0/task:0"):
            session.run(y, {x: 1.0})
        cluster.start(cluster.spec, "ps")
        with tf.Session(cluster.target) as another:
            assert another.run(y, {x: 1.0}) == 2.0
        with pytest.raises(errors.AbortedError):
            session.run(y, {x: 1.0})


@pytest.mark.real_time
def test_a_master_that_dies_is_unavailable_within_a_second_or_so(cluster: Cluster) -> None:
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="q")
        started = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="started")
        with tf.control_dependencies([started.enqueue(1.0)]):
            get = queue.dequeue()
        has_started = started.dequeue()
    session = tf.Session(cluster.target)
    session.run(queue.size())
    thread, failures = in_thread(lambda: session.run(get))
    with tf.Session(cluster.workers[1].target) as other:
        other.run(has_started)
        cluster.workers[0].kill()
        with within(5):
            thread.join(20)
        assert isinstance(failures[0], errors.UnavailableError)
        assert cluster.spec["worker"][0] in str(failures[0])
        session.close()
        # Its worker part was dropped at the ps: the queue's element is left for others.
        other.run(queue.enqueue(3.0))
        assert other.run(queue.size()) == 1


def test_two_clients_train_one_model_at_once(cluster: Cluster) -> None:
    with tf.device("/job:ps"):
        v = tf.Variable(0.0, name="v")
        add = v.assign_add(1.0)
    with tf.Session(cluster.target) as session:
        session.run(v.initializer)

    def client(target: str) -> None:
        with tf.Session(target, graph=v.graph) as own:
            for _ in range(20):
                own.run(add)

    threads = [threading.Thread(target=client, args=[w.target]) for w in cluster.workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    with tf.Session(cluster.target) as session:
        assert session.run(v) == 40.0


def test_a_timeout_reaches_all_workers(cluster: Cluster) -> None:
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="q")
        get = queue.dequeue()
        put = queue.enqueue(2.0)
    with tf.device("/job:worker/task:1"):
        doubled = get * 2.0
    with tf.Session(cluster.target) as session:
        session.run(queue.size())
        with pytest.raises(errors.DeadlineExceededError):
            session.run(doubled, options=pb.RunOptions(timeout_in_ms=200))
        session.run(put)
        assert session.run(doubled) == 4.0
