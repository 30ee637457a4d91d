"""The clock of the process."""

from __future__ import annotations

import time

from tideflow.platform import clock


class Slow:
    """A clock that only moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ns(self) -> int:
        return int(self.now_s * 1e9)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_the_machines_clock_is_the_default():
    before = time.monotonic(), time.time(), time.time_ns()
    found = clock.monotonic_s(), clock.wall_s(), clock.wall_ns()
    after = time.monotonic(), time.time(), time.time_ns()
    assert all(low <= middle <= high for low, middle, high in zip(before, found, after))


def test_another_clock_holds_until_the_end_of_the_block():
    machine = clock.monotonic_s
    with clock.using(Slow()):
        clock.sleep(3600.0)
        assert (clock.monotonic_s(), clock.wall_s(), clock.wall_ns()) == (
            3700.0,
            3700.0,
            37 * 10**11,
        )
    assert clock.monotonic_s is machine
    assert clock.wall_s() > 1e9
