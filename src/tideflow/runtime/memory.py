"""Memory that large messages are received into, and that comes back by itself.

Large feeds that compiled code would not take as they lie are copied to it, too.

A message is viewed where it arrived, by arrays that live as long as somebody wants them.  When the
last of them is gone the memory serves another message of that size: fresh pages cost more than the
transfer, and the first ones of a process ten times that.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import Any, Generic, TypeVar

import numpy as np

# Compiled code takes arrays that begin at a multiple of this without a copy.
ALIGNMENT = 64

_HELD_BYTES = 256 << 20

T = TypeVar("T")

_Block = np.ndarray[Any, np.dtype[np.uint8]]


class FreeMemory(Generic[T]):
    """Pieces of memory that nobody uses, by size.

    A step repeats its sizes, so only equal sizes match.  What is held is bounded: the longest
    unused is given up first.  Any thread may call it.
    """

    def __init__(self, most_bytes: int = _HELD_BYTES) -> None:
        self._most_bytes = most_bytes
        self.reset()

    def reset(self) -> None:
        """Forget what lies here, and who is about to take of it."""
        self._held_bytes = 0
        self._free: OrderedDict[int, list[T]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, size: int) -> T | None:
        """Return a piece of exactly this size, with anything in it; None if there is none."""
        with self._lock:
            found = self._free.get(size)
            if not found:
                return None
            self._held_bytes -= size
            piece = found.pop()
            if not found:
                del self._free[size]
            return piece

    def give(self, size: int, piece: T, *, waits: bool = True) -> None:
        """Take a piece back to which nothing refers any more.

        waits: whether it is worth waiting for another thread that is within; if not, it is dropped.
        """
        if not self._lock.acquire(blocking=waits):
            return
        try:
            self._held_bytes += size
            self._free.setdefault(size, []).append(piece)
            self._free.move_to_end(size)
            while self._held_bytes > self._most_bytes:
                oldest, pieces = next(iter(self._free.items()))
                pieces.pop()
                self._held_bytes -= oldest
                if not pieces:
                    del self._free[oldest]
        finally:
            self._lock.release()

    @property
    def held_bytes(self) -> int:
        """How much memory lies here unused."""
        return self._held_bytes


class Lender:
    """Lends memory by size, which comes back by itself."""

    def __init__(self, most_bytes: int = _HELD_BYTES) -> None:
        self._blocks: FreeMemory[_Block] = FreeMemory(most_bytes)
        self.reset = self._blocks.reset

    def lend(self, size: int) -> memoryview:
        """Return aligned memory of exactly this size, with anything in it.

        It is lent until nothing views it any more.
        Raises: MemoryError when there is not so much.
        """
        block = self._blocks.take(size)
        if block is None:
            block = np.empty(size + ALIGNMENT, np.uint8)
        begin = -block.ctypes.data % ALIGNMENT
        # An array of its own stands between the block and all views: when it dies they are gone.
        # (A view of a view refers to the first array whose memory is no array's, which is this.)
        owner = np.frombuffer(block.data[begin : begin + size], np.uint8)
        weakref.finalize(owner, self._give_back, block).atexit = False
        return owner.data

    def _give_back(self, block: _Block) -> None:
        # Objects die anywhere, even in a thread that has the lock: the block is not worth a wait.
        self._blocks.give(len(block) - ALIGNMENT, block, waits=False)

    @property
    def held_bytes(self) -> int:
        """How much memory lies here unused."""
        return self._blocks.held_bytes
