"""Waiting awake: when it is done, when it ends, and what turns it off."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from clocks import ManualClock
from tideflow.platform import clock
from tideflow.platform.processors import usable_processors
from tideflow.transport.h2.spinning import LoopSpin, SocketSpin, SpinPolicy, spin_s

TWO_CORES = {0, 1}


class TickingClock(ManualClock):
    """A clock that goes on by a step each time somebody looks."""

    def __init__(self, step_s: float) -> None:
        super().__init__(0.0)
        self.step_s = step_s

    def monotonic_s(self) -> float:
        self.now_s += self.step_s
        return self.now_s


class Turns:
    """Stands for an event loop: keeps what is to be called in its next turn."""

    def __init__(self) -> None:
        self.next: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.next.append(callback)

    def turn(self) -> int:
        """Take a turn; return how many callbacks it had."""
        now, self.next = self.next, []
        for callback in now:
            callback()
        return len(now)


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: TWO_CORES, raising=False)
    usable_processors.cache_clear()
    yield
    usable_processors.cache_clear()


@pytest.fixture
def ticking(cores: None) -> Iterator[TickingClock]:
    made = TickingClock(spin_s(True) / 4)
    with clock.using(made):
        yield made


def test_waits_that_do_not_pay_are_left_out_for_longer_and_longer() -> None:
    policy = SpinPolicy()
    left_out = []
    for _ in range(9):
        assert policy.wants()
        policy.missed()
        left_out.append(0)
        while not policy.wants():
            left_out[-1] += 1
        # The wait that was wanted pays for none: it counts as the next one.
    assert left_out == [1, 2, 4, 8, 16, 32, 64, 64, 64]
    policy.paid()
    policy.missed()
    assert [policy.wants(), policy.wants()] == [False, True]


def test_a_loop_stays_awake_until_it_hears_something(ticking: TickingClock) -> None:
    ticking.step_s = 0.0
    turns = Turns()
    spin = LoopSpin(cast(Any, turns), spin_s(True))
    spin.answered()
    spin.answered()
    assert [turns.turn() for _ in range(5)] == [1] * 5
    spin.heard()
    assert [turns.turn(), turns.turn()] == [1, 0]
    spin.answered()
    assert turns.turn() == 1


def test_a_loop_goes_to_sleep_when_nothing_comes_and_the_next_time_at_once(
    ticking: TickingClock,
) -> None:
    turns = Turns()
    spin = LoopSpin(cast(Any, turns), spin_s(True))
    spin.answered()
    taken = 0
    while turns.turn():
        taken += 1
        assert taken < 10
    assert taken > 1
    spin.answered()
    assert turns.turn() == 0
    spin.answered()
    assert turns.turn() == 1


def test_a_loop_that_hears_and_answers_within_a_turn_spins_once(ticking: TickingClock) -> None:
    ticking.step_s = 0.0
    turns = Turns()
    spin = LoopSpin(cast(Any, turns), spin_s(True))
    for _ in range(5):
        spin.answered()
        spin.heard()
    spin.answered()
    assert turns.turn() == 1


def test_a_thread_stops_to_look_when_something_is_there_or_the_time_is_over(
    ticking: TickingClock,
) -> None:
    near, far = socket.socketpair()
    with near, far:
        spin = SocketSpin(near, spin_s(True))
        far.send(b"x")
        spin.wait()
        assert ticking.now_s == ticking.step_s
        near.recv(1)
        spin.wait()
        looked_until_s = ticking.now_s
        assert looked_until_s > spin_s(True)
        spin.wait()
        assert ticking.now_s == looked_until_s


@pytest.mark.parametrize(
    ("setting", "wanted_s"), [(True, 500e-6), (False, 0.0), (0, 0.0), (40, 40e-6)]
)
def test_a_setting_says_for_how_long(cores: None, setting: bool | int, wanted_s: float) -> None:
    assert spin_s(setting) == wanted_s


def test_nobody_spins_on_the_only_core(cores: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3})
    usable_processors.cache_clear()
    assert spin_s(True) == 0.0
