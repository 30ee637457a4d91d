"""What one worker knows of another as a tideflow peer: decided without I/O.

Rule 1: nobody waits for a stream; until there is one, and always with plain peers, the protocol of
        TensorFlow does.  A value that is pushed meanwhile ends the question for it.
Rule 2: a consumer that waits for long asks after all: so a lost value, a producer that does not
        push, and one that is dead are all found out, by the answer to a plain question.
Rule 3: when two workers open streams to each other at the same time, the one of the worker that is
        named first stays.

Events come in as calls, with the time; out come instructions, which the caller carries out in their
order.  The caller owns streams, timers and whoever waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

# How long a consumer waits to be given a value before it asks.  Well below the second within which
# a dead producer must be noticed, well above the time of a step that is of interest.
ASK_AFTER_S = 0.2
# From one that is heard of meanwhile, it waits longer.
ASK_BUSY_AFTER_S = 2.0
# A value made before the stream was there stays with its producer: the first steps ask.
SETTLE_S = 0.05

# When a stream is tried again with a plain peer, and with one that could not be reached.
PLAIN_S = 30.0
RETRY_S = 0.1

# Looks are not closer together than that.
_SOON_S = 0.001

L = TypeVar("L")
W = TypeVar("W")


class Open(NamedTuple):
    """Begin to open a stream; call `use` or `ended` with what comes of it."""


class Close(NamedTuple, Generic[L]):
    """Close a stream that is used no longer."""

    stream: L


class SettleAfter(NamedTuple, Generic[L]):
    """Call `settled` with the stream after a while."""

    delay_s: float
    stream: L


class LookAfter(NamedTuple):
    """Call `looked` after a while."""

    delay_s: float


class LookNoMore(NamedTuple):
    """Forget the call of `looked` that is to come."""


class Ask(NamedTuple, Generic[W]):
    """Let a consumer ask for its value; `forget` need not be called for it."""

    wait: W


class TellLost(NamedTuple):
    """Tell that the stream in use has ended."""


class PeerState(Generic[L, W]):
    """What is known of one peer.

    L is what stands for a stream, W for a consumer's wait; both are compared by identity.

    Attributes:
      stream: the one in use, or None.
      pushes: whether values come without being asked for.
      is_opening: whether this worker is opening a stream.
    """

    def __init__(self) -> None:
        self.stream: L | None = None
        self.pushes = False
        self.is_opening = False
        self._is_closed = False
        self._retry_at_s = 0.0
        # Waits in the order of their beginnings, with these.
        self._waits: dict[W, float] = {}
        self._is_look_due = False
        # How many frames had come when it was last looked at who waits.
        self._last_count = 0

    # ---- the stream

    def wanted(self, now_s: float) -> Sequence[Open]:
        """Something is wanted of the peer for which a stream would be of use."""
        if (
            self.stream is not None
            or self.is_opening
            or self._is_closed
            or now_s < self._retry_at_s
        ):
            return ()
        self.is_opening = True
        return (Open(),)

    def keeps_own(self, own_task: str, task: str) -> bool:
        """Whether a stream that the peer opens is refused for the one that this worker opens."""
        return self.is_opening and own_task < task

    def use(self, stream: L, is_own: bool) -> Sequence[Close[L] | SettleAfter[L]]:
        """The peer has said hello on a stream, which takes the place of an older one.

        is_own: whether this worker has opened it.
        """
        if is_own:
            self.is_opening = False
        older, self.stream = self.stream, stream
        settle = SettleAfter(SETTLE_S, stream)
        return (settle,) if older is None else (Close(older), settle)

    def settled(self, stream: L) -> None:
        """Whatever the peer made before it knew of the stream is asked for by now."""
        self.pushes = self.pushes or self.stream is stream

    def opening_ended(self, is_plain: bool, now_s: float) -> None:
        """The stream that this worker was opening, or has opened, has ended.

        is_plain: whether the peer does not know what it is.
        """
        self.is_opening = False
        self._retry_at_s = now_s + (PLAIN_S if is_plain else RETRY_S)

    def ended(self, stream: L) -> Sequence[LookNoMore | Ask[W] | TellLost]:
        """A stream has ended; whoever waits for what comes on it asks."""
        if self.stream is not stream:
            return ()
        self.stream = None
        self.pushes = False
        asks = self._end_waits()
        return asks if self._is_closed else (*asks, TellLost())

    def closed(self) -> Sequence[Close[L] | LookNoMore | Ask[W]]:
        """This worker wants nothing more of the peer."""
        self._is_closed = True
        closes = () if self.stream is None else (Close(self.stream),)
        return (*closes, *self._end_waits())

    # ---- waits

    def wait_began(self, wait: W, now_s: float) -> Sequence[LookAfter]:
        """A consumer waits to be given a value."""
        self._waits[wait] = now_s
        if self._is_look_due:
            return ()
        self._is_look_due = True
        return (LookAfter(ASK_AFTER_S),)

    def forget(self, wait: W) -> None:
        """A consumer waits no longer."""
        self._waits.pop(wait, None)

    def looked(self, now_s: float, received_count: int) -> Sequence[Ask[W] | LookAfter]:
        """Time has passed: who has waited for long asks.

        received_count: how many frames have come on the stream.
        """
        self._is_look_due = False
        # Who gets frames from the producer knows that it is alive; it may have much to do.
        is_silent = received_count == self._last_count
        limit_s = ASK_AFTER_S if is_silent else ASK_BUSY_AFTER_S
        self._last_count = received_count
        instructions: list[Ask[W] | LookAfter] = []
        for wait, since_s in list(self._waits.items()):
            left_s = min(since_s + limit_s - now_s, ASK_AFTER_S)
            if left_s > _SOON_S:
                self._is_look_due = True
                instructions.append(LookAfter(left_s))
                break
            del self._waits[wait]
            instructions.append(Ask(wait))
        return instructions

    def _end_waits(self) -> tuple[LookNoMore | Ask[W], ...]:
        waits, self._waits = self._waits, {}
        looks = (LookNoMore(),) if self._is_look_due else ()
        self._is_look_due = False
        return (*looks, *map(Ask, waits))

    # ---- checks

    def validate(self) -> None:
        """Check that all that is known fits together.  Raises: AssertionError."""
        assert self.stream is not None or not self.pushes, "values come without a stream"
        assert self._is_look_due or not self._waits, "nobody is going to look who waits"
        since = list(self._waits.values())
        assert since == sorted(since), "waits are out of order"
        assert not (self._is_closed and self._waits), "waits of a closed peer"
