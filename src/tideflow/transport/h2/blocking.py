"""Unary calls that a user's thread makes by itself: it writes, blocks in recv, and reads.

No event loop is asked, which saves two changes of thread.  A connection carries one call at a time;
each thread takes a free one or makes another.  Nobody reads an idle connection, so a peer may have
hung up on it meanwhile: one that rested is looked at before it is used, and replaced in silence.
After Ctrl-C, a deadline or anything odd the connection is closed, which ends the call at the peer.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable

from google.protobuf.message import Message

from tideflow.platform import clock
from tideflow.platform.settings import Settings
from tideflow.transport import network
from tideflow.transport.channel import deadline_error, unreachable_error
from tideflow.transport.h2.calling import (
    CLOCK_SLACK_S,
    MOST_GREETING_S,
    MOST_TRIES,
    Backoff,
    Calling,
    OutOfTimeError,
)
from tideflow.transport.h2.client_calls import ClientCall, ClientCalls, NotProcessedError
from tideflow.transport.h2.connection import Connection
from tideflow.transport.h2.events import ConnectionFailed, Event, GoAway
from tideflow.transport.h2.failure_detector import (
    Evidence,
    FailureDetector,
    GiveUp,
    Look,
    Ping,
)
from tideflow.transport.h2.faults import ErrorCode, name_of
from tideflow.transport.h2.forks import keep_from_children
from tideflow.transport.h2.frames import Buffer
from tideflow.transport.h2.heartbeat import PING_TIMEOUT_S, let_kernel_watch
from tideflow.transport.h2.kernel_view import view_of
from tideflow.transport.h2.link import (
    BETWEEN_BYTES,
    DIRECT_BYTES,
    READ_BYTES,
    tell_of_late_greeting,
    tell_of_silence,
)
from tideflow.transport.h2.listening import split_host_port, unix_path
from tideflow.transport.h2.messages import Assembler, MessageData, parts_of
from tideflow.transport.h2.same_host import connect_nowait
from tideflow.transport.h2.spinning import SocketSpin, spin_s
from tideflow.transport.service import MethodSpec
from tideflow.transport.statistics import CountedCall, MethodStatistics
from tideflow.wire import errors

# Further calls at once go by the event loop, whose connection takes any number.
MOST_CONNECTIONS = 8

_TURN_BYTES = 1 << 20
# sendmsg takes no more buffers than IOV_MAX.
_MOST_BUFFERS = 1024
# A connection that rested for so long is looked at before it is used.
RESTED_S = 1.0
# For so long no server is looked for again on this host, where there was none and others need TLS.
_NO_DOOR_S = 1.0
_PING = b"blocking"


class Answer:
    """The outcome of a call: a message or an error, once it has ended."""

    __slots__ = ("error", "message")

    def __init__(self) -> None:
        self.message: MessageData | None = None
        self.error: Exception | None = None

    def done(self) -> bool:
        """Whether the call has ended."""
        return self.message is not None or self.error is not None

    def set_result(self, message: MessageData) -> None:
        """Take the message."""
        self.message = message

    def set_exception(self, error: Exception) -> None:
        """Take what ended the call instead."""
        self.error = error


class BlockingConnection(ClientCalls):
    """A connection that one thread at a time uses.

    Args:
      connection: a connected socket, owned from here on.
      peer: what the log calls the other end.
      keepalive_s: after so long without a word a peer that is no tideflow is asked for one, where
        the kernel cannot tell whether it is there.
      settings: how it is used.
    """

    def __init__(
        self, connection: socket.socket, peer: str, keepalive_s: float, settings: Settings
    ) -> None:
        super().__init__(Connection(is_client=True), settings)
        self._socket = connection
        self._peer = peer
        keep_from_children(connection)
        self._view = view_of(connection)
        self._detector = FailureDetector(settings.silence_s, keepalive_s, PING_TIMEOUT_S)
        self._has_heard = False
        self._timeout_s = connection.gettimeout()
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._spin = SocketSpin(connection, spin_s(settings.spin))
        self.failure = ""
        self._used_at_s = clock.monotonic_s()
        self.shared.begin(connection.getsockname(), connection.getpeername())

    def greet(self, soon_s: float, deadline_s: float | None) -> None:
        """Wait until the peer says that it speaks HTTP/2; for longer than soon_s only where the
        kernel can tell that the peer is there.

        Raises: OSError when it does not; OutOfTimeError.
        """
        soonest_s = clock.monotonic_s() + soon_s
        try:
            self._await_settings(soonest_s if deadline_s is None else min(soonest_s, deadline_s))
        except OutOfTimeError:
            if clock.monotonic_s() < soonest_s or self._view() is not Evidence.ALIVE:
                raise
            tell_of_late_greeting(self._peer, soon_s, MOST_GREETING_S)
            latest_s = soonest_s - soon_s + MOST_GREETING_S
            self._await_settings(latest_s if deadline_s is None else min(latest_s, deadline_s))
        self._detector.is_tideflow = self.core.has_heartbeat
        if self.failure or not self.core.can_open:
            raise ConnectionError(self.failure or "the peer takes no calls now")

    def _await_settings(self, deadline_s: float) -> None:
        self._write(deadline_s)
        while not self.core.has_settings and not self.failure:
            self._read(deadline_s)

    def is_usable(self) -> bool:
        """Whether another call can be made, as far as one can tell without waiting."""
        if clock.monotonic_s() - self._used_at_s > RESTED_S:
            self._timeout_s = 0.0
            self._socket.settimeout(0.0)
            with contextlib.suppress(BlockingIOError):
                while not self.failure:
                    self._receive()
        return not self.failure and self.core.can_open

    def call(
        self,
        call: ClientCall,
        answer: Answer,
        block: bytes,
        parts: list[Buffer],
        deadline_s: float | None,
    ) -> MessageData:
        """Make a call whose outcome is `answer`, and wait for its message.

        deadline_s is on the clock of clock.monotonic_s.  After any error but the peer's own answer
        the connection is closed.
        Raises: the error of the call; NotProcessedError when the peer never looked at it;
        OutOfTimeError after the deadline.
        """
        core = self.core
        is_written = False
        self._detector.rest()
        try:
            call.stream_id = stream_id = core.open_stream()
            self._calls[stream_id] = call
            core.send_whole(stream_id, block, self.shared.lend_now(parts))
            self._write(deadline_s)
            is_written = True
            self._spin.wait()
            while answer.message is None and answer.error is None:
                self._read(deadline_s)
        except BaseException:
            if is_written:
                self._cancel(call.stream_id)
            self.close()
            raise
        self._used_at_s = clock.monotonic_s()
        if answer.error is not None:
            raise answer.error
        assert answer.message is not None
        return answer.message

    def _cancel(self, stream_id: int) -> None:
        """Say that nobody waits for the answer to a call any more: a peer that only loses the
        connection may expect the caller to come back."""
        if not self.failure and self._calls.pop(stream_id, None) is not None:
            self.core.reset(stream_id, ErrorCode.CANCEL)
            with contextlib.suppress(OSError):
                self._socket.settimeout(0.0)
                self._socket.send(b"".join(self.core.take_output()))

    # ---- bytes

    def _write(self, deadline_s: float | None) -> None:
        """Write what there is to write; a peer that grants no more room is read meanwhile."""
        core = self.core
        try:
            while core.has_output:
                self._send(core.take_output(_TURN_BYTES), deadline_s)
        except OSError as error:
            self._hear_last_words()
            self._lose(str(error))

    def _hear_last_words(self) -> None:
        """Read what a peer that hung up has said before: perhaps why."""
        self._timeout_s = 0.0
        self._socket.settimeout(0.0)
        with contextlib.suppress(BlockingIOError):
            while not self.failure:
                self._receive()

    def _send(self, out: list[Buffer], deadline_s: float | None) -> None:
        """Send all, unless the peer is given up meanwhile."""
        if len(out) == 1:
            # A small step is one buffer, which the socket takes at once.
            self._set_timeout(deadline_s)
            with contextlib.suppress(TimeoutError):
                sent = self._socket.send(out[0])
                if sent == len(out[0]):
                    return
                out = [memoryview(out[0])[sent:]]
        views = deque(memoryview(one) for one in out)
        while views and not self.failure:
            self._set_timeout(deadline_s)
            try:
                if len(views) == 1:
                    sent = self._socket.send(views[0])
                else:
                    sent = self._socket.sendmsg(list(views)[:_MOST_BUFFERS])
            except TimeoutError:
                self._look_at_peer(deadline_s)
                continue
            while views and sent >= len(views[0]):
                sent -= len(views.popleft())
            if sent:
                views[0] = views[0][sent:]

    def _read(self, deadline_s: float | None) -> None:
        """Wait for something to read, and act on it."""
        self._set_timeout(deadline_s)
        try:
            self._receive()
        except TimeoutError:
            self._look_at_peer(deadline_s)
        if self.core.has_output:
            self._write(deadline_s)

    def _look_at_peer(self, deadline_s: float | None) -> None:
        """After a while without a word: end the call if it is time, or if the peer is gone."""
        if deadline_s is not None and clock.monotonic_s() >= deadline_s:
            raise OutOfTimeError from None
        has_heard, self._has_heard = self._has_heard, False
        for instruction in self._detector.look(Look(has_heard, self._view())):
            if type(instruction) is GiveUp:
                self._lose(instruction.reason)
            elif type(instruction) is Ping:
                self.core.ping(_PING)
            else:
                tell_of_silence(self._peer, instruction)

    def _receive(self) -> None:
        """Read once, and act on it.  Raises: TimeoutError, BlockingIOError as the socket does."""
        stream_id, count = self.core.body_wanted
        place = self.assembler_of(stream_id) if stream_id else None
        room = None if place is None else place.room()
        if room is None:
            place, into = None, self._buffer
        elif count >= DIRECT_BYTES and len(room) >= DIRECT_BYTES:
            into = room[:count]
        else:
            place, into = None, self._buffer[: max(BETWEEN_BYTES, count + 9)]
        try:
            size = self._socket.recv_into(into)
        except (TimeoutError, BlockingIOError):
            raise
        except OSError as error:
            self._lose(str(error))
            return
        if not size:
            self._lose("the peer closed the connection")
            return
        self._has_heard = True
        if place is None:
            events = self.core.receive(into[:size])
        else:
            events = self._received_in_place(place, stream_id, size)
        for event in events:
            self.handle(event)

    def _received_in_place(self, place: Assembler, stream_id: int, size: int) -> list[Event]:
        message = place.filled(size)
        self.room_used(stream_id, size)
        if message is not None:
            self.message_received(stream_id, message)
        return self.core.received_in_place(size)

    def handle(self, event: Event) -> None:
        if type(event) is GoAway:
            self.end_unprocessed(event)
            if event.code == ErrorCode.INADEQUATE_SECURITY:
                self._lose(f"{name_of(event.code)}: {event.text}")
        elif type(event) is ConnectionFailed:
            with contextlib.suppress(OSError):  # it goes anyway; this only tells the peer why
                self._socket.sendall(b"".join(self.core.take_output()))
            self._lose(event.text)
        else:
            super().handle(event)

    def _set_timeout(self, deadline_s: float | None) -> None:
        wait_s = self._detector.next_s
        if deadline_s is not None:
            wait_s = min(wait_s, deadline_s - clock.monotonic_s())
            if wait_s <= 0:
                raise OutOfTimeError
        if wait_s != self._timeout_s:
            self._timeout_s = wait_s
            self._socket.settimeout(wait_s)

    # ---- ends

    def _lose(self, reason: str) -> None:
        self.failure = self.failure or reason
        self.core.abandon()
        self.end_lost(reason)

    def close(self) -> None:
        """Hang up.  Only the thread that uses the connection may do so."""
        self.failure = self.failure or "the connection was closed"
        self._socket.close()
        self.shared.close()

    def leave_to_parent(self) -> None:
        """Let go of a connection that the parent of this process goes on to use."""
        self._socket.close()

    def interrupt(self) -> None:
        """Let the thread that uses the connection find it lost (from any thread)."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class BlockingCalls:
    """Unary calls to one peer from any threads but the event loop's.

    What a call promises is what H2Channel.unary promises, without wait_for_ready and metadata;
    KeyboardInterrupt goes on to the caller.
    """

    def __init__(
        self,
        calling: Calling,
        keepalive_s: float,
        statistics_of: Callable[[str], MethodStatistics],
    ) -> None:
        self._calling = calling
        self._statistics_of = statistics_of
        self._keepalive_s = keepalive_s
        # Without locks, which a fork may find taken: each step on these is one of the interpreter.
        self._free: deque[BlockingConnection] = deque()
        self._used: set[BlockingConnection] = set()
        # Connected to a server of this host, and not used yet.
        self._doors: deque[socket.socket] = deque()
        self._no_door_before_s = 0.0
        self._process = _process
        self._backoff = Backoff()
        self._last_failure = ""
        self._closed = False

    @property
    def has_room(self) -> bool:
        """Whether a call would find or make a connection of its own."""
        if len(self._used) >= MOST_CONNECTIONS:
            return False
        return not self._calling.is_secure or bool(self._free) or self._finds_server_here()

    def _finds_server_here(self) -> bool:
        """Whether a server of this user and host is there, which needs no TLS."""
        if self._doors:
            return True
        if clock.monotonic_s() < self._no_door_before_s:
            return False
        with contextlib.suppress(OSError):
            door = _beside(self._calling)
            if door is not None:
                self._doors.append(door)
                return True
        self._no_door_before_s = clock.monotonic_s() + _NO_DOOR_S
        return False

    def unary(
        self,
        method: MethodSpec,
        request: Message,
        *,
        timeout_s: float | None = None,
    ) -> Message:
        """Call a method, and wait in the calling thread for its answer.

        Raises: as Channel.unary.
        """
        if timeout_s is None:
            timeout_s = method.timeout_s
        statistics = self._statistics_of(method.path)
        with CountedCall(statistics):
            try:
                return self._unary(method, request, statistics, timeout_s)
            except OutOfTimeError:
                raise deadline_error(method.path, self._calling.target, timeout_s or 0.0) from None
            except errors.OpError as error:
                if self._closed and isinstance(error, errors.UnavailableError):
                    raise self._calling.closed_error(method.path) from None
                raise

    def _unary(
        self,
        method: MethodSpec,
        request: Message,
        statistics: MethodStatistics,
        timeout_s: float | None,
    ) -> Message:
        parts = parts_of(request, method.path)
        statistics.sent_bytes += sum(map(len, parts)) - len(parts[0])
        deadline_s = None if timeout_s is None else clock.monotonic_s() + timeout_s
        for _ in range(MOST_TRIES):
            connection = self._take(method, deadline_s)
            try:
                left_s = None if deadline_s is None else deadline_s - clock.monotonic_s()
                block = self._calling.block(method, left_s)
                answer = Answer()
                call = self._calling.new_call(method, answer)
                data = connection.call(call, answer, block, parts, deadline_s)
            except NotProcessedError:
                continue
            except errors.DeadlineExceededError:
                # The peer's clock may be the first to see that the time is over.
                if deadline_s is not None and clock.monotonic_s() > deadline_s - CLOCK_SLACK_S:
                    raise OutOfTimeError from None
                raise
            finally:
                self._give(connection)
            self._backoff.reset()
            return self._calling.parse(method, data, statistics)
        raise self._calling.refused_error(method.path)

    # ---- connections

    def _take(self, method: MethodSpec, deadline_s: float | None) -> BlockingConnection:
        """Return a connection that nobody else uses now."""
        if self._process is not _process:
            self._forget_parents()
        while True:
            try:
                connection, is_new = self._free.pop(), False
            except IndexError:
                connection, is_new = self._connect(method, deadline_s), True
            # `close` either sees it among these, or is seen here.
            self._used.add(connection)
            if self._closed:
                self._give(connection)
                raise self._calling.closed_error(method.path)
            if is_new or connection.is_usable():
                return connection
            self._give(connection)

    def _give(self, connection: BlockingConnection) -> None:
        self._used.discard(connection)
        if connection.failure or not connection.core.can_open:
            connection.close()
        else:
            self._free.append(connection)
        # `close` may have come before.
        if self._closed:
            self._close_free()

    def _connect(self, method: MethodSpec, deadline_s: float | None) -> BlockingConnection:
        if clock.monotonic_s() < self._backoff.retry_at_s:
            raise unreachable_error(method.path, self._calling.target, self._last_failure)
        since_s = clock.monotonic_s()
        soon_s = timeout_s = self._backoff.connect_s
        if deadline_s is not None:
            timeout_s = min(timeout_s, deadline_s - clock.monotonic_s())
            if timeout_s <= 0:
                raise OutOfTimeError
        try:
            return self._greeted(self._open(timeout_s), soon_s, deadline_s)
        except (OSError, OutOfTimeError, errors.OpError) as error:
            if deadline_s is not None and clock.monotonic_s() >= deadline_s:
                raise OutOfTimeError from None
            is_late = isinstance(error, OutOfTimeError | TimeoutError)
            waited_s = clock.monotonic_s() - since_s
            self._last_failure = f"no answer within {waited_s:.0f} s" if is_late else str(error)
            self._backoff.tried(clock.monotonic_s(), was_late=is_late)
            raise unreachable_error(method.path, self._calling.target, self._last_failure) from None

    def _open(self, timeout_s: float) -> socket.socket:
        with contextlib.suppress(IndexError):
            door = self._doors.pop()
            door.settimeout(timeout_s)
            return door
        return _open(self._calling, timeout_s)

    def _greeted(
        self, connected: socket.socket, soon_s: float, deadline_s: float | None
    ) -> BlockingConnection:
        made = BlockingConnection(
            connected, self._calling.target, self._keepalive_s, self._calling.settings
        )
        try:
            made.greet(soon_s, deadline_s)
        except BaseException:
            made.close()
            raise
        return made

    def _forget_parents(self) -> None:
        """Leave the connections to the process that we are a fork of."""
        self._process = _process
        for connection in (*self._free, *self._used):
            connection.leave_to_parent()
        self._free, self._used = deque(), set()

    def close(self) -> None:
        """End the calls in flight with CancelledError, and hang up (from any thread)."""
        self._closed = True
        self._close_free()
        with contextlib.suppress(IndexError):
            while True:
                self._doors.pop().close()
        for connection in list(self._used):
            connection.interrupt()

    def _close_free(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._free.pop().close()


def _open(calling: Calling, timeout_s: float) -> socket.socket:
    path = unix_path(calling.address)
    if path is None:
        beside = _beside(calling)
        if beside is not None:
            beside.settimeout(timeout_s)
            return beside
        if calling.is_secure:
            raise ConnectionError("the server of this host has gone")
        host, port = split_host_port(calling.address)
        made = network.open_tcp(host, port, timeout_s)
        let_kernel_watch(made, calling.settings.silence_s)
        return made
    return network.open_unix(path, timeout_s)


def _beside(calling: Calling) -> socket.socket | None:
    """Return a connection to a server of this user and host; None if there is none."""
    host, port = split_host_port(calling.address)
    return connect_nowait(host, port) if calling.shares_host else None


# Another object in each process that comes of a fork.
_process = object()


def _forked() -> None:
    global _process
    _process = object()


os.register_at_fork(after_in_child=_forked)
