"""The threads that compile, or wait for the process that compiles, while steps go on.

One job at a time, on each, so that steps keep the other cores.  A thread starts with its first job
and ends with the last one.  It is no daemon: a daemon that comes back from the compiler while the
interpreter is being taken down ends the process with an abort.  So the interpreter waits for the
job at hand, and `is_leaving` lets that one end early; further jobs are dropped.

Their priority stays what it is: steps wait for them whenever they hold the interpreter's lock.
While the one that compiles works, threads change places more often: beside a thread that runs
steps, each of which holds the lock, tracing 2000 nodes took 8.7 s, and takes 2.1.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator

from tideflow.platform import threads

_LOGGER = logging.getLogger(__name__)

# How long a thread keeps the interpreter's lock from the compiler's, and the other way round.
_SWITCH_S = 0.5e-3


def is_leaving() -> bool:
    """Whether the interpreter waits for its last threads, to end."""
    return not threading.main_thread().is_alive()


class JobThread:
    """Runs jobs one after the other, on a thread that exists while there are some.

    Args:
      is_busy: whether jobs use the interpreter most of the time, and do not wait for others.
    """

    def __init__(self, name: str = "tideflow-compiler", *, is_busy: bool = True) -> None:
        self._name = name
        self._is_busy = is_busy
        self._lock = threading.Lock()
        self._jobs: deque[Callable[[], object]] = deque()
        self._thread: threading.Thread | None = None

    def submit(self, job: Callable[[], object]) -> None:
        """Have a job run; what it raises is logged.  May be called from any thread."""
        with self._lock:
            self._jobs.append(job)
            if self._thread is None and not is_leaving():
                try:
                    self._thread = threads.start(self._work, name=self._name, daemon=False)
                except RuntimeError:  # the system gives no more threads
                    _LOGGER.debug("nothing is compiled at present", exc_info=True)

    @property
    def has_jobs(self) -> bool:
        """Whether there are jobs, at hand or waiting."""
        return self._thread is not None

    def wait(self) -> bool:
        """Wait until there is no job; return whether there was one."""
        has_waited = False
        while True:
            with self._lock:
                thread = self._thread
            if thread is None:
                return has_waited
            has_waited = True
            thread.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                if is_leaving():
                    self._jobs.clear()
                if not self._jobs:
                    self._thread = None
                    return
                job = self._jobs.popleft()
            try:
                with _switching_often() if self._is_busy else contextlib.nullcontext():
                    job()
            except Exception:
                _LOGGER.debug("a job of the compiler's thread failed", exc_info=True)
            del job  # it may hold what is to go


# What the interval was before a job at hand.
_usual_switch_s: float | None = None


@contextlib.contextmanager
def _switching_often() -> Iterator[None]:
    global _usual_switch_s
    usual = _usual_switch_s = sys.getswitchinterval()
    sys.setswitchinterval(min(usual, _SWITCH_S))
    ours = sys.getswitchinterval()
    try:
        yield
    finally:
        if sys.getswitchinterval() == ours:  # else somebody has chosen another one meanwhile
            sys.setswitchinterval(usual)
        _usual_switch_s = None


class _Threads:
    """The threads of this process: for what uses the interpreter, and for what waits for others."""

    def __init__(self) -> None:
        self.compiler = JobThread()
        self.requests = JobThread("tideflow-compile-requests", is_busy=False)


_threads = _Threads()
_generation = 0


def generation() -> int:
    """Return a number that is another one in a fork's child, which has none of the jobs."""
    return _generation


def submit(job: Callable[[], object]) -> None:
    """Have a job run on the compiler's thread."""
    _threads.compiler.submit(job)


def submit_request(job: Callable[[], object]) -> None:
    """Have a job run that waits for another process most of the time."""
    _threads.requests.submit(job)


def is_compiling() -> bool:
    """Whether something is compiled at present, here or for this process: steps have less of the
    processors meanwhile."""
    return _threads.compiler.has_jobs or _threads.requests.has_jobs


def wait_until_compiled() -> None:
    """Wait until everything asked for so far, and what follows from it, is compiled."""
    while _threads.compiler.wait() or _threads.requests.wait():
        pass


def _after_fork() -> None:
    # The thread does not exist in the child, and may have held the lock.
    global _threads, _generation, _usual_switch_s
    _threads = _Threads()
    _generation += 1
    if _usual_switch_s is not None:
        sys.setswitchinterval(_usual_switch_s)
        _usual_switch_s = None


os.register_at_fork(after_in_child=_after_fork)
