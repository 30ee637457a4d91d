"""Tasks that are lost, as real processes: killed, restarted, stopped; and the sessions that rely
on them, also where their steps wait for something else."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import tideflow.v1 as tf
from cluster.servers import ServerProcess, make_spec, suspend
from real_time import eventually, pause, within
from tideflow.cluster.status import StatusService
from tideflow.runtime.loop import run_sync
from tideflow.transport import make_channel, stub
from tideflow.wire import errors
from tideflow.wire import messages as pb

pytestmark = pytest.mark.processes

Start = Callable[..., ServerProcess]

# What is promised; a busy machine may need more.
_WITHIN_S = 2.0
_ROOM_S = 6.0


class Pair:
    """A ps as a process, and a worker's server in this one; a session that relies on the ps."""

    def __init__(self, start: Start, *, peer_extensions: bool = True) -> None:
        self.start = start
        self.spec = make_spec({"ps": 1, "worker": 1})
        self.ps = start(self.spec, "ps")
        self.worker = tf.train.Server(self.spec, "worker", 0, peer_extensions=peer_extensions)
        with tf.device("/job:ps"):
            self.v = tf.Variable(1.0, name="v")
            never = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="never")
            self.at_ps = never.dequeue()
        with tf.device("/job:worker"):
            own = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="own")
            self.put = own.enqueue(3.0)
            self.here = own.dequeue()
            self.received = tf.identity(self.at_ps)
        self.session = tf.Session(self.worker.target)
        self.session.run(self.v.initializer)

    def begin(self, fetch: Any) -> Step:
        """Run a step in a thread until it waits."""
        step = Step(self.session, fetch)
        step.wait_running(self.worker)
        return step


class Step:
    """A step in a thread of its own."""

    def __init__(self, session: tf.Session, fetch: Any, feeds: Any = None) -> None:
        self.error: BaseException | None = None
        self.value: Any = None
        self._thread = threading.Thread(target=self._run, args=[session, fetch, feeds])
        self._thread.start()

    def _run(self, session: tf.Session, fetch: Any, feeds: Any) -> None:
        try:
            self.value = session.run(fetch, feeds)
        except BaseException as error:
            self.error = error

    def wait_running(self, server: tf.train.Server) -> None:
        """Wait until the step's parts run."""
        eventually(lambda: server.worker.steps.running_count, "a running step")

    def end(self) -> BaseException | None:
        """Wait for the end of the step; return its error."""
        self._thread.join(30)
        assert not self._thread.is_alive(), "the step hangs"
        return self.error


@pytest.fixture
def pair(start_process: Start) -> Any:
    with tf.Graph().as_default():
        made = Pair(start_process)
        yield made
        made.session.close()
        made.worker.stop()


@pytest.mark.parametrize("waits", ["at_ps", "here", "received"])
@pytest.mark.real_time
def test_a_step_that_waits_fails_soon_after_the_ps_is_killed(pair: Pair, waits: str) -> None:
    step = pair.begin(getattr(pair, waits))
    pair.ps.kill()
    with within(_WITHIN_S + _ROOM_S):
        error = step.end()
    assert isinstance(error, (errors.UnavailableError, errors.AbortedError)), error
    assert "/job:ps/replica:0/task:0" in str(error)


@pytest.mark.parametrize("waits", ["at_ps", "here", "received"])
@pytest.mark.real_time
def test_so_does_one_whose_ps_is_spoken_to_plainly(start_process: Start, waits: str) -> None:
    with tf.Graph().as_default():
        pair = Pair(start_process, peer_extensions=False)
        step = pair.begin(getattr(pair, waits))
        pair.ps.kill()
        with within(2 * _WITHIN_S + _ROOM_S):
            error = step.end()
        assert isinstance(error, (errors.UnavailableError, errors.AbortedError)), error
        pair.session.close()
        pair.worker.stop()


@pytest.mark.real_time
def test_a_plain_ps_that_is_slow_is_not_given_up(start_process: Start) -> None:
    with tf.Graph().as_default():
        pair = Pair(start_process, peer_extensions=False)
        step = pair.begin(pair.here)
        suspend(pair.ps.process)
        pause(2 * _WITHIN_S)
        pair.ps.process.send_signal(signal.SIGCONT)
        pair.session.run(pair.put)
        assert step.end() is None
        pair.session.close()
        pair.worker.stop()


@pytest.mark.real_time
def test_a_step_that_waits_fails_when_the_ps_comes_back_as_another(pair: Pair) -> None:
    step = pair.begin(pair.here)
    pair.ps.kill()
    with within(_WITHIN_S + 2 * _ROOM_S):
        restarted = pair.start(pair.spec, "ps")
        assert restarted.target
        error = step.end()
    assert isinstance(error, (errors.UnavailableError, errors.AbortedError)), error


def test_a_session_whose_ps_came_back_is_refused_for_good_and_says_what_to_do(pair: Pair) -> None:
    pair.session.run(pair.put)
    pair.ps.kill()
    pair.start(pair.spec, "ps")
    with tf.Session(pair.worker.target) as another:
        another.run(pair.v.initializer)
        assert another.run(pair.v) == 1.0
        # Also for steps that need nothing of the ps.
        for fetch in (pair.v, pair.here):
            with pytest.raises(errors.AbortedError, match=r"has restarted.* restore the last"):
                pair.session.run(fetch)
        assert another.run(pair.here) == 3.0


@pytest.mark.real_time
def test_a_ps_that_is_slow_is_not_given_up(pair: Pair) -> None:
    step = pair.begin(pair.here)
    suspend(pair.ps.process)
    pause(1.5 * _WITHIN_S)  # longer than a dead one would take to be noticed
    pair.ps.process.send_signal(signal.SIGCONT)
    assert pair.session.run(pair.v) == 1.0
    pair.session.run(pair.put)
    assert step.end() is None
    assert step.value == 3.0


def sessions_at(target: str) -> int:
    """Return how many sessions' parts a worker keeps."""

    async def ask() -> int:
        channel = make_channel(target)
        try:
            page = stub(StatusService, channel)
            return len((await page.GetServerStatus(pb.ServerStatusRequest())).worker_session)
        finally:
            await channel.close()

    return run_sync(ask())


def test_a_worker_that_was_away_is_told_of_the_end_of_a_session_later(pair: Pair) -> None:
    suspend(pair.ps.process)
    # Its connections are gone, as after a cut: what was sent on them is lost.
    run_sync(cut_connections(pair.worker))
    pair.session.close()
    pair.ps.process.send_signal(signal.SIGCONT)
    eventually(lambda: not sessions_at(pair.ps.target), "the end of the session at the ps")


async def cut_connections(server: tf.train.Server) -> None:
    for channel in server.worker.workers.channels():
        channel.link.abort("cut by the test")
