"""Wrong lists of known differences fail: with a TensorFlow that says what it is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import tideflow.v1  # noqa: F401  defines the ops
from ops.bad_inputs import comparison
from ops.bad_inputs.comparison import LIMIT_S, check_ends_alike
from ops.outcomes import ABORTED, Call

X = np.float32([1.0, 4.0])
RIGHT = [np.sqrt(X)]
WRONG = [X]
MADE = [("first", Call("Sqrt", [X])), ("second", Call("Sqrt", [X]))]


class Told:
    """A TensorFlow that ends calls as it is told: one by one, the last answer for ever."""

    def __init__(self, first: Any, *others: Any) -> None:
        self.fresh_count = 0
        self._answers = self._give(first, *others)

    @staticmethod
    def _give(*answers: Any) -> Iterator[Any]:
        yield from answers
        while True:
            yield answers[-1]

    def __call__(
        self, calls: Sequence[Any], limit_s: int = LIMIT_S, *, is_fresh: bool = False
    ) -> list[Any]:
        self.fresh_count += is_fresh
        return [next(self._answers) for _ in calls]


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What may differ, and why."""
    made: dict[str, str] = {}
    monkeypatch.setattr(comparison, "known_differences", lambda name: made)
    return made


def test_what_agrees_is_asked_once(listed: dict[str, str]) -> None:
    told = Told(RIGHT)
    check_ends_alike(told, "Sqrt", MADE)
    assert told.fresh_count == 0


def test_a_difference_that_is_not_listed_fails(listed: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match=r"ends otherwise .*'second'"):
        check_ends_alike(Told(RIGHT, WRONG), "Sqrt", MADE)
    with pytest.raises(AssertionError, match=r"ends otherwise .*'second'"):
        check_ends_alike(Told(RIGHT, "NotFoundError"), "Sqrt", MADE)


def test_a_listed_difference_runs_and_passes(listed: dict[str, str]) -> None:
    listed["second"] = "for some reason"
    check_ends_alike(Told(RIGHT, WRONG), "Sqrt", MADE)
    check_ends_alike(Told(RIGHT, ABORTED), "Sqrt", MADE)


def test_a_listed_difference_that_is_gone_fails(listed: dict[str, str]) -> None:
    listed["second"] = "for some reason"
    with pytest.raises(AssertionError, match=r"alike by now: .*'second'"):
        check_ends_alike(Told(RIGHT), "Sqrt", MADE)


def test_a_listed_mutation_that_is_not_made_fails(listed: dict[str, str]) -> None:
    listed["third"] = "for some reason"
    with pytest.raises(AssertionError, match=r"no such mutations: .*'third'"):
        check_ends_alike(Told(RIGHT), "Sqrt", MADE)


def test_what_ends_otherwise_each_time_is_not_judged(listed: dict[str, str]) -> None:
    check_ends_alike(Told(RIGHT, WRONG, "NotFoundError"), "Sqrt", MADE)
    listed["second"] = "for some reason"
    check_ends_alike(Told(RIGHT, RIGHT, WRONG), "Sqrt", MADE)


def test_what_ends_the_process_of_tensorflow_is_left_out(listed: dict[str, str]) -> None:
    check_ends_alike(Told(RIGHT, ABORTED), "Sqrt", MADE)
