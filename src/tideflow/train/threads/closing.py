"""The end of training: threads stop, a session is closed, and nobody is waited for in vain.

Rule 1: what ends well is given its time: a last checkpoint may take minutes, as long as the tasks
        that hold the variables answer.
Rule 2: peers that do not answer for a few seconds are not waited for: the session is closed,
        which cancels what still runs in it.
Rule 3: the whole takes five seconds at most when peers are silent.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from tideflow import logging
from tideflow.client.session import Session
from tideflow.graph.graph_keys import GraphKeys
from tideflow.ops.state import READ_KEY
from tideflow.platform import clock
from tideflow.platform.threads import start as start_thread
from tideflow.train.threads.coordinator import Coordinator
from tideflow.wire import errors
from tideflow.wire import messages as pb

_PULSE_TIMEOUT_S = 2.5
_PULSE_PAUSE_S = 0.5
_CLOSE_TIMEOUT_S = 1.5
# Threads that only wait for the session, such as queue runners', end within moments or with it.
_THREADS_TIMEOUT_S = 0.5


class SessionCloser:
    """Closes one session, once, without waiting for longer than asked to.

    Any thread may call any method.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start closing; steps that run fail with CancelledError."""
        with self._lock:
            if self._thread is None:
                self._thread = start_thread(self._close, name="tideflow-close-session")

    def _close(self) -> None:
        try:
            self.session.close()
        except Exception as error:
            logging.error(
                "An error occurred when attempting to close the session. This may be due to a "
                "preemption in a connected worker or parameter server. Error: %s",
                error,
            )

    def close(self, timeout_s: float = _CLOSE_TIMEOUT_S) -> bool:
        """Close, waiting up to timeout_s; return whether that has ended."""
        self.begin()
        assert self._thread is not None
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @contextlib.contextmanager
    def watching_peers(self) -> Iterator[None]:
        """Close the session when its peers fall silent while the body of `with` runs.

        Whether they answer is found out by looking, now and then, which variables have values.
        """
        pulse = self._pulse_op()
        if pulse is None:
            yield
            return
        over = threading.Event()
        start_thread(self._watch, pulse, over, name="tideflow-watch-peers")
        try:
            yield
        finally:
            over.set()

    def _watch(self, pulse: Any, over: threading.Event) -> None:
        options = pb.RunOptions(timeout_in_ms=int(1000 * _PULSE_TIMEOUT_S))
        while not over.wait(_PULSE_PAUSE_S):
            try:
                self.session.run(pulse, options=options)
            except Exception as error:
                if not over.is_set():
                    told = error.message if isinstance(error, errors.OpError) else str(error)
                    logging.error("The session is closed: its peers do not answer. %s", told)
                    self.begin()
                return

    def _pulse_op(self) -> Any:
        """Return what asks all tasks with variables for an answer; None in a session without."""
        if not self.session.sess_str:
            return None
        for key in (GraphKeys.READY_OP, READ_KEY):
            members = self.session.graph.get_collection(key)
            if members:
                return members[0]
        return None


def stop_threads(
    coord: Coordinator,
    closer: SessionCloser,
    grace_s: float,
    *,
    close: bool,
    threads: Iterable[threading.Thread] = (),
    ignore_live_threads: bool = False,
) -> None:
    """Ask a coordinator's threads, and others, to stop, wait for them, and close their session.

    Threads that compute or save get up to grace_s while peers answer; those of queue runners,
    which may be waiting for what will not come, are cancelled with the session.
    close: also close the session when nothing waits in it any more.
    Raises: what a thread gave to the coordinator; RuntimeError naming threads that go on, unless
    ignore_live_threads.
    """
    coord.request_stop()
    for thread in threads:
        coord.register_thread(thread)
    deadline_s = clock.monotonic_s() + grace_s
    with closer.watching_peers():
        workers = [t for t in coord.live_threads() if not getattr(t, "ends_with_session", False)]
        coord.wait_for_threads(grace_s, workers)
        is_over = coord.wait_for_threads(min(_THREADS_TIMEOUT_S, grace_s))
    is_closed = True
    if close or not is_over:
        is_closed = closer.close()
    # What a closed session cancelled ends within moments.
    left_s = min(max(0.0, deadline_s - clock.monotonic_s()), _CLOSE_TIMEOUT_S) if is_closed else 0.0
    coord.join(stop_grace_period_secs=left_s, ignore_live_threads=ignore_live_threads)
