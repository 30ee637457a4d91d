"""Decides about requests for steps by their ids: what happened comes in, what to do goes out.

A client whose connection is cut sends its request again, under the same id, over another one.

Rule 1: while its step runs, a request that comes again joins it.
Rule 2: a step whose callers have all lost their connections goes on for a while, and its outcome is
        kept for as long, so that a request that comes again finds it.  Then nobody is expected.
Rule 3: a caller that gives up is not waited for: with the last one its step is cancelled.
Rule 4: a request that comes again after its step was answered is refused, as the step has run.
Rule 5: requests without an id, 0, are never compared.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from tideflow.cluster.recent_requests import RecentRequests

# Clients try again for a second or two.
GRACE_S = 5.0


class Verdict(enum.Enum):
    """What to do with a request that has come."""

    RUN = "it is new"
    JOIN = "its step runs, or its outcome is kept"


# ---- events


@dataclass(frozen=True, slots=True)
class CallerJoined:
    """A request that has come again waits for its step now."""

    request_id: int


@dataclass(frozen=True, slots=True)
class CallerLost:
    """The connection of one of a step's callers is gone."""

    request_id: int


@dataclass(frozen=True, slots=True)
class CallerLeft:
    """One of the callers that joined a step has given up."""

    request_id: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A step has ended, well or not."""

    request_id: int


@dataclass(frozen=True, slots=True)
class GraceOver:
    """The time that Expect asked for has passed.

    Attributes:
      number: that of the instruction.
    """

    request_id: int
    number: int


Event: TypeAlias = CallerJoined | CallerLost | CallerLeft | Ended | GraceOver


# ---- instructions


@dataclass(frozen=True, slots=True)
class Expect:
    """Tell when a while has passed in which callers are expected to come again."""

    request_id: int
    number: int
    after_s: float


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel a step: nobody waits for it."""

    request_id: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Forget a step, and its outcome."""

    request_id: int


Instruction: TypeAlias = Expect | Cancel | Drop


class _Step:
    __slots__ = ("callers", "is_running", "number")

    def __init__(self) -> None:
        self.callers = 1
        self.is_running = True
        # Of the last Expect; 0 when there is none that still counts.
        self.number = 0


class StepRequests:
    """The steps that run now, and those that ran lately.

    Args:
      capacity: how many requests are remembered that were answered.
    """

    def __init__(self, capacity: int) -> None:
        self._recent = RecentRequests(capacity)
        self._steps: dict[int, _Step] = {}
        self._last_number = 0

    def arrived(self, request_id: int, method: str) -> Verdict:
        """Take note of a request.  Raises: AbortedError for one that is refused."""
        step = self._steps.get(request_id) if request_id else None
        if step is not None:
            return Verdict.JOIN
        self._recent.check(request_id, method)
        return Verdict.RUN

    def began(self, request_id: int) -> None:
        """Take note that the step of a new request runs, and is not answered at once."""
        if request_id:
            self._steps[request_id] = _Step()

    def handle(self, event: Event) -> list[Instruction]:
        """Take note of what happened, and say what to do."""
        step = self._steps.get(event.request_id)
        if step is None:
            return []
        if type(event) is CallerJoined:
            step.callers += 1
            step.number = 0
            return []
        if type(event) is Ended:
            return self._ended(event.request_id, step)
        if type(event) is GraceOver:
            return self._grace_over(event, step)
        step.callers -= 1
        if step.callers:
            return []
        if type(event) is CallerLost:
            return [self._expect(event.request_id, step)]
        # Of a step that has ended nothing is left to cancel.
        return [Cancel(event.request_id)] if step.is_running else [self._drop(event.request_id)]

    def _expect(self, request_id: int, step: _Step) -> Expect:
        self._last_number += 1
        step.number = self._last_number
        return Expect(request_id, step.number, GRACE_S)

    def _ended(self, request_id: int, step: _Step) -> list[Instruction]:
        step.is_running = False
        # Those who wait are given the outcome; it is kept for those who are expected.
        return [] if not step.callers and step.number else [self._drop(request_id)]

    def _grace_over(self, event: GraceOver, step: _Step) -> list[Instruction]:
        if step.number != event.number:
            return []
        step.number = 0
        if step.is_running:
            return [Cancel(event.request_id)]
        return [self._drop(event.request_id)]

    def _drop(self, request_id: int) -> Drop:
        del self._steps[request_id]
        return Drop(request_id)

    def validate(self) -> None:
        """Raise AssertionError where the state contradicts itself."""
        for request_id, step in self._steps.items():
            assert request_id
            assert step.callers >= 0
            assert not (step.callers and step.number), "a caller is there, and expected, too"
            assert step.is_running or step.callers or step.number, "kept for nobody"
