"""A gRPC server on grpcio's asyncio interface, without generated stubs."""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, NoReturn
from urllib.parse import unquote

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from tideflow.platform.settings import Settings, process_settings
from tideflow.transport import network
from tideflow.transport.admission import Admission, RefusedError
from tideflow.transport.answer import answer, answer_stream
from tideflow.transport.encoding import serialize, written
from tideflow.transport.h2.grpc import fit_header
from tideflow.transport.h2.listening import addresses_of, require_loopback, unix_path
from tideflow.transport.server import TransportServer
from tideflow.transport.service import Binding, Service, bind
from tideflow.wire import errors, status

_LOGGER = logging.getLogger(__name__)

# How long a cancelled handler may take for its clean-up before the server stops without it.
_CLEAN_UP_S = 5.0

_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}

_Context = grpc.aio.ServicerContext[Any, Any]


class GrpcServer(TransportServer):
    """Serves some service objects at one TCP address (or `unix:PATH`).

    host_port is the only address listened at, unless listen_all asks for that port on every
    interface, as TensorFlow's server does.  Requests over max_message_bytes are refused with
    RESOURCE_EXHAUSTED; None means no limit.
    """

    def __init__(
        self,
        services: Iterable[Service],
        host_port: str,
        *,
        listen_all: bool = False,
        max_message_bytes: int | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._settings = settings or process_settings()
        self._admission = Admission(self._settings)
        self._own: list[str] = []
        self._bindings = bind(services)
        self._address = _every_interface(host_port) if listen_all else host_port
        self._max_message_bytes = max_message_bytes
        self._server: grpc.aio.Server | None = None
        self._calls: set[asyncio.Task[Any]] = set()
        self._ending = False
        self._stopped = asyncio.Event()
        self.port = 0

    async def start(self) -> int:
        _require_port(self._address)
        await self._require_loopback()
        server = grpc.aio.server(options=_server_options(self._max_message_bytes))
        server.add_generic_rpc_handlers((_Handlers(self, self._bindings),))
        try:
            self.port = server.add_insecure_port(self._address)
        except RuntimeError as error:
            raise _bind_error(self._address) from error
        if self._address.endswith(":0"):
            self._address = f"{self._address[:-1]}{self.port}"
        await server.start()
        self._server = server
        return self.port

    async def _require_loopback(self) -> None:
        if unix_path(self._address) is None:
            self._own = await addresses_of(self._address)
            open_to = "whoever reaches it (--insecure)" if self._settings.insecure else ""
            require_loopback(self._address, self._own, open_to=open_to)

    def _require_own_user(self, context: _Context) -> None:
        """Refuse calls as our own wire refuses connections.

        grpcio does not tell of connections, and the address of one may be another user's next, so
        each call is looked at.  Who may use a Unix socket is up to its file.
        """
        peer = unquote(context.peer())
        family, _, place = peer.partition(":")
        if self._settings.insecure or family not in ("ipv4", "ipv6"):
            return
        host, _, port = place.rpartition(":")
        try:
            self._admission.require_user(self._own, self.port, (host.strip("[]"), int(port)))
        except RefusedError as refused:
            self._admission.tell(refused, self._address)
            raise errors.PermissionDeniedError(f"refused {refused}") from None

    async def stop(self, grace_s: float = 0.0) -> None:
        server, self._server = self._server, None
        if server is None:
            if self.port == 0:
                self._stopped.set()  # never started: there is nothing to wait for
            await self._stopped.wait()
            return
        # grpcio refuses new calls from here on; its own end comes after ours, for any call left.
        closing = asyncio.ensure_future(server.stop(grace_s + _CLEAN_UP_S))
        try:
            if grace_s > 0 and self._calls:
                await asyncio.wait(self._calls, timeout=grace_s)
            self._ending = True
            for call in self._calls:
                call.cancel()
            await closing
            if self._calls:
                _LOGGER.warning(
                    "the server at %s stopped with %d handlers still running after %g s",
                    self._address, len(self._calls), _CLEAN_UP_S,
                )  # fmt: skip
        finally:
            self._admission.close()
            self._stopped.set()

    async def wait_stopped(self) -> None:
        await self._stopped.wait()

    async def answer_unary(self, binding: Binding, data: bytes, context: _Context) -> bytes:
        """Answer one call; grpcio runs it in a task of its own, cancelled if the caller goes."""
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            self._require_own_user(context)
            response = await answer(binding, _parse(binding, data))
            reply = await _written(binding, response)
            binding.statistics.sent_bytes += len(reply)
            return reply
        except errors.OpError as error:
            await _abort(context, error)
        except asyncio.CancelledError:
            if not self._ending or context.cancelled():
                raise
            task.uncancel()
            await _abort(context, self._stopping_error(binding))
        finally:
            self._calls.discard(task)

    async def answer_stream(
        self, binding: Binding, requests: AsyncIterator[bytes], context: _Context
    ) -> AsyncIterator[bytes]:
        """Answer one streaming call, as `answer_unary` does."""
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            self._require_own_user(context)
            async for response in answer_stream(binding, _parse_each(binding, requests)):
                reply = await _written(binding, response)
                binding.statistics.sent_bytes += len(reply)
                yield reply
        except errors.OpError as error:
            await _abort(context, error)
        except asyncio.CancelledError:
            if not self._ending or context.cancelled():
                raise
            task.uncancel()
            await _abort(context, self._stopping_error(binding))
        finally:
            self._calls.discard(task)

    def _stopping_error(self, binding: Binding) -> errors.OpError:
        return errors.UnavailableError(
            f"the server at {self._address} stopped before it could answer {binding.spec.path}"
        )


class _Handlers(grpc.GenericRpcHandler):
    """Finds the handler of a path, as grpcio asks for it."""

    def __init__(self, server: GrpcServer, bindings: dict[str, Binding]) -> None:
        self._handlers = {
            path: _stream_handler(server, binding)
            if binding.spec.streaming
            else _unary_handler(server, binding)
            for path, binding in bindings.items()
        }
        self._services = ", ".join(sorted({b.spec.service for b in bindings.values()}))

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any]:
        path = handler_call_details.method
        found = self._handlers.get(path)
        return self._unknown(path) if found is None else found

    def _unknown(self, path: str) -> grpc.RpcMethodHandler[Any, Any]:
        async def refuse(data: bytes, context: _Context) -> NoReturn:
            await _abort(
                context,
                errors.UnimplementedError(
                    f"{path} is not served here; this server has {self._services or 'no service'}"
                ),
            )

        return grpc.unary_unary_rpc_method_handler(refuse)


