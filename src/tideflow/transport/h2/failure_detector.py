"""Whether a silent peer is waited for or given up; decides from facts, and does no I/O.

A process that ends is known at once: its kernel closes its connections.  What is left to find out
is why a peer says nothing.  It may be stopped, swapping, tracing, or share its processor with too
many others: then it is waited for, however long that takes.  Or its host, or the way there, is
gone.  The kernels tell the two apart: a host acknowledges what arrives there whatever its processes
do.

Rule 1: where the kernel can tell, it alone decides.  Whether the process answers only decides what
        is logged.
Rule 2: where it cannot tell, a tideflow peer that does not answer pings is given up after a time,
        and another one after an unanswered ping.  Others are pinged seldom: TensorFlow's servers
        hang up on clients that ping more than once in five minutes.
Rule 3: looks are counted, not seconds: a process that was itself stopped for a while has not
        listened, and must not blame its peer.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

# How many looks in a row make up the time that a peer may be silent.
LOOKS = 20
# After so many looks without a word from a peer that owes an answer, it is said that it is slow.
_SLOW_LOOKS = LOOKS // 2
# How often a kernel must have asked in vain before the way is taken to be gone.  While the peer's
# buffers are full, it asks seldom, and one lost answer must not count.
_LEAST_ASKED = 3


class Evidence(enum.Enum):
    """What the kernel knows of the peer of a connection."""

    NONE = "it cannot tell"
    ALIVE = "the peer's host answers, or its process is there"
    CUT_OFF = "the peer's host does not answer"
    ENDED = "the peer's process has ended"


@dataclass(frozen=True, slots=True)
class TcpFacts:
    """What a kernel says of a TCP connection (`struct tcp_info` of Linux).

    Attributes:
      unacknowledged: segments that were sent and not acknowledged.
      asked: retransmissions, and questions for room, since the last acknowledgement of new data.
      received: segments that have come from the peer in all, empty ones too.
    """

    unacknowledged: int
    asked: int
    received: int


class TcpPath:
    """Judges one TCP connection by what its kernel says from look to look."""

    __slots__ = ("_asked_before", "_received", "_unanswered_looks")

    def __init__(self) -> None:
        self._received = -1
        self._asked_before = 0
        self._unanswered_looks = 0

    def note(self, facts: TcpFacts) -> Evidence:
        """Return what follows from the facts and those of earlier looks."""
        if not facts.received:
            return Evidence.NONE  # a connection begins with a segment: this kernel does not count
        if facts.received != self._received:
            self._received = facts.received
            self._asked_before = facts.asked
            self._unanswered_looks = 0
            return Evidence.ALIVE
        self._asked_before = min(self._asked_before, facts.asked)
        if not facts.unacknowledged and not facts.asked:
            self._unanswered_looks = 0
            return Evidence.ALIVE
        self._unanswered_looks += 1
        is_sure = facts.asked - self._asked_before >= _LEAST_ASKED
        is_over = self._unanswered_looks > LOOKS and is_sure
        return Evidence.CUT_OFF if is_over else Evidence.ALIVE

    def validate(self) -> None:
        """Raise AssertionError where the state contradicts itself."""
        assert self._unanswered_looks >= 0
        assert self._asked_before >= 0


@dataclass(frozen=True, slots=True)
class Look:
    """A look at the peer, while calls are in flight.

    Attributes:
      has_heard: whether anything came from the peer since the last look.
      evidence: what the kernel knows.
    """

    has_heard: bool
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Ping:
    """Ask the peer for a sign of life."""


@dataclass(frozen=True, slots=True)
class TellSlow:
    """Say that the peer is waited for.

    Attributes:
      silent_s: for how long it has been silent.
    """

    silent_s: float


@dataclass(frozen=True, slots=True)
class TellBack:
    """Say that the peer, of which it was said that it is slow, answers again."""

    silent_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End the connection.

    Attributes:
      reason: for messages.
    """

    reason: str


Instruction: TypeAlias = Ping | TellSlow | TellBack | GiveUp


class FailureDetector:
    """Decides what to do about the silence of one peer.

    Args:
      silence_s: how long a peer may be silent that can be given up.
      plain_s: how long one that is no tideflow may be silent before it is pinged, where the kernel
        cannot tell.
      ping_s: how long it may take to answer then.
    Attributes:
      is_tideflow: whether the peer said that it answers pings, however many.
    """

    __slots__ = (
        "_can_tell", "_ping_s", "_plain_s", "_silence_s", "_silent_looks", "_tell_at",
        "is_tideflow",
    )  # fmt: skip

    def __init__(self, silence_s: float, plain_s: float, ping_s: float) -> None:
        self.is_tideflow = False
        self._silence_s = silence_s
        self._plain_s = plain_s
        self._ping_s = ping_s
        self._can_tell = True
        self._silent_looks = 0
        self._tell_at = _SLOW_LOOKS

    @property
    def next_s(self) -> float:
        """In what time to look again."""
        if self._can_tell or self.is_tideflow:
            return self._silence_s / LOOKS
        return self._ping_s if self._silent_looks else self._plain_s

    @property
    def _silent_s(self) -> float:
        return self._silent_looks * self._silence_s / LOOKS

    def look(self, event: Look) -> list[Instruction]:
        """Take note of a look, and say what to do."""
        self._can_tell = event.evidence is not Evidence.NONE
        if event.has_heard:
            return self._heard()
        self._silent_looks += 1
        reason = self._reason_to_give_up(event.evidence)
        if reason:
            return [GiveUp(reason)]
        found: list[Instruction] = []
        if self._silent_looks == 1 and (self.is_tideflow or not self._can_tell):
            found.append(Ping())
        # Others owe no signs of life, so that nobody knows whether they are slow.
        if self.is_tideflow and self._silent_looks == self._tell_at:
            self._tell_at *= 2
            found.append(TellSlow(self._silent_s))
        return found

    def _heard(self) -> list[Instruction]:
        was_told, silent_s = self._tell_at > _SLOW_LOOKS, self._silent_s
        self.rest()
        return [TellBack(silent_s)] if was_told else []

    def _reason_to_give_up(self, evidence: Evidence) -> str:
        if evidence is Evidence.ALIVE:
            return ""
        if evidence is Evidence.ENDED:
            return "the peer's process has ended"
        if evidence is Evidence.CUT_OFF:
            return f"the peer's host has acknowledged nothing for {self._silence_s:g} s"
        if self.is_tideflow:
            is_over = self._silent_looks > LOOKS
            return f"nothing came from the peer for {self._silence_s:g} s" if is_over else ""
        is_over = self._silent_looks > 1
        return f"the peer did not answer a ping within {self._ping_s:g} s" if is_over else ""

    def rest(self) -> None:
        """Begin anew: nothing is owed any more."""
        self._silent_looks = 0
        self._tell_at = _SLOW_LOOKS

    def validate(self) -> None:
        """Raise AssertionError where the state contradicts itself."""
        assert self._silent_looks >= 0
        assert self._tell_at >= _SLOW_LOOKS
        assert self._silent_looks < self._tell_at or not self.is_tideflow
