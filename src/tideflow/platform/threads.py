"""The one place where tideflow makes threads.

Rule 1: every thread has a name, which tools show: `tideflow-` and what it does.
Rule 2: a thread is a daemon, for which the interpreter's end does not wait, unless who makes it
        says why it must; and somebody holds it, and ends or joins it.
Rule 3: a forked child has none of its parent's threads; pools of the process are made anew there.
"""

from __future__ import annotations

import _thread
import functools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def start(
    work: Callable[..., object], *args: Any, name: str, daemon: bool = True
) -> threading.Thread:
    """Run work(*args) in a thread of its own; return the thread, started.

    daemon: False where the interpreter must not end before the thread does.
    """
    thread = threading.Thread(target=work, args=args, name=name, daemon=daemon)
    thread.start()
    return thread


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
    return ThreadPoolExecutor(max_workers=most, thread_name_prefix=name)


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
