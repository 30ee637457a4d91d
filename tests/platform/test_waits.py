"""Ctrl-C ends every wait, also when the signal does not come during the wait to the main thread."""

import asyncio
import concurrent.futures
import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

import tideflow.v1 as tf
from tideflow.platform import waits
from tideflow.runtime.loop import run_sync

# Ends a wait that Ctrl-C did not end, so that the test fails and does not hang.
LONGEST_S = 20


class Interrupt:
    """Has SIGINT come to another thread than the main one, which does not wake by it.

    So it is, too, when the signal comes between the interpreter's last look and the wait.

    Attributes:
      gave_up: set when nothing came of it.
    """

    def __init__(self) -> None:
        self.gave_up = threading.Event()
        self._asked = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def send(self) -> None:
        """Send it, soon; the main thread is about to wait."""
        self._asked.set()

    def _serve(self) -> None:
        self._asked.wait()
        if not self.gave_up.is_set():
            os.kill(os.getpid(), signal.SIGINT)
        self.gave_up.wait(LONGEST_S)
        self.gave_up.set()

    def end(self) -> None:
        self.gave_up.set()
        self._asked.set()
        self._thread.join()


@pytest.fixture
def interrupt() -> Iterator[Interrupt]:
    made = Interrupt()  # its thread takes the signal
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield made
    finally:
        made.end()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, handler)


def the_loops_answer(interrupt: Interrupt) -> None:
    async def work() -> None:
        interrupt.send()
        while not interrupt.gave_up.is_set():
            await asyncio.sleep(0.1)

    run_sync(work())


def a_future(interrupt: Interrupt) -> None:
    made: concurrent.futures.Future[None] = concurrent.futures.Future()
    threading.Thread(
        target=lambda: made.set_result(interrupt.gave_up.wait() and None), daemon=True
    ).start()
    interrupt.send()
    waits.result_of(made)


def a_condition(interrupt: Interrupt) -> None:
    condition = threading.Condition()

    def end() -> None:
        interrupt.gave_up.wait()
        with condition:
            condition.notify_all()

    threading.Thread(target=end, daemon=True).start()
    with condition:
        interrupt.send()
        waits.for_condition(condition, interrupt.gave_up.is_set)


def a_servers_end(interrupt: Interrupt) -> None:
    server = tf.train.Server.create_local_server(start=True)
    threading.Thread(target=lambda: interrupt.gave_up.wait() and server.stop(), daemon=True).start()
    try:
        interrupt.send()
        server.join()
    finally:
        server.stop()


# Alone in its process: that has other threads, and a test runner may take the signal for itself.
@pytest.mark.real_time
@pytest.mark.parametrize("wait", [the_loops_answer, a_future, a_condition, a_servers_end])
def test_ctrl_c_that_comes_to_another_thread_ends_the_wait_for(
    wait: Callable[[Interrupt], None], interrupt: Interrupt
) -> None:
    with pytest.raises(KeyboardInterrupt):
        wait(interrupt)
    assert not interrupt.gave_up.is_set(), "the wait ended by itself"


def test_a_wait_says_whether_it_came_in_time() -> None:
    event = threading.Event()
    assert not waits.until(event.wait, 0.01)
    event.set()
    assert waits.until(event.wait, 0.01)


@pytest.mark.parametrize("timeout_s", [0.01, waits.SLICE_S + 0.01])
def test_a_result_that_does_not_come_in_time(timeout_s: float) -> None:
    made: concurrent.futures.Future[int] = concurrent.futures.Future()
    with pytest.raises(TimeoutError):
        waits.result_of(made, timeout_s)
    assert not made.done()


def test_a_timeout_that_is_the_futures_own_is_raised() -> None:
    made: concurrent.futures.Future[int] = concurrent.futures.Future()
    made.set_exception(TimeoutError("its own"))
    with pytest.raises(TimeoutError, match="its own"):
        waits.result_of(made, 30.0)
