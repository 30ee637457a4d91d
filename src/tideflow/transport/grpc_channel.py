"""A gRPC channel on grpcio's asyncio interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from tideflow.transport.answer import is_being_cancelled
from tideflow.transport.channel import Channel, Metadata, deadline_error, unreachable_error
from tideflow.transport.encoding import serialize, written
from tideflow.transport.service import MethodSpec
from tideflow.transport.statistics import CountedCall, MethodStatistics
from tideflow.wire import errors, status

# Servers of TensorFlow hang up on a client that pings an idle connection more often than this.
DEFAULT_KEEPALIVE_S = 310.0

# How grpcio words its own errors, of which some come with a code that says too little.
_TOO_LATE = "Deadline Exceeded"
_NO_CONNECTION = ("failed to connect to all addresses", "DNS resolution failed")
_BROKEN_CONNECTION = frozenset({"Stream removed", "Socket closed", "Transport closed"})


class GrpcChannel(Channel):
    """Calls the gRPC server at `HOST:PORT` (or `unix:PATH`).

    The connection is made on the first call, and again, after at most half a second, when it was
    lost.  peer_name is what error messages call the peer, such as `/job:ps/task:0`; by default the
    address.  keepalive_s is the interval of pings while calls are in flight.
    """

    def __init__(
        self,
        address: str,
        *,
        peer_name: str | None = None,
        keepalive_s: float = DEFAULT_KEEPALIVE_S,
    ) -> None:
        super().__init__(f"{peer_name} ({address})" if peer_name else address)
        self._address = address
        self._keepalive_s = keepalive_s
        self._channel: grpc.aio.Channel | None = None
        self._callables: dict[str, Any] = {}
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
        statistics = self.statistics_of(method.path)
        with self._one_call(method, statistics, timeout_s):
            data = await written(request, method.path, serialize, method.sends_graphs)
            statistics.sent_bytes += len(data)
            reply = await self._callable_of(method)(
                data,
                timeout=timeout_s,
                wait_for_ready=method.wait_for_ready if wait_for_ready is None else wait_for_ready,
                metadata=tuple(metadata) or None,
            )
            return self._parse(method, reply, statistics)

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
        statistics = self.statistics_of(method.path)
        with self._one_call(method, statistics, timeout_s):
            call = self._callable_of(method)(
                _serialise_each(requests, method, statistics),
                timeout=timeout_s,
                wait_for_ready=method.wait_for_ready if wait_for_ready is None else wait_for_ready,
                metadata=tuple(metadata) or None,
            )
            try:
                async for reply in call:
                    yield self._parse(method, reply, statistics)
            finally:
                call.cancel()

    async def close(self) -> None:
        self._closed = True
        channel, self._channel = self._channel, None
        self._callables.clear()
        if channel is not None:
            await channel.close()

    def _callable_of(self, method: MethodSpec) -> Any:
        found = self._callables.get(method.path)
        if found is None:
            if self._closed:
                raise self._closed_error(method)
            if self._channel is None:
                self._channel = grpc.aio.insecure_channel(
                    self._address, options=_channel_options(self._keepalive_s)
                )
            make = self._channel.stream_stream if method.streaming else self._channel.unary_unary
            found = self._callables[method.path] = make(method.path)
        return found

    def _parse(self, method: MethodSpec, reply: bytes, statistics: MethodStatistics) -> Message:
        statistics.received_bytes += len(reply)
        try:
            return method.response_type.FromString(reply)
        except DecodeError as error:
            raise errors.InternalError(
                f"{self.target} answered {method.path} with {len(reply)} bytes that are not a"
                f" {method.response_type.__name__}: {error}"
            ) from error

    @contextmanager
    def _one_call(
        self, method: MethodSpec, statistics: MethodStatistics, timeout_s: float | None
    ) -> Iterator[None]:
        """Count a call, and turn what grpcio raises into an OpError."""
        with CountedCall(statistics):
            try:
                yield
            except grpc.aio.AioRpcError as error:
                raise self._error_of(method, error, timeout_s) from None
            except asyncio.CancelledError:
                if not self._closed or is_being_cancelled():
                    raise
                raise self._closed_error(method) from None

    def _closed_error(self, method: MethodSpec) -> errors.OpError:
        return status.mark_derived(
            errors.CancelledError(f"{method.path} on {self.target}: the channel was closed")
        )

    def _error_of(
        self, method: MethodSpec, error: grpc.aio.AioRpcError, timeout_s: float | None
    ) -> errors.OpError:
        """Return the OpError for a failed call.

        grpcio does not tell the peer's errors from its own; the few of its own that should say
        more, or have another code, are known by their text.
        """
        code = error.code().value[0]
        text = error.details() or ""
        if code == errors.DEADLINE_EXCEEDED and text == _TOO_LATE and timeout_s is not None:
            return deadline_error(method.path, self.target, timeout_s)
        if code == errors.UNKNOWN and text in _BROKEN_CONNECTION:
            code = errors.UNAVAILABLE
        if code == errors.UNAVAILABLE and text.startswith(_NO_CONNECTION):
            return unreachable_error(method.path, self.target, text)
        text = (
            f"{text}\nAdditional information: the error came from remote target {self.target}"
            f" while calling {method.path}"
        )
        found = status.error_from(code, text, list(error.trailing_metadata()))
        # A peer's call was cancelled because something else failed or gave up first.
        return status.mark_derived(found) if code == errors.CANCELLED else found


async def _serialise_each(
    requests: AsyncIterator[Message], method: MethodSpec, statistics: MethodStatistics
) -> AsyncIterator[bytes]:
    async for request in requests:
        data = serialize(request, method.path)
        statistics.sent_bytes += len(data)
        yield data


def _channel_options(keepalive_s: float) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", 64 * 1024),
        ("grpc.keepalive_time_ms", int(keepalive_s * 1000)),
        # A restarted peer is found again soon.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 5000),
        ("grpc.max_reconnect_backoff_ms", 500),
        # Tasks of a cluster talk directly, whatever http_proxy says.
        ("grpc.enable_http_proxy", 0),
        # No sharing of connections and their backoff with another channel of this process.
        ("grpc.use_local_subchannel_pool", 1),
    ]
