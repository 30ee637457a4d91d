"""The clock of the process."""

from __future__ import annotations

import time

from clocks import manual_clock
from tideflow.platform import clock


def test_the_machines_clock_is_the_default():
    before = time.monotonic(), time.time(), time.time_ns()
    found = clock.monotonic_s(), clock.wall_s(), clock.wall_ns()
    after = time.monotonic(), time.time(), time.time_ns()
    assert all(low <= middle <= high for low, middle, high in zip(before, found, after))


def test_another_clock_holds_until_the_end_of_the_block():
    machine = clock.monotonic_s
    with manual_clock() as manual:
        manual.wall_lead_s = 5.0
        clock.sleep(3600.0)
        assert clock.monotonic_s() == 3700.0
        assert clock.wall_s() == 3705.0
        assert clock.wall_ns() == 3705 * 10**9
    assert clock.monotonic_s is machine
    assert clock.wall_s() > 1e9
