"""Unary and streaming calls as their client sees them: what comes back, and how they end.

Nothing here reads, writes or waits; the event loop's connections and those of blocked threads
(see blocking.py) give their events to the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tideflow.platform.settings import Settings
from tideflow.transport.h2 import grpc
from tideflow.transport.h2.connection import Connection
from tideflow.transport.h2.events import (
    DataReceived,
    Event,
    GoAway,
    HeadersReceived,
    PingAnswered,
    SettingsReceived,
    StreamReset,
)
from tideflow.transport.h2.faults import ErrorCode
from tideflow.transport.h2.inbox import Messages, note_received
from tideflow.transport.h2.messages import Assembler, MessageData, Parser
from tideflow.transport.h2.shared_memory_limit import most_shared_bytes
from tideflow.transport.h2.shared_memory_link import SharedBodies
from tideflow.wire import errors


class Outcome(Protocol):
    """Where the answer of a unary call goes; a future is one."""

    def done(self) -> bool:
        """Whether the call has ended."""
        ...

    def set_result(self, result: MessageData, /) -> None:
        """Take the message."""
        ...

    def set_exception(self, error: Exception, /) -> None:
        """Take what ended the call instead."""
        ...


class NotProcessedError(Exception):
    """The peer never looked at a call: it may be made again."""


class ClientCall:
    """One call on its way.

    Attributes:
      done: for a unary call, gets its message, or an OpError or NotProcessedError.
      inbox: for a streaming call, what arrives.
      error_for: makes an OpError of code, text, metadata; the channel knows what else to say.
    """

    __slots__ = (
        "assembler", "done", "error_for", "has_head", "inbox", "message",
        "stream_id",
    )  # fmt: skip

    def __init__(
        self,
        parser: Parser,
        done: Outcome | None,
        error_for: Callable[[int, str, grpc.Metadata], errors.OpError],
    ) -> None:
        self.stream_id = 0
        self.assembler = Assembler(parser, None)
        self.done = done
        self.inbox: Messages | None = None
        self.error_for = error_for
        self.message: MessageData | None = None
        self.has_head = False

    def fail(self, error: errors.OpError | NotProcessedError) -> None:
        """End the call without an answer."""
        if self.done is not None:
            if not self.done.done():
                self.done.set_exception(error)
        elif self.inbox is not None:
            if isinstance(error, NotProcessedError):
                error = self.error_for(errors.UNAVAILABLE, "the peer refused the stream", ())
            self.inbox.end(error)

    def finish(self, code: int, text: str, metadata: grpc.Metadata) -> None:
        """End the call with the status that came for it."""
        if code:
            self.fail(self.error_for(code, text, metadata))
        elif not self.assembler.is_between:
            self.fail(self.error_for(errors.INTERNAL, "the answer stops within a message", ()))
        elif self.inbox is not None:
            self.inbox.end()
        elif self.message is None:
            self.fail(self.error_for(errors.INTERNAL, "answered with OK but no message", ()))
        elif self.done is not None and not self.done.done():
            self.done.set_result(self.message)


class ClientCalls:
    """The calls on one connection, and what the peer answers them.

    Attributes:
      core: the connection.
      shared: what of it passes through shared memory.
    """

    def __init__(self, core: Connection, settings: Settings) -> None:
        self.core = core
        self.shared = SharedBodies(core, most_shared_bytes(settings.shared_memory))
        self._calls: dict[int, ClientCall] = {}

    def handle(self, event: Event) -> None:
        """Act on what the peer did to a call, or said of shared memory."""
        if type(event) is HeadersReceived:
            self._on_headers(event)
        elif type(event) is DataReceived:
            self._on_data(event)
        elif type(event) is StreamReset:
            self._on_reset(event)
        elif type(event) is SettingsReceived:
            self.shared.on_settings(event.others)
        elif type(event) is PingAnswered:
            self.shared.on_ping_answered(event.payload)

    def _on_headers(self, event: HeadersReceived) -> None:
        call = self._calls.get(event.stream_id)
        if call is None:
            return
        is_first = not call.has_head
        if is_first and not event.end_stream and _is_interim(event):
            return
        head = grpc.read_response(event.headers, is_first=is_first, is_last=event.end_stream)
        if is_first:
            call.has_head = True
            call.assembler.encoding = head.encoding
            call.assembler.view_shared = self.shared.view
        if head.code is not None:
            self._finish(call, head.code, head.text, head.metadata)
        elif not event.end_stream and not is_first:
            self._finish(call, errors.INTERNAL, "sent headers in the midst of its answer", ())

    def _on_data(self, event: DataReceived) -> None:
        call = self._calls.get(event.stream_id)
        if call is None:
            return
        if not call.has_head:
            self._finish(call, errors.INTERNAL, "sent a body before its headers", ())
            return
        try:
            messages = call.assembler.feed(event.data)
        except errors.OpError as error:
            self._finish(call, error.error_code, error.message, ())
            return
        self.room_used(event.stream_id, len(event.data))
        for message in messages:
            self._on_message(call, message)
        if event.end_stream:
            self._finish(call, errors.INTERNAL, "ended the call without a grpc-status", ())

    def assembler_of(self, stream_id: int) -> Assembler | None:
        call = self._calls.get(stream_id)
        return call.assembler if call is not None and call.has_head else None

    def room_used(self, stream_id: int, count: int) -> None:
        call = self._calls.get(stream_id)
        note_received(self.core, stream_id, count, None if call is None else call.inbox)

    def message_received(self, stream_id: int, data: MessageData) -> None:
        call = self._calls.get(stream_id)
        if call is not None:
            self._on_message(call, data)

    def _on_message(self, call: ClientCall, data: MessageData) -> None:
        if call.inbox is not None:
            call.inbox.put(data)
        elif call.message is None:
            call.message = data
        else:
            self._finish(call, errors.INTERNAL, "answered with more than one message", ())

    def _on_reset(self, event: StreamReset) -> None:
        call = self._forget(event.stream_id)
        if call is None:
            return
        if not event.by_peer:
            call.finish(errors.INTERNAL, f"broke the protocol: {event.text}", ())
        elif event.code == ErrorCode.REFUSED_STREAM and not call.has_head:
            call.fail(NotProcessedError())
        else:
            text = grpc.text_of_reset(event.code)
            call.finish(grpc.code_of_reset(event.code), text, ())

    def end_unprocessed(self, event: GoAway) -> None:
        """End the calls that a leaving peer never looked at."""
        for stream_id in [i for i in self._calls if i > event.last_stream_id]:
            call = self._forget(stream_id)
            if call is not None:
                self.core.reset(stream_id, ErrorCode.CANCEL)
                call.fail(NotProcessedError())

    def end_lost(self, reason: str) -> None:
        """End all calls: the connection is gone."""
        calls, self._calls = list(self._calls.values()), {}
        for call in calls:
            text = f"the connection was lost: {reason}"
            call.fail(call.error_for(errors.UNAVAILABLE, text, ()))

    def _finish(self, call: ClientCall, code: int, text: str, metadata: grpc.Metadata) -> None:
        if self._forget(call.stream_id) is not None:
            call.finish(code, text, metadata)
            # What is left of it, on either side, is not wanted.
            self.core.reset(call.stream_id, ErrorCode.CANCEL)

    def _forget(self, stream_id: int) -> ClientCall | None:
        """Let go of a call; None if that has happened before."""
        return self._calls.pop(stream_id, None)


def _is_interim(event: HeadersReceived) -> bool:
    """Whether headers are of a 1xx answer, which another follows."""
    return any(name == b":status" and value[:1] == b"1" for name, value in event.headers.pairs)
