"""Shared memory that bodies of messages lie in: segments, and the pool that lends them.

Rule 1: a segment holds one message at a time.  The sender lends it under a new number; the receiver
        writes that number back when it takes the message and again when nothing views it any more.
Rule 2: segments have no name in any file system and cannot change their size, so a process that is
        killed leaves nothing, and no peer can pull memory away under another.
Rule 3: there is a limit on the memory of all segments; at it nothing is lent, and nobody waits.
Source: memfd_create(2), fcntl(2) on seals
"""

from __future__ import annotations

import fcntl
import functools
import mmap
import os
import secrets
import struct
import sys
import threading
import time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tideflow.wire import errors

SWITCH = "TIDEFLOW_SHARED_MEMORY"

MAGIC = b"tideflow"
KEY_BYTES = 16
# The control page, with the message behind it.
CONTROL_BYTES = 4096
# Where its 64-bit words are: the sender writes the first and the last, the receiver the others.
LENT, CLAIMED, RETURNED, RETIRED = 3, 4, 5, 6

# Large parts of a message, elements say, begin at a multiple of this many bytes.
ALIGNMENT = 64

_MOST_BYTES = 4 << 30
_SMALLEST_BYTES = 1 << 20
# Each takes two file descriptors here and one at the receiver: Python's mmap keeps one.
_MOST_SEGMENTS = 64
_UNUSED_S = 60.0
# A small message does not take a segment that a large one will want.
_MOST_WASTE = 8
_DESCRIPTOR = struct.Struct("<16sIIQQQ")

Bytes = npt.NDArray[np.uint8]
Buffer = bytes | bytearray | memoryview


class Descriptor(NamedTuple):
    """What travels in the place of a message.

    Attributes:
      key: tells the segment from all others that ever were.
      fd: its file descriptor in the sender's process.
      number: under which it is lent.
      offset, size: where in it the message is, in bytes.
    """

    key: bytes
    fd: int
    number: int
    offset: int
    size: int

    def pack(self) -> bytes:
        """Return it as it travels."""
        return _DESCRIPTOR.pack(self.key, self.fd, 0, self.number, self.offset, self.size)

    @classmethod
    def unpack(cls, data: Buffer) -> Descriptor:
        """Return what the bytes say.  Raises: struct.error for another size."""
        key, fd, _, number, offset, size = _DESCRIPTOR.unpack(data)
        return cls(key, fd, number, offset, size)


DESCRIPTOR_BYTES = _DESCRIPTOR.size


