"""What one worker knows of another as a peer, decided without I/O and in a time of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tideflow.cluster.peers.link_state import (
    ASK_AFTER_S,
    ASK_BUSY_AFTER_S,
    PLAIN_S,
    RETRY_S,
    Ask,
    Close,
    LinkState,
    LookAfter,
    LookNoMore,
    Open,
    SettleAfter,
    TellLost,
)


@pytest.fixture
def link() -> Iterator[LinkState[str, str]]:
    made: LinkState[str, str] = LinkState()
    yield made
    made.validate()


def test_a_line_is_opened_once_and_again_after_a_pause(link: LinkState[str, str]) -> None:
    assert link.wanted(0.0) == (Open(),)
    assert link.wanted(0.0) == ()
    link.opening_ended(is_plain=False, now_s=1.0)
    assert link.wanted(1.0 + RETRY_S / 2) == ()
    assert link.wanted(1.0 + RETRY_S) == (Open(),)
    link.opening_ended(is_plain=True, now_s=2.0)
    assert link.wanted(2.0 + PLAIN_S / 2) == ()
    assert link.wanted(2.0 + PLAIN_S) == (Open(),)


def test_of_two_lines_opened_at_once_that_of_the_first_name_stays(
    link: LinkState[str, str],
) -> None:
    assert not link.keeps_own("/job:a", "/job:b")
    link.wanted(0.0)
    assert link.keeps_own("/job:a", "/job:b")
    assert not link.keeps_own("/job:b", "/job:a")


def test_values_come_unasked_once_the_line_has_settled(link: LinkState[str, str]) -> None:
    (settle,) = link.use("line", is_own=False)
    assert isinstance(settle, SettleAfter)
    assert not link.pushes
    link.settled("an older line")
    assert not link.pushes
    link.settled("line")
    assert link.pushes
    assert link.use("newer", is_own=False)[0] == Close("line")
    assert link.ended("line") == ()
    assert link.ended("newer") == (TellLost(),)
    assert not link.pushes


def test_who_waits_for_long_asks_and_later_if_the_producer_is_heard_of(
    link: LinkState[str, str],
) -> None:
    assert link.wait_began("first", 10.0) == (LookAfter(ASK_AFTER_S),)
    assert link.wait_began("second", 10.1) == ()
    looked = link.looked(10.0 + ASK_AFTER_S, received_count=0)
    assert looked[0] == Ask("first")
    assert isinstance(looked[1], LookAfter)
    assert looked[1].delay_s == pytest.approx(0.1)
    # A frame has come meanwhile: the producer is alive, and has much to do.
    assert list(link.looked(10.4, received_count=5)) == [LookAfter(ASK_AFTER_S)]
    assert list(link.looked(10.1 + ASK_BUSY_AFTER_S, received_count=6)) == [Ask("second")]


def test_the_end_of_a_line_lets_all_ask(link: LinkState[str, str]) -> None:
    link.use("line", is_own=False)
    for wait in ("a", "b", "c"):
        link.wait_began(wait, 0.0)
    link.forget("b")
    assert link.ended("line") == (LookNoMore(), Ask("a"), Ask("c"), TellLost())
    assert link.looked(1.0, 0) == []


def test_a_closed_link_opens_nothing_and_lets_all_ask(link: LinkState[str, str]) -> None:
    link.use("line", is_own=False)
    link.wait_began("a", 0.0)
    assert link.closed() == (Close("line"), LookNoMore(), Ask("a"))
    assert link.ended("line") == ()
    assert link.wanted(100.0) == ()


@pytest.mark.parametrize("seed", range(20))
def test_nobody_waits_for_ever(seed: int) -> None:
    """Whatever happens to lines, a look is due as long as somebody waits."""
    draw = random.Random(seed)
    link: LinkState[int, int] = LinkState()
    now_s, look_at_s, received = 0.0, None, 0
    waits: dict[int, float] = {}
    for number in range(2000):
        now_s += draw.expovariate(20)
        found: list = []
        while look_at_s is not None and look_at_s <= now_s:
            at_s, look_at_s = look_at_s, None
            for one in link.looked(at_s, received):
                if isinstance(one, LookAfter):
                    look_at_s = at_s + one.delay_s
                else:
                    assert at_s - waits.pop(one.wait) <= ASK_BUSY_AFTER_S + ASK_AFTER_S
        match draw.randrange(6):
            case 0 | 1:
                waits[number] = now_s
                found += link.wait_began(number, now_s)
            case 2 if waits:
                done = draw.choice(list(waits))
                del waits[done]
                link.forget(done)
            case 3:
                found += link.use(number, is_own=draw.random() < 0.5)
            case 4 if link.line is not None:
                found += link.ended(link.line)
            case 5:
                received += 1
        for one in found:
            match one:
                case LookAfter(delay_s):
                    look_at_s = now_s + delay_s
                case LookNoMore():
                    look_at_s = None
                case Ask(wait):
                    del waits[wait]
        link.validate()
        assert look_at_s is not None or not waits
