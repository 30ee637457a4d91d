"""Ends a process that does not end by itself after a signal, whatever runs in it.

Python's handlers need the interpreter, which code in C may keep for ever.  What Python does within
the signal itself is to write its number to a descriptor (signal.set_wakeup_fd): another process
reads that, and ends this one when its time is up.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
from collections.abc import Iterator

from tideflow.platform import clock

# A user is promised five seconds.
_LIMIT_S = 4.75
# How long the interpreter may take to write what its threads do.
_LAST_WORDS_S = 0.15
_LOOK_S = 30.0
_ENDING = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def ended_in_time(limit_s: float = _LIMIT_S) -> Iterator[None]:
    """Have this process killed if it still runs so long after the first SIGTERM or SIGINT.

    What its threads were doing is written to standard error then.  The process must have no other
    threads yet.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _be_the_watcher(reading, writing, limit_s)
    os.close(reading)
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    was_enabled = faulthandler.is_enabled()
    if not was_enabled:
        faulthandler.enable()
    try:
        yield
    except BaseException:
        _let_go(before, writing, child)
        raise
    # The end of the interpreter is watched, too; the pipe ends with the process.
    signal.set_wakeup_fd(before)


def _let_go(before: int, writing: int, child: int) -> None:
    signal.set_wakeup_fd(before)
    os.close(writing)
    os.waitpid(child, 0)


def _be_the_watcher(reading: int, writing: int, limit_s: float) -> None:
    """Watch the parent, and end; never returns."""
    try:
        for each in (*_ENDING, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        os.close(writing)
        os.closerange(0, 2)
        _watch(os.getppid(), reading, limit_s)
    finally:
        os._exit(0)


def _watch(parent: int, reading: int, limit_s: float) -> None:
    if not _hears_of_signal(parent, reading):
        return
    until_s = clock.monotonic_s() + limit_s
    if not _outlasts(parent, reading, until_s):
        return
    text = f"the process {parent} did not end within {limit_s:g} s of a signal and is killed\n"
    os.write(2, text.encode())
    os.kill(parent, signal.SIGABRT)
    if _outlasts(parent, reading, clock.monotonic_s() + _LAST_WORDS_S):
        os.kill(parent, signal.SIGKILL)


def _hears_of_signal(parent: int, reading: int) -> bool:
    """Wait for a signal that is to end the parent; False where that ends without one."""
    while os.getppid() == parent:
        if select.select([reading], [], [], _LOOK_S)[0]:
            heard = os.read(reading, 64)
            if not heard:
                return False
            if any(number in heard for number in _ENDING):
                return True
    return False


def _outlasts(parent: int, reading: int, until_s: float) -> bool:
    """Return whether the parent still runs at a time; as soon as it does not."""
    while os.getppid() == parent:
        left_s = until_s - clock.monotonic_s()
        if left_s <= 0:
            return True
        if select.select([reading], [], [], min(left_s, 0.5))[0] and not os.read(reading, 64):
            return False
    return False
