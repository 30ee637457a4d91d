"""The server's end of one connection: calls come in, handlers run, answers go out."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Protocol

from google.protobuf.message import DecodeError, Message

from tideflow.platform import clock
from tideflow.platform.settings import Settings
from tideflow.transport.admission import Admission, RefusedError
from tideflow.transport.answer import answer, answer_stream, as_op_error, begin_answer
from tideflow.transport.callers import Caller
from tideflow.transport.encoding import takes_long_to_write, written
from tideflow.transport.h2 import grpc
from tideflow.transport.h2.connection import Connection
from tideflow.transport.h2.crowding import make_room
from tideflow.transport.h2.events import (
    DataReceived,
    Event,
    HeadersReceived,
    PingAnswered,
    SettingsReceived,
    StreamReset,
)
from tideflow.transport.h2.faults import ErrorCode
from tideflow.transport.h2.frames import Buffer
from tideflow.transport.h2.header_blocks import encode_block
from tideflow.transport.h2.heartbeat import KEEPALIVE_S
from tideflow.transport.h2.inbox import Inbox, Messages, note_received
from tideflow.transport.h2.limits import BudgetsByPeer, Limits
from tideflow.transport.h2.link import Link
from tideflow.transport.h2.message_streams import LinkStream
from tideflow.transport.h2.messages import (
    Assembler,
    MessageData,
    Parser,
    parsed,
    parts_of,
)
from tideflow.transport.h2.shared_memory_limit import most_shared_bytes
from tideflow.transport.h2.shared_memory_link import LEAST_BYTES, SharedBodies
from tideflow.transport.h2.spinning import loop_spin, spin_s
from tideflow.transport.identity import Identity, Kind
from tideflow.transport.roles import is_limited, refusal
from tideflow.transport.service import AtOnce, Binding
from tideflow.wire import errors
from tideflow.wire.room import LEAST_BYTES as LOOK_BYTES
from tideflow.wire.room import is_full, limits_in_words


class Host(Protocol):
    """What a link needs of its server."""

    bindings: dict[str, Binding]
    parsers: dict[str, Parser]
    tasks: set[asyncio.Task[Any]]
    links: set[ServerLink]
    limits: Limits
    budgets: BudgetsByPeer
    settings: Settings
    max_message_bytes: int | None
    is_ending: bool
    admission: Admission
    address: str

    def refuse(self, transport: Any, refused: RefusedError) -> None:
        """Send a peer away that may not speak here."""
        ...

    def unknown_error(self, path: str) -> errors.OpError:
        """Return what a call gets whose method nobody here has."""
        ...


_LOGGER = logging.getLogger(__name__)

# How long calls in flight may take to end when the peer's certificate has run out.
_AFTER_EXPIRY_S = 60.0
_EXPIRED = "the peer's certificate has run out"

# A piece of a message that is smaller, and does not end it, counts against its peer.
_SMALL_PIECE_BYTES = 1024

# A streaming call gives the loop to others after so many answers.
_TURN_ANSWERS = 64


class Call:
    """One call being answered.

    Attributes:
      message: the request of a unary call, once it is here.
      inbox: the requests of a streaming one.
      message_stream: stands for inbox and task of a streaming call that goes without them.
      work: what gives the answer of a unary call, while the task runs.
      end: the error to answer with when the task is cancelled; None if nobody waits for an answer.
    """

    __slots__ = (
        "assembler",
        "binding",
        "end",
        "has_head",
        "inbox",
        "message",
        "message_stream",
        "parser",
        "stream_id",
        "task",
        "timer",
        "work",
    )  # fmt: skip

    def __init__(
        self, stream_id: int, binding: Binding, parser: Parser, most_bytes: int | None
    ) -> None:
        self.stream_id = stream_id
        self.binding = binding
        self.parser = parser
        self.assembler = Assembler(parser, most_bytes)
        self.message: MessageData | None = None
        self.inbox: Messages | None = None
        self.message_stream: ServerStream | None = None
        self.task: asyncio.Task[None] | None = None
        self.work: Coroutine[Any, Any, Message] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.end: errors.OpError | None = None
        self.has_head = False


class ServerLink(Link):
    """One connection that a server has accepted."""

    def __init__(self, server: Host) -> None:
        settings = server.settings
        core = Connection(is_client=False, limits=server.limits)
        super().__init__(core, KEEPALIVE_S, settings)
        self.shared = SharedBodies(core, most_shared_bytes(settings.shared_memory))
        self._spin = loop_spin(self.loop, spin_s(settings.spin))
        self._server = server
        self._calls: dict[int, Call] = {}
        self._caller = Caller()
        self._identity = Identity(Kind.STRANGER)
        self.is_limited = True
        self.since_s = clock.monotonic_s()
        self._expiry: asyncio.TimerHandle | None = None
        self._until_look_bytes = LOOK_BYTES
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._server.links.add(self)
        if self._caller.identity is None:
            try:
                self.let_in(self._server.admission.identify(transport))
            except RefusedError as refused:
                self._server.refuse(transport, refused)
                return
        try:
            make_room(self, transport.get_extra_info("socket"), self._server.links)
        except RefusedError as refused:
            self._server.refuse(transport, refused)
            return
        super().connection_made(transport)
        lifetime_s = self._server.admission.lifetime_s(transport)
        if lifetime_s is not None:
            self._expiry = self.loop.call_later(lifetime_s, self._expire)
        if self._server.is_ending:
            self.leave()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._server.links.discard(self)
        self._caller.has_left = True
        if self._expiry is not None:
            self._expiry.cancel()
        self.closed.set()

    def _expire(self) -> None:
        """What proved who the peer is has run out: it is to come again, with what holds now."""
        _LOGGER.info("the certificate of %s has run out; its connection ends", self.peer)
        self.leave()
        self._expiry = self.loop.call_later(_AFTER_EXPIRY_S, self.abort, _EXPIRED)

    def let_in(self, identity: Identity) -> None:
        """Take note of who is at the other end, before anything is read."""
        self._identity = self._caller.identity = identity
        self.is_limited = is_limited(identity)
        if not identity.is_this_user:
            self.core.budgets = self._server.budgets.of(f"{identity.host} {identity}")

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    def lost(self, reason: str) -> None:
        for call in list(self._calls.values()):
            if call.task is not None and call.binding.service.caller_lost(call.task):
                self._forget(call)
            else:
                self._give_up(call)

    def dismiss(self, reason: str) -> None:
        """Hang up, and say why."""
        self.core.leave(ErrorCode.ENHANCE_YOUR_CALM, reason)
        self.close_when_written()

    def leave(self) -> None:
        """Take no more calls, and tell the peer."""
        self.shared.leave()
        self.core.leave()
        self.flush()

    def end_calls(self, error_for: Callable[[str], errors.OpError]) -> None:
        """Cancel the calls in flight; each gets its error."""
        for call in list(self._calls.values()):
            self._stop(call, error_for(call.binding.spec.path))
        self.flush()

    # ---- events

    def handle(self, event: Event) -> None:
        if type(event) is DataReceived:
            call = self._calls.get(event.stream_id)
            if call is not None:
                self._on_data(call, event)
        elif type(event) is HeadersReceived:
            if event.opens:
                self._on_call(event)
            elif event.end_stream and event.stream_id in self._calls:
                self._on_end(self._calls[event.stream_id])
        elif type(event) is StreamReset:
            call = self._calls.get(event.stream_id)
            if call is not None:
                self._give_up(call)
        elif type(event) is SettingsReceived:
            self.shared.on_settings(event.others)
        elif type(event) is PingAnswered:
            self.shared.on_ping_answered(event.payload)

    def _on_call(self, event: HeadersReceived) -> None:
        self._spin.heard()
        head = grpc.read_request(event.headers)
        stream_id = event.stream_id
        if head.http_status:
            block = encode_block([(b":status", head.http_status)])
            self.core.send_headers(stream_id, block, end_stream=True)
            self.core.reset(stream_id, ErrorCode.NO_ERROR)
            return
        binding = self._server.bindings.get(head.path)
        refused = self._refusal(head.path, event) if self.is_limited else None
        if binding is None or head.fault is not None or refused is not None:
            error = refused or head.fault or self._server.unknown_error(head.path)
            self.core.send_headers(stream_id, grpc.error_head(error), end_stream=True)
            self.core.reset(stream_id, ErrorCode.NO_ERROR)
            return
        parser = self._server.parsers[head.path]
        call = Call(stream_id, binding, parser, self._server.max_message_bytes)
        call.assembler.encoding = head.encoding
        call.assembler.view_shared = self.shared.view
        self._calls[stream_id] = call
        if self._next_look is None:
            self.watch_peer()
        if head.timeout_s is not None:
            call.timer = self.loop.call_later(head.timeout_s, self._time_out, call, head.timeout_s)
        if binding.spec.streaming and not self._accept_pipe(call):
            inbox = call.inbox = Inbox(functools.partial(self._acknowledge, stream_id))
            self._start(call, self._answer_stream(call, inbox))
        if event.end_stream:
            self._on_end(call)

    def _refusal(self, path: str, event: HeadersReceived) -> errors.OpError | None:
        """Return why the peer may not make a call; None if it may."""
        admission = self._server.admission
        identity = admission.proven(self._identity, event.headers.pairs)
        found = refusal(identity, path)
        if found is None:
            self._caller.identity = identity
        else:
            admission.tell_denied(found, self._server.address)
        return found

    def _accept_pipe(self, call: Call) -> bool:
        """Let a service take a streaming call as a message stream; False if it does not."""
        binding = call.binding
        message_stream = ServerStream(self, call)
        receiver = binding.service.accept_message_stream(binding.spec.name, message_stream)
        if receiver is None:
            return False
        message_stream.begin(receiver)
        call.inbox = call.message_stream = message_stream
        return True

    def _on_data(self, call: Call, event: DataReceived) -> None:
        try:
            messages = call.assembler.feed(event.data)
        except errors.OpError as error:
            self._stop(call, error)
            return
        self.room_used(call.stream_id, len(event.data))
        is_piece = len(event.data) < _SMALL_PIECE_BYTES and not messages and not event.end_stream
        if is_piece and not self.core.budgets.pieces.take():
            self.dismiss("more small pieces of messages than is sensible")
            return
        for message in messages:
            self._on_message(call, message)
        if event.end_stream:
            self._on_end(call)

    def assembler_of(self, stream_id: int) -> Assembler | None:
        call = self._calls.get(stream_id)
        return None if call is None else call.assembler

    def room_used(self, stream_id: int, count: int) -> None:
        call = self._calls.get(stream_id)
        note_received(self.core, stream_id, count, None if call is None else call.inbox)
        self._until_look_bytes -= count
        if self._until_look_bytes < 0:
            self._until_look_bytes = LOOK_BYTES
            if call is not None and is_full():
                self._stop(call, self._full_error("what comes"))

    def message_received(self, stream_id: int, data: MessageData) -> None:
        call = self._calls.get(stream_id)
        if call is not None:
            self._on_message(call, data)

    def _on_message(self, call: Call, data: MessageData) -> None:
        call.binding.statistics.received_bytes += len(data)
        if call.inbox is not None:
            call.inbox.put(data)
        elif call.message is None:
            call.message = data
        else:
            self._stop(call, self._count_error(call, "more than one message"))

    def _on_end(self, call: Call) -> None:
        """The peer has sent all that it has to send."""
        if not call.assembler.is_between:
            self._stop(call, self._count_error(call, "half a message"))
        elif call.message_stream is not None:
            call.message_stream.close()
        elif call.inbox is not None:
            call.inbox.end()
        elif call.message is None:
            self._stop(call, self._count_error(call, "no message"))
        elif call.task is None and call.stream_id in self._calls:
            data, call.message = call.message, None
            at_once = call.binding.at_once
            if at_once is None or self.owes_too_much or call.parser.takes_long(data):
                self._start_answer(call, self._work(call, data))
            else:
                self._answer_at_once(call, at_once, data)

    def _count_error(self, call: Call, found: str) -> errors.OpError:
        return errors.InternalError(f"a call of {call.binding.spec.path} came with {found}")

    # ---- answers

    def _start(self, call: Call, work: Any) -> None:
        task = call.task = self.loop.create_task(work, context=self._caller.context.copy())
        self._server.tasks.add(task)
        task.add_done_callback(functools.partial(self._on_task_done, call))

    def _on_task_done(self, call: Call, task: asyncio.Task[None]) -> None:
        self._server.tasks.discard(task)
        if call.work is not None:
            call.work.close()
        # Cancelled before its first step, it had no chance to answer.
        if call.end is not None and task.cancelled():
            self._fail_call(call, call.end)

    def _answer_at_once(
        self, call: Call, at_once: Callable[[Any], AtOnce[Any]], data: MessageData
    ) -> None:
        """Answer without a task, if the method has its answer and that is quickly sent."""
        try:
            found = begin_answer(call.binding, at_once, _parse(call, data))
            if isinstance(found, Coroutine):
                self._start_answer(call, found)
                return
            if takes_long_to_write(found):
                self._start(call, self._answer(call, _at_hand(found)))
                return
            parts = self._counted(call, parts_of(found, call.binding.spec.path))
            if not self.shared.can_lend or sum(map(len, parts)) < LEAST_BYTES:
                self._finish(call, parts)
                if not self._server.tasks:
                    self._spin.answered()
            else:
                self._start(call, self._lend_and_finish(call, parts))
        except errors.OpError as error:
            self._fail_call(call, error)
        except Exception as error:
            self._fail_call(call, as_op_error(error, call.binding.spec))

    def _start_answer(self, call: Call, work: Coroutine[Any, Any, Message]) -> None:
        call.work = work
        self._start(call, self._answer(call, work))

    async def _work(self, call: Call, data: MessageData) -> Message:
        if self.owes_too_much:
            await self.wait_taken(call.stream_id)
        request = await parsed(call.parser, data, functools.partial(_parse, call))
        del data
        if self.owes_too_much:  # others were answered while this one was parsed beside the loop
            await self.wait_taken(call.stream_id)
        return await answer(call.binding, request)

    @staticmethod
    def _counted(call: Call, parts: list[Buffer]) -> list[Buffer]:
        call.binding.statistics.sent_bytes += sum(map(len, parts)) - len(parts[0])
        return parts

    async def _lend_and_finish(self, call: Call, parts: list[Buffer]) -> None:
        self._finish(call, await self.shared.lend(parts))

    async def _answer(self, call: Call, work: Awaitable[Message]) -> None:
        try:
            response = await work
            parts = self._counted(call, await _written(call, response))
            if self.shared.can_lend:
                parts = await self.shared.lend(parts)
            self._finish(call, parts)
        except (Exception, asyncio.CancelledError) as error:
            self._fail_with(call, error)

    async def _answer_stream(self, call: Call, inbox: Inbox) -> None:
        count = 0
        try:
            async for response in answer_stream(call.binding, _parse_each(call, inbox)):
                count += 1
                if count % _TURN_ANSWERS == 0:
                    await asyncio.sleep(0)  # who has all answers at hand never waits by himself
                parts = await _written(call, response)
                parts = await self.shared.lend(self._counted(call, parts))
                if call.stream_id not in self._calls:
                    return
                self.send_head(call)
                self.core.send_data(call.stream_id, parts)
                self.flush()
                await self.wait_sendable(call.stream_id)
            self.end_call(call, None)
        except (Exception, asyncio.CancelledError) as error:
            self._fail_with(call, error)

    def _fail_with(self, call: Call, error: BaseException) -> None:
        """Answer with what a service raised; with the end that a call was given, if it has one.

        Raises: CancelledError where nobody ended the call: the server cancels it.
        """
        if not isinstance(error, asyncio.CancelledError):
            self._fail_call(call, as_op_error(error, call.binding.spec))
        elif call.end is not None:
            self._fail_call(call, call.end)
        else:
            raise error

    def end_call(self, call: Call, error: errors.OpError | None) -> None:
        """End a streaming call, well or with an error."""
        if error is not None:
            self._fail_call(call, error)
        elif self._forget(call):
            self.send_head(call)
            self.core.send_headers(call.stream_id, grpc.OK_TRAILERS, end_stream=True)
            self._end_half(call)

    def send_head(self, call: Call) -> None:
        if not call.has_head:
            call.has_head = True
            self.core.send_headers(call.stream_id, grpc.RESPONSE_HEAD)

    def _finish(self, call: Call, parts: list[Buffer]) -> None:
        if self.core.unsent_bytes > LOOK_BYTES and is_full():
            owed = f"an answer, behind {self.core.unsent_bytes} bytes that wait to be taken"
            self._fail_call(call, self._full_error(owed))
            return
        if self._forget(call):
            self.core.send_whole(call.stream_id, grpc.RESPONSE_HEAD, parts, grpc.OK_TRAILERS)
            self.flush()

    def _fail_call(self, call: Call, error: errors.OpError) -> None:
        if not self._forget(call):
            return
        block = grpc.error_trailers(error) if call.has_head else grpc.error_head(error)
        self.core.send_headers(call.stream_id, block, end_stream=True)
        self._end_half(call)

    def _full_error(self, what: str) -> errors.OpError:
        return errors.ResourceExhaustedError(
            f"there is no room for {what} ({self.peer}): {limits_in_words()}"
        )

    def _end_half(self, call: Call) -> None:
        """After the answer: the rest of an unfinished request is not wanted."""
        if not self.core.pending_bytes(call.stream_id):
            self.core.reset(call.stream_id, ErrorCode.NO_ERROR)
        self.flush()

    # ---- ends

    def _time_out(self, call: Call, timeout_s: float) -> None:
        path = call.binding.spec.path
        self._stop(call, errors.DeadlineExceededError(f"{path} took over {timeout_s:g} s"))

    def _stop(self, call: Call, error: errors.OpError) -> None:
        """Cancel a call whose caller still waits, and answer with error."""
        if call.task is None:
            self._fail_call(call, error)
        elif call.end is None and call.stream_id in self._calls:
            call.end = error
            call.task.cancel()

    def _give_up(self, call: Call) -> None:
        """Cancel a call that nobody waits for any more."""
        self._forget(call)
        call.end = None
        if call.task is not None:
            call.task.cancel()

    def _forget(self, call: Call) -> bool:
        """Let go of a call; False if that has happened before."""
        if call.timer is not None:
            call.timer.cancel()
            call.timer = None
        was_here = self._calls.pop(call.stream_id, None) is not None
        if call.message_stream is not None:
            call.message_stream.end()
        return was_here

    def _acknowledge(self, stream_id: int, count: int) -> None:
        self.core.acknowledge(stream_id, count)
        self.flush()


class ServerStream(LinkStream):
    """A message stream that a client has opened."""

    def __init__(self, link: ServerLink, call: Call) -> None:
        binding = call.binding
        super().__init__(
            link, binding.spec, call.stream_id, binding.statistics, functools.partial(_parse, call)
        )
        self._call = call
        self._server_link = link

    def _begin_sending(self) -> None:
        self._server_link.send_head(self._call)

    def _end_call(self, error: errors.OpError | None) -> None:
        self._server_link.end_call(self._call, error)


def _parse(call: Call, data: MessageData) -> Message:
    spec = call.binding.spec
    size = len(data)
    try:
        return call.parser.parse(data)
    except DecodeError as error:
        raise errors.InvalidArgumentError(
            f"the {size} bytes sent to {spec.path} are not a {spec.request_type.__name__}: {error}"
        ) from error


async def _at_hand(response: Message) -> Message:
    return response


async def _written(call: Call, response: Message) -> list[Buffer]:
    spec = call.binding.spec
    return await written(response, spec.path, parts_of, spec.answers_graphs)


async def _parse_each(call: Call, inbox: Inbox) -> AsyncIterator[Message]:
    while (data := await inbox.get()) is not None:
        yield await parsed(call.parser, data, functools.partial(_parse, call))
