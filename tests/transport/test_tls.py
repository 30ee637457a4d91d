"""TLS: who trusts whom, who speaks what, and grpcio on the other side."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from concurrent import futures
from typing import Any

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue

from tideflow.transport import NotGrpcError, make_channel, make_server, stub
from tideflow.wire import errors
from transport.certificates import Certificates, certificates, make_certificates
from transport.contract import Probe, Prober

Context = ssl.SSLContext | None


async def outcome(server_tls: Context, channel_tls: Context, *, scheme: str = "h2") -> Any:
    """Return what a call gets: its answer's size or its error."""
    server = make_server(scheme, [Prober()], "127.0.0.1:0", tls=server_tls)
    port = await server.start()
    channel = make_channel(f"{scheme}://127.0.0.1:{port}", tls=channel_tls)
    try:
        reply = await stub(Probe, channel).Echo(BytesValue(value=bytes(3 << 20)), timeout_s=20)
        return len(reply.value)
    except errors.OpError as error:
        return error
    finally:
        await channel.close()
        await server.stop()


async def test_both_sides_may_ask_for_a_certificate() -> None:
    made = certificates()
    tls = made.server_context(asks_clients=True), made.client_context(shows_own=True)
    assert await outcome(*tls) == 3 << 20


class _Context(ssl.SSLContext):
    """A context that offers what the test says, whoever asks it for h2."""

    def set_alpn_protocols(self, alpn_protocols: Any) -> None:
        pass


def stubborn(kind: int, *protocols: str) -> ssl.SSLContext:
    context = _Context(kind)
    if protocols:
        ssl.SSLContext.set_alpn_protocols(context, list(protocols))
    if kind == ssl.PROTOCOL_TLS_SERVER:
        certificates().own.configure_cert(context)
    else:
        certificates().authority.configure_trust(context)
    return context


def own() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    return certificates().server_context(), certificates().client_context()


MISMATCHES: dict[str, tuple[Callable[[], tuple[Context, Context]], type[Exception], str]] = {
    "the authority is not ours": (
        lambda: (own()[0], make_certificates().client_context()),
        errors.UnavailableError,
        "certificate is not trusted: .*load the CA",
    ),
    "the client shows no certificate": (
        lambda: (certificates().server_context(asks_clients=True), own()[1]),
        errors.UnavailableError,
        "does it want a certificate of ours|certificate required",
    ),
    "the client does not offer h2": (
        lambda: (own()[0], stubborn(ssl.PROTOCOL_TLS_CLIENT, "http/1.1")),
        NotGrpcError,
        "ALPN it agreed to nothing, not to 'h2'",
    ),
    "the server does not offer h2": (
        lambda: (stubborn(ssl.PROTOCOL_TLS_SERVER), own()[1]),
        NotGrpcError,
        "ALPN it agreed to nothing, not to 'h2'",
    ),
    "the server speaks TLS, the client does not": (
        lambda: (own()[0], None),
        errors.UnavailableError,
        "does it want TLS|without TLS",
    ),
    "the client speaks TLS, the server does not": (
        lambda: (None, own()[1]),
        errors.UnavailableError,
        "does not speak TLS .*without `tls`",
    ),
}


@pytest.mark.parametrize("what", MISMATCHES)
async def test_ends_that_do_not_fit_say_why(what: str) -> None:
    contexts, error_class, words = MISMATCHES[what]
    with pytest.raises(error_class, match=words):
        found = await outcome(*contexts())
        raise found


async def test_a_name_that_is_not_in_the_certificate_is_refused() -> None:
    server = make_server("h2", [Prober()], "127.0.0.2:0", tls=certificates().server_context())
    port = await server.start()
    channel = make_channel(f"h2://127.0.0.2:{port}", tls=certificates().client_context())
    with pytest.raises(errors.UnavailableError, match=r"not valid for '127\.0\.0\.2'"):
        await stub(Probe, channel).Echo(BytesValue())
    await channel.close()
    await server.stop()


async def test_an_idle_handshake_does_not_keep_others_from_theirs() -> None:
    server = make_server("h2", [Prober()], "127.0.0.1:0", tls=certificates().server_context())
    port = await server.start()
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
    channel = make_channel(f"h2://127.0.0.1:{port}", tls=certificates().client_context())
    assert await stub(Probe, channel).Echo(BytesValue(value=b"x")) == BytesValue(value=b"x")
    await channel.close()
    for _, writer in silent:
        writer.close()
        await writer.wait_closed()
    await server.stop()


def test_grpcio_takes_no_context_of_ours() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="use the scheme h2"):
        make_channel("grpcio://127.0.0.1:1", tls=certificates().client_context())
    with pytest.raises(errors.InvalidArgumentError, match="use the scheme h2"):
        make_server("grpcio", [], "127.0.0.1:0", tls=certificates().server_context())


