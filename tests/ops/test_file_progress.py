"""Progress is shown of what takes more than a second, and of nothing else."""

from __future__ import annotations

import io
import sys

import pytest

from clocks import manual_clock
from tideflow import logging
from tideflow.formats import FileProgress

MIB = 1 << 20


@pytest.fixture
def clock():
    with manual_clock() as made:
        yield made


@pytest.fixture
def lines(monkeypatch):
    found = []
    monkeypatch.setattr(logging, "info", lambda text, *args: found.append(text % args))
    return found


def test_quick_work_says_nothing(clock, lines):
    with FileProgress("saving", "/c/m", 100 * MIB) as progress:
        for _ in range(10):
            progress.advance(10 * MIB)
            clock.advance(0.09)
    assert lines == []


def test_slow_work_writes_a_line_now_and_then_and_at_its_end(clock, lines):
    with FileProgress("saving", "/c/m", 100 * MIB) as progress:
        for _ in range(10):
            clock.advance(1)
            progress.advance(10 * MIB)
    assert lines == [
        "saving /c/m: 10 of 100 MiB (10 %), 10 MiB/s",
        "saving /c/m: 60 of 100 MiB (60 %), 10 MiB/s",
        "saving /c/m: 100 MiB took 10.0 s",
    ]


def test_work_that_fails_does_not_say_that_it_is_done(clock, lines):
    with pytest.raises(RuntimeError):
        with FileProgress("saving", "/c/m", MIB):
            clock.advance(3)
            raise RuntimeError
    assert lines == []


def test_a_terminal_gets_a_bar(monkeypatch, clock, lines):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm-256color")
    with FileProgress("restoring", "/c/m", 100 * MIB) as progress:
        clock.advance(2)
        progress.advance(50 * MIB)
    shown = sys.stderr.getvalue()
    assert "restoring /c/m" in shown
    assert "50.0/100.0" in shown
