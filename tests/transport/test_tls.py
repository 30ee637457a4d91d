"""TLS: who trusts whom, who speaks what, and grpcio on the other side."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc
import pytest
from google.protobuf.wrappers_pb2 import BytesValue

from tideflow.transport import NotGrpcError, make_channel, make_server, stub
from tideflow.wire import errors
from transport.certificates import certificates, make_certificates
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


class TestAgainstGrpcio:
    async def test_its_secure_channel_calls_our_server(self) -> None:
        made = certificates()
        key, chain = made.own_pems
        server = make_server(
            "h2", [Prober()], "127.0.0.1:0", tls=made.server_context(asks_clients=True)
        )
        port = await server.start()
        credentials = grpc.ssl_channel_credentials(made.authority_pem, key, chain)
        data = BytesValue(value=b"x" * 3_000_000).SerializeToString()

        def call() -> bytes:
            with grpc.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
                echo = channel.unary_unary("/tideflow.test.Probe/Echo")
                reply: bytes = echo(data, timeout=30)
                return reply

        assert await asyncio.to_thread(call) == data
        await server.stop()

    async def test_our_channel_calls_its_secure_server(self) -> None:
        made = certificates()
        key, chain = made.own_pems

        class Echo(grpc.GenericRpcHandler):
            def service(self, details: grpc.HandlerCallDetails) -> Any:
                return grpc.unary_unary_rpc_method_handler(lambda data, context: data)

        server = grpc.server(futures.ThreadPoolExecutor(1))
        server.add_generic_rpc_handlers((Echo(),))
        credentials = grpc.ssl_server_credentials(
            [(key, chain)], made.authority_pem, require_client_auth=True
        )
        port = server.add_secure_port("127.0.0.1:0", credentials)
        server.start()
        channel = make_channel(f"h2://127.0.0.1:{port}", tls=made.client_context(shows_own=True))
        request = BytesValue(value=b"x" * 3_000_000)
        assert await stub(Probe, channel).Echo(request) == request
        await channel.close()
        await asyncio.to_thread(server.stop(None).wait)
