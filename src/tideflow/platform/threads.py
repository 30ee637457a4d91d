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
from concurrent.futures import ThreadPoolExecutor
from typing import Any


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


def process_pool(name: str, most: int) -> Callable[[], ThreadPoolExecutor]:
    """Return a function that returns the process's executor of that name, made at the first call.

    It lives as long as the process; a forked child makes its own.
    """
    get = functools.cache(functools.partial(pool, name, most))
    os.register_at_fork(after_in_child=get.cache_clear)
    return get
