"""RetryPauses: pauses that grow, end in time, and are told of."""

from __future__ import annotations

import re

import pytest

from clocks import manual_clock
from tideflow.train.threads import RetryPauses


@pytest.fixture
def clock():
    with manual_clock() as made:
        yield made


def test_pauses_grow_up_to_a_bound_and_differ(clock):
    pauses = RetryPauses("ps", float("inf"), 2.0)
    for _ in range(30):
        assert pauses.pause("gone")
    assert clock.pauses_s[0] <= 0.1
    assert all(1.0 <= pause <= 2.0 for pause in clock.pauses_s[6:])
    assert len(set(clock.pauses_s[6:])) > 10


def test_the_time_is_over_when_it_is_over(clock):
    pauses = RetryPauses("ps", 5.0)
    while pauses.pause("gone"):
        assert clock.now_s <= 105.0
    assert clock.now_s == pytest.approx(105.0)
    assert not pauses.pause("gone")


def test_without_time_there_is_no_pause(clock):
    assert not RetryPauses("ps", 0.0).pause("gone")
    assert clock.pauses_s == []


def test_the_user_reads_what_is_waited_for_and_until_when(clock, capsys):
    pauses = RetryPauses("ps 0 at host:1", 60.0, report_after_s=1.0)
    while pauses.pause("connection refused"):
        pass
    lines = capsys.readouterr().err.splitlines()
    # Pauses are drawn at random, so the first report comes up to a second after it is due.
    assert re.match(
        r"waiting for ps 0 at host:1: connection refused; gives up in (58|59|60) s", lines[0]
    )
    assert 5 <= len(lines) <= 7


def test_a_wait_without_end_says_so(clock, capsys):
    pauses = RetryPauses("x", float("inf"), report_after_s=0.0)
    pauses.pause("y")
    assert "never gives up" in capsys.readouterr().err