class _Echo(grpc.GenericRpcHandler):
    def service(self, details: grpc.HandlerCallDetails) -> Any:
        return grpc.unary_unary_rpc_method_handler(lambda data, context: data)


@contextlib.asynccontextmanager
async def grpcio_server(credentials: grpc.ServerCredentials | None) -> AsyncIterator[int]:
    """Run a server of grpcio, with TLS or without; yield its port."""
    server = grpc.server(futures.ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((_Echo(),))
    if credentials is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        yield port
    finally:
        await asyncio.to_thread(server.stop(None).wait)


def credentials_of(made: Certificates, *, asks_clients: bool = False) -> grpc.ServerCredentials:
    key, chain = made.own_pems
    return grpc.ssl_server_credentials(
        [(key, chain)], made.authority_pem if asks_clients else None, asks_clients
    )


def call_by_grpcio(port: int, credentials: grpc.ChannelCredentials | None, data: bytes) -> Any:
    """Return what a call of grpcio's gets: its answer or its error."""
    where = f"127.0.0.1:{port}"
    if credentials is None:
        made = grpc.insecure_channel(where)
    else:
        made = grpc.secure_channel(where, credentials)
    with made as channel:
        try:
            return channel.unary_unary("/tideflow.test.Probe/Echo")(data, timeout=30)
        except grpc.RpcError as error:
            return error


class TestAgainstGrpcio:
    @pytest.mark.parametrize("asks_clients", [False, True])
    async def test_its_secure_channel_calls_our_server(self, asks_clients: bool) -> None:
        made = certificates()
        key, chain = made.own_pems if asks_clients else (None, None)
        tls = made.server_context(asks_clients=asks_clients)
        server = make_server("h2", [Prober()], "127.0.0.1:0", tls=tls)
        port = await server.start()
        credentials = grpc.ssl_channel_credentials(made.authority_pem, key, chain)
        data = BytesValue(value=b"x" * 3_000_000).SerializeToString()
        assert await asyncio.to_thread(call_by_grpcio, port, credentials, data) == data
        await server.stop()

    @pytest.mark.parametrize("asks_clients", [False, True])
    async def test_our_channel_calls_its_secure_server(self, asks_clients: bool) -> None:
        made = certificates()
        tls = made.client_context(shows_own=asks_clients)
        async with grpcio_server(credentials_of(made, asks_clients=asks_clients)) as port:
            channel = make_channel(f"h2://127.0.0.1:{port}", tls=tls)
            request = BytesValue(value=b"x" * 3_000_000)
            assert await stub(Probe, channel).Echo(request) == request
            await channel.close()

    @pytest.mark.parametrize(
        ("has_server_tls", "channel"),
        [(True, "of another authority"), (True, "without TLS"), (False, "with TLS")],
    )
    async def test_its_channels_that_do_not_fit_leave_our_server_to_others(
        self, has_server_tls: bool, channel: str
    ) -> None:
        credentials = {
            "of another authority": grpc.ssl_channel_credentials(make_certificates().authority_pem),
            "without TLS": None,
            "with TLS": grpc.ssl_channel_credentials(certificates().authority_pem),
        }[channel]
        server_tls, channel_tls = own() if has_server_tls else (None, None)
        server = make_server("h2", [Prober()], "127.0.0.1:0", tls=server_tls)
        port = await server.start()
        found = await asyncio.to_thread(call_by_grpcio, port, credentials, b"")
        assert isinstance(found, grpc.RpcError)
        assert found.code() == grpc.StatusCode.UNAVAILABLE
        fitting = make_channel(f"h2://127.0.0.1:{port}", tls=channel_tls)
        assert await stub(Probe, fitting).Echo(BytesValue(value=b"x")) == BytesValue(value=b"x")
        await fitting.close()
        await server.stop()

    @pytest.mark.parametrize(
        ("has_server_tls", "channel", "words"),
        [
            (True, "of another authority", "certificate is not trusted: .*load the CA"),
            (True, "without TLS", "does it want TLS|without TLS"),
            (False, "with TLS", "does not speak TLS|does it want"),
        ],
    )
    async def test_our_channels_that_do_not_fit_its_server_say_why(
        self, has_server_tls: bool, channel: str, words: str
    ) -> None:
        tls = {
            "of another authority": make_certificates().client_context(),
            "without TLS": None,
            "with TLS": own()[1],
        }[channel]
        credentials = credentials_of(certificates()) if has_server_tls else None
        async with grpcio_server(credentials) as port:
            made = make_channel(f"h2://127.0.0.1:{port}", tls=tls)
            with pytest.raises(errors.UnavailableError, match=words):
                await stub(Probe, made).Echo(BytesValue(value=b"x"))
            await made.close()
