"""A connection on the event loop: moves bytes between a transport and the core, both ways.

Reading: frames come into one small buffer; the bulk of a large message is received where it
belongs.  Writing: what the core has to say goes out in pieces, as the transport takes them, and the
loop gets its turn between pieces.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from abc import ABC, abstractmethod
from typing import Any, cast
from weakref import WeakKeyDictionary

from tideflow.platform import clock
from tideflow.platform.settings import Settings
from tideflow.transport.h2.connection import Connection
from tideflow.transport.h2.events import ConnectionFailed, Event
from tideflow.transport.h2.failure_detector import (
    Evidence,
    FailureDetector,
    GiveUp,
    Instruction,
    Look,
    Ping,
    TellBack,
    TellSlow,
)
from tideflow.transport.h2.forks import keep_from_children
from tideflow.transport.h2.heartbeat import PING_TIMEOUT_S, let_kernel_watch
from tideflow.transport.h2.kernel_view import View, peer_pid, view_of
from tideflow.transport.h2.messages import Assembler, MessageData
from tideflow.transport.h2.shared_memory_link import SharedBodies
from tideflow.transport.h2.tls import fault_of

_LOGGER = logging.getLogger(__name__)

READ_BYTES = 128 * 1024
# A body of at least this size that is sure to come is received in place.
DIRECT_BYTES = 32 * 1024
# Between two frames of a large message little else comes: read little, to copy little.
BETWEEN_BYTES = 16 * 1024

# About a quarter of a millisecond's copying.
_TURN_BYTES = 1 << 20
_HIGH_WATER_BYTES = 1 << 20
# A stream's sender waits while this much of its data is not written yet.
_MOST_PENDING_BYTES = 1 << 20

# How long a peer may take to read the last words.
_CLOSE_S = 5.0
_STALLED_WATCHES = 5

_PING = b"tideflow"


# A read is used up before the next one begins, on whatever connection: one buffer serves them all.
# How many frames are parsed in a turn of the loop.
_TURN_FRAMES = 256

_buffers: WeakKeyDictionary[asyncio.AbstractEventLoop, memoryview] = WeakKeyDictionary()


def _buffer_of(loop: asyncio.AbstractEventLoop) -> memoryview:
    found = _buffers.get(loop)
    if found is None:
        found = _buffers[loop] = memoryview(bytearray(READ_BYTES))
    return found


class Link(asyncio.BufferedProtocol, ABC):
    """One end of one connection.

    Attributes:
      core: the connection without its transport.
      shared: what of it passes through shared memory.
      peer: what the log calls the other end.
      is_lost: whether it is over; lost_reason tells why.
    """

    shared: SharedBodies

    def __init__(self, core: Connection, keepalive_s: float, settings: Settings) -> None:
        self.core = core
        self.peer = ""
        self._silence_s = settings.silence_s
        self._detector = FailureDetector(settings.silence_s, keepalive_s, PING_TIMEOUT_S)
        self._has_heard = False
        self._view: View = lambda: Evidence.NONE
        self._next_look: asyncio.TimerHandle | None = None
        self.loop = asyncio.get_running_loop()
        self.is_lost = False
        self.lost_reason = ""
        self._transport: asyncio.Transport | None = None
        self._buffer = _buffer_of(self.loop)
        self._place: Assembler | None = None
        self._place_stream = 0
        self._is_paused = False
        self._is_turn_set = False
        self._is_flooded = False
        self._closes_when_written = False
        # Who waits for a stream's data to be written; by -stream, for answers of any stream.
        self._sendable: dict[int, asyncio.Future[None]] = {}
        self._watch: asyncio.TimerHandle | None = None
        self._watch_due_s = 0.0
        self._progress: tuple[int, int] = (0, 0)
        self._unfinished: tuple[int, int] | None = None
        self._watches_without_progress = 0

    @property
    def socket_family(self) -> socket.AddressFamily | None:
        """What kind of socket it goes by, AF_INET, AF_INET6 or AF_UNIX; None without one."""
        connection = None if self._transport is None else self._transport.get_extra_info("socket")
        return None if connection is None else connection.family

    @property
    def peer_certificate(self) -> dict[str, Any]:
        """What the peer's verified certificate says, as ssl.SSLObject.getpeercert gives it; empty
        without one."""
        found = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        return {} if found is None else found.getpeercert() or {}

    # ---- what the two ends do

    @abstractmethod
    def assembler_of(self, stream_id: int) -> Assembler | None:
        """Return what collects the messages of a stream."""

    @abstractmethod
    def handle(self, event: Event) -> None:
        """Act on what the peer did."""

    @abstractmethod
    def message_received(self, stream_id: int, data: MessageData) -> None:
        """Take a message that was received in place."""

    @abstractmethod
    def room_used(self, stream_id: int, count: int) -> None:
        """Take note of bytes received in place."""

    @property
    @abstractmethod
    def has_calls(self) -> bool:
        """Whether calls are in flight."""

    @abstractmethod
    def lost(self, reason: str) -> None:
        """End everything on this connection: it is gone."""

    def watch(self) -> str:
        """Return why the connection should be given up, or ""; called about once a minute."""
        if not self.core.has_settings:
            return "the peer did not say that it speaks HTTP/2"
        unfinished = self.core.unfinished
        if unfinished is not None and unfinished == self._unfinished:
            return f"the peer stopped within a frame, over {self.core.limits.watch_s:g} s ago"
        self._unfinished = unfinished
        transport = self._transport
        waiting = 0 if transport is None else transport.get_write_buffer_size()
        progress = (self.core.data_bytes_sent, waiting)
        if (waiting or self.core.is_stalled) and progress == self._progress:
            self._watches_without_progress += 1
        else:
            self._watches_without_progress = 0
        self._progress = progress
        if self._watches_without_progress >= _STALLED_WATCHES:
            return f"the peer took no data for {_STALLED_WATCHES * self.core.limits.watch_s:g} s"
        return ""

    # ---- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        transport = self._transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        connection = transport.get_extra_info("socket")
        own, peer = (transport.get_extra_info(name) for name in ("sockname", "peername"))
        if connection is not None:
            keep_from_children(connection)
            self._view = view_of(connection)
            if connection.family == socket.AF_UNIX:
                self.peer = self.peer or f"process {peer_pid(connection)}"
            else:
                self.peer = self.peer or f"{peer[0]}:{peer[1]}"
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                let_kernel_watch(connection, self._silence_s)
        fault = fault_of(transport)
        if fault:
            self.abort(fault)
            return
        self._watch_in(self.core.limits.greeting_s)
        self.shared.begin(own, peer)
        self.flush()

    def get_buffer(self, sizehint: int) -> memoryview:
        stream_id, count = self.core.body_wanted
        place = self.assembler_of(stream_id) if stream_id else None
        room = None if place is None else place.room()
        if room is None:
            return self._buffer
        if count >= DIRECT_BYTES and len(room) >= DIRECT_BYTES:
            self._place, self._place_stream = place, stream_id
            return room[:count]
        return self._buffer[: max(BETWEEN_BYTES, count + 9)]

    def buffer_updated(self, nbytes: int) -> None:
        self._has_heard = True
        if self._place is None:
            events = self.core.receive(self._buffer[:nbytes], _TURN_FRAMES)
        else:
            place, self._place = self._place, None
            message = place.filled(nbytes)
            self.room_used(self._place_stream, nbytes)
            if message is not None:
                self.message_received(self._place_stream, message)
            events = self.core.received_in_place(nbytes)
        self._handle_all(events)

    def _handle_all(self, events: list[Event]) -> None:
        """Act on what has come; a flood of frames is parsed in several turns of the loop."""
        for event in events:
            self.handle(event)
            if type(event) is ConnectionFailed:
                self._fail(event.text)
        self.flush()
        if self._is_paused and self.core.unsent_control_bytes > self.core.limits.most_control_bytes:
            self.abort("the peer asks, and does not read the answers")
        if self.core.has_more and self._transport is not None:
            if not self._is_flooded:
                self._is_flooded = True
                self._transport.pause_reading()
            self.loop.call_soon(self._parse_more)

    def _parse_more(self) -> None:
        transport = self._transport
        if self.is_lost or transport is None:
            return
        if self.core.has_more:
            self._handle_all(self.core.receive(b"", _TURN_FRAMES))
        if self._is_flooded and not self.core.has_more and not transport.is_closing():
            self._is_flooded = False
            transport.resume_reading()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._end(str(error) if error is not None else "the peer closed the connection")

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self.flush()

    # ---- our side

    def flush(self) -> None:
        """Write what there is to write, as far as the transport takes it now."""
        transport = self._transport
        core = self.core
        written = 0
        if transport is None or transport.is_closing():
            return  # connection_lost comes, or has come
        while not self._is_paused and core.has_output and not transport.is_closing():
            if written >= _TURN_BYTES:
                if not self._is_turn_set:
                    self._is_turn_set = True
                    self.loop.call_soon(self._next_turn)
                break
            out = core.take_output(_TURN_BYTES)
            if len(out) == 1:
                transport.write(out[0])
                written += len(out[0])
            else:
                transport.writelines(out)
                written += sum(map(len, out))
        if self._sendable:
            self._wake_senders()
        if self._closes_when_written and not core.has_output:
            transport.close()

    def _next_turn(self) -> None:
        self._is_turn_set = False
        self.flush()

    async def wait_sendable(self, stream_id: int) -> None:
        """Wait until a stream's data has mostly been written, or the stream is over."""
        while self.core.pending_bytes(stream_id) > _MOST_PENDING_BYTES and not self.is_lost:
            waiter = self._sendable[stream_id] = self.loop.create_future()
            try:
                await waiter
            finally:
                self._sendable.pop(stream_id, None)

    @property
    def owes_too_much(self) -> bool:
        """Whether so many answers wait for the peer that its next calls should wait as well."""
        return self.core.unsent_bytes > self.core.limits.most_unsent_bytes

    async def wait_taken(self, stream_id: int) -> None:
        """Let a call wait until the peer has taken of our answers what it should."""
        while self.owes_too_much and not self.is_lost:
            waiter = self._sendable[-stream_id] = self.loop.create_future()
            try:
                await waiter
            finally:
                self._sendable.pop(-stream_id, None)

    def _wake_senders(self) -> None:
        owes_too_much = self.owes_too_much
        for stream_id, waiter in self._sendable.items():
            if stream_id < 0:
                is_ready = not owes_too_much
            else:
                is_ready = self.core.pending_bytes(stream_id) <= _MOST_PENDING_BYTES
            if (is_ready or self.is_lost) and not waiter.done():
                waiter.set_result(None)

    def close_when_written(self) -> None:
        """Hang up after what is to be sent has been sent, or after a while."""
        self._closes_when_written = True
        transport = self._transport
        if transport is not None and not transport.is_closing():
            self.loop.call_later(_CLOSE_S, transport.abort)
        self.flush()

    def abort(self, reason: str) -> None:
        """Hang up now; what is on the connection ends at once."""
        self._end(reason)
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, reason: str) -> None:
        _LOGGER.info("a connection ends: %s", reason)
        self._end(reason)
        self.close_when_written()

    def _end(self, reason: str) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        self.lost_reason = reason
        self.core.abandon()
        for timer in (self._watch, self._next_look):
            if timer is not None:
                timer.cancel()
        self._wake_senders()
        self.shared.close()
        self.lost(reason)

    @property
    def is_known_to_live(self) -> bool:
        """Whether the kernel says that the peer, or its host, is there."""
        return self._view() is Evidence.ALIVE

    def watch_peer(self) -> None:
        """Look from time to time whether the peer lives, while calls are in flight."""
        if self._next_look is None and not self.is_lost:
            self._detector.is_tideflow = self.core.has_heartbeat
            self._next_look = self.loop.call_later(self._detector.next_s, self._look_at_peer)

    def _look_at_peer(self) -> None:
        self._next_look = None
        if self.is_lost:
            return
        has_heard, self._has_heard = self._has_heard, False
        if not self.has_calls:
            self._detector.rest()
            return
        for instruction in self._detector.look(Look(has_heard, self._view())):
            if type(instruction) is GiveUp:
                self.abort(instruction.reason)
                return
            if type(instruction) is Ping:
                self.core.ping(_PING)
                self.flush()
            else:
                tell_of_silence(self.peer, instruction)
        self.watch_peer()

    def _watch_in(self, wait_s: float) -> None:
        self._watch_due_s = clock.monotonic_s() + wait_s
        self._watch = self.loop.call_later(wait_s, self._on_watch)

    def _on_watch(self) -> None:
        # A process that was itself stopped has not read meanwhile, and must not blame its peer.
        is_late = clock.monotonic_s() - self._watch_due_s > self.core.limits.watch_s / 4
        reason = "" if is_late else self.watch()
        if reason:
            self.abort(reason)
        elif not self.is_lost:
            self.shared.watch()
            self.flush()
            self._watch_in(self.core.limits.watch_s)


def tell_of_silence(peer: str, instruction: Instruction) -> None:
    """Write to the log that a peer is slow, or answers again."""
    if type(instruction) is TellSlow:
        _LOGGER.warning(
            "%s has said nothing for %.1f s; its host is there, so it is waited for. "
            "It is stopped, or has too little of a processor or of memory",
            peer,
            instruction.silent_s,
        )
    elif type(instruction) is TellBack:
        _LOGGER.warning("%s answers again, after about %.1f s", peer, instruction.silent_s)


def tell_of_late_greeting(peer: str, waited_s: float, most_s: float) -> None:
    """Write to the log that a peer was connected to, and does not greet."""
    _LOGGER.warning(
        "%s was connected to %.0f s ago and has said nothing; it is waited for %.0f s in all. "
        "Is it stopped, busy, or no server of gRPC?",
        peer,
        waited_s,
        most_s,
    )
