"""What one end of a stream says and has said, decided without I/O: events in, instructions out."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tideflow.cluster.peers.stream_state import (
    MOST_PUSHED_BYTES,
    Accept,
    Advise,
    CancelRun,
    CleanUp,
    EndAsked,
    FlushLater,
    FlushSoon,
    Greet,
    Leave,
    LoseAsked,
    Offer,
    Send,
    Serve,
    StreamState,
    TakeBack,
    TellEnd,
    Unattend,
)
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.peer_frame import PeerFrame


@pytest.fixture
def stream() -> Iterator[StreamState]:
    made = opened()
    yield made
    made.validate()


def opened() -> StreamState:
    stream = StreamState()
    stream.is_open = True
    return stream


def offer(step_id: int = 7, key: str = "key", size: int = 4) -> Offer:
    value = np.zeros(size, np.uint8)
    return Offer(step_id, None, key, value, False, value.nbytes)


def frame(**fields: Any) -> PeerFrame:
    return PeerFrame(pb.PeerFrame(hello=pb.PeerHello(), **fields))


def sent(instructions: Sequence[Any]) -> pb.PeerFrame:
    (one,) = instructions
    assert isinstance(one, Send)
    return one.frame.message


def test_nothing_is_said_before_the_pipe_is_there() -> None:
    stream = StreamState()
    assert list(stream.offered(offer())) == [FlushSoon()]
    assert list(stream.turn_ended()) == []
    stream.is_open = True
    assert [entry.rendezvous_key for entry in sent(stream.flush()).tensor] == ["key"]


def test_one_flush_comes_for_all_that_is_offered_in_a_turn(stream: StreamState) -> None:
    assert list(stream.offered(offer(key="a"))) == [FlushSoon()]
    assert list(stream.offered(offer(key="b"))) == []
    assert [entry.rendezvous_key for entry in sent(stream.turn_ended()).tensor] == ["a", "b"]
    assert list(stream.offered(offer(key="c"))) == [FlushSoon()]
    stream.flush()


def test_what_is_too_large_is_left_before_its_run_ends(stream: StreamState) -> None:
    large = offer(size=MOST_PUSHED_BYTES + 1)
    stream.received(frame(run=[pb.PeerRun(step_id=7)]))
    stream.offered(large)
    assert list(stream.run_ending()) == [Leave(large)]
    message = sent(stream.run_ended(7, None, is_over=False))
    assert [entry.ask for entry in message.tensor] == [True]
    assert not message.run_end[0].is_over


def test_a_frame_becomes_instructions_in_the_order_of_their_kinds(stream: StreamState) -> None:
    values = PeerFrame(pb.PeerFrame(hello=pb.PeerHello(task="/job:ps")))
    values.add(7, "value", np.float32(3), False)
    values.message.tensor.add(step_id=8, rendezvous_key="large", ask=True)
    values.message.run.add(step_id=9)
    values.message.over_step.append(6)
    found = stream.received(PeerFrame.FromString(values.SerializeToString()))
    greet, advise, accept, serve, clean_up = found
    assert isinstance(greet, Greet)
    assert isinstance(accept, Accept)
    assert accept.entries == [(0, 7, "value", 3.0, False)]
    assert advise == Advise(8, "large")
    assert isinstance(serve, Serve)
    assert clean_up == CleanUp(6)
    assert list(stream.received(frame(given_up_step=[9, 10]))) == [CancelRun(9)]
    # What was seen is told with the next news.
    assert sent(stream.run_ended(9, None, is_over=True)).seen_count == 2


def test_a_first_frame_without_hello_is_refused(stream: StreamState) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="no hello"):
        stream.received(PeerFrame())


def test_a_step_that_is_over_there_is_not_told_of(stream: StreamState) -> None:
    stream.asked(pb.PeerRun(step_id=7), 0.0)
    ends = stream.received(frame(run_end=[pb.PeerRunEnd(step_id=7, is_over=True)]))
    assert list(ends)[1:] == [EndAsked(7, None)]
    assert list(stream.step_over(7)) == []
    (later,) = stream.step_over(8)
    assert isinstance(later, FlushLater)
    assert list(stream.step_over(9)) == []
    assert list(sent(stream.later_came()).over_step) == [8, 9]


def test_the_end_gives_values_back_first_and_tells_runs_how_long_they_were(
    stream: StreamState,
) -> None:
    under_way, waiting = offer(key="under way"), offer(key="waiting")
    stream.offered(under_way)
    stream.turn_ended()
    stream.offered(waiting)
    stream.received(frame(run=[pb.PeerRun(step_id=3)]))
    stream.asked(pb.PeerRun(step_id=5), 1.0)
    error = errors.UnavailableError("gone")
    *first, left, end = stream.ended(error, 3.5)
    assert first == [Leave(under_way), Leave(waiting), TellEnd(error)]
    assert left == Unattend(3)
    assert isinstance(end, LoseAsked)
    assert str(end.error) == "gone (step 5 was asked for 2.50 s ago)"
    assert list(stream.offered(waiting)) == [Leave(waiting)]
    assert list(stream.run_ended(3, None, is_over=True)) == []


def test_values_of_a_forgotten_step_are_kept_when_the_end_came_before_they_were_seen() -> None:
    seen, unseen = offer(7, "seen"), offer(8, "unseen")
    stream = opened()
    for step_id, one in ((7, seen), (8, unseen)):
        stream.received(frame(run=[pb.PeerRun(step_id=step_id)]))
        stream.offered(one)
        stream.run_ending()
        stream.run_ended(step_id, None, is_over=True)
    stream.received(frame(seen_count=1))
    stream.validate()
    assert list(stream.ended(None, 0.0)) == [TakeBack(unseen), TellEnd(None)]
    stream.validate()


@pytest.mark.parametrize("seed", range(10))
def test_two_ends_in_any_order_lose_no_value_and_no_run(seed: int) -> None:
    """Frames travel in order in each direction, at any pace; then the stream is cut."""
    draw = random.Random(seed)
    ends = [opened(), opened()]
    under_way: list[list[PeerFrame]] = [[], []]
    offered: list[set[str]] = [set(), set()]
    taken: list[set[str]] = [set(), set()]
    left: list[set[str]] = [set(), set()]
    asked: list[set[int]] = [set(), set()]
    ended: list[set[int]] = [set(), set()]
    served: list[set[int]] = [set(), set()]
    due = [False, False]

    def carry_out(at: int, instructions: Sequence[Any]) -> None:
        for one in instructions:
            match one:
                case Send(sent_frame):
                    data = sent_frame.SerializeToString()
                    under_way[1 - at].append(PeerFrame.FromString(data))
                case FlushSoon() | FlushLater():
                    due[at] = True
                case Leave(one_offer) | TakeBack(one_offer):
                    left[at].add(one_offer.key)
                case Accept(entries):
                    for entry_number, _, key, _, _ in entries:
                        if draw.random() < 0.1:
                            carry_out(at, ends[at].refused(entry_number))
                        else:
                            taken[at].add(key)
                case Serve(run_pb):
                    served[at].add(run_pb.step_id)
                case EndAsked(step_id) | LoseAsked(step_id):
                    ended[at].add(step_id)
                case CancelRun(step_id):
                    served[at].discard(step_id)

    for at in (0, 1):
        carry_out(at, ends[at].greeted(pb.PeerHello()))
    for number in range(600):
        at = draw.randrange(2)
        stream = ends[at]
        match draw.randrange(6):
            case 0:
                made = offer(draw.randrange(9), f"{at};{number}", draw.randrange(1, 100_000))
                offered[at].add(made.key)
                carry_out(at, stream.offered(made))
            case 1 if due[at]:
                due[at] = False
                carry_out(at, [*stream.turn_ended(), *stream.later_came()])
            case 2:
                asked[at].add(number)
                carry_out(at, stream.asked(pb.PeerRun(step_id=number), float(number)))
            case 3 if served[at]:
                step_id = served[at].pop()
                carry_out(at, stream.run_ending())
                carry_out(at, stream.run_ended(step_id, None, is_over=draw.random() < 0.5))
            case _ if under_way[at]:
                carry_out(at, stream.received(under_way[at].pop(0)))
        stream.validate()
    for at in (0, 1):
        carry_out(at, ends[at].ended(None, 1000.0))
        ends[at].validate()
    for at in (0, 1):
        # Each value was taken, or can be asked for; what was taken and not told of is both.
        assert offered[at] == left[at] | taken[1 - at]
        assert ended[at] == asked[at]
