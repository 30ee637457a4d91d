"""What one connection may use, and how often a peer may do what costs it nothing.

Pings, settings, resets and empty frames make work without end for one side at no cost to the
other; each takes from a budget that fills up again with time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MIB = 1 << 20
_MOST_PEERS = 256


@dataclass(frozen=True, slots=True)
class Limits:
    """What we grant a peer.

    Attributes:
      max_frame_bytes: largest DATA frame.
      stream_window_bytes, connection_window_bytes: DATA on the way that we have room for.
      max_streams: calls at once.  Waiting calls of a step block each other when there are too few,
        so it only guards memory.
      max_header_list_bytes: names and values of one block, decoded.
      max_header_block_bytes: one block as it travels.
      max_continuations: frames that one block may be cut into.
      idle_frames, resets, pieces: budgets, in frames at once; a hundredth of it comes back each
        second.  Pieces are frames that bring little of a message, and do not end it.
      most_control_bytes: answers to control frames that wait since the peer does not read.
      most_unsent_bytes: whole answers that wait for the peer; beyond it, its next calls wait too.
      greeting_s: how long a peer may take to say that it speaks HTTP/2.
      watch_s: how often a connection is looked at; a peer that has stopped within a frame for two
        such times, or took no data for five, is given up.
    """

    max_frame_bytes: int = MIB
    stream_window_bytes: int = 16 * MIB
    connection_window_bytes: int = 1024 * MIB
    max_streams: int = 1 << 16
    max_header_list_bytes: int = 64 * 1024
    max_header_block_bytes: int = 64 * 1024
    max_continuations: int = 64
    idle_frames: int = 10_000
    resets: int = 20_000
    pieces: int = 100_000
    most_control_bytes: int = MIB
    most_unsent_bytes: int = 1024 * MIB
    greeting_s: float = 20.0
    watch_s: float = 60.0


class Budget:
    """Counts something down that comes back at a steady rate."""

    __slots__ = ("_at_s", "_clock", "_left", "_most")

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._left = float(most)
        self._clock = clock
        self._at_s = clock()

    def take(self, count: int = 1) -> bool:
        """Take so many; False when there are not so many."""
        if self._left < count:
            now_s = self._clock()
            self._left = min(self._most, self._left + (now_s - self._at_s) * self._most / 100)
            self._at_s = now_s
            if self._left < count:
                return False
        self._left -= count
        return True

    @property
    def is_whole(self) -> bool:
        """Whether all that was taken has come back by now."""
        return self._left + (self._clock() - self._at_s) * self._most / 100 >= self._most


@dataclass(frozen=True, slots=True)
class Budgets:
    """What a peer may do that costs it nothing.

    Attributes:
      idle_frames: frames that make us work for nothing.
      resets: streams that end early.
      pieces: small pieces of messages.
    """

    idle_frames: Budget
    resets: Budget
    pieces: Budget

    @classmethod
    def of(cls, limits: Limits, clock: Callable[[], float]) -> Budgets:
        """Return those of one peer, whole."""
        made = (Budget(each, clock) for each in (limits.idle_frames, limits.resets, limits.pieces))
        return cls(*made)

    @property
    def are_whole(self) -> bool:
        """Whether all that was taken has come back by now."""
        return self.idle_frames.is_whole and self.resets.is_whole and self.pieces.is_whole


class BudgetsByPeer:
    """Budgets that a peer finds as it left them, however often it connects."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._known: dict[str, Budgets] = {}

    def of(self, peer: str) -> Budgets:
        """Return those of a peer."""
        if len(self._known) >= _MOST_PEERS:
            # Whole ones are as good as new ones.
            self._known = {one: its for one, its in self._known.items() if not its.are_whole}
        found = self._known.get(peer)
        if found is None:
            found = self._known[peer] = Budgets.of(self._limits, self._clock)
        return found
