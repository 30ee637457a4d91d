"""The one place where tideflow makes threads.

Rule 1: every thread has a name, which tools show: `tideflow-` and what it does.
Rule 2: a thread is a daemon, for which the interpreter's end does not wait, unless who makes it
        says why it must; and somebody holds it, and ends or joins it.
Rule 3: a forked child has none of its parent's threads; pools of the process are made anew there.
Rule 4: signals are the main thread's.  Linux may give one to any thread that has not blocked it, as
        to one that starts another thread just then, and Python would see it only when the main
        thread wakes of itself.  So threads made here block signals, but for a user's code that runs
        in them (`with_signals`): the programs that it starts inherit what is blocked.
"""

from __future__ import annotations

import _thread
import contextlib
import contextvars
import functools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

# What programs have handlers for.
_OF_MAIN_THREAD = frozenset(
    {
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGALRM,
    }
)


class _Own(threading.local):
    """What the calling thread has blocked; empty for threads that were not made here.

    Attributes:
      users: the signals that the user's program has blocked.
      ours: those and what threads of tideflow block.
    """

    users: frozenset[int] | None = None
    ours: frozenset[int] = frozenset()


_own = _Own()


def _users_mask() -> frozenset[int]:
    """Return the signals that the user's program has blocked where the calling thread began."""
    if _own.users is not None:
        return _own.users
    return frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def _leave_signals(mask: frozenset[int]) -> None:
    """Block signals in the calling thread.  mask: what the user's program has blocked."""
    _own.users = mask
    _own.ours = mask | _OF_MAIN_THREAD
    signal.pthread_sigmask(signal.SIG_SETMASK, _own.ours)


def _without_signals(
    mask: frozenset[int], work: Callable[..., object], args: tuple[Any, ...]
) -> None:
    _leave_signals(mask)
    work(*args)


@contextlib.contextmanager
def with_signals() -> Iterator[None]:
    """Run a user's code in the body of `with`, with the signals blocked that the user blocked."""
    if _own.users is None:
        yield
        return
    signal.pthread_sigmask(signal.SIG_SETMASK, _own.users)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, _own.ours)


def start(
    work: Callable[..., object], *args: Any, name: str, daemon: bool = True
) -> threading.Thread:
    """Run work(*args) in a thread of its own; return the thread, started.

    daemon: False where the interpreter must not end before the thread does.
    """
    given = (_users_mask(), work, args)
    thread = threading.Thread(target=_without_signals, args=given, name=name, daemon=daemon)
    thread.start()
    return thread


def call_in_thread(
    work: Callable[..., T], *args: Any, stop: Callable[[], object] = lambda: None
) -> T:
    """Return work(*args), called in a thread of its own, which has all of its stack left.

    It runs in the caller's context of variables.
    stop: asks the work to end early, when Ctrl-C ends the wait for it.
    Raises: what work raises.
    """
    done: Future[T] = Future()
    context = contextvars.copy_context()

    def call() -> None:
        try:
            done.set_result(context.run(work, *args))
        except BaseException as error:
            done.set_exception(error)

    thread = start(call, name="tideflow-deep-call")
    try:
        return done.result()
    except KeyboardInterrupt:
        stop()
        raise
    finally:
        thread.join()


def start_in_signal_handler(work: Callable[[], object]) -> None:
    """Run work in a thread of its own, from a signal handler.

    The handler may have interrupted the start of another thread, whose locks threading.Thread
    would wait for.
    """
    _thread.start_new_thread(work, ())


class OwnedThread(threading.Thread):
    """A thread that its class gives its work to, and a coordinator joins; for subclasses."""


def pool(name: str, most: int) -> ThreadPoolExecutor:
    """Return an executor of up to `most` threads, for who shuts it down."""
    return ThreadPoolExecutor(
        max_workers=most,
        thread_name_prefix=name,
        initializer=_leave_signals,
        initargs=(_users_mask(),),
    )


class ProcessPool:
    """Up to `most` threads of the process; they begin with the first work, in forks anew."""

    def __init__(self, name: str, most: int) -> None:
        self._make = functools.partial(pool, name, most)
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        os.register_at_fork(after_in_child=self._forget)

    def submit(self, work: Callable[..., T], *args: Any) -> Future[T]:
        """Have work(*args) run on a thread; may be called from any thread."""
        with self._lock:
            if self._executor is None:
                self._executor = self._make()
            return self._executor.submit(work, *args)

    def wait(self) -> None:
        """Wait until all that was submitted has run; the threads end."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._executor = None
