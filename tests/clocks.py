"""A clock for tests, which moves when it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tideflow.platform import clock


class ManualClock:
    """Time that passes in sleeps and by `advance`, and not otherwise.

    Attributes:
      now_s: seconds, for `monotonic_s`; may be set.
      wall_lead_s: the wall clock's lead over it; may be set, as wall clocks jump.
      pauses_s: how long each sleep was.
    """

    def __init__(self, now_s: float = 100.0) -> None:
        self.now_s = now_s
        self.wall_lead_s = 1e9
        self.pauses_s: list[float] = []

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ns(self) -> int:
        return int((self.now_s + self.wall_lead_s) * 1e9)

    def sleep(self, seconds: float) -> None:
        self.pauses_s.append(seconds)
        self.now_s += seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds


@contextmanager
def manual_clock() -> Iterator[ManualClock]:
    """Give the process a manual clock for the body of `with`."""
    made = ManualClock()
    with clock.using(made):
        yield made
