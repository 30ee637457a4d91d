"""A gRPC channel on our own wire."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from google.protobuf.message import Message

from tideflow.blocking import spawn
from tideflow.platform import clock
from tideflow.platform.settings import Settings, process_settings
from tideflow.transport import network
from tideflow.transport.answer import is_being_cancelled
from tideflow.transport.certificates import fault_in, holder_of
from tideflow.transport.channel import (
    REFUSED,
    Channel,
    Metadata,
    deadline_error,
    unreachable_error,
)
from tideflow.transport.credentials import Credentials, credentials_of
from tideflow.transport.encoding import written
from tideflow.transport.h2 import same_host
from tideflow.transport.h2.blocking import BlockingCalls
from tideflow.transport.h2.calling import (
    CLOCK_SLACK_S,
    MOST_TRIES,
    Backoff,
    Calling,
    OutOfTimeError,
)
from tideflow.transport.h2.client_calls import ClientCall, NotProcessedError
from tideflow.transport.h2.client_link import ClientLink
from tideflow.transport.h2.frames import Buffer
from tideflow.transport.h2.heartbeat import KEEPALIVE_S
from tideflow.transport.h2.inbox import Inbox
from tideflow.transport.h2.listening import split_host_port, unix_path
from tideflow.transport.h2.message_streams import ClientStream
from tideflow.transport.h2.messages import MessageData, parts_of
from tideflow.transport.h2.tls import offer_h2, why_not_connected
from tideflow.transport.message_stream import MessageStream, StreamReceiver
from tideflow.transport.peer_user import is_in
from tideflow.transport.service import MethodSpec
from tideflow.transport.statistics import CountedCall, MethodStatistics
from tideflow.wire import errors

# After a stream was refused; four times as long after each further time.
_REFUSED_PAUSE_S = 0.002


class H2Channel(Channel):
    """Calls the gRPC server at `HOST:PORT` (or `unix:PATH`).

    The connection is made on the first call, and again, after at most half a second, when it was
    lost.  peer_name is what error messages call the peer, such as `/job:ps/task:0`; by default the
    address.  keepalive_s is the interval of pings to a peer that is no tideflow, while calls are in
    flight and nothing arrives.  tls is told to offer "h2" by ALPN, and nothing else.

    Attributes:
      link: the connection of calls on the event loop, None where there is none now.
    """

    def __init__(
        self,
        address: str,
        *,
        peer_name: str | None = None,
        keepalive_s: float = KEEPALIVE_S,
        tls: ssl.SSLContext | None = None,
        settings: Settings | None = None,
    ) -> None:
        super().__init__(f"{peer_name} ({address})" if peer_name else address)
        self._address = address
        self._keepalive_s = keepalive_s
        self._tls = offer_h2(tls)
        settings = settings or process_settings()
        self._credentials: Credentials | None = None
        if tls is None and settings.tls and unix_path(address) is None:
            self._credentials = credentials_of(settings.tls)
        self._expected = holder_of(peer_name)
        self._calling = Calling(
            self.target,
            address,
            is_secure=tls is not None or self._credentials is not None,
            shares_host=tls is None,
            settings=settings,
        )
        # Not by TLS, whose own work outweighs what there is to save.
        self._blocking: BlockingCalls | None = None
        if tls is None:
            self._blocking = BlockingCalls(self._calling, keepalive_s, self.statistics_of)
        self.blocking = self._blocking
        self.link: ClientLink | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._last_failure = ""
        self._backoff = Backoff()
        self._waiting: set[asyncio.Future[None]] = set()
        self._calls: set[ClientCall] = set()
        self._closed = False

    async def unary(
        self,
        method: MethodSpec,
        request: Message,
        *,
        timeout_s: float | None = None,
        wait_for_ready: bool | None = None,
        metadata: Metadata = (),
    ) -> Message:
        if timeout_s is None:
            timeout_s = method.timeout_s
        if wait_for_ready is None:
            wait_for_ready = method.wait_for_ready
        statistics = self.statistics_of(method.path)
        with self._one_call(method, statistics, timeout_s):
            parts = await written(request, method.path, parts_of, method.sends_graphs)
            statistics.sent_bytes += sum(map(len, parts)) - len(parts[0])
            deadline_s = self._deadline_s(timeout_s)
            for tries in range(MOST_TRIES):
                link = self.link
                if link is None or not link.core.can_open:
                    link = await self._find_link(method, wait_for_ready, deadline_s)
                try:
                    data = await self._call_once(link, method, parts, deadline_s, metadata)
                except NotProcessedError:
                    if link.is_usable:
                        # A server may count a call a moment longer than we do.
                        pause = self._pause(_REFUSED_PAUSE_S * 4**tries)
                        await self._within(deadline_s, pause)
                    continue
                except errors.DeadlineExceededError:
                    if deadline_s is not None and clock.monotonic_s() > deadline_s - CLOCK_SLACK_S:
                        raise OutOfTimeError from None
                    raise
                self._backoff.reset()
                return await self._calling.parsed(method, data, statistics)
            raise self._calling.refused_error(method.path)

    async def _call_once(
        self,
        link: ClientLink,
        method: MethodSpec,
        parts: list[Buffer],
        deadline_s: float | None,
        metadata: Metadata,
    ) -> MessageData:
        loop = link.loop
        done = loop.create_future()
        call = self._calling.new_call(method, done)
        timer = None
        if deadline_s is not None:
            left_s = deadline_s - clock.monotonic_s()
            timer = loop.call_later(left_s, call.fail, OutOfTimeError())  # type: ignore[arg-type]
        self._calls.add(call)
        try:
            if link.shared.can_lend:
                parts = await link.shared.lend(parts)
                if not link.core.can_open:
                    raise NotProcessedError
            link.begin(call, self._block(method, deadline_s, metadata), parts)
            data: MessageData = await done
            return data
        except BaseException:
            if done.done() and not done.cancelled():
                done.exception()  # cancelled in the same moment: nobody else will look at it
            link.cancel(call)
            raise
        finally:
            self._calls.discard(call)
            if timer is not None:
                timer.cancel()

    async def stream(
        self,
        method: MethodSpec,
        requests: AsyncIterator[Message],
        *,
        timeout_s: float | None = None,
        wait_for_ready: bool | None = None,
        metadata: Metadata = (),
    ) -> AsyncIterator[Message]:
        if timeout_s is None:
            timeout_s = method.timeout_s
        if wait_for_ready is None:
            wait_for_ready = method.wait_for_ready
        statistics = self.statistics_of(method.path)
        with self._one_call(method, statistics, timeout_s):
            deadline_s = self._deadline_s(timeout_s)
            link = self.link
            if link is None or not link.core.can_open:
                link = await self._find_link(method, wait_for_ready, deadline_s)
            call = self._calling.new_call(method, None)
            inbox = call.inbox = Inbox(link.acknowledger(call))
            timer = None
            if deadline_s is not None and timeout_s is not None:
                error = deadline_error(method.path, self.target, timeout_s)
                left_s = deadline_s - clock.monotonic_s()
                timer = link.loop.call_later(left_s, self._expire, link, call, error)
            self._calls.add(call)
            link.begin(call, self._block(method, deadline_s, metadata), None)
            sending = spawn(self._send_each(link, call, method, requests, statistics))
            try:
                while (data := await inbox.get()) is not None:
                    self._backoff.reset()
                    yield await self._calling.parsed(method, data, statistics)
            finally:
                self._calls.discard(call)
                link.cancel(call)
                sending.cancel()
                if timer is not None:
                    timer.cancel()

    async def open_message_stream(
        self, method: MethodSpec, receiver: StreamReceiver
    ) -> MessageStream:
        self._require_open(method.path)
        link = self.link
        if link is None or not link.core.can_open:
            link = await self._find_link(method, wait_for_ready=False, deadline_s=None)
        statistics = self.statistics_of(method.path)
        call = self._calling.new_call(method, None)
        parse = functools.partial(self._parse_piped, method, statistics)
        link.begin(call, self._block(method, None, ()), None)
        message_stream = call.inbox = ClientStream(link, call, method, statistics, parse)
        message_stream.when_ended = functools.partial(self._calls.discard, call)
        message_stream.begin(receiver)
        self._calls.add(call)
        return message_stream

    def _parse_piped(
        self, method: MethodSpec, statistics: MethodStatistics, data: MessageData
    ) -> Message:
        self._backoff.reset()
        return self._calling.parse(method, data, statistics)

    async def _send_each(
        self,
        link: ClientLink,
        call: ClientCall,
        method: MethodSpec,
        requests: AsyncIterator[Message],
        statistics: MethodStatistics,
    ) -> None:
        """Send the requests of a streaming call; an error of theirs ends it."""
        try:
            async for request in requests:
                parts = parts_of(request, method.path)
                statistics.sent_bytes += sum(map(len, parts)) - len(parts[0])
                if not link.send(call, await link.shared.lend(parts)):
                    return
                await link.wait_sendable(call.stream_id)
            link.end_sending(call)
        except Exception as error:
            found = error if isinstance(error, errors.OpError) else None
            text = f"the requests of {self.target} ended with {type(error).__name__}: {error}"
            call.fail(found or errors.UnknownError(text))
            link.cancel(call)

    @staticmethod
    def _expire(link: ClientLink, call: ClientCall, error: errors.OpError) -> None:
        call.fail(error)
        link.cancel(call)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._blocking is not None:
            self._blocking.close()
        for call in list(self._calls):
            call.fail(self._calling.closed_error(""))
        for waiter in self._waiting:
            waiter.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        link, self.link = self.link, None
        if link is not None:
            for call in list(self._calls):
                link.cancel(call)
            link.close_when_written()

    # ---- the connection

    async def _find_link(
        self, method: MethodSpec, wait_for_ready: bool, deadline_s: float | None
    ) -> ClientLink:
        """Return a connection on which a call can be made now.

        Raises: UnavailableError where there is none, unless wait_for_ready.
        """
        while True:
            if self._closed:
                raise self._calling.closed_error(method.path)
            link = self.link
            if link is not None and link.is_usable:
                if link.core.can_open:
                    return link
                await self._within(deadline_s, link.wait_slot())
                continue
            if self._connecting is None:
                wait_s = self._backoff.retry_at_s - clock.monotonic_s()
                if wait_s > 0 and wait_for_ready:
                    await self._within(deadline_s, self._pause(wait_s))
                    continue
                if wait_s <= 0:
                    self._connecting = spawn(self._connect())
            if self._connecting is not None:
                await self._within(deadline_s, self._wait_connected(self._connecting))
            link = self.link
            if link is not None and link.is_lost:
                self._last_failure = link.lost_reason
            is_vain = not wait_for_ready or self._last_failure.startswith(REFUSED)
            if (link is None or link.is_lost) and is_vain and not self._closed:
                raise unreachable_error(method.path, self.target, self._last_failure)

    async def _within(self, deadline_s: float | None, wait: object) -> None:
        left_s = None if deadline_s is None else deadline_s - clock.monotonic_s()
        try:
            async with asyncio.timeout(left_s) as scope:
                await wait  # type: ignore[misc]
        except TimeoutError:
            if scope.expired():
                raise OutOfTimeError from None
            raise

    async def _pause(self, wait_s: float) -> None:
        """Wait a while, or until the channel is closed."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        timer = loop.call_later(wait_s, _resolve, waiter)
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)
            timer.cancel()

    async def _wait_connected(self, connecting: asyncio.Task[None]) -> None:
        await asyncio.shield(connecting)

    async def _connect(self) -> None:
        """Try once to make the connection; never raises but when cancelled."""
        link: ClientLink | None = None
        was_late = False
        since_s = clock.monotonic_s()
        try:
            async with asyncio.timeout(self._backoff.connect_s):
                link = await self._open()
            link.peer = self.target
            await link.greeted(self._backoff.connect_s)
            self.link = link
        except (OSError, TimeoutError, errors.OpError) as error:
            self.link = None
            was_late = isinstance(error, TimeoutError) and not error.args
            found = why_not_connected(
                error,
                has_tls=self._calling.is_secure,
                was_open=link is not None,
                lacks=self._credentials.what_it_lacks() if self._credentials else "",
            )
            self._last_failure = found or f"no answer within {clock.monotonic_s() - since_s:.0f} s"
            if link is not None:
                link.abort(self._last_failure)
        except asyncio.CancelledError:
            if link is not None:
                link.abort("the channel was closed")
            raise
        finally:
            self._connecting = None
            # Until a call is answered: a peer may also accept connections and hang up at once.
            self._backoff.tried(clock.monotonic_s(), was_late=was_late)

    async def _open(self) -> ClientLink:
        make = functools.partial(ClientLink, self._keepalive_s, self._calling.settings)
        path = unix_path(self._address)
        if path is not None:
            return await network.connect_unix(make, path, self._tls)
        host, port = split_host_port(self._address)
        beside = await same_host.connect(host, port) if self._calling.shares_host else None
        if beside is not None:
            return await network.adopt_unix(make, beside)
        if self._credentials is None or await self._does_without_tls(host, port):
            return await network.connect_tcp(make, host, port, self._tls)
        link = await network.connect_tcp(make, host, port, self._credentials.for_client())
        fault = fault_in(link.peer_certificate, self._expected)
        if fault:
            link.abort(fault)
            raise ConnectionError(f"{REFUSED}: {fault}")
        return link

    async def _does_without_tls(self, host: str, port: int) -> bool:
        """Whether a host is of a network that is spoken to without TLS."""
        networks = self._calling.settings.insecure_peers
        if not networks:
            return False
        found = await network.resolve(host, port)
        return any(is_in(ipaddress.ip_address(name[0]), networks) for *_, name in found)

    # ---- pieces of a call

    def _deadline_s(self, timeout_s: float | None) -> float | None:
        return None if timeout_s is None else clock.monotonic_s() + timeout_s

    def _block(self, method: MethodSpec, deadline_s: float | None, metadata: Metadata) -> bytes:
        left_s = None if deadline_s is None else deadline_s - clock.monotonic_s()
        return self._calling.block(method, left_s, metadata)

    @contextmanager
    def _one_call(
        self, method: MethodSpec, statistics: MethodStatistics, timeout_s: float | None
    ) -> Iterator[None]:
        """Count a call, and turn what is not an OpError into one."""
        with CountedCall(statistics):
            self._require_open(method.path)
            try:
                yield
            except OutOfTimeError:
                raise deadline_error(method.path, self.target, timeout_s or 0.0) from None
            except asyncio.CancelledError:
                if not self._closed or is_being_cancelled():
                    raise
                raise self._calling.closed_error(method.path) from None

    def _require_open(self, path: str) -> None:
        if self._closed:
            raise self._calling.closed_error(path)


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
