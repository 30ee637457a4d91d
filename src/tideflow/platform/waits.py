"""Waits of a user's thread, which Ctrl-C always ends.

CPython looks for a signal between two steps of the interpreter, and a lock that is being waited
for wakes only if the signal comes during the wait and to this very thread.  One that comes between
the last look and the wait, or to another thread, would stay unseen until the wait ends by itself.
So whatever may wait for long in a main thread waits in slices, and looks between them.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import TypeVar

from tideflow.platform import clock

T = TypeVar("T")

# How late Ctrl-C may be seen, in the rare case.
SLICE_S = 0.5


def until(wait: Callable[[float], object], timeout_s: float | None = None) -> bool:
    """Wait until `wait` gives something true; return whether it did so in time.

    Args:
      wait: waits for at most as many seconds as it is given, as threading.Event.wait does.
      timeout_s: seconds; None waits for ever.
    """
    if timeout_s is None:
        while not wait(SLICE_S):
            pass
        return True
    ends_s = clock.monotonic_s() + timeout_s
    while True:
        left_s = ends_s - clock.monotonic_s()
        if wait(max(0.0, min(left_s, SLICE_S))):
            return True
        if left_s <= SLICE_S:
            return False


def for_condition(condition: threading.Condition, holds: Callable[[], object]) -> None:
    """Wait until `holds` is true; the caller has the condition's lock."""
    until(lambda slice_s: condition.wait_for(holds, slice_s))


def result_of(future: concurrent.futures.Future[T], timeout_s: float | None = None) -> T:
    """Return the future's result, waiting for it.

    Raises: what the future raises; TimeoutError, with the future not done, when timeout_s passes.
    """
    if timeout_s is not None and timeout_s <= SLICE_S:
        return future.result(timeout_s)
    try:
        return future.result(SLICE_S)
    except TimeoutError:
        if future.done():
            return future.result()  # its own error, or a result that has just come
    left_s = None if timeout_s is None else timeout_s - SLICE_S
    until(lambda slice_s: concurrent.futures.wait([future], slice_s).done, left_s)
    return future.result(0)
