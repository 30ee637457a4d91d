"""A client whose connection is cut in mid-step sends its request again, and joins the step."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tideflow.v1 as tf
from chaos.proxy import Relay
from cluster.servers import ServerProcess, free_ports, make_environment, make_spec
from cluster.test_task_watch import Step
from real_time import eventually
from tideflow.cluster.status import StatusService
from tideflow.runtime.loop import run_sync
from tideflow.transport import make_channel, stub
from tideflow.wire import messages as pb

pytestmark = pytest.mark.processes

Start = Callable[..., ServerProcess]


class Cut:
    """A server as a process, a way to it that can be cut, and a session on that."""

    def __init__(self, start: Start) -> None:
        self.spec = make_spec({"worker": 1})
        self.server = start(self.spec, "worker")
        (port,) = free_ports(1)
        self.relay = Relay(port, int(self.server.target.rpartition(":")[2]))
        run_sync(self.relay.start())
        self.target = f"grpc://127.0.0.1:{port}"
        queue = tf.FIFOQueue(10, [tf.float32], [[]], shared_name="q")
        self.put, self.size = queue.enqueue(3.0), queue.size()
        self.total = tf.Variable(0.0, name="total")
        taken = queue.dequeue()
        self.add = tf.assign_add(self.total, taken)
        self.session = tf.Session(self.target)
        self.session.run(self.total.initializer)
        self.beside = tf.Session(self.server.target)

    def begin(self) -> Step:
        """Begin a step that adds what it takes of the queue."""
        self.session.run([self.put, self.add])  # so that it is prepared
        step = Step(self.session, self.add)
        eventually(lambda: running_steps(self.server.target) == 1)
        return step

    def close(self) -> None:
        self.session.close()
        self.beside.close()

        async def end() -> None:
            self.relay.close()

        run_sync(end())

    def cut(self) -> None:
        async def cut() -> None:
            self.relay.cut()

        run_sync(cut())


def running_steps(target: str) -> int:
    """Return how many steps run at a worker."""

    async def ask() -> int:
        channel = make_channel(target)
        try:
            page = stub(StatusService, channel)
            return (await page.GetServerStatus(pb.ServerStatusRequest())).running_steps
        finally:
            await channel.close()

    return run_sync(ask())


@pytest.fixture
def cut(start_process: Start) -> Iterator[Cut]:
    with tf.Graph().as_default():
        made = Cut(start_process)
        yield made
        made.close()


def test_a_step_is_joined_after_a_cut(cut: Cut) -> None:
    step = cut.begin()
    for _ in range(3):
        cut.cut()
    cut.beside.run(cut.put)
    assert step.end() is None
    assert step.value == 6.0
    # It ran once.
    assert cut.beside.run([cut.total, cut.size]) == [6.0, 0]


def test_a_step_of_a_client_that_gave_up_takes_nothing(cut: Cut) -> None:
    with pytest.raises(tf.errors.DeadlineExceededError):
        cut.session.run(cut.add, options=tf.RunOptions(timeout_in_ms=300))
    eventually(lambda: running_steps(cut.server.target) == 0)
    cut.beside.run(cut.put)
    assert cut.beside.run([cut.total, cut.size]) == [0.0, 1]


_CLIENT = """
import sys
import tideflow.v1 as tf
queue = tf.FIFOQueue(10, [tf.float32], [[]], shared_name="q")
taken = queue.dequeue()
session = tf.Session(sys.argv[1])
session.run(queue.size())
print("takes", flush=True)
session.run(taken)
"""


def test_a_step_of_a_client_that_was_killed_ends(cut: Cut) -> None:
    command = [sys.executable, "-c", _CLIENT, cut.server.target]
    pipe: Any = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, env=make_environment()) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"takes\n"
        eventually(lambda: running_steps(cut.server.target) == 1)
        client.kill()
        eventually(lambda: running_steps(cut.server.target) == 0)