class Segment:
    """Memory that this process made, and lends to one receiver at a time.

    Attributes:
      capacity: the longest message that it takes, with what alignment may cost.
      number: under which it is, or was last, lent.
      used_at_s: when that was.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.key = secrets.token_bytes(KEY_BYTES)
        self.number = 0
        self.used_at_s = 0.0
        self.fd = os.memfd_create("tideflow", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, CONTROL_BYTES + capacity)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals())
            memory = mmap.mmap(self.fd, CONTROL_BYTES + capacity)
        except BaseException:
            os.close(self.fd)
            raise
        memory[: len(MAGIC) + KEY_BYTES] = MAGIC + self.key
        self._memory: Bytes = np.frombuffer(memory, np.uint8)
        self._words = memoryview(memory)[:CONTROL_BYTES].cast("Q")

    @property
    def is_claimed(self) -> bool:
        """Whether the receiver has taken the message that the segment was lent for."""
        return self._words[CLAIMED] == self.number

    @property
    def is_returned(self) -> bool:
        """Whether nothing at the receiver views the message any more."""
        return self._words[RETURNED] == self.number

    def lend(self) -> None:
        """Begin to lend the segment again."""
        self.number += 1
        self.used_at_s = time.monotonic()
        self._words[LENT] = self.number

    def fill(self, parts: list[Buffer]) -> Descriptor:
        """Copy a message into the segment, its largest part aligned; return where it is."""
        sizes = [len(part) for part in parts]
        largest = max(range(len(parts)), key=sizes.__getitem__)
        begin = at = CONTROL_BYTES + -sum(sizes[:largest]) % ALIGNMENT
        for part, size in zip(parts, sizes, strict=True):
            if size:
                # Unlike a memoryview, NumPy lets other threads run while it copies.
                np.copyto(self._memory[at : at + size], np.frombuffer(part, np.uint8))
                at += size
        return Descriptor(self.key, self.fd, self.number, begin, at - begin)

    def retire(self) -> None:
        """Let go of the memory; receivers that view it keep it for that long."""
        self._words[RETIRED] = 1
        os.close(self.fd)


def seals() -> int:
    """Return the seals that keep a segment's size as it is."""
    return fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class SegmentPool:
    """The segments of this process.  Any thread may call."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._held_bytes = 0
        # Free ones in the order in which they became free.
        self._free: list[Segment] = []
        self._lent: set[Segment] = set()

    @property
    def held_bytes(self) -> int:
        """How much all segments hold, lent or not."""
        return self._held_bytes

    @property
    def lent_count(self) -> int:
        """How many segments are lent."""
        with self._lock:
            self._collect()
            return len(self._lent)

    def lend(self, size: int) -> Segment | None:
        """Return a segment for a message of this size; None when the limit does not allow it."""
        wanted = size + ALIGNMENT
        with self._lock:
            self._collect()
            found = self._take_free(wanted) or self._make(_class_of(wanted))
            if found is not None:
                self._lent.add(found)
                found.lend()
        return found

    def take_back(self, segment: Segment, number: int) -> None:
        """Make a segment free whose receiver never took, and never will take, the message."""
        with self._lock:
            if segment in self._lent and segment.number == number:
                self._lent.discard(segment)
                self._free.append(segment)

    def drop(self, segment: Segment, number: int) -> None:
        """Let go of a segment that nobody can give back any more."""
        with self._lock:
            if segment in self._lent and segment.number == number:
                self._lent.discard(segment)
                self._retire(segment)

    def trim(self) -> None:
        """Let go of what was not used for a minute."""
        before_s = time.monotonic() - _UNUSED_S
        with self._lock:
            self._collect()
            for segment in [s for s in self._free if s.used_at_s < before_s]:
                self._free.remove(segment)
                self._retire(segment)

    def _collect(self) -> None:
        returned = [segment for segment in self._lent if segment.is_returned]
        for segment in returned:
            self._lent.discard(segment)
            self._free.append(segment)

    def _take_free(self, wanted: int) -> Segment | None:
        """Return the smallest that fits; of equal ones the one used last, which is in the cache."""
        fitting = [s for s in self._free if wanted <= s.capacity <= _MOST_WASTE * wanted]
        if not fitting:
            return None
        found = min(reversed(fitting), key=lambda segment: segment.capacity)
        self._free.remove(found)
        return found

    def _make(self, capacity: int) -> Segment | None:
        def is_full() -> bool:
            count = len(self._free) + len(self._lent)
            return self._held_bytes + capacity > self._most_bytes or count >= _MOST_SEGMENTS

        while self._free and is_full():
            self._retire(self._free.pop(0))
        if is_full():
            return None
        try:
            made = Segment(capacity)
        except OSError:
            return None
        self._held_bytes += capacity
        return made

    def _retire(self, segment: Segment) -> None:
        self._held_bytes -= segment.capacity
        segment.retire()


def _class_of(size: int) -> int:
    """Return the capacity for a size: up to a quarter more, so that similar sizes share."""
    if size <= _SMALLEST_BYTES:
        return _SMALLEST_BYTES
    step = 1 << (size.bit_length() - 3)
    return -(-size // step) * step


@functools.cache
def pool() -> SegmentPool:
    """Return the pool of this process."""
    return SegmentPool(most_shared_bytes())


@functools.cache
def probe_segment() -> Segment:
    """Return the segment by which peers find out whether they can open ours."""
    return Segment(ALIGNMENT)


def is_possible() -> bool:
    """Whether this process can and may share memory with others: on Linux, unless switched off."""
    return hasattr(os, "memfd_create") and sys.platform == "linux" and most_shared_bytes() > 0


@functools.cache
def most_shared_bytes() -> int:
    """Return the limit on all segments: a quarter of the memory, but at most 4 GiB, or what
    TIDEFLOW_SHARED_MEMORY says in MiB.

    Raises: InvalidArgumentError for a setting that is not on, off or a number.
    """
    setting = os.environ.get(SWITCH, "on").lower()
    if setting == "on":
        memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return min(memory_bytes // 4, _MOST_BYTES)
    if setting == "off":
        return 0
    if setting.isdigit():
        return int(setting) << 20
    raise errors.InvalidArgumentError(
        f"{SWITCH} is {setting!r}; it is on, off, or how many MiB may be shared at most"
    )


def _forget_after_fork() -> None:
    """In a forked child: the segments are its parent's."""
    pool.cache_clear()
    probe_segment.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
