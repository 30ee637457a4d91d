"""What becomes of a worker's steps, decided without I/O: events in, instructions out."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tideflow.cluster.stories import Stories
from tideflow.cluster.worker.step_states import (
    MOST_EARLY_BYTES,
    Drop,
    Fail,
    Offered,
    StepStates,
)


@pytest.fixture
def states() -> Iterator[StepStates]:
    made = StepStates()
    yield made
    made.validate()


def test_a_step_that_was_only_waited_for_goes_with_its_last_waiter(states: StepStates) -> None:
    states.wait_began(7)
    states.wait_began(7)
    assert list(states.wait_ended(7)) == []
    assert list(states.wait_ended(7)) == [Drop(7)]
    assert len(states) == 0


def test_a_started_step_stays_until_it_is_cleaned_up(states: StepStates) -> None:
    assert states.start(7, 0.0)
    assert not states.start(7, 0.0)
    states.run_began(7)
    assert not states.may_end(7)
    assert list(states.run_ended(7, 1.0)) == []
    assert states.may_end(7)
    assert list(states.clean_up(7, 2.0)) == [Drop(7)]
    assert states.offered(7, 4, 3.0) == (Offered.REFUSE, ())
    assert states.start(7, 4.0)  # its number is new again
    assert states.offered(7, 4, 4.0) == (Offered.GIVE, ())


def test_what_runs_in_a_step_that_is_cleaned_up_fails_and_hears_its_story(
    states: StepStates,
) -> None:
    states.start(7, 10.0)
    states.run_began(7)
    states.start(8, 11.0)
    (failed,) = states.clean_up(7, 13.5)
    assert failed == Fail(7, "3.50 s ago started; 0.00 s ago cleaned up")


def test_values_of_steps_that_have_not_started_are_bounded_and_the_old_ones_go(
    states: StepStates,
) -> None:
    half = MOST_EARLY_BYTES // 2
    assert states.offered(1, half, 0.0) == (Offered.HOLD, [])
    assert states.offered(2, half, 30.0) == (Offered.HOLD, [])
    assert states.offered(3, 1, 59.0) == (Offered.REFUSE, [Drop(3)])
    assert states.offered(3, half, 61.0) == (Offered.HOLD, [Drop(1)])
    states.start(2, 61.0)
    assert states.offered(4, half, 61.0) == (Offered.HOLD, [])


def test_of_steps_that_nobody_cleans_up_the_oldest_goes() -> None:
    states = StepStates(most_ended=2)
    for step_id in range(3):
        states.start(step_id, 0.0)
        states.run_began(step_id)
    assert list(states.run_ended(1, 1.0)) == []
    assert list(states.run_ended(0, 2.0)) == []
    assert list(states.run_ended(2, 3.0)) == [Drop(1)]
    states.validate()


@pytest.mark.parametrize("seed", range(20))
def test_no_order_of_events_breaks_what_must_hold(seed: int) -> None:
    """Runs and waits in a step are told of only while it is kept, as the table does."""
    draw = random.Random(seed)
    states, now_s = StepStates(), 0.0
    runs: dict[int, int] = {}
    waits: dict[int, int] = {}
    kept: set[int] = set()

    def carry_out(instructions) -> None:
        for one in instructions:
            assert one.step_id in kept
            if isinstance(one, Drop):
                assert not runs.get(one.step_id)
                assert not waits.get(one.step_id)
            forget(one.step_id)

    def forget(step_id: int) -> None:
        kept.discard(step_id)
        runs.pop(step_id, None)
        waits.pop(step_id, None)

    for _ in range(2000):
        now_s += draw.expovariate(1 / 5)
        step_id = draw.randrange(6)
        match draw.randrange(8):
            case 0:
                states.start(step_id, now_s)
                kept.add(step_id)
            case 1 if step_id in kept and states.is_started(step_id):
                states.run_began(step_id)
                runs[step_id] = runs.get(step_id, 0) + 1
            case 2 if runs.get(step_id):
                runs[step_id] -= 1
                carry_out(states.run_ended(step_id, now_s))
            case 3:
                states.wait_began(step_id)
                kept.add(step_id)
                waits[step_id] = waits.get(step_id, 0) + 1
            case 4 if waits.get(step_id):
                waits[step_id] -= 1
                carry_out(states.wait_ended(step_id))
            case 5:
                found, instructions = states.offered(step_id, draw.randrange(1 << 25), now_s)
                if found is Offered.HOLD or (found is Offered.REFUSE and instructions):
                    kept.add(step_id)
                carry_out(instructions)
            case 6:
                carry_out(states.clean_up(step_id, now_s))
            case 7 if states.is_started(step_id) and draw.random() < 0.2:
                states.lost(step_id, now_s, "the session is over")
                forget(step_id)
        states.validate()
        assert len(states) == len(kept)
        assert states.running_count == sum(count > 0 for count in runs.values())


def test_a_story_is_bounded_and_says_how_much_is_left_out() -> None:
    stories = Stories(most_events=100)
    for i in range(200):
        stories.note(float(i), i % 2, "value", i)
    assert len(stories) == 100
    told = stories.tell(1, 200.0)
    assert told.startswith("38 earlier events; ")
    assert told.endswith("1.00 s ago value (199)")
    assert stories.tell(5, 0.0) == "nothing is remembered of it"
