"""What is decided about requests that come again: what happened in, what to do out."""

from __future__ import annotations

import random

import pytest

from tideflow.cluster.step_requests import (
    GRACE_S,
    CallerJoined,
    CallerLeft,
    CallerLost,
    Cancel,
    Drop,
    Ended,
    Event,
    Expect,
    GraceOver,
    Instruction,
    StepRequests,
    Verdict,
)
from tideflow.wire import errors

ID = 7


@pytest.fixture
def requests() -> StepRequests:
    """With one step that runs for one caller."""
    made = StepRequests(10)
    assert made.arrived(ID, "RunStep") is Verdict.RUN
    made.began(ID)
    return made


def handle(requests: StepRequests, event: Event) -> list[Instruction]:
    found = requests.handle(event)
    requests.validate()
    return found


def join(requests: StepRequests) -> None:
    """Have the request come again, and wait."""
    assert requests.arrived(ID, "RunStep") is Verdict.JOIN
    assert handle(requests, CallerJoined(ID)) == []


def test_a_request_that_comes_again_while_its_step_runs_joins_it(requests: StepRequests) -> None:
    join(requests)
    # The first connection is found to be gone later.
    assert handle(requests, CallerLost(ID)) == []
    assert handle(requests, Ended(ID)) == [Drop(ID)]


def test_a_step_whose_caller_was_lost_goes_on_for_a_while(requests: StepRequests) -> None:
    (expect,) = handle(requests, CallerLost(ID))
    assert expect == Expect(ID, 1, GRACE_S)
    assert handle(requests, GraceOver(ID, 1)) == [Cancel(ID)]
    assert handle(requests, Ended(ID)) == [Drop(ID)]


def test_a_caller_that_is_back_is_not_expected_any_more(requests: StepRequests) -> None:
    handle(requests, CallerLost(ID))
    join(requests)
    assert handle(requests, GraceOver(ID, 1)) == []
    assert handle(requests, CallerLost(ID)) == [Expect(ID, 2, GRACE_S)]
    assert handle(requests, GraceOver(ID, 1)) == []
    assert handle(requests, GraceOver(ID, 2)) == [Cancel(ID)]


def test_the_outcome_is_kept_for_a_caller_that_is_expected(requests: StepRequests) -> None:
    handle(requests, CallerLost(ID))
    assert handle(requests, Ended(ID)) == []
    join(requests)
    assert handle(requests, CallerLeft(ID)) == [Drop(ID)]


def test_it_is_dropped_when_nobody_comes(requests: StepRequests) -> None:
    handle(requests, CallerLost(ID))
    handle(requests, Ended(ID))
    assert handle(requests, GraceOver(ID, 1)) == [Drop(ID)]


def test_with_the_last_caller_that_gives_up_a_step_is_cancelled(requests: StepRequests) -> None:
    join(requests)
    handle(requests, CallerLost(ID))
    assert handle(requests, CallerLeft(ID)) == [Cancel(ID)]


def test_a_request_whose_step_was_answered_is_refused(requests: StepRequests) -> None:
    handle(requests, Ended(ID))
    with pytest.raises(errors.AbortedError, match="RunStep request 7 was seen before"):
        requests.arrived(ID, "RunStep")


def test_so_is_one_that_was_answered_at_once() -> None:
    requests = StepRequests(10)
    assert requests.arrived(ID, "RunStep") is Verdict.RUN
    with pytest.raises(errors.AbortedError):
        requests.arrived(ID, "RunStep")


def test_requests_without_an_id_are_never_compared() -> None:
    requests = StepRequests(10)
    for _ in range(2):
        assert requests.arrived(0, "RunStep") is Verdict.RUN
        requests.began(0)
    requests.validate()


def test_any_order_of_events_keeps_the_state_sound() -> None:
    """Callers are lost and leave only as often as they have come."""
    chance, requests = random.Random(13), StepRequests(10_000)
    callers: dict[int, int] = {}
    expects: list[Expect] = []
    for request_id in range(1, 400):
        requests.arrived(request_id, "RunStep")
        requests.began(request_id)
        callers[request_id] = 1
        for _ in range(20):
            one = chance.choice(list(callers))
            events: list[Event] = [Ended(one)]
            if callers[one]:
                events += [CallerLost(one), CallerLost(one)]
                events += [CallerLeft(one)] if callers[one] > 1 else []
            if expects:
                over = chance.choice(expects)
                events.append(GraceOver(over.request_id, over.number))
            event = chance.choice(events)
            if isinstance(event, CallerLost | CallerLeft):
                callers[one] -= 1
            for instruction in handle(requests, event):
                if type(instruction) is Expect:
                    expects.append(instruction)
                elif type(instruction) is Drop:
                    callers.pop(instruction.request_id)
            if chance.random() < 0.3 and callers:
                again = chance.choice(list(callers))
                assert requests.arrived(again, "RunStep") is Verdict.JOIN
                handle(requests, CallerJoined(again))
                callers[again] += 1
            if not callers:
                break
