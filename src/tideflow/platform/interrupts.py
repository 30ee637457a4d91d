"""Ctrl-C during work that must not be torn in two."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def interrupts_given_to(stop: Callable[[], object]) -> Iterator[None]:
    """Have Ctrl-C call `stop` in place of raising within the body of `with`, which then ends soon.

    KeyboardInterrupt is raised once the body has ended.  Programs that handle the signal by
    themselves, and threads that get none, are left alone.
    """
    usual = signal.default_int_handler
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not usual:
        yield
        return
    came = False

    def on_signal(*_: object) -> None:
        nonlocal came
        if came:  # who asks again does not want to wait
            raise KeyboardInterrupt
        came = True
        stop()

    signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if came:
            raise KeyboardInterrupt
