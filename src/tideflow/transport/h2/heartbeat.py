"""When a silent peer is asked for a sign of life, and when it is given up.

A process that dies says so at once, through its kernel.  One that was stopped, and one behind a
cut line or on a host that is gone, says nothing.  So while calls are in flight the peer is looked
at again and again.

Rule 1: looks are counted, not seconds: a process that was itself stopped for a while has not
        listened, and must not blame its peer.
Rule 2: tideflow peers, which say in their SETTINGS who they are, are looked at often.  Others are
        pinged seldom, since TensorFlow's servers hang up on clients that ping more than once in
        five minutes; that their host is gone, the kernel finds out (TCP keepalive).
"""

from __future__ import annotations

import enum
import functools
import math
import os
import socket
import sys

from tideflow.wire import errors

SWITCH = "TIDEFLOW_SILENCE_S"

# Long enough for a process that a debugger, a virtual machine's move or a full machine holds up.
_DEFAULT_SILENCE_S = 10.0
_LEAST_SILENCE_S, _MOST_SILENCE_S = 0.2, 3600.0
_LOOKS = 20

# How often a peer is pinged that is no tideflow, and how long it may take to answer.
KEEPALIVE_S = 310.0
PING_TIMEOUT_S = 20.0

# What the kernel finds out by itself, in twenty seconds or so: that the peer's host is gone, or the
# way to it.  It is never misled by a process that is slow.
_KERNEL_S = 20
_KERNEL_LOOKS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)


@functools.cache
def silence_s() -> float:
    """Return how long a tideflow peer may be silent while it owes an answer: 10 seconds, or what
    TIDEFLOW_SILENCE_S says.

    Raises: InvalidArgumentError for a setting that is not a number of seconds in reason.
    """
    setting = os.environ.get(SWITCH, "")
    if not setting:
        return _DEFAULT_SILENCE_S
    try:
        found = float(setting)
    except ValueError:
        found = math.nan
    if not _LEAST_SILENCE_S <= found <= _MOST_SILENCE_S:
        raise errors.InvalidArgumentError(
            f"{SWITCH} is {setting!r}; it is a number of seconds from {_LEAST_SILENCE_S:g} to "
            f"{_MOST_SILENCE_S:g}"
        )
    return found


def let_kernel_watch(connection: socket.socket) -> None:
    """Have the kernel end a TCP connection whose other host does not answer."""
    for level, option, value in _KERNEL_LOOKS:
        connection.setsockopt(level, option, value)
    if sys.platform == "linux":
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * _KERNEL_S)


class Finding(enum.Enum):
    """What a look at the peer tells one to do."""

    WAIT = "wait"
    PING = "ping"
    GIVE_UP = "give up"


class Heartbeat:
    """Counts how long a peer has been silent.

    Args:
      plain_s: how long a peer that is no tideflow may be silent before it is pinged.
    Attributes:
      has_heard: set this whenever something comes from the peer.
      is_frequent: whether the peer may be pinged often.
    """

    __slots__ = ("_plain_s", "_silent_looks", "has_heard", "is_frequent")

    def __init__(self, plain_s: float) -> None:
        self._plain_s = plain_s
        self._silent_looks = 0
        self.has_heard = False
        self.is_frequent = False

    @property
    def next_s(self) -> float:
        """In what time to look again."""
        if self.is_frequent:
            return silence_s() / _LOOKS
        return PING_TIMEOUT_S if self._silent_looks else self._plain_s

    @property
    def reason(self) -> str:
        """Why the peer is given up."""
        if self.is_frequent:
            return f"nothing came from the peer for {silence_s():g} s ({SWITCH})"
        return f"the peer did not answer a ping within {PING_TIMEOUT_S:g} s"

    def look(self) -> Finding:
        """Take note of whether something came since the last look, and say what to do."""
        if self.has_heard:
            self.has_heard = False
            self._silent_looks = 0
            return Finding.WAIT
        self._silent_looks += 1
        if self._silent_looks == 1:
            return Finding.PING
        is_over = self._silent_looks > (_LOOKS if self.is_frequent else 1)
        return Finding.GIVE_UP if is_over else Finding.WAIT

    def rest(self) -> None:
        """Begin anew: nothing is owed any more."""
        self.has_heard = False
        self._silent_looks = 0
