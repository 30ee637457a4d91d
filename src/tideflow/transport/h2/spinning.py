"""Stay awake for a moment where the next message is about to come.

A thread that sleeps until its socket has something to read is woken late, and runs slowly at first:
the core has gone idle, and its caches hold other things.  For a step of a tenth of a millisecond
that is a good part of it.  So whoever waits for a peer looks again and again for a fraction of a
millisecond before it sleeps.

Rule 1: only where there is a core to spare, and (in a server) while nothing else is being done.
Rule 2: only while it pays: a wait that was too long for it makes the next ones sleep at once, twice
        as many after each further one.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from weakref import WeakKeyDictionary

from tideflow.platform import clock
from tideflow.platform.processors import usable_processors

# An unmodified TensorFlow client takes 250 us from an answer to its next request.
_DEFAULT_US = 500
# A long step after many short ones costs a spin; many long ones cost one of so many.
_MOST_SKIPPED = 64


def spin_s(setting: bool | int) -> float:
    """Return for how long a wait may spin by a setting (Settings.spin); 0.0 for not at all."""
    if not setting or not hasattr(os, "sched_yield"):
        return 0.0
    most_us = _DEFAULT_US if setting is True else setting
    return most_us / 1e6 if usable_processors() > 1 else 0.0


class SpinPolicy:
    """Whether to spin, by what came of it lately."""

    __slots__ = ("_misses", "_skip")

    def __init__(self) -> None:
        self._skip = 0
        self._misses = 0

    def wants(self) -> bool:
        """Whether to spin in the wait that begins now."""
        if self._skip:
            self._skip -= 1
            return False
        return True

    def paid(self) -> None:
        """Take note that what was waited for came in time."""
        self._misses = 0

    def missed(self) -> None:
        """Take note that it did not."""
        self._misses = min(2 * self._misses or 1, _MOST_SKIPPED)
        self._skip = self._misses


class SocketSpin:
    """Spins before a thread blocks in a socket's recv."""

    __slots__ = ("_most_s", "_policy", "_poll")

    def __init__(self, connection: socket.socket, most_s: float) -> None:
        self._most_s = most_s
        self._policy = SpinPolicy()
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    def wait(self) -> None:
        """Wait until the socket has something to read, or for as long as is sensible."""
        if not self._most_s or not self._policy.wants():
            return
        poll, until_s = self._poll.poll, clock.monotonic_s() + self._most_s
        while not poll(0):
            if clock.monotonic_s() > until_s:
                self._policy.missed()
                return
            os.sched_yield()
        self._policy.paid()


class LoopSpin:
    """Keeps an event loop from sleeping between an answer and the next request."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most_s: float) -> None:
        self._loop = loop
        self._most_s = most_s
        self._policy = SpinPolicy()
        self._until_s = 0.0
        self._is_on = False
        self._is_turn_set = False

    def answered(self) -> None:
        """Spin from now on until `heard`, if that is sensible."""
        if not self._most_s or not (self._is_on or self._policy.wants()):
            return
        self._until_s = clock.monotonic_s() + self._most_s
        self._is_on = True
        if not self._is_turn_set:
            self._is_turn_set = True
            self._loop.call_soon(self._turn)

    def heard(self) -> None:
        """Take note that something has come."""
        if self._is_on:
            self._is_on = False
            self._policy.paid()

    def _turn(self) -> None:
        if self._is_on and clock.monotonic_s() > self._until_s:
            self._is_on = False
            self._policy.missed()
        self._is_turn_set = self._is_on
        if self._is_on:
            self._loop.call_soon(self._turn)


_spins: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[float, LoopSpin]] = WeakKeyDictionary()


def loop_spin(loop: asyncio.AbstractEventLoop, most_s: float) -> LoopSpin:
    """Return the spin of a loop, which all its connections share that may spin for so long."""
    of_loop = _spins.setdefault(loop, {})
    if most_s not in of_loop:
        of_loop[most_s] = LoopSpin(loop, most_s)
    return of_loop[most_s]
