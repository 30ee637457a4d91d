"""What one end of a stream between two workers says, and what it has said: decided without I/O.

Rule 1: what the peer has not seen yet when the stream ends, and what it refuses, goes back to where
        it can be asked for.
Rule 2: what may be on its way is bounded; beyond it, and above a size, the peer is told to ask.
Rule 3: runs that were asked for are lost when the stream ends, and those that the peer asked for
        are left for it to join in another way.
Rule 4: a frame that cannot be written goes in several; of one entry that cannot go by itself,
        whoever waits for it hears.  A value is then to be asked for, where the error is met again;
        a run, or its end, fails with the error; without anything else the stream ends.

Events come in as calls; out come instructions, which the caller carries out in their order.  The
caller owns the messages, timers, tasks and futures, and what values are offered from.
Source: tideflow/wire/proto/peer.proto
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.peer_frame import PeerFrame
from tideflow.wire.tensor_codec import Value

# Larger tensors are asked for: a question more does not count beside their transfer.
MOST_PUSHED_BYTES = 4 << 20
MOST_UNSEEN_BYTES = 32 << 20
_OVERHEAD_BYTES = 256

# What the peer is told of having been seen rides along with other news, until it is so much.
_MOST_OWED_BYTES = 256 * 1024
_MOST_OWED_COUNT = 256

# How long the word that a step is over waits for company.
_OVER_S = 0.002
_MOST_OVER_HERE = 10_000
# How much of an error is told that is too long for a message.
_MOST_TOLD = 200


class Offer(NamedTuple):
    """A value on its way; local is where it is to wait if it cannot go.

    size_bytes: as how many bytes it counts: strings count as more than they have, since each takes
    time on the loop.
    """

    step_id: int
    local: Any
    key: str
    value: Value
    is_dead: bool
    size_bytes: int


# ---- instructions


class Send(NamedTuple):
    """Send a frame; call `unsent` where it cannot be written.

    Attributes:
      first: the number of its first tensor.
    """

    frame: PeerFrame
    first: int


class FlushSoon(NamedTuple):
    """Call `flush` when this turn of the loop is over."""


class FlushLater(NamedTuple):
    """Call `flush` after a while."""

    delay_s: float


class Leave(NamedTuple):
    """Put a value where the peer can ask for it."""

    offer: Offer


class TakeBack(NamedTuple):
    """Keep a value to be asked for, of a step that this worker has forgotten already."""

    offer: Offer


class Greet(NamedTuple):
    """Hear who the peer is."""

    hello: pb.PeerHello


# A value as it comes: its number on the stream, step, key, what it is, and whether it is dead.
Entry: TypeAlias = tuple[int, int, str, Value, bool]


class Accept(NamedTuple):
    """Take in values; call `refused` with the number of one that is not wanted."""

    entries: list[Entry]


class Advise(NamedTuple):
    """Note that the peer has a value, and is to be asked for it."""

    step_id: int
    key: str


class Serve(NamedTuple):
    """Begin a run; call `run_ending` and `run_ended` at its end."""

    run_pb: pb.PeerRun


class CancelRun(NamedTuple):
    """End a run that was started; nobody waits for its end."""

    step_id: int


class EndAsked(NamedTuple):
    """Tell who asked the peer for a run that it has ended, well or with an error."""

    step_id: int
    error: errors.OpError | None


class LoseAsked(NamedTuple):
    """Tell who asked the peer for a run that the stream has ended; the run may go on there."""

    step_id: int
    error: errors.OpError


class Unattend(NamedTuple):
    """A run is served whose end the peer cannot be told any more on this stream."""

    step_id: int


class CleanUp(NamedTuple):
    """Forget a step."""

    step_id: int


class TellEnd(NamedTuple):
    """Tell who owns the stream that it has ended."""

    error: errors.OpError | None


class Close(NamedTuple):
    """End the stream: what there is to say cannot be said on it."""

    error: errors.OpError


Instruction: TypeAlias = (
    Send | FlushSoon | FlushLater | Leave | TakeBack | Greet | Accept | Advise | Serve | CancelRun
    | EndAsked | LoseAsked | Unattend | CleanUp | TellEnd | Close
)  # fmt: skip
NOTHING: Sequence[Instruction] = ()
_FLUSH_SOON: Sequence[Instruction] = (FlushSoon(),)
_FLUSH_LATER: Sequence[Instruction] = (FlushLater(_OVER_S),)


class StreamState:
    """One end of a stream.

    Attributes:
      is_open: whether the messages is there; what there is to say waits for that.
      has_ended: whether nothing more can be said.
    """

    def __init__(self) -> None:
        self.is_open = False
        self.has_ended = False
        self._has_hello = False
        # The next frame, the number of its first tensor, and whether there is anything in it.
        self._frame = PeerFrame()
        self._frame_first = 0
        self._has_news = False
        self._is_flush_due = False
        self._is_later_flush_due = False
        self._offers: list[Offer] = []
        # What was sent and not seen so far; None for what the peer was told to ask for.
        self._unseen: deque[Offer | None] = deque()
        self._unseen_steps: dict[int, int] = {}
        self._seen_count = 0
        self._unseen_bytes = 0
        self._tensor_count = 0
        self._owed_count = self._owed_bytes = 0
        # Runs that the peer was asked for, with the time.
        self._asked: dict[int, float] = {}
        self._served: set[int] = set()
        self._over_there: set[int] = set()
        # Steps that this worker has forgotten while values of theirs are on their way.
        self._over_unseen: set[int] = set()

    # ---- tensors

    def offered(self, offer: Offer) -> Sequence[Instruction]:
        """A value was made that the peer is to be given."""
        if self.has_ended:
            return (Leave(offer),)
        self._offers.append(offer)
        return self._flush_soon()

    def _write_offers(self) -> list[Instruction]:
        frame = self._frame
        steps = self._unseen_steps
        offers, self._offers = self._offers, []
        self._has_news = True
        left: list[Instruction] = []
        for offer in offers:
            size_bytes = offer.size_bytes + _OVERHEAD_BYTES
            if (
                offer.size_bytes <= MOST_PUSHED_BYTES
                and self._unseen_bytes + size_bytes <= MOST_UNSEEN_BYTES
                and _add_to(frame, offer)
            ):
                self._unseen_bytes += size_bytes
                self._unseen.append(offer)
                steps[offer.step_id] = steps.get(offer.step_id, 0) + 1
                continue
            left.append(Leave(offer))
            # What has no key that can be sent cannot be asked for, either.
            if _add_word(frame, offer):
                self._unseen.append(None)
        return left

    def has_unseen(self, step_id: int) -> bool:
        """Whether tensors of a step are on their way, for all that is known."""
        return step_id in self._unseen_steps or bool(self._offers)

    def refused(self, number: int) -> Sequence[Instruction]:
        """A value that the peer has pushed is not wanted."""
        if self.has_ended:
            return NOTHING
        self._frame.message.refused.append(number)
        return self._flush_soon()

    # ---- runs

    def asked(self, run_pb: pb.PeerRun, now_s: float) -> Sequence[Instruction]:
        """The peer is to run something; the stream must not have ended."""
        self._asked[run_pb.step_id] = now_s
        self._frame.message.run.append(run_pb)
        self._has_news = True
        return self.flush()

    def given_up(self, step_id: int) -> Sequence[Instruction]:
        """Nobody waits for a run any more that the peer was asked for."""
        if self._asked.pop(step_id, None) is None:
            return NOTHING
        self._frame.message.given_up_step.append(step_id)
        return self._flush_soon()

    def step_over(self, step_id: int) -> Sequence[Instruction]:
        """A step is over for all tasks; the peer may have found that by itself."""
        if step_id in self._over_there:
            self._over_there.discard(step_id)
            return NOTHING
        if self.has_ended:
            return NOTHING
        self._frame.message.over_step.append(step_id)
        self._has_news = True
        if self._is_later_flush_due:
            return NOTHING
        self._is_later_flush_due = True
        return _FLUSH_LATER

    def run_ending(self) -> Sequence[Instruction]:
        """A run for the peer has made all that it makes.

        What is too large to be pushed then stays in the step, which must be kept.
        """
        return self._write_offers() if self._offers and not self.has_ended else NOTHING

    def run_ended(
        self, step_id: int, error: errors.OpError | None, is_over: bool
    ) -> Sequence[Instruction]:
        """A run for the peer has ended; is_over: the step, too, of which nothing is left here."""
        self._served.discard(step_id)
        if self.has_ended:
            return NOTHING
        if error is None:
            self._frame.message.run_end.add(step_id=step_id, is_over=is_over)
            if is_over and step_id in self._unseen_steps:
                self._over_unseen.add(step_id)
        else:
            self._frame.message.run_end.append(_failed_end(step_id, error))
        self._has_news = True
        return self.flush()

    def run_dropped(self, step_id: int) -> None:
        """A run for the peer has ended, and nobody waits for that."""
        self._served.discard(step_id)

    # ---- frames out

    def greeted(self, hello: pb.PeerHello) -> Sequence[Instruction]:
        """This worker says who it is, first of all."""
        self._frame.message.hello.CopyFrom(hello)
        self._has_news = True
        return self.flush()

    def _flush_soon(self) -> Sequence[Instruction]:
        self._has_news = True
        if self._is_flush_due:
            return NOTHING
        self._is_flush_due = True
        return _FLUSH_SOON

    def turn_ended(self) -> Sequence[Instruction]:
        """The flush that was to come soon comes."""
        self._is_flush_due = False
        return self.flush()

    def later_came(self) -> Sequence[Instruction]:
        """The flush that was to come later comes."""
        self._is_later_flush_due = False
        return self.flush()

    def flush(self) -> Sequence[Instruction]:
        """Say what there is to say."""
        if self.has_ended or not self.is_open:
            return NOTHING
        instructions = self._write_offers() if self._offers else []
        if not self._has_news:
            return NOTHING
        frame, self._frame = self._frame, PeerFrame()
        self._has_news = False
        if self._owed_count:
            frame.message.seen_count = self._tensor_count
            self._owed_count = self._owed_bytes = 0
        first, self._frame_first = self._frame_first, self._seen_count + len(self._unseen)
        instructions.append(Send(frame, first))
        return instructions

    def unsent(self, send: Send, error: errors.OpError) -> Sequence[Instruction]:
        """A frame could not be written, for that reason, and nothing of it was sent."""
        if self.has_ended:
            return NOTHING
        frame, first = send
        message = frame.message
        for end_pb in message.run_end:
            # A value of the step may stay here after all: the peer is to say when it is over.
            end_pb.is_over = False
        halves = frame.halves()
        if halves is not None:
            one, other = halves
            return Send(one, first), Send(other, first + len(one.message.tensor))
        if message.tensor and not message.tensor[0].ask:
            return self._unpushed(first)
        if message.run:
            return self._unasked(message.run[0].step_id, error)
        if message.run_end:
            return self._untold(message.run_end[0], first, error)
        return (Close(error),)

    def _unpushed(self, number: int) -> Sequence[Instruction]:
        """A value cannot be pushed: let the peer ask for it, and meet the error."""
        at = number - self._seen_count
        offer = self._unseen[at]
        assert offer is not None
        self._unseen[at] = None
        leave = TakeBack(offer) if offer.step_id in self._over_unseen else Leave(offer)
        self._let_go(offer)
        frame = PeerFrame()
        _add_word(frame, offer)
        return leave, Send(frame, number)

    def _unasked(self, step_id: int, error: errors.OpError) -> Sequence[Instruction]:
        """The peer cannot be asked for a run."""
        if self._asked.pop(step_id, None) is None:
            return NOTHING
        return (EndAsked(step_id, error),)

    def _untold(
        self, end_pb: pb.PeerRunEnd, first: int, error: errors.OpError
    ) -> Sequence[Instruction]:
        """The peer cannot be told how a run has ended: it has failed with that, then."""
        frame = PeerFrame()
        text = f"{error.message} (of a run's end, which began: {end_pb.message[:_MOST_TOLD]})"
        told_pb = _failed_end(end_pb.step_id, error.with_message(text))
        if told_pb.ByteSize() >= end_pb.ByteSize():
            return (Close(error),)
        frame.message.run_end.append(told_pb)
        return (Send(frame, first),)

    # ---- frames in

    def received(self, frame: PeerFrame) -> Sequence[Instruction]:
        """A frame has come.  Raises: InvalidArgumentError where it is against the rules."""
        message = frame.message
        instructions: list[Instruction] = []
        if not self._has_hello:
            if not message.HasField("hello"):
                raise errors.InvalidArgumentError("the first frame of a stream has no hello")
            self._has_hello = True
            instructions.append(Greet(message.hello))
        if message.seen_count or message.refused:
            self._note_seen(message, instructions)
        if message.tensor:
            self._take_tensors(frame, instructions)
        for run_pb in message.run:
            self._served.add(run_pb.step_id)
            instructions.append(Serve(run_pb))
        for step_id in message.given_up_step:
            if step_id in self._served:
                instructions.append(CancelRun(step_id))
        for end_pb in message.run_end:
            self._end_asked(end_pb, instructions)
        instructions.extend(map(CleanUp, message.over_step))
        return instructions

    def _note_seen(self, message: pb.PeerFrame, instructions: list[Instruction]) -> None:
        """Let go of what the peer has seen; take back what it refuses."""
        unseen = self._unseen
        for number in message.refused:
            at = number - self._seen_count
            if 0 <= at < len(unseen):
                refused = unseen[at]
                if refused is not None:
                    instructions.append(Leave(refused))
        while self._seen_count < message.seen_count and unseen:
            self._seen_count += 1
            seen = unseen.popleft()
            if seen is not None:
                self._let_go(seen)

    def _let_go(self, offer: Offer) -> None:
        """A value is not on its way any more."""
        self._unseen_bytes -= offer.size_bytes + _OVERHEAD_BYTES
        left = self._unseen_steps.pop(offer.step_id) - 1
        if left:
            self._unseen_steps[offer.step_id] = left
        else:
            self._over_unseen.discard(offer.step_id)

    def _take_tensors(self, frame: PeerFrame, instructions: list[Instruction]) -> None:
        entries: list[Entry] = []
        for entry_pb in frame.message.tensor:
            step_id, key = entry_pb.step_id, entry_pb.rendezvous_key
            if entry_pb.ask:
                instructions.append(Advise(step_id, key))
            else:
                value = None if entry_pb.is_dead else frame.value(entry_pb)
                entries.append((self._tensor_count, step_id, key, value, entry_pb.is_dead))
            self._tensor_count += 1
            self._owed_count += 1
            self._owed_bytes += entry_pb.size
        if entries:
            instructions.append(Accept(entries))
        if self._owed_bytes > _MOST_OWED_BYTES or self._owed_count > _MOST_OWED_COUNT:
            instructions.extend(self._flush_soon())

    def _end_asked(self, end_pb: pb.PeerRunEnd, instructions: list[Instruction]) -> None:
        step_id = end_pb.step_id
        if self._asked.pop(step_id, None) is None:
            return
        error: errors.OpError | None = None
        if end_pb.code:
            error = errors.error_for_code(end_pb.code)(
                end_pb.message, code=end_pb.code, payloads=dict(end_pb.payloads)
            )
        elif end_pb.is_over:
            self._over_there.add(step_id)
            if len(self._over_there) > _MOST_OVER_HERE:  # nobody cleans up there
                self._over_there.clear()
        instructions.append(EndAsked(step_id, error))

    # ---- the end

    def ended(self, error: errors.OpError | None, now_s: float) -> Sequence[Instruction]:
        """The messages has ended."""
        self.has_ended = True
        # First of all, so that whoever asks instead of waiting finds no stream, but the values.
        instructions: list[Instruction] = [
            TakeBack(offer) if offer.step_id in self._over_unseen else Leave(offer)
            for offer in [*self._unseen, *self._offers]
            if offer is not None
        ]
        self._unseen.clear()
        self._unseen_steps.clear()
        self._over_unseen.clear()
        self._unseen_bytes = 0
        self._offers.clear()
        instructions.append(TellEnd(error))
        instructions.extend(map(Unattend, sorted(self._served)))
        reason = error or errors.UnavailableError("the peer has ended the connection")
        for step_id, asked_at_s in self._asked.items():
            text = f"{reason.message} (step {step_id} was asked for {now_s - asked_at_s:.2f} s ago)"
            instructions.append(LoseAsked(step_id, reason.with_message(text)))
        self._asked.clear()
        return instructions

    # ---- checks

    def validate(self) -> None:
        """Check that all that is known fits together.  Raises: AssertionError."""
        offers = [offer for offer in self._unseen if offer is not None]
        counts: dict[int, int] = {}
        for offer in offers:
            counts[offer.step_id] = counts.get(offer.step_id, 0) + 1
        assert counts == self._unseen_steps, (counts, self._unseen_steps)
        assert self._over_unseen <= counts.keys(), (counts, self._over_unseen)
        unseen_bytes = sum(offer.size_bytes + _OVERHEAD_BYTES for offer in offers)
        assert unseen_bytes == self._unseen_bytes <= MOST_UNSEEN_BYTES, unseen_bytes
        assert 0 <= self._owed_count <= self._tensor_count, (self._owed_count, self._tensor_count)
        assert len(self._over_there) <= _MOST_OVER_HERE, len(self._over_there)
        assert not (self.has_ended and (self._unseen or self._offers or self._asked)), "left behind"
        if self.is_open and not self.has_ended:
            assert not self._offers or self._is_flush_due, "offers that nobody is going to send"


def _add_to(frame: PeerFrame, offer: Offer) -> bool:
    """Add a value to a frame; False for one that cannot be written, as RecvTensor will say."""
    try:
        frame.add(offer.step_id, offer.key, offer.value, offer.is_dead)
    except Exception:
        return False
    return True


def _add_word(frame: PeerFrame, offer: Offer) -> bool:
    """Add the word that a value is to be asked for; False for a key that cannot be written."""
    try:
        frame.message.tensor.add(step_id=offer.step_id, rendezvous_key=offer.key, ask=True)
    except Exception:
        return False
    return True


def _failed_end(step_id: int, error: errors.OpError) -> pb.PeerRunEnd:
    """Return the end of a run with an error, as much of it as a message can hold."""
    code = error.error_code
    try:
        return pb.PeerRunEnd(
            step_id=step_id, code=code, message=error.message, payloads=error.payloads
        )
    except Exception:
        # Such as a file's name that is not UTF-8.
        text = error.message.encode(errors="replace").decode()
        return pb.PeerRunEnd(step_id=step_id, code=code, message=text)
