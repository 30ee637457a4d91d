"""The receiving side of shared memory: opens the segments of one peer, and views messages in them.

Nothing that the peer says is believed: what it names must be a sealed segment of this user that
carries the key that the peer knows, and a message must lie within it, be lent, and not have been
received before.  A process that was led to name another's segment does not know its key.
After a fork two processes view the same messages, and neither knows when the other is done: such
segments are kept, not returned.
Source: proc_pid_fd(5), fcntl(2) on seals
"""

from __future__ import annotations

import fcntl
import hmac
import mmap
import os
import stat
import struct
import weakref
from pathlib import Path

import numpy as np

from tideflow.transport.h2.shared_memory import (
    CLAIMED,
    CONTROL_BYTES,
    KEPT,
    KEY_BYTES,
    LENT,
    MAGIC,
    RETIRED,
    RETURNED,
    Descriptor,
    seals,
)
from tideflow.wire import errors

# As many as a peer has segments at once, with room for some that it has given up.
_MOST_MAPPINGS = 96
_LARGEST_PID = 1 << 22


class _Mapping:
    """A segment of a peer, as it lies in this process."""

    __slots__ = ("__weakref__", "memory", "size", "words")

    def __init__(self, memory: mmap.mmap, size: int) -> None:
        self.memory = memory
        self.size = size
        self.words = memoryview(memory)[:CONTROL_BYTES].cast("Q")


class PeerSegments:
    """The segments of the process pid that this process has opened."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._mappings: dict[bytes, _Mapping] = {}

    def view(self, data: bytes | bytearray | memoryview, most_bytes: int) -> memoryview:
        """Return the message that a descriptor tells of, read-only.

        The segment goes back to the peer when nothing refers to the view any more.
        Raises: InternalError for a descriptor that is wrong; ResourceExhaustedError for a message
        of over most_bytes; UnavailableError where the message has gone with the peer.
        """
        try:
            found = Descriptor.unpack(data)
        except struct.error:
            raise errors.InternalError(
                f"a peer sent {len(data)} bytes in the place of a place in shared memory"
            ) from None
        if found.size > most_bytes:
            raise errors.ResourceExhaustedError(
                f"a received message is larger than max ({found.size} vs. {most_bytes} bytes)"
            )
        mapping = self._mappings.get(found.key) or self._open(found.fd, found.key)
        self._require_sound(mapping, found)
        mapping.words[CLAIMED] = found.number
        array = np.frombuffer(mapping.memory, np.uint8, found.size, found.offset)
        finalizer = weakref.finalize(array, _give_back, mapping, found.number, _forks)
        finalizer.atexit = False
        return array.data.toreadonly()

    def probe(self, fd: int, key: bytes) -> bool:
        """Whether a segment of the peer can be opened; what it is opened for stays open."""
        try:
            self._open(fd, key)
        except (errors.InternalError, errors.UnavailableError):
            return False
        return True

    def close(self) -> None:
        """Forget the segments; views that are in use keep theirs."""
        self._mappings.clear()

    def trim(self) -> None:
        """Forget the segments that the peer has given up."""
        for key in [k for k, mapping in self._mappings.items() if mapping.words[RETIRED]]:
            del self._mappings[key]

    def _open(self, fd: int, key: bytes) -> _Mapping:
        self.trim()
        if len(self._mappings) >= _MOST_MAPPINGS:
            # Any will do; it is opened again when it is needed.
            del self._mappings[next(iter(self._mappings))]
        mapping = _map(self.pid, fd)
        named = bytes(mapping.memory[len(MAGIC) : len(MAGIC) + KEY_BYTES])
        if mapping.memory[: len(MAGIC)] != MAGIC or not hmac.compare_digest(named, key):
            raise errors.InternalError(
                f"a peer named descriptor {fd} of process {self.pid} as its segment; it is another"
            )
        self._mappings[key] = mapping
        return mapping

    def _require_sound(self, mapping: _Mapping, found: Descriptor) -> None:
        end = found.offset + found.size
        if found.offset < CONTROL_BYTES or end > mapping.size or not found.size:
            raise errors.InternalError(
                f"a peer named bytes {found.offset} to {end} of a segment of {mapping.size} bytes"
            )
        words = mapping.words
        if words[LENT] != found.number or words[CLAIMED] >= found.number:
            raise errors.InternalError(
                f"a peer named loan {found.number} of a segment that is lent under"
                f" {words[LENT]} and was received under {words[CLAIMED]}"
            )


# How often this process, or an ancestor, has forked.
_forks = 0


def count_fork() -> None:
    """Take note that the process forks: its child may view what it views."""
    global _forks
    _forks += 1


os.register_at_fork(before=count_fork)


def _give_back(mapping: _Mapping, number: int, forks: int) -> None:
    mapping.words[RETURNED if forks == _forks else KEPT] = number


def _map(pid: int, fd: int) -> _Mapping:
    """Map what process pid has open as fd.

    Raises: InternalError unless it is a segment; UnavailableError for a process that has ended.
    """
    where = f"descriptor {fd} of process {pid}"
    if not 0 < pid <= _LARGEST_PID:
        raise errors.InternalError(f"a peer says that it is process {pid}; there is none such")
    path = f"/proc/{pid}/fd/{fd}"
    try:
        # Before opening: of pipes and devices even that may have consequences.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise errors.InternalError(f"a peer named {where} as its segment; it is no memory")
        opened = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if _has_ended(pid):
            raise errors.UnavailableError(
                f"process {pid} ended before its message was taken from shared memory"
            ) from None
        raise errors.InternalError(f"cannot open {where}, named by a peer: {error}") from None
    try:
        found = os.fstat(opened)
        sealed = fcntl.fcntl(opened, fcntl.F_GET_SEALS) & seals()
        if sealed != seals() or found.st_uid != os.geteuid() or found.st_size <= CONTROL_BYTES:
            raise errors.InternalError(
                f"a peer named {where} as its segment; it has seals {sealed:#x}, owner"
                f" {found.st_uid} and {found.st_size} bytes"
            )
        return _Mapping(mmap.mmap(opened, found.st_size), found.st_size)
    except (OSError, ValueError, OverflowError) as error:
        raise errors.InternalError(f"cannot map {where}, named by a peer: {error}") from None
    finally:
        os.close(opened)


def _has_ended(pid: int) -> bool:
    """Whether a process is gone, or only waits for its parent to take note of that."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True
    return state in "ZX"
