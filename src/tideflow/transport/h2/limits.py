"""What one connection may use, and how often a peer may do what costs it nothing.

Pings, settings, resets and empty frames make work without end for one side at no cost to the
other; each takes from a budget that fills up again with time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MIB = 1 << 20


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
      idle_frames, resets: budgets, in frames at once; a hundredth of it comes back each second.
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

    def take(self) -> bool:
        """Take one; False when none is left."""
        if self._left < 1:
            now_s = self._clock()
            self._left = min(self._most, self._left + (now_s - self._at_s) * self._most / 100)
            self._at_s = now_s
            if self._left < 1:
                return False
        self._left -= 1
        return True
