"""Real time in tests: waiting for what is about to be so, and holding to promises in seconds.

Rule 1: whoever waits for something waits for the thing itself, by `eventually` or better means.
Rule 2: a test that promises something in seconds, or that lets time pass, is marked `real_time`.
        These tests run alone, one after another, after all others: elsewhere a busy machine would
        fail them.  `within` and `pause` refuse to work in any other test.  None of them needs
        TensorFlow: tests that do run side by side.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

T = TypeVar("T")

# How long anything may take that nobody promised a time for; a test ends after two minutes.
LONG_S = 60.0
_LOOK_S = 0.005

_is_allowed = False


@contextlib.contextmanager
def of_test(item: pytest.Item) -> Iterator[None]:
    """Tell which test runs in the body of `with`."""
    global _is_allowed
    _is_allowed = item.get_closest_marker("real_time") is not None
    try:
        yield
    finally:
        _is_allowed = False


def eventually(condition: Callable[[], T], what: str = "", limit_s: float = LONG_S) -> T:
    """Look until a condition is true; return what it gives then.

    Fails the test when that takes too long.  what: is waited for, for the message.
    """
    until_s = time.monotonic() + limit_s
    while not (found := condition()):
        if time.monotonic() > until_s:
            pytest.fail(f"{what or condition} did not come within {limit_s:g} s")
        _wait(_LOOK_S)
    return found


@contextlib.contextmanager
def within(limit_s: float) -> Iterator[None]:
    """Fail the test if the body of `with` takes longer; for tests marked `real_time` alone."""
    _require_allowed("within")
    since_s = time.monotonic()
    yield
    took_s = time.monotonic() - since_s
    assert took_s < limit_s, f"took {took_s:.2f} s; {limit_s:g} s were promised"


def pause(seconds: float) -> None:
    """Let time pass; for tests marked `real_time` alone."""
    _require_allowed("pause")
    _wait(seconds)


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


def _require_allowed(what: str) -> None:
    assert _is_allowed, f"{what} is for tests that are marked real_time"


def duration_s(work: Callable[[], object]) -> float:
    """Return how long something takes, for what is to happen in the middle of it the next time."""
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s
