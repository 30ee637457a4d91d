"""The pools of threads of this process, one for each kind of blocking work.

A pool that is full delays only work of its own kind: files that hang keep nobody from preparing a
graph.  Two sorts of pools differ in what happens to work that does not end:

  Pool         its work always ends.  Whoever is cancelled waits for that, and so does the end of
               the interpreter: a thread in compiled code must not outlive it.  Work that may go on
               for any time, such as a loop of a program, lets others run in between.
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
from typing import Any, TypeVar

from tideflow.platform import clock, threads
from tideflow.platform.processors import usable_processors
from tideflow.wire import errors

T = TypeVar("T")

# A thread of a HangingPool without work ends after this time.
_IDLE_S = 10.0
# How long the end of the interpreter waits for the work of a HangingPool that was not given up.
_EXIT_S = 2.0
# So many threads of a HangingPool may hang at once; then no more work is taken.
_MOST_GIVEN_UP = 512
# For how long work has its place in a Pool when others wait for one.
_PLACE_S = 0.02
# So much work of a Pool may have offered its place at once, each piece on a thread of its own.
_MOST_PAUSED = 1024


class Pool:
    """Threads for work that ends by itself, of which a limited number runs at once.

    Work has a place while it runs.  Work that goes on for long offers its place to others now and
    then (`offer_place`): who waits for what others do, as a loop that polls a variable does, keeps
    none of them from doing it.

    Args:
      name: of the work; threads are called tideflow-NAME.
      size: how many places there are.

    Attributes:
      grace_s: how long whoever is cancelled waits for the end of work; None: however long it
        takes.
    """

    grace_s: float | None = None

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._executor: concurrent.futures.ThreadPoolExecutor | None = None
        # What wants a place: new work, and the places of work that has offered its own.
        self._waiting: deque[_Job | Place] = deque()
        # Work that has a place, and whose thread is about to take it.
        self._beginning: deque[_Job] = deque()
        self._free = self.size
        self._paused = 0

    def start(self, work: Callable[[], Any]) -> concurrent.futures.Future[Any]:
        """Have work done as soon as a place is free; may be called from any thread.

        Raises: ResourceExhaustedError when too many threads hang (HangingPool).
        """
        job = _Job(work)
        with self._lock:
            if not self._free:
                self._waiting.append(job)
            else:
                self._begin(job)
                self._free -= 1
        return job

    def _begin(self, job: _Job) -> None:
        """Have a thread run work that has a place (the lock is held).

        Raises: RuntimeError at the end of the interpreter.
        """
        if self._executor is None:
            most = self.size + _MOST_PAUSED
            self._executor = threads.pool(f"tideflow-{self.name}", most)
        self._executor.submit(self._serve)
        self._beginning.append(job)

    def _serve(self) -> None:
        with self._lock:
            job: _Job | None = self._beginning.popleft()
        while job is not None:
            if job.set_running_or_notify_cancel():
                _held.place = Place(self)
                job.run()
                _held.place = None
            job = self._next()

    def _next(self) -> _Job | None:
        """Give up a place; return the work that has it now, unless that has a thread."""
        with self._lock:
            if not self._waiting:
                self._free += 1
                return None
            following = self._waiting.popleft()
            if isinstance(following, _Job):
                return following
            self._paused -= 1
            following.go_on()
            return None

    def exchange(self, place: Place) -> None:
        """Let what has waited longest have a place; return when the place is free again."""
        with self._lock:
            if not self._waiting:
                return
            following = self._waiting[0]
            if isinstance(following, Place):
                following.go_on()
            else:
                if self._paused >= _MOST_PAUSED:
                    return
                try:
                    self._begin(following)
                except RuntimeError:
                    return  # the interpreter ends: what runs is waited for
                self._paused += 1
            self._waiting.popleft()
            self._waiting.append(place)
        place.wait()

    def has_waiting(self) -> bool:
        """Whether work waits for a place."""
        return bool(self._waiting)

    def give_up(self, job: concurrent.futures.Future[Any]) -> None:
        """Count no longer on the end of a job (HangingPool)."""
        raise AssertionError(f"work of the pool {self.name!r} is always waited for")

    def forget_after_fork(self) -> None:
        """Begin anew in a forked child, which has none of the threads."""
        self._reset()


class Place:
    """What work needs to run in a pool, and has for a time."""

    __slots__ = ("_pool", "_since", "_turn")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._since = clock.monotonic_s()
        self._turn = threading.Lock()
        self._turn.acquire()

    def offer(self) -> None:
        """Let others have the place where they wait for it and this work has had it for long;
        return when it is this one's again.

        No lock may be held that others wait for in the same pool.
        """
        if self._pool.has_waiting() and self.is_over():
            self._pool.exchange(self)

    def is_over(self) -> bool:
        """Whether the work has had its time."""
        return clock.monotonic_s() - self._since > _PLACE_S

    def wait(self) -> None:
        """Wait until the place is this one's again."""
        self._turn.acquire()
        self._since = clock.monotonic_s()

    def go_on(self) -> None:
        """Have the place (call from any thread)."""
        self._turn.release()


class _Held(threading.local):
    """The place of what runs on this thread."""

    place: Place | None = None


_held = _Held()


def held_place() -> Place | None:
    """Return the place of the work that runs on the calling thread; None outside of pools."""
    return _held.place


def in_place(place: Place | None, work: Callable[..., T], *args: Any) -> T:
    """Return work(*args) of a thread that works for one which waits for it, and holds a place."""
    _held.place = place
    try:
        return work(*args)
    finally:
        _held.place = None


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
        atexit.register(self._wait_at_exit)

    def _reset(self) -> None:
        lock = threading.Lock()
        self._wanted = threading.Condition(lock)
        self._ended = threading.Condition(lock)
        self._queue: deque[_Job] = deque()
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
            self._queue.append(job)
            self._find_thread()
        return job

    def _find_thread(self) -> None:
        """Let a thread take the newest job, unless all are at work (the lock is held)."""
        if self._idle >= len(self._queue):
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
                while self._queue:
                    job = self._queue.popleft()
                    if job.set_running_or_notify_cancel():
                        self._running.add(job)
                        return job
                self._idle += 1
                is_wanted = self._wanted.wait(_IDLE_S)
                self._idle -= 1
                if not is_wanted and not self._queue:
                    self._threads -= 1
                    return None

    def give_up(self, job: concurrent.futures.Future[Any]) -> None:
        with self._wanted:
            if job in self._running and job not in self._given_up:
                assert isinstance(job, _Job)
                self._given_up.add(job)
                self._threads -= 1
                if self._queue:
                    self._find_thread()

    def _wait_at_exit(self) -> None:
        ends = clock.monotonic_s() + _EXIT_S
        with self._ended:
            while self._running - self._given_up and clock.monotonic_s() < ends:
                self._ended.wait(max(0.0, ends - clock.monotonic_s()))


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


_CORES = usable_processors()
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