def _unary_handler(server: GrpcServer, binding: Binding) -> grpc.RpcMethodHandler[Any, Any]:
    answer_unary: Callable[..., Awaitable[bytes]] = server.answer_unary

    async def handle(data: bytes, context: _Context) -> bytes:
        return await answer_unary(binding, data, context)

    return grpc.unary_unary_rpc_method_handler(handle)


def _stream_handler(server: GrpcServer, binding: Binding) -> grpc.RpcMethodHandler[Any, Any]:
    async def handle(requests: AsyncIterator[bytes], context: _Context) -> AsyncIterator[bytes]:
        async for reply in server.answer_stream(binding, requests, context):
            yield reply

    return grpc.stream_stream_rpc_method_handler(handle)


def _parse(binding: Binding, data: bytes) -> Message:
    binding.statistics.received_bytes += len(data)
    spec = binding.spec
    try:
        return spec.request_type.FromString(data)
    except DecodeError as error:
        raise errors.InvalidArgumentError(
            f"the {len(data)} bytes sent to {spec.path} are not a {spec.request_type.__name__}:"
            f" {error}"
        ) from error


async def _written(binding: Binding, response: Message) -> bytes:
    spec = binding.spec
    return await written(response, spec.path, serialize, spec.answers_graphs)


async def _parse_each(binding: Binding, requests: AsyncIterator[bytes]) -> AsyncIterator[Message]:
    async for data in requests:
        yield _parse(binding, data)


async def _abort(context: _Context, error: errors.OpError) -> NoReturn:
    code = _CODES.get(error.error_code, grpc.StatusCode.UNKNOWN)
    if code is grpc.StatusCode.OK:
        code = grpc.StatusCode.UNKNOWN
    # Lone surrogates, from a file name say, have no UTF-8.
    text = error.message.encode(errors="replace").decode()
    text = fit_header(status.trailer_text(text))
    await context.abort(code, text, tuple(status.to_trailers(error)))
    raise AssertionError("abort returned")


_UNLIMITED = 2**31 - 1


def _server_options(max_message_bytes: int | None) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", -1 if max_message_bytes is None else max_message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", 64 * 1024),
        # Two servers on one port would share its calls between them, silently.
        ("grpc.so_reuseport", 0),
        # Our peers ping often, to notice a dead host soon.
        ("grpc.http2.min_ping_interval_without_data_ms", 1000),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.keepalive_permit_without_calls", 1),
        # A step over a large graph asks for thousands of tensors at once; by default grpcio
        # refuses calls at random once a thousand have not been looked at.
        ("grpc.server.max_pending_requests", _UNLIMITED),
        ("grpc.server.max_pending_requests_hard_limit", _UNLIMITED),
    ]


def _every_interface(host_port: str) -> str:
    # grpcio takes [::] for IPv4 too, and for IPv4 alone where the machine has no IPv6.
    return f"[::]:{host_port.rpartition(':')[2]}"


def _require_port(address: str) -> None:
    """Refuse an address without a port: grpcio would take one of its own choice."""
    if not address.startswith("unix:") and not re.fullmatch(r".+:\d+", address):
        raise errors.InvalidArgumentError(f"cannot listen at {address!r}: give HOST:PORT")


def _bind_error(address: str) -> errors.OpError:
    """Return what is wrong with an address that grpcio could not bind; it does not say itself."""
    host, _, port = address.rpartition(":")
    try:
        network.try_to_bind(host.strip("[]") or None, int(port))
    except (ValueError, socket.gaierror) as error:
        return errors.InvalidArgumentError(
            f"cannot listen at {address!r}: {error}; give HOST:PORT with a host of this machine"
        )
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return errors.AlreadyExistsError(
                f"cannot listen at {address}: another process has that port; stop it"
                f" (`ss -ltnp 'sport = :{port}'` names it) or choose another port"
            )
        if error.errno in (errno.EACCES, errno.EPERM):
            return errors.PermissionDeniedError(
                f"cannot listen at {address}: {error.strerror}; choose a port of 1024 or above"
            )
        return errors.InvalidArgumentError(
            f"cannot listen at {address}: {error.strerror}; give an address of this machine"
        )
    return errors.UnknownError(
        f"grpcio could not listen at {address}, and did not say why; GRPC_VERBOSITY=debug may"
    )
