"""Calls between workers whose connection is cut in mid-call are made again, and join what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import tideflow.v1 as tf
from chaos.proxy import Relay
from cluster.servers import free_ports
from cluster.test_joined_steps import running_steps
from cluster.test_task_watch import Step
from real_time import eventually
from tideflow.runtime.loop import run_sync


class Pair:
    """A parameter server and a worker that reaches it by a way which can be cut."""

    def __init__(self) -> None:
        ps, worker, way = free_ports(3)
        self.relay = Relay(way, ps)
        run_sync(self.relay.start())
        seen_by_ps = {"ps": [f"127.0.0.1:{ps}"], "worker": [f"127.0.0.1:{worker}"]}
        seen_by_worker = {**seen_by_ps, "ps": [f"127.0.0.1:{way}"]}
        self.ps = tf.train.Server(seen_by_ps, "ps", 0)
        self.worker = tf.train.Server(seen_by_worker, "worker", 0)

    def cut(self) -> None:
        async def cut() -> None:
            self.relay.cut()

        run_sync(cut())

    def close(self) -> None:
        async def end() -> None:
            self.relay.close()

        self.worker.stop()
        self.ps.stop()
        run_sync(end())


@pytest.fixture(params=[False, True], ids=["calls", "streams"])
def pair(set_settings: Callable[..., None], request: pytest.FixtureRequest) -> Iterator[Pair]:
    # Without shared memory, all that is said passes through TCP: as calls of gRPC's own, or on a
    # stream between the two.
    set_settings(peer=request.param, shared_memory=False)
    with tf.Graph().as_default():
        made = Pair()
        yield made
        made.close()


def test_runs_and_tensors_are_joined_after_a_cut(pair: Pair) -> None:
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(10, [tf.float32], [[]], shared_name="q")
        put, size = queue.enqueue(3.0), queue.size()
        total = tf.Variable(0.0, name="total")
        added = tf.assign_add(total, queue.dequeue())
    with tf.device("/job:worker/task:0"):
        doubled = added * 2.0
    with tf.Session(pair.worker.target) as session, tf.Session(pair.ps.target) as beside:
        session.run(total.initializer)
        session.run([put, doubled])  # so that it is prepared
        step = Step(session, doubled)
        eventually(lambda: running_steps(pair.ps.target) == 1)
        for _ in range(3):
            pair.cut()
        beside.run(put)
        assert step.end() is None
        assert step.value == 12.0
        # It ran once.
        assert beside.run([total, size]) == [6.0, 0]


def test_a_run_whose_master_is_gone_ends(pair: Pair) -> None:
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(10, [tf.float32], [[]], shared_name="gone")
        taken = queue.dequeue()
    with tf.Session(pair.worker.target) as session:
        session.run(queue.size())
        step = Step(session, taken)
        eventually(lambda: running_steps(pair.ps.target) == 1)
        pair.worker.stop()
        eventually(lambda: running_steps(pair.ps.target) == 0)
        assert isinstance(step.end(), tf.errors.OpError)
