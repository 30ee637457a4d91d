"""Shared memory that bodies of messages lie in: segments, and the pool that lends them.

Rule 1: a segment holds one message at a time.  The sender lends it under a new number; the receiver
        writes that number back when it takes the message and again when nothing views it any more,
        or when it cannot know whether something does: then the memory is never written to again.
Rule 2: segments have no name in any file system and cannot change their size, so a process that is
        killed leaves nothing, and no peer can pull memory away under another.
Rule 3: there is a limit on the memory of all segments; at it nothing is lent, and nobody waits.
Source: memfd_create(2), fcntl(2) on seals
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import secrets
import struct
import threading
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tideflow.platform import clock, threads

MAGIC = b"tideflow"
KEY_BYTES = 16
# The control page, with the message behind it.
CONTROL_BYTES = 4096
# Where its 64-bit words are: the sender writes the first two, the receiver the others.
LENT, RETIRED, CLAIMED, RETURNED, KEPT = 3, 4, 5, 6, 7

# Large parts of a message, elements say, begin at a multiple of this many bytes.
ALIGNMENT = 64

_SMALLEST_BYTES = 1 << 20
# Each takes two file descriptors here and one at the receiver: Python's mmap keeps one.
_MOST_SEGMENTS = 64
_UNUSED_S = 60.0
# A small message does not take a segment that a large one will want.
_MOST_WASTE = 8
# To free so much takes about a millisecond.
_FREED_AT_ONCE_BYTES = 4 << 20
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
      name: by which /proc shows its descriptors.
      number: under which it is, or was last, lent.
      used_at_s: when that was.
    """

    def __init__(self, capacity: int, name: str = "tideflow") -> None:
        self.capacity = capacity
        self.key = secrets.token_bytes(KEY_BYTES)
        self.number = 0
        self.used_at_s = 0.0
        self.fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, CONTROL_BYTES + capacity)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals())
            self._mapping = mmap.mmap(self.fd, CONTROL_BYTES + capacity)
        except BaseException:
            os.close(self.fd)
            raise
        self._mapping[: len(MAGIC) + KEY_BYTES] = MAGIC + self.key
        self._memory: Bytes = np.frombuffer(self._mapping, np.uint8)
        self._words = memoryview(self._mapping)[:CONTROL_BYTES].cast("Q")

    @property
    def is_claimed(self) -> bool:
        """Whether the receiver has taken the message that the segment was lent for."""
        return self._words[CLAIMED] == self.number

    @property
    def is_returned(self) -> bool:
        """Whether nothing at the receiver views the message any more."""
        return self._words[RETURNED] == self.number

    @property
    def is_kept(self) -> bool:
        """Whether the receiver will never give the segment back."""
        return self._words[KEPT] == self.number

    @property
    def is_over(self) -> bool:
        """Whether the loan is."""
        return self.is_returned or self.is_kept

    @property
    def is_fresh(self) -> bool:
        """Whether it never held a message: its pages are made as the first one is copied to it."""
        return self.number <= 1

    def lend(self) -> None:
        """Begin to lend the segment again."""
        self.number += 1
        self.used_at_s = clock.monotonic_s()
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
        """Let receivers know that no more comes by this segment; those that view it may go on."""
        self._words[RETIRED] = 1
        self.close()

    def close(self) -> None:
        """Let nobody open the segment any more."""
        os.close(self.fd)

    def empty(self) -> None:
        """Give the memory back of a segment that nobody views, whoever still has it open."""
        with contextlib.suppress(OSError):
            self._mapping.madvise(mmap.MADV_REMOVE, CONTROL_BYTES)


def seals() -> int:
    """Return the seals that keep a segment's size as it is."""
    return fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class SegmentPool:
    """The segments of this process.  Any thread may call.

    Attributes:
      is_watched: whether somebody calls `trim` now and then.
    """

    def __init__(self, most_bytes: int) -> None:
        self.is_watched = False
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
                if segment.is_returned:
                    _empty([segment])

    def trim(self, unused_s: float = _UNUSED_S) -> None:
        """Let go of what was not used for so long: a minute."""
        before_s = clock.monotonic_s() - unused_s
        with self._lock:
            self._collect()
            unused = [segment for segment in self._free if segment.used_at_s <= before_s]
            for segment in unused:
                self._free.remove(segment)
                self._retire(segment)
            _empty(unused)

    def close(self) -> None:
        """Let go of all segments, lent or not.

        The pool of a process ends with it; in a forked child, memory must not live for longer than
        in its parent.
        """
        for segment in (*self._free, *self._lent):
            segment.close()
        self._free, self._lent = [], set()
        self._held_bytes = 0

    def _collect(self) -> None:
        for segment in [segment for segment in self._lent if segment.is_over]:
            self._lent.discard(segment)
            if segment.is_kept:
                self._retire(segment)
            else:
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

        given_up = []
        while self._free and is_full():
            given_up.append(self._free.pop(0))
            self._retire(given_up[-1])
        _empty(given_up)
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


def _empty(segments: list[Segment]) -> None:
    """Give the memory of retired segments back that nobody views."""
    if sum(segment.capacity for segment in segments) <= _FREED_AT_ONCE_BYTES:
        for segment in segments:
            segment.empty()
        return
    with contextlib.suppress(RuntimeError):  # the interpreter ends, and all memory with it
        helpers.submit(_empty_each, segments)


def _empty_each(segments: list[Segment]) -> None:
    for segment in segments:
        segment.empty()


# The threads for what takes more than a millisecond.
helpers = threads.ProcessPool("tideflow-memory", 2)


def _class_of(size: int) -> int:
    """Return the capacity for a size: up to a quarter more, so that similar sizes share."""
    if size <= _SMALLEST_BYTES:
        return _SMALLEST_BYTES
    step = 1 << (size.bit_length() - 3)
    return -(-size // step) * step


# Of this process; a fork's child starts with none.
_pools: dict[int, SegmentPool] = {}
_probes: dict[str, Segment] = {}
PROBE_NAME = "tideflow-probe"


def pool(limit_bytes: int) -> SegmentPool:
    """Return the pool of this process for a limit; all that have that limit share it."""
    # Threads that come at once get the same one.
    return _pools.get(limit_bytes) or _pools.setdefault(limit_bytes, SegmentPool(limit_bytes))


def trim_pools(unused_s: float) -> None:
    """Let go of what no pool of this process has used for so long."""
    for one in list(_pools.values()):
        one.trim(unused_s)


def probe_segment() -> Segment:
    """Return the segment by which peers find out whether they can open ours.

    Raises: OSError where there can be none.
    """
    return _probes.get("") or _probes.setdefault("", Segment(ALIGNMENT, PROBE_NAME))


def _forget_after_fork() -> None:
    """In a forked child: the segments are its parent's."""
    for one in _pools.values():
        one.close()
    for probe in _probes.values():
        probe.close()
    _pools.clear()
    _probes.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
