"""What is decided about tasks that may be lost: events and the time in, instructions out."""

from __future__ import annotations

import random

import pytest

from tideflow.cluster.master.task_health import (
    AWAY_AFTER_S,
    Answered,
    Ask,
    Event,
    Instruction,
    Interrupt,
    Judge,
    Released,
    Suspected,
    TaskHealth,
    TellBack,
    TellSlow,
    Unanswered,
    Unreached,
)

PS = "/job:ps/replica:0/task:0"


class Timed:
    """A TaskHealth, and a clock that stands still but for `after`."""

    def __init__(self) -> None:
        self.health = TaskHealth()
        self.now_s = 100.0

    def tell(self, event: Event, after_s: float = 0.0) -> list[Instruction]:
        """Let time pass, then something happen; return what is to be done beside asking."""
        self.now_s += after_s
        found = self.health.handle(event, self.now_s)
        self.health.validate()
        self.asks = [one for one in found if type(one) is Ask]
        assert len(self.asks) == int(self.health.is_suspected(event.task))
        return [one for one in found if type(one) is not Ask]


@pytest.fixture
def timed() -> Timed:
    made = Timed()
    assert made.tell(Suspected(PS)) == []
    assert made.asks == [Ask(PS, 0.0, 0.5)]
    return made


def test_a_task_that_answers_is_judged_by_its_incarnation(timed: Timed) -> None:
    assert timed.tell(Answered(PS, 7), 0.1) == [Judge(PS, 7)]
    assert not timed.health.is_suspected(PS)


def test_one_that_nobody_can_reach_for_a_second_is_away_once(timed: Timed) -> None:
    assert timed.tell(Unreached(PS, "refused")) == []
    assert timed.tell(Unreached(PS, "refused"), AWAY_AFTER_S) == [Interrupt(PS, "refused")]
    assert timed.tell(Unreached(PS, "refused"), 10) == []
    assert timed.asks[0].after_s == 1.0
    assert timed.tell(Answered(PS, 7), 1) == [Judge(PS, 7), TellBack(PS, 11 + AWAY_AFTER_S)]


def test_one_that_does_not_answer_is_slow_and_never_away(timed: Timed) -> None:
    told = [one for _ in range(600) for one in timed.tell(Unanswered(PS), 0.6)]
    assert 3 < len(told) < 10
    assert {type(one) for one in told} == {TellSlow}
    assert timed.asks[0].answer_s == 5.0
    assert timed.tell(Answered(PS, 7)) == [Judge(PS, 7), TellBack(PS, pytest.approx(360))]


def test_a_slow_one_whose_host_is_gone_is_away(timed: Timed) -> None:
    timed.tell(Unanswered(PS), 3)
    assert timed.tell(Unreached(PS, "no answer"), 3) == [Interrupt(PS, "no answer")]


def test_a_first_failure_to_reach_it_does_not_count_against_one_that_is_slow(timed: Timed) -> None:
    timed.tell(Unreached(PS, "the connection was cut"))
    assert timed.tell(Unanswered(PS), 2) == []


def test_nothing_is_asked_for_nobody(timed: Timed) -> None:
    assert timed.tell(Released(PS)) == []
    assert timed.tell(Answered(PS, 7)) == []
    assert timed.tell(Suspected(PS)) == []
    assert timed.asks


def test_a_suspicion_is_not_raised_twice(timed: Timed) -> None:
    assert timed.health.handle(Suspected(PS), timed.now_s) == []


def test_any_order_of_events_keeps_the_state_sound() -> None:
    chance, made = random.Random(13), TaskHealth()
    now_s = 0.0
    for _ in range(3000):
        now_s += chance.expovariate(1.0)
        task = chance.choice(["/job:ps/task:0", "/job:ps/task:1"])
        made.handle(
            chance.choice(
                [Suspected(task), Answered(task, 1), Unreached(task, "gone"), Unanswered(task)] * 3
                + [Released(task)]
            ),
            now_s,
        )
        made.validate()
