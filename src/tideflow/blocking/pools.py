"""The pools of threads of this process, one for each kind of blocking work.

A pool that is full delays only work of its own kind: files that hang keep nobody from preparing a
graph.  Two sorts of pools differ in what happens to work that does not end:

  Pool         its work always ends.  Whoever is cancelled waits for that, and so does the end of
               the interpreter: a thread in compiled code must not outlive it.
  HangingPool  its work may hang in the operating system for ever (a FIFO that nobody writes to, a
               file server that is gone) or in code of a user.  Its threads are daemons: they do not
               keep the interpreter from ending.  Work can be given up; its thread then counts no
               longer among those of the pool.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from tideflow.platform import clock, threads
from tideflow.wire import errors

# A thread of a HangingPool without work ends after this time.
_IDLE_S = 10.0
# How long the end of the interpreter waits for the work of a HangingPool that was not given up.
_EXIT_S = 2.0
# So many threads of a HangingPool may hang at once; then no more work is taken.
_MOST_GIVEN_UP = 512


class Pool:
    """A limited number of threads for work that ends by itself.

    Args:
      name: of the work; threads are called tideflow-NAME.
      size: the most threads at work.

    Attributes:
      grace_s: how long whoever is cancelled waits for the end of work; None: however long it
        takes.
    """

    grace_s: float | None = None

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self._lock = threading.Lock()
        self._executor: concurrent.futures.ThreadPoolExecutor | None = None

    def start(self, work: Callable[[], Any]) -> concurrent.futures.Future[Any]:
        """Have work done as soon as a thread is free; may be called from any thread.

        Raises: ResourceExhaustedError when too many threads hang (HangingPool).
        """
        with self._lock:
            if self._executor is None:
                self._executor = threads.pool(f"tideflow-{self.name}", self.size)
            return self._executor.submit(work)

    def give_up(self, job: concurrent.futures.Future[Any]) -> None:
        """Count no longer on the end of a job (HangingPool)."""
        raise AssertionError(f"work of the pool {self.name!r} is always waited for")

    def forget_after_fork(self) -> None:
        """Begin anew in a forked child, which has none of the threads."""
        self._lock = threading.Lock()
        self._executor = None


class HangingPool(Pool):
    """A limited number of threads for work that may never end.

    Args:
      name, size: as for Pool.
      grace_s: how long whoever is cancelled waits for the end of work before giving it up; None:
        however long it takes.
    """

    def __init__(self, name: str, size: int, grace_s: float | None) -> None:
        super().__init__(name, size)
        self.grace_s = grace_s
        self._begin()
        atexit.register(self._wait_at_exit)

    def _begin(self) -> None:
        lock = threading.Lock()
        self._wanted = threading.Condition(lock)
        self._ended = threading.Condition(lock)
        self._waiting: deque[_Job] = deque()
        self._running: set[_Job] = set()
        self._given_up: set[_Job] = set()
        self._threads = 0
        self._idle = 0

    def start(self, work: Callable[[], Any]) -> concurrent.futures.Future[Any]:
        job = _Job(work)
        with self._wanted:
            if len(self._given_up) >= _MOST_GIVEN_UP:
                raise errors.ResourceExhaustedError(
                    f"{len(self._given_up)} threads of this process hang in {self.name} that were "
                    "cancelled; look for a file system that does not answer, or restart the process"
                )
            self._waiting.append(job)
            self._find_thread()
        return job

    def _find_thread(self) -> None:
        """Let a thread take the newest job, unless all are at work (the lock is held)."""
        if self._idle >= len(self._waiting):
            self._wanted.notify()
        elif self._threads < self.size:
            self._threads += 1
            threads.start(self._serve, name=f"tideflow-{self.name}")

    def _serve(self) -> None:
        while True:
            job = self._next_job()
            if job is None:
                return
            job.run()
            with self._wanted:
                self._running.discard(job)
                self._ended.notify_all()
                if job in self._given_up:
                    self._given_up.discard(job)
                    return  # another thread has taken this one's place
            del job  # it may hold what is to go

    def _next_job(self) -> _Job | None:
        """Return the next job that is still wanted; None when there was none for a while."""
        with self._wanted:
            while True:
                while self._waiting:
                    job = self._waiting.popleft()
                    if job.set_running_or_notify_cancel():
                        self._running.add(job)
                        return job
                self._idle += 1
                is_wanted = self._wanted.wait(_IDLE_S)
                self._idle -= 1
                if not is_wanted and not self._waiting:
                    self._threads -= 1
                    return None

    def give_up(self, job: concurrent.futures.Future[Any]) -> None:
        with self._wanted:
            if job in self._running and job not in self._given_up:
                assert isinstance(job, _Job)
                self._given_up.add(job)
                self._threads -= 1
                if self._waiting:
                    self._find_thread()

    def _wait_at_exit(self) -> None:
        ends = clock.monotonic_s() + _EXIT_S
        with self._ended:
            while self._running - self._given_up and clock.monotonic_s() < ends:
                self._ended.wait(max(0.0, ends - clock.monotonic_s()))

    def forget_after_fork(self) -> None:
        self._begin()


class _Job(concurrent.futures.Future[Any]):
    """Work of a HangingPool, and what came of it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self._work: Callable[[], Any] | None = work

    def run(self) -> None:
        work, self._work = self._work, None
        assert work is not None
        try:
            found = work()
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(found)


_CORES = os.cpu_count() or 1
# How long a cancelled call waits for a file that may never answer.
_FILE_GRACE_S = 1.0

# Long stretches of kernels.
KERNELS = Pool("kernels", max(8, 2 * _CORES))
# Graphs and functions being read, placed, cut and bound.
GRAPHS = Pool("graphs", max(4, _CORES))
# Functions of datasets.
DATA = Pool("data", max(4, _CORES))
# Large messages being inflated and decoded.
MESSAGES = Pool("messages", max(2, _CORES))
# Whatever touches a file or a stream.
FILES = HangingPool("files", 64, _FILE_GRACE_S)
# Parts of one file read at once, by work that is itself in FILES.
FILE_PARTS = HangingPool("file-parts", 8, _FILE_GRACE_S)
# Functions of users, which may wait for each other.
FUNCTIONS = HangingPool("functions", 256, None)

# Where kernels run that declare what may keep them for any time (see OpDef.blocks).
BLOCKING_POOLS: dict[str, Pool] = {"files": FILES, "functions": FUNCTIONS}

_ALL = (KERNELS, GRAPHS, DATA, MESSAGES, FILES, FILE_PARTS, FUNCTIONS)


def _forget_after_fork() -> None:
    for pool in _ALL:
        pool.forget_after_fork()


os.register_at_fork(after_in_child=_forget_after_fork)
