"""The one place where tideflow reads the time and sleeps.

Rule 1: what is decided (deadlines, pauses, ages, which work is long) is decided by `monotonic_s`,
        which never jumps.  `wall_s` and `wall_ns` are for dates in files and in what people read.
Rule 2: callers write `clock.monotonic_s()`; they do not import the function by its name, so that
        `using` reaches them all.
Rule 3: event loops have the same clock: a deadline by `monotonic_s` becomes a timer of a loop by
        the time that is left, `loop.call_later(deadline_s - clock.monotonic_s(), ...)`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Protocol


class Clock(Protocol):
    """A source of time, in place of the machine's."""

    def monotonic_s(self) -> float:
        """Return seconds since some moment in the past; it never goes back."""

    def wall_ns(self) -> int:
        """Return nanoseconds since 1970, UTC."""

    def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""


# The functions themselves, not wrappers: they are called several times in a step of 30 us.
monotonic_s: Callable[[], float] = time.monotonic
wall_s: Callable[[], float] = time.time
wall_ns: Callable[[], int] = time.time_ns
sleep: Callable[[float], None] = time.sleep


# When this process began to load tideflow: what is written later may differ from what it runs.
LOADED_NS = time.time_ns()


@contextlib.contextmanager
def using(source: Clock) -> Iterator[None]:
    """Take the time from another source, in the whole process, while the body of `with` runs.

    For tests.  Timers of event loops go on by the machine's clock.
    """
    global monotonic_s, wall_s, wall_ns, sleep
    before = monotonic_s, wall_s, wall_ns, sleep
    monotonic_s, wall_ns, sleep = source.monotonic_s, source.wall_ns, source.sleep
    wall_s = lambda: source.wall_ns() / 1e9  # noqa: E731
    try:
        yield
    finally:
        monotonic_s, wall_s, wall_ns, sleep = before
