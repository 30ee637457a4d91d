"""Bodies in shared memory on one connection: the two ends find out, then lend and view.

    client                                 server
    SETTINGS: here is my segment      ->
                                      <-   SETTINGS: I can open it; here is mine
    SETTINGS: I can open it           ->

From then on a large message travels as a descriptor, marked by 2 where gRPC says whether a
message is compressed.  Offers are made only on connections within one host, and only answered by
peers that know these settings, so other clients and servers never see any of this.
A message whose call ends on the way is never taken.  The sender learns of that by a PING: what was
sent before it and is not taken when the answer comes will not be.
Source: RFC 9113, section 6.5.2 (settings that are not known are ignored)
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import ipaddress
import os
import struct
from dataclasses import dataclass
from typing import Any

from tideflow.platform import clock
from tideflow.runtime.loop import get_loop
from tideflow.transport.h2.connection import Connection
from tideflow.transport.h2.frames import Buffer
from tideflow.transport.h2.messages import SHARED
from tideflow.transport.h2.shared_memory import (
    KEY_BYTES,
    Descriptor,
    Segment,
    SegmentPool,
    helpers,
    pool,
    probe_segment,
)
from tideflow.transport.h2.shared_memory_views import PeerSegments
from tideflow.wire import errors

# Settings of ours: whether the sender can open what the receiver offered; from _OFFER on, an offer.
CAN_OPEN = 0xF7E0
_OFFER = 0xF7E1
# Version, host, process, descriptor, key.
_OFFER_FORM = struct.Struct(f">I8sII{KEY_BYTES}s")
OFFER_SETTINGS = range(_OFFER, _OFFER + _OFFER_FORM.size // 4)
_WORDS = struct.Struct(f">{len(OFFER_SETTINGS)}I")
_VERSION = 1
_HOST_BYTES = 8

# Below, the socket takes less time than the loan.
LEAST_BYTES = 256 * 1024
# About half a millisecond's copying; more of it would hold up the loop.  Memory that was never used
# takes ten times as long.
_THREAD_BYTES = 8 << 20
_FRESH_THREAD_BYTES = 1 << 20
_UNTAKEN_S = 1.0
_TRIM_S = 60.0
_PING_START = b"shared"
_LAST_PING = b"all read"


@dataclass(slots=True)
class _Loan:
    number: int
    sent_at_s: float | None = None


class SharedBodies:
    """Both directions of one connection.

    Attributes:
      can_lend: whether the peer views what this end lends.
    """

    def __init__(self, core: Connection, limit_bytes: int) -> None:
        self.can_lend = False
        self._limit_bytes = limit_bytes
        self._core = core
        self._is_local = False
        self._is_leaving = False
        self._is_over = False
        self._last_answer: asyncio.Future[None] | None = None
        self._peer: PeerSegments | None = None
        self._loans: dict[Segment, _Loan] = {}
        self._ping = 0
        self._asked: dict[Segment, int] = {}

    def begin(self, own_address: Any, peer_address: Any) -> None:
        """Take note of where the two ends are, as sockets name them; a client offers."""
        self._is_local = self._limit_bytes > 0 and is_within_host(own_address, peer_address)
        if self._is_local and self._core.is_client:
            self._core.say(make_offer())

    def close(self) -> None:
        """The connection is over: what is lent comes back no more."""
        self._is_over = True
        self.can_lend = False
        for segment, loan in self._loans.items():
            pool(self._limit_bytes).drop(segment, loan.number)
        self._loans.clear()
        self._asked.clear()
        if self._peer is not None:
            self._peer.close()
        self._end_last_wait()

    def _end_last_wait(self) -> None:
        if self._last_answer is not None and not self._last_answer.done():
            self._last_answer.set_result(None)

    def on_settings(self, settings: dict[int, int]) -> None:
        """Take note of what the peer said."""
        if not settings or not self._is_local or self._is_over:
            return
        if _OFFER in settings and self._peer is None:
            self._on_offer(settings)
        if CAN_OPEN in settings:
            self.can_lend = settings[CAN_OPEN] == 1 and not self._is_leaving

    def _on_offer(self, settings: dict[int, int]) -> None:
        words = [settings.get(number, 0) for number in OFFER_SETTINGS]
        version, host, pid, fd, key = _OFFER_FORM.unpack(_WORDS.pack(*words))
        if version != _VERSION or host != _host():
            return
        peer = PeerSegments(pid)
        if peer.probe(fd, key):
            self._peer = peer
            own = {} if self._core.is_client else make_offer()
            self._core.say({CAN_OPEN: 1, **own})

    # ---- receiving

    def view(self, descriptor: Buffer, most_bytes: int) -> memoryview:
        """Return the message that lies where the peer says; errors as PeerSegments.view.

        After an error the peer is asked to lend no more.
        """
        if self._peer is None:
            raise errors.InternalError(
                "a message begins with 2, for shared memory, which was not agreed upon"
            )
        try:
            return self._peer.view(descriptor, most_bytes)
        except errors.InternalError:
            self._core.say({CAN_OPEN: 0})
            raise

    # ---- sending

    async def lend(self, parts: list[Buffer]) -> list[Buffer]:
        """Return a message, given as its prefix and its parts, as it is to be sent: itself, or what
        tells where it now lies in shared memory.

        Nothing else may be awaited until the result is sent, or forgotten.
        """
        segment = self._segment_for(parts)
        if segment is None:
            return parts
        size = _body_bytes(parts)
        if size < (_FRESH_THREAD_BYTES if segment.is_fresh else _THREAD_BYTES):
            return self._sent(segment, segment.fill(parts[1:]))
        job = helpers.submit(segment.fill, parts[1:])
        number = segment.number
        try:
            descriptor = await asyncio.wrap_future(job)
        except BaseException:
            self._loans.pop(segment, None)
            # The copying may still go on.
            job.add_done_callback(lambda _: pool(self._limit_bytes).take_back(segment, number))
            raise
        return self._sent(segment, descriptor)

    def lend_now(self, parts: list[Buffer]) -> list[Buffer]:
        """Do as `lend`, on this thread; a message that takes long to copy is sent as it is."""
        segment = self._segment_for(parts) if _body_bytes(parts) < _THREAD_BYTES else None
        return parts if segment is None else self._sent(segment, segment.fill(parts[1:]))

    def _segment_for(self, parts: list[Buffer]) -> Segment | None:
        """Return a segment to lend a message in, or None where it had better go as it is."""
        if not self.can_lend:
            return None
        size = _body_bytes(parts)
        if size < LEAST_BYTES:
            return None
        self._settle()
        segment = pool(self._limit_bytes).lend(size)
        if segment is not None:
            self._loans[segment] = _Loan(segment.number)
            _keep_trimmed(pool(self._limit_bytes))
        return segment

    def _sent(self, segment: Segment, descriptor: Descriptor) -> list[Buffer]:
        loan = self._loans.get(segment)
        if loan is not None:
            loan.sent_at_s = clock.monotonic_s()
        data = descriptor.pack()
        return [bytes([SHARED]) + len(data).to_bytes(4, "big") + data]

    def _settle(self, untaken_s: float = _UNTAKEN_S) -> None:
        """Forget loans that are over, and find out about those that nobody took for so long."""
        before_s = clock.monotonic_s() - untaken_s
        untaken = {}
        for segment, loan in list(self._loans.items()):
            if segment.number != loan.number or (loan.sent_at_s and segment.is_over):
                del self._loans[segment]
            elif loan.sent_at_s and loan.sent_at_s <= before_s and not segment.is_claimed:
                untaken[segment] = loan.number
        # What waits for the peer's windows would come after the PING.
        if untaken and not self._asked and not self._core.is_stalled:
            self._asked = untaken
            self._ping += 1
            self._core.ping(self._ping_payload())

    def _ping_payload(self) -> bytes:
        return _PING_START + (self._ping & 0xFFFF).to_bytes(2, "big")

    def on_ping_answered(self, payload: bytes) -> None:
        """Take segments back that the peer has not taken though it has read all up to the PING."""
        if payload == _LAST_PING:
            self._end_last_wait()
        if not self._asked or payload != self._ping_payload():
            return
        for segment, number in self._asked.items():
            if segment.number == number and not segment.is_claimed:
                self._loans.pop(segment, None)
                pool(self._limit_bytes).take_back(segment, number)
        self._asked = {}

    def leave(self) -> None:
        """Lend no more: this end is about to hang up."""
        self._is_leaving = True
        self.can_lend = False

    def ask_taken(self) -> asyncio.Future[None] | None:
        """Return what is done once the peer has read all that was lent and sent, which it cannot
        after our end; None if it has.  The question is still to be written.
        """
        if all(s.number != loan.number or s.is_claimed for s, loan in self._loans.items()):
            return None
        self._last_answer = asyncio.get_running_loop().create_future()
        self._core.ping(_LAST_PING)
        return self._last_answer

    def watch(self, untaken_s: float = _UNTAKEN_S) -> None:
        """Now and then: let go of what is not needed.

        untaken_s: the peer is asked about messages that it has not taken for so long.
        """
        if self._is_local:
            self._settle(untaken_s)
        if self._peer is not None:
            self._peer.trim()


def _body_bytes(parts: list[Buffer]) -> int:
    return sum(map(len, parts)) - len(parts[0])


def is_within_host(own: Any, peer: Any) -> bool:
    """Whether both ends of a connection are on this host, as far as their addresses tell.

    An address is what a socket gives: a tuple with the host first, or what Unix sockets have.
    """
    if not isinstance(peer, tuple) or not isinstance(own, tuple):
        return isinstance(peer, str | bytes) or isinstance(own, str | bytes)
    try:
        return peer[0] == own[0] or ipaddress.ip_address(peer[0].partition("%")[0]).is_loopback
    except ValueError:
        return False


def make_offer() -> dict[int, int]:
    """Return the settings that name this process and its probe; none where it has no way."""
    host = _host()
    if host is None:
        return {}
    try:
        probe = probe_segment()
    except OSError:
        return {}
    form = _OFFER_FORM.pack(_VERSION, host, os.getpid(), probe.fd, probe.key)
    return dict(zip(OFFER_SETTINGS, _WORDS.unpack(form), strict=True))


@functools.cache
def _host() -> bytes | None:
    """Return what processes have in common that can open each other's descriptors."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            boot = file.read()
        space = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None
    words = b"%s %d %d" % (boot, space, os.geteuid())
    return hashlib.sha256(words).digest()[:_HOST_BYTES]


def _keep_trimmed(watched: SegmentPool) -> None:
    """See to it that a pool is trimmed now and then, for as long as it holds anything."""
    if not watched.is_watched:
        watched.is_watched = True
        loop = get_loop()
        loop.call_soon_threadsafe(loop.call_later, _TRIM_S, _trim, watched)


def _trim(watched: SegmentPool) -> None:
    watched.trim()
    watched.is_watched = False
    if watched.held_bytes:
        _keep_trimmed(watched)
