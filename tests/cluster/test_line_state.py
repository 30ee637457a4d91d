"""What one end of a line says and has said, decided without I/O: frames and events in, instructions
out."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tideflow.cluster.peers.line_state import (
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
    LineState,
    Offer,
    Send,
    Serve,
    TellEnd,
)
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.peer_frame import PeerFrame


@pytest.fixture
def line() -> Iterator[LineState]:
    made = opened()
    yield made
    made.validate()


def opened() -> LineState:
    line = LineState()
    line.is_open = True
    return line


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
    line = LineState()
    assert list(line.offered(offer())) == [FlushSoon()]
    assert list(line.turn_ended()) == []
    line.is_open = True
    assert [entry.rendezvous_key for entry in sent(line.flush()).tensor] == ["key"]


def test_one_flush_comes_for_all_that_is_offered_in_a_turn(line: LineState) -> None:
    assert list(line.offered(offer(key="a"))) == [FlushSoon()]
    assert list(line.offered(offer(key="b"))) == []
    assert [entry.rendezvous_key for entry in sent(line.turn_ended()).tensor] == ["a", "b"]
    assert list(line.offered(offer(key="c"))) == [FlushSoon()]
    line.flush()


def test_what_is_too_large_is_left_before_its_run_ends(line: LineState) -> None:
    large = offer(size=MOST_PUSHED_BYTES + 1)
    line.received(frame(run=[pb.PeerRun(step_id=7)]))
    line.offered(large)
    assert list(line.run_ending()) == [Leave(large)]
    message = sent(line.run_ended(7, None, is_over=False))
    assert [entry.ask for entry in message.tensor] == [True]
    assert not message.run_end[0].is_over


def test_a_frame_becomes_instructions_in_the_order_of_their_kinds(line: LineState) -> None:
    values = PeerFrame(pb.PeerFrame(hello=pb.PeerHello(task="/job:ps")))
    values.add(7, "value", np.float32(3), False)
    values.message.tensor.add(step_id=8, rendezvous_key="large", ask=True)
    values.message.run.add(step_id=9)
    values.message.over_step.append(6)
    found = line.received(PeerFrame.FromString(values.SerializeToString()))
    greet, advise, accept, serve, clean_up = found
    assert isinstance(greet, Greet)
    assert isinstance(accept, Accept)
    assert accept.entries == [(0, 7, "value", 3.0, False)]
    assert advise == Advise(8, "large")
    assert isinstance(serve, Serve)
    assert clean_up == CleanUp(6)
    assert list(line.received(frame(given_up_step=[9, 10]))) == [CancelRun(9)]
    # What was seen is told with the next news.
    assert sent(line.run_ended(9, None, is_over=True)).seen_count == 2


def test_a_first_frame_without_hello_is_refused(line: LineState) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="no hello"):
        line.received(PeerFrame())


def test_a_step_that_is_over_there_is_not_told_of(line: LineState) -> None:
    line.asked(pb.PeerRun(step_id=7), 0.0)
    ends = line.received(frame(run_end=[pb.PeerRunEnd(step_id=7, is_over=True)]))
    assert list(ends)[1:] == [EndAsked(7, None)]
    assert list(line.step_over(7)) == []
    (later,) = line.step_over(8)
    assert isinstance(later, FlushLater)
    assert list(line.step_over(9)) == []
    assert list(sent(line.later_came()).over_step) == [8, 9]


def test_the_end_gives_values_back_first_and_tells_runs_how_long_they_were(
    line: LineState,
) -> None:
    under_way, waiting = offer(key="under way"), offer(key="waiting")
    line.offered(under_way)
    line.turn_ended()
    line.offered(waiting)
    line.received(frame(run=[pb.PeerRun(step_id=3)]))
    line.asked(pb.PeerRun(step_id=5), 1.0)
    error = errors.UnavailableError("gone")
    *first, cancel, end = line.ended(error, 3.5)
    assert first == [Leave(under_way), Leave(waiting), TellEnd(error)]
    assert cancel == CancelRun(3)
    assert isinstance(end, EndAsked)
    assert str(end.error) == "gone (step 5 was asked for 2.50 s ago)"
    assert list(line.offered(waiting)) == [Leave(waiting)]
    assert list(line.run_ended(3, None, is_over=True)) == []


@pytest.mark.parametrize("seed", range(10))
def test_two_ends_in_any_order_lose_no_value_and_no_run(seed: int) -> None:
    """Frames travel in order in each direction, at any pace; then the line is cut."""
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
                case Leave(one_offer):
                    left[at].add(one_offer.key)
                case Accept(entries):
                    for entry_number, _, key, _, _ in entries:
                        if draw.random() < 0.1:
                            carry_out(at, ends[at].refused(entry_number))
                        else:
                            taken[at].add(key)
                case Serve(run_pb):
                    served[at].add(run_pb.step_id)
                case EndAsked(step_id):
                    ended[at].add(step_id)
                case CancelRun(step_id):
                    served[at].discard(step_id)

    for at in (0, 1):
        carry_out(at, ends[at].greeted(pb.PeerHello()))
    for number in range(600):
        at = draw.randrange(2)
        line = ends[at]
        match draw.randrange(6):
            case 0:
                made = offer(draw.randrange(9), f"{at};{number}", draw.randrange(1, 100_000))
                offered[at].add(made.key)
                carry_out(at, line.offered(made))
            case 1 if due[at]:
                due[at] = False
                carry_out(at, [*line.turn_ended(), *line.later_came()])
            case 2:
                asked[at].add(number)
                carry_out(at, line.asked(pb.PeerRun(step_id=number), float(number)))
            case 3 if served[at]:
                step_id = served[at].pop()
                carry_out(at, line.run_ending())
                carry_out(at, line.run_ended(step_id, None, is_over=draw.random() < 0.5))
            case _ if under_way[at]:
                carry_out(at, line.received(under_way[at].pop(0)))
        line.validate()
    for at in (0, 1):
        carry_out(at, ends[at].ended(None, 1000.0))
        ends[at].validate()
    for at in (0, 1):
        # Each value was taken, or can be asked for; what was taken and not told of is both.
        assert offered[at] == left[at] | taken[1 - at]
        assert ended[at] == asked[at]
