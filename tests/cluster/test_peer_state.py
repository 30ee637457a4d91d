"""What one worker knows of another as a peer, decided without I/O and in a time of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tideflow.cluster.peers.peer_state import (
    ASK_AFTER_S,
    ASK_BUSY_AFTER_S,
    PLAIN_S,
    RETRY_S,
    Ask,
    Close,
    LookAfter,
    LookNoMore,
    Open,
    PeerState,
    SettleAfter,
    TellLost,
)


@pytest.fixture
def peer() -> Iterator[PeerState[str, str]]:
    made: PeerState[str, str] = PeerState()
    yield made
    made.validate()


def test_a_line_is_opened_once_and_again_after_a_pause(peer: PeerState[str, str]) -> None:
    assert peer.wanted(0.0) == (Open(),)
    assert peer.wanted(0.0) == ()
    peer.opening_ended(is_plain=False, now_s=1.0)
    assert peer.wanted(1.0 + RETRY_S / 2) == ()
    assert peer.wanted(1.0 + RETRY_S) == (Open(),)
    peer.opening_ended(is_plain=True, now_s=2.0)
    assert peer.wanted(2.0 + PLAIN_S / 2) == ()
    assert peer.wanted(2.0 + PLAIN_S) == (Open(),)


def test_of_two_lines_opened_at_once_that_of_the_first_name_stays(
    peer: PeerState[str, str],
) -> None:
    assert not peer.keeps_own("/job:a", "/job:b")
    peer.wanted(0.0)
    assert peer.keeps_own("/job:a", "/job:b")
    assert not peer.keeps_own("/job:b", "/job:a")


def test_values_come_unasked_once_the_line_has_settled(peer: PeerState[str, str]) -> None:
    (settle,) = peer.use("stream", is_own=False)
    assert isinstance(settle, SettleAfter)
    assert not peer.pushes
    peer.settled("an older stream")
    assert not peer.pushes
    peer.settled("stream")
    assert peer.pushes
    assert peer.use("newer", is_own=False)[0] == Close("stream")
    assert peer.ended("stream") == ()
    assert peer.ended("newer") == (TellLost(),)
    assert not peer.pushes


def test_who_waits_for_long_asks_and_later_if_the_producer_is_heard_of(
    peer: PeerState[str, str],
) -> None:
    assert peer.wait_began("first", 10.0) == (LookAfter(ASK_AFTER_S),)
    assert peer.wait_began("second", 10.1) == ()
    looked = peer.looked(10.0 + ASK_AFTER_S, received_count=0)
    assert looked[0] == Ask("first")
    assert isinstance(looked[1], LookAfter)
    assert looked[1].delay_s == pytest.approx(0.1)
    # A frame has come meanwhile: the producer is alive, and has much to do.
    assert list(peer.looked(10.4, received_count=5)) == [LookAfter(ASK_AFTER_S)]
    assert list(peer.looked(10.1 + ASK_BUSY_AFTER_S, received_count=6)) == [Ask("second")]


def test_the_end_of_a_line_lets_all_ask(peer: PeerState[str, str]) -> None:
    peer.use("stream", is_own=False)
    for wait in ("a", "b", "c"):
        peer.wait_began(wait, 0.0)
    peer.forget("b")
    assert peer.ended("stream") == (LookNoMore(), Ask("a"), Ask("c"), TellLost())
    assert peer.looked(1.0, 0) == []


def test_a_closed_link_opens_nothing_and_lets_all_ask(peer: PeerState[str, str]) -> None:
    peer.use("stream", is_own=False)
    peer.wait_began("a", 0.0)
    assert peer.closed() == (Close("stream"), LookNoMore(), Ask("a"))
    assert peer.ended("stream") == ()
    assert peer.wanted(100.0) == ()


@pytest.mark.parametrize("seed", range(20))
def test_nobody_waits_for_ever(seed: int) -> None:
    """Whatever happens to streams, a look is due as long as somebody waits."""
    draw = random.Random(seed)
    peer: PeerState[int, int] = PeerState()
    now_s, look_at_s, received = 0.0, None, 0
    waits: dict[int, float] = {}
    for number in range(2000):
        now_s += draw.expovariate(20)
        found: list = []
        while look_at_s is not None and look_at_s <= now_s:
            at_s, look_at_s = look_at_s, None
            for one in peer.looked(at_s, received):
                if isinstance(one, LookAfter):
                    look_at_s = at_s + one.delay_s
                else:
                    assert at_s - waits.pop(one.wait) <= ASK_BUSY_AFTER_S + ASK_AFTER_S
        match draw.randrange(6):
            case 0 | 1:
                waits[number] = now_s
                found += peer.wait_began(number, now_s)
            case 2 if waits:
                done = draw.choice(list(waits))
                del waits[done]
                peer.forget(done)
            case 3:
                found += peer.use(number, is_own=draw.random() < 0.5)
            case 4 if peer.stream is not None:
                found += peer.ended(peer.stream)
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
        peer.validate()
        assert look_at_s is not None or not waits
