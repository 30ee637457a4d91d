"""The calling side: a channel to one peer, and service objects that call through it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar, cast

from google.protobuf.message import Message

from tideflow.transport.message_stream import MessageStream, StreamReceiver
from tideflow.transport.service import MethodSpec, Service, methods_of
from tideflow.transport.statistics import MethodStatistics
from tideflow.wire import errors

S = TypeVar("S", bound=Service)
Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
Metadata = Sequence[tuple[str, str | bytes]]


class BlockingCaller(Protocol):
    """Makes unary calls in the threads of users, without the event loop."""

    @property
    def has_room(self) -> bool:
        """Whether one more call at the same time makes sense."""
        ...

    def unary(
        self, method: MethodSpec, request: Message, *, timeout_s: float | None = None
    ) -> Message:
        """Call a method, and wait in the calling thread for its answer.

        Never waits for an absent peer; KeyboardInterrupt ends the call and goes on.
        Raises: as Channel.unary.
        """
        ...


class Channel(ABC):
    """A way to call the services of one peer.

    What every transport promises: a call ends with a response or an OpError; cancelling the task
    that awaits it cancels the handler on the other side; `close` ends the calls in flight with
    CancelledError (marked derived).  All methods but the constructor belong on the event loop.

    Attributes:
      target: the peer as error messages name it.
      statistics: what was called, by path.
      blocking: calls for threads other than the loop's; None on a transport that has no such way.
        `close` ends them, too.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self.blocking: BlockingCaller | None = None
        self.statistics: dict[str, MethodStatistics] = {}

    @abstractmethod
    async def unary(
        self,
        method: MethodSpec,
        request: Message,
        *,
        timeout_s: float | None = None,
        wait_for_ready: bool | None = None,
        metadata: Metadata = (),
    ) -> Message:
        """Call a method with one message each way.

        timeout_s and wait_for_ready stand before those of the method's declaration.
        Raises: the OpError that the peer answered with; UnavailableError when it cannot be reached;
        DeadlineExceededError after timeout_s.
        """

    @abstractmethod
    def stream(
        self,
        method: MethodSpec,
        requests: AsyncIterator[Message],
        *,
        timeout_s: float | None = None,
        wait_for_ready: bool | None = None,
        metadata: Metadata = (),
    ) -> AsyncIterator[Message]:
        """Call a streaming method; errors as in `unary`; closing the iterator ends the call."""

    async def open_message_stream(
        self, method: MethodSpec, receiver: StreamReceiver
    ) -> MessageStream:
        """Open a streaming method as a message stream.

        Raises: UnavailableError for a peer that cannot be reached; UnimplementedError on a
        transport without message streams.  What the peer says later comes to the receiver.
        """
        raise errors.UnimplementedError(f"the transport to {self.target} has no message streams")

    @abstractmethod
    async def close(self) -> None:
        """End the calls in flight and let the connection go; a second close does nothing."""

    def statistics_of(self, path: str) -> MethodStatistics:
        """Return the counts of one method, made on first use."""
        found = self.statistics.get(path)
        if found is None:
            found = self.statistics[path] = MethodStatistics()
        return found


class _Stub:
    """What stub classes add to the service class they derive from."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def channel(self) -> Channel:
        """The channel that this stub calls through."""
        return self._channel


_stub_classes: dict[type[Service], type[Service]] = {}


def stub(service_class: type[S], channel: Channel) -> S:
    """Return an object with the methods of service_class that calls the channel's peer.

    Each method also takes the keyword `timeout_s`; code that may hold a local object as well uses
    `within`, which knows both.
    """
    stub_class = _stub_classes.get(service_class)
    if stub_class is None:
        stub_class = _stub_classes[service_class] = _make_stub_class(service_class)
    return cast(S, cast(Any, stub_class)(channel))


def _make_stub_class(service_class: type[S]) -> type[S]:
    members: dict[str, Any] = {
        name: _stream_caller(spec) if spec.streaming else _unary_caller(spec)
        for name, spec in methods_of(service_class).items()
    }
    made = type(f"{service_class.__name__}Stub", (_Stub, service_class), members)
    return cast("type[S]", made)


def _unary_caller(spec: MethodSpec) -> Callable[..., Awaitable[Message]]:
    def call(
        self: _Stub, request: Message, *, timeout_s: float | None = None
    ) -> Awaitable[Message]:
        return self._channel.unary(spec, request, timeout_s=timeout_s)

    call.__name__ = spec.name
    return call


def _stream_caller(spec: MethodSpec) -> Callable[..., AsyncIterator[Message]]:
    def call(
        self: _Stub, requests: AsyncIterator[Message], *, timeout_s: float | None = None
    ) -> AsyncIterator[Message]:
        return self._channel.stream(spec, requests, timeout_s=timeout_s)

    call.__name__ = spec.name
    return call


async def within(
    timeout_s: float | None,
    method: Callable[[Request], Awaitable[Response]],
    request: Request,
) -> Response:
    """Call a method of a stub or of a local service with a deadline.

        reply = await within(5.0, worker.GetStatus, pb.GetStatusRequest())

    Raises: DeadlineExceededError after timeout_s, else what the method raises.
    """
    if timeout_s is None:
        return await method(request)
    if isinstance(getattr(method, "__self__", None), _Stub):
        return await cast(Any, method)(request, timeout_s=timeout_s)  # type: ignore[no-any-return]
    try:
        async with asyncio.timeout(timeout_s) as scope:
            return await method(request)
    except TimeoutError:
        if not scope.expired():
            raise
        raise deadline_error(getattr(method, "__name__", "the call"), "", timeout_s) from None


class NotGrpcError(errors.UnavailableError):
    """Something listens at the address, and its first bytes were of another protocol.

    Waiting does not help, as it may with other unavailable peers.
    """


# How the transports' cores say that a peer's first bytes were not HTTP/2.
# How they begin where the peer lets nobody in who cannot prove who he is.
REFUSED = "INADEQUATE_SECURITY"
_OTHER_PROTOCOL = ("Failed parsing HTTP/2", "does not speak HTTP/2")


def unreachable_error(path: str, target: str, reason: str) -> errors.OpError:
    """Return the error of a call for which no connection could be made.

    It is PERMISSION_DENIED where the peer does not want us, else UNAVAILABLE.
    """
    if any(words in reason for words in _OTHER_PROTOCOL):
        return NotGrpcError(
            f"something listens at {target}, but it does not speak gRPC. Give the address of a"
            f" tideflow or TensorFlow server ({path}: {reason})"
        )
    if reason.startswith(REFUSED):
        return errors.PermissionDeniedError(
            f"{target} does not answer us ({path}): {reason.removeprefix(REFUSED).lstrip(': ')}"
        )
    return errors.UnavailableError(
        f"cannot reach {target} for {path}: is a server running there, and does it speak gRPC?"
        f" ({reason})"
    )


def deadline_error(what: str, target: str, timeout_s: float) -> errors.DeadlineExceededError:
    """Return the error of a call that got no answer in time."""
    where = f" on {target}" if target else ""
    return errors.DeadlineExceededError(f"{what}{where} did not answer within {timeout_s:g} s")
