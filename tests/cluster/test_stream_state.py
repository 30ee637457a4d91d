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
    Close,
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


def written(
    stream: StreamState, instructions: Sequence[Any], most_bytes: int
) -> tuple[list[pb.PeerFrame], list[Any]]:
    """Return the frames that are small enough to be sent, and what else is to be done."""
    frames: list[pb.PeerFrame] = []
    others: list[Any] = []
    for one in instructions:
        if not isinstance(one, Send):
            others.append(one)
            continue
        size = len(one.frame.SerializeToString())
        if size <= most_bytes:
            frames.append(one.frame.message)
            continue
        error = errors.ResourceExhaustedError(f"{size} bytes, at most {most_bytes}")
        more, rest = written(stream, stream.unsent(one, error), most_bytes)
        frames += more
        others += rest
    return frames, others


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


def test_what_is_too_large_for_one_frame_goes_in_several(stream: StreamState) -> None:
    offers = [offer(key=str(i), size=1000) for i in range(7)]
    stream.received(frame(run=[pb.PeerRun(step_id=7)]))
    for one in offers:
        stream.offered(one)
    stream.run_ending()
    stream.refused(0)
    frames, others = written(stream, stream.run_ended(7, None, is_over=True), 2500)
    assert others == []
    assert len(frames) > 3
    assert [list(one.refused) for one in frames] == [[0], *[[]] * (len(frames) - 1)]
    assert [entry.rendezvous_key for one in frames for entry in one.tensor] == list("0123456")
    assert [end.step_id for one in frames for end in one.run_end] == [7]
    assert frames[-1].run_end
    # All is known that was sent, each under its number.
    stream.received(frame(seen_count=7, refused=[5]))
    assert not stream.has_unseen(7)


def test_a_value_that_fits_into_no_frame_is_left_to_be_asked_for_and_the_rest_goes(
    stream: StreamState,
) -> None:
    large = offer(step_id=8, key="large", size=5000)
    for one in (offer(key="a"), large, offer(key="b")):
        stream.offered(one)
    stream.step_over(5)
    frames, others = written(stream, stream.turn_ended(), 1000)
    assert others == [Leave(large)]
    entries = [entry for one in frames for entry in one.tensor]
    assert [(entry.rendezvous_key, entry.ask) for entry in entries] == [
        ("a", False), ("large", True), ("b", False),
    ]  # fmt: skip
    assert [list(one.over_step) for one in frames if one.over_step] == [[5]]
    assert stream.has_unseen(7)
    assert not stream.has_unseen(8)
    # The numbers are those that the peer counts.
    (refused,) = stream.received(frame(refused=[2], seen_count=3))[1:]
    assert isinstance(refused, Leave)
    assert refused.offer.key == "b"


def test_a_value_of_a_forgotten_step_that_fits_into_no_frame_is_kept_until_the_peer_has_it(
    stream: StreamState,
) -> None:
    large = offer(key="large", size=5000)
    stream.received(frame(run=[pb.PeerRun(step_id=7)]))
    stream.offered(large)
    stream.run_ending()
    frames, others = written(stream, stream.run_ended(7, None, is_over=True), 1000)
    assert others == [TakeBack(large)]
    assert [entry.ask for one in frames for entry in one.tensor] == [True]
    # So that the peer says when it is over.
    assert [end.is_over for one in frames for end in one.run_end] == [False]


def test_a_run_that_fits_into_no_frame_fails_and_no_other_does(stream: StreamState) -> None:
    small, large = pb.PeerRun(step_id=7), pb.PeerRun(step_id=8, component=bytes(5000))
    stream.is_open = False
    stream.asked(small, 0.0)
    stream.asked(large, 0.0)
    stream.is_open = True
    frames, others = written(stream, stream.flush(), 1000)
    assert [run.step_id for one in frames for run in one.run] == [7]
    (end,) = others
    assert isinstance(end, EndAsked)
    assert end.step_id == 8
    assert isinstance(end.error, errors.ResourceExhaustedError)
    assert "bytes, at most 1000" in str(end.error)
    (_, lost) = stream.ended(None, 1.0)
    assert isinstance(lost, LoseAsked)
    assert lost.step_id == 7


def test_an_end_that_fits_into_no_frame_is_told_as_that(stream: StreamState) -> None:
    stream.received(frame(run=[pb.PeerRun(step_id=7)]))
    error = errors.NotFoundError("no such thing; " + 5000 * "x", payloads={"type/x": b"1"})
    stream.offered(offer())
    frames, others = written(stream, stream.run_ended(7, error, is_over=False), 1000)
    assert others == []
    assert [len(one.tensor) for one in frames] == [1, 0]
    (end_pb,) = frames[1].run_end
    assert (end_pb.step_id, end_pb.code) == (7, errors.RESOURCE_EXHAUSTED)
    assert "bytes, at most 1000" in end_pb.message
    assert "no such thing" in end_pb.message


@pytest.mark.parametrize("say", [
    lambda stream: stream.greeted(pb.PeerHello(task=5000 * "x")),
    lambda stream: stream.run_ended(7, errors.NotFoundError(""), is_over=False),
    lambda stream: [*stream.step_over(1), *stream.later_came()][1:],
    lambda stream: [*stream.offered(offer(key=5000 * "x")), *stream.turn_ended()][1:],
])  # fmt: skip
def test_a_stream_that_cannot_say_a_thing_ends(stream: StreamState, say: Any) -> None:
    _, others = written(stream, say(stream), 8)
    assert isinstance(others[-1], Close)
    assert isinstance(others[-1].error, errors.ResourceExhaustedError)
    frames, others = written(stream, stream.ended(others[-1].error, 0.0), 8)
    assert frames == []
    assert isinstance(others[-1], TellEnd)


def test_nothing_that_cannot_be_written_holds_up_the_rest(stream: StreamState) -> None:
    class Bad:
        dtype = np.dtype(np.float32)
        shape = (2,)

        def __array__(self, *args: object, **kwargs: object) -> Any:
            raise ValueError("gone")

    bad = Offer(7, None, "bad", Bad(), False, 0)
    nameless = offer(key="\udce9")
    for one in (bad, nameless, offer(key="good")):
        stream.offered(one)
    *left, send = stream.turn_ended()
    assert left == [Leave(bad), Leave(nameless)]
    entries = sent([send]).tensor
    assert [(entry.rendezvous_key, entry.ask) for entry in entries] == [
        ("bad", True), ("good", False),
    ]  # fmt: skip
    stream.received(frame(run=[pb.PeerRun(step_id=9)]))
    error = errors.NotFoundError("no file caf\udce9")
    (end_pb,) = sent(stream.run_ended(9, error, is_over=False)).run_end
    assert (end_pb.code, end_pb.message) == (errors.NOT_FOUND, "no file caf?")


@pytest.mark.parametrize("seed", range(10))
def test_two_ends_in_any_order_lose_no_value_and_no_run(seed: int) -> None:
    """Frames travel in order in each direction, at any pace, and some cannot be written; then the
    stream is cut."""
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

    def can_be_apart(sent_frame: PeerFrame) -> bool:
        """Whether it can be said in another way."""
        message = sent_frame.message
        pushed = any(not entry.ask for entry in message.tensor)
        return pushed or bool(message.run) or sent_frame.halves() is not None

    def carry_out(at: int, instructions: Sequence[Any]) -> None:
        for one in instructions:
            match one:
                case Send(sent_frame) if can_be_apart(sent_frame) and draw.random() < 0.3:
                    unsent = ends[at].unsent(one, errors.ResourceExhaustedError("too large"))
                    carry_out(at, unsent)
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
