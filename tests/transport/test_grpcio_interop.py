"""Our wire and grpcio's: compression, large messages, streams, limits and GOAWAY, both ways."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.wrappers_pb2 import BytesValue, Int32Value

from tideflow.transport import Channel, make_channel, methods_of, stub
from tideflow.transport.h2 import H2Channel, H2Server
from tideflow.transport.h2.limits import Limits
from tideflow.wire import errors
from transport.contract import Probe, Prober, numbers

MIB = 1 << 20
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
# GiBs take memory and a while, on a machine that others may share.
SIZES = [64 * MIB] + [1024 * MIB] * ("TIDEFLOW_TEST_LARGE" in os.environ)
COMPRESSIONS = [grpc.Compression.NoCompression, grpc.Compression.Deflate, grpc.Compression.Gzip]

Behaviour = Callable[[Any, grpc.ServicerContext], Any]


# ---- grpcio calls our server


@contextlib.asynccontextmanager
async def our_server(
    limits: Limits | None = None, options: tuple[tuple[str, int], ...] = (), **more: Any
) -> AsyncIterator[tuple[Prober, H2Server, grpc.Channel]]:
    """Run our server, and a grpcio channel to it for other threads."""
    prober = Prober()
    server = H2Server([prober], "127.0.0.1:0", limits=limits)
    port = await server.start()
    channel = grpc.insecure_channel(f"127.0.0.1:{port}", [*UNLIMITED, *options], **more)
    try:
        yield prober, server, channel
    finally:
        await asyncio.to_thread(channel.close)
        await server.stop()


def caller(channel: grpc.Channel, method: str = "Echo") -> Any:
    return channel.unary_unary(f"/tideflow.test.Probe/{method}")


class TestGrpcioCallsUs:
    @pytest.mark.parametrize("compression", COMPRESSIONS, ids=lambda one: one.name)
    async def test_compressed_requests_are_understood(self, compression: grpc.Compression) -> None:
        data = BytesValue(value=b"again and " * 400_000).SerializeToString()
        async with our_server(compression=compression) as (_, _, channel):
            assert await asyncio.to_thread(caller(channel), data, timeout=30) == data

    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.keeps_loop("how large a message of protobuf is shows when it is written")
    async def test_large_messages_go_both_ways(self, size: int) -> None:
        data = BytesValue(value=bytes(size)).SerializeToString()
        async with our_server() as (_, _, channel):
            reply = await asyncio.to_thread(caller(channel), data, timeout=100)
        assert reply == data

    async def test_a_stream_of_thousands_comes_back(self) -> None:
        async with our_server() as (_, _, channel):
            sent = (Int32Value(value=1).SerializeToString() for _ in range(3000))
            count = channel.stream_stream("/tideflow.test.Probe/Count")
            replies = await asyncio.to_thread(lambda: list(count(sent, timeout=30)))
        assert [Int32Value.FromString(one).value for one in replies] == list(range(1, 3001))

    async def test_cancelling_a_stream_frees_the_handler(self) -> None:
        async with our_server() as (prober, _, channel):
            zero = Int32Value(value=0).SerializeToString()
            call = channel.stream_stream("/tideflow.test.Probe/Count")(iter([zero]))
            await prober.wait_blocked(1)
            call.cancel()
            await prober.wait_blocked(0)
            assert await asyncio.to_thread(call.code) is grpc.StatusCode.CANCELLED
            # The connection goes on.
            assert await asyncio.to_thread(caller(channel), b"", timeout=30) == b""

    async def test_a_deadline_frees_the_handler_of_a_stream(self) -> None:
        async with our_server() as (prober, _, channel):
            zero = Int32Value(value=0).SerializeToString()
            call = channel.stream_stream("/tideflow.test.Probe/Count")(iter([zero]), timeout=0.3)
            with pytest.raises(grpc.RpcError) as caught:
                await asyncio.to_thread(list, call)
            assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            await prober.wait_blocked(0)

    async def test_calls_beyond_our_limit_wait_for_their_turn(self) -> None:
        async with our_server(Limits(max_streams=3)) as (prober, _, channel):
            blocked = [caller(channel, "Block").future(b"") for _ in range(3)]
            await prober.wait_blocked(3)
            later = [caller(channel).future(b"") for _ in range(10)]
            for call in blocked:
                call.cancel()
            replies = [await asyncio.to_thread(call.result, 30) for call in later]
        assert replies == [b""] * 10

    async def test_a_call_in_flight_ends_within_the_grace(self) -> None:
        async with our_server() as (_, server, channel):
            entered, release = asyncio.Event(), asyncio.Event()

            async def held(self: Prober, request: BytesValue) -> BytesValue:
                entered.set()
                await release.wait()
                return request

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Prober, "Echo", held)
                server.bindings.update(H2Server([Prober()], "127.0.0.1:0").bindings)
                call = caller(channel).future(b"")
                await entered.wait()
                stopping = asyncio.ensure_future(server.stop(grace_s=30))
                await asyncio.sleep(0)
                release.set()
                assert await asyncio.to_thread(call.result, 30) == b""
                await stopping
            refused = caller(channel).future(b"", timeout=10)
            error = await asyncio.to_thread(refused.exception, 30)
        assert error.code() is grpc.StatusCode.UNAVAILABLE

    async def test_its_pings_are_answered(self) -> None:
        pings = (
            ("grpc.keepalive_time_ms", 50),
            ("grpc.keepalive_timeout_ms", 5000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
        )
        async with our_server(options=pings) as (prober, server, channel):
            call = caller(channel, "Block").future(b"", timeout=1.0)
            await prober.wait_blocked(1)
            error = await asyncio.to_thread(call.exception, 30)
            assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            assert await asyncio.to_thread(caller(channel), b"", timeout=30) == b""
            assert len(server.links) == 1


# ---- we call grpcio's server


class PlainServer:
    """A blocking grpcio server; each test says how it answers."""

    def __init__(self, behaviour: Behaviour, *, streams: bool = False, **more: Any) -> None:
        make = grpc.stream_stream_rpc_method_handler if streams else None
        self._handler = (make or grpc.unary_unary_rpc_method_handler)(behaviour)
        options = [*UNLIMITED, *more.pop("options", ())]
        self.threads = futures.ThreadPoolExecutor(8)
        self.server = grpc.server(self.threads, options=options, **more)
        self.server.add_generic_rpc_handlers((self,))  # type: ignore[arg-type]
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        return self._handler


@contextlib.asynccontextmanager
async def their_server(
    behaviour: Behaviour, **more: Any
) -> AsyncIterator[tuple[PlainServer, Channel]]:
    server = PlainServer(behaviour, **more)
    channel = make_channel(f"h2://127.0.0.1:{server.port}")
    try:
        yield server, channel
    finally:
        await channel.close()
        await asyncio.to_thread(server.server.stop(None).wait)
        await asyncio.to_thread(server.threads.shutdown)


class TestWeCallGrpcio:
    @pytest.mark.parametrize("compression", COMPRESSIONS, ids=lambda one: one.name)
    async def test_compressed_answers_are_understood(self, compression: grpc.Compression) -> None:
        request = BytesValue(value=b"again and " * 400_000)
        async with their_server(lambda data, _: data, compression=compression) as (_, channel):
            assert await stub(Probe, channel).Echo(request) == request

    @pytest.mark.parametrize("size", SIZES)
    async def test_large_messages_go_both_ways(self, size: int) -> None:
        request = BytesValue(value=bytes(size))
        async with their_server(lambda data, _: data) as (_, channel):
            reply = await stub(Probe, channel).Echo(request, timeout_s=100)
        assert reply == request

    async def test_metadata_arrives(self) -> None:
        seen: dict[str, Any] = {}

        def note(data: bytes, context: grpc.ServicerContext) -> bytes:
            seen.update((item.key, item.value) for item in context.invocation_metadata())
            seen["deadline_s"] = context.time_remaining()
            return data

        sent = (("words", "plain text"), ("raw-bin", b"\x00\xff\x80 "))
        async with their_server(note) as (_, channel):
            method = methods_of(Probe)["Echo"]
            await channel.unary(method, BytesValue(), timeout_s=50, metadata=sent)
        assert dict(sent).items() <= seen.items()
        assert 0 < seen["deadline_s"] <= 50

    async def test_a_stream_answers_message_by_message(self) -> None:
        def echo(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            yield from requests

        values = [i % 7 for i in range(3000)]
        async with their_server(echo, streams=True) as (_, channel):
            replies = [one.value async for one in stub(Probe, channel).Count(numbers(*values))]
        assert replies == values

    @pytest.mark.parametrize("how", ["cancel", "deadline"])
    async def test_it_learns_that_we_gave_a_stream_up(self, how: str) -> None:
        ended = threading.Event()

        def block(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            context.add_callback(ended.set)
            yield b""
            ended.wait(30)

        async with their_server(block, streams=True) as (_, channel):
            timeout_s = 0.3 if how == "deadline" else None
            replies = stub(Probe, channel).Count(numbers(1), timeout_s=timeout_s)  # type: ignore[call-arg]
            assert (await anext(replies)).value == 0
            if how == "cancel":
                await replies.aclose()  # type: ignore[attr-defined]
            else:
                with pytest.raises(errors.DeadlineExceededError):
                    await anext(replies)
            assert await asyncio.to_thread(ended.wait, 30)

    async def test_calls_beyond_its_limit_wait_for_their_turn(self) -> None:
        lock = threading.Lock()
        running, most = 0, 0

        def count(data: bytes, context: grpc.ServicerContext) -> bytes:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            with lock:
                running -= 1
            return data

        limit = [("grpc.max_concurrent_streams", 2)]
        async with their_server(count, options=limit) as (_, channel):
            probe = stub(Probe, channel)
            await probe.Echo(BytesValue())  # its SETTINGS are here now
            replies = await asyncio.gather(*[probe.Echo(BytesValue()) for _ in range(50)])
        assert len(replies) == 50
        assert most <= 2

    async def test_a_call_in_flight_ends_when_it_stops(self) -> None:
        entered, release = threading.Event(), threading.Event()

        def hold(data: bytes, context: grpc.ServicerContext) -> bytes:
            entered.set()
            release.wait(30)
            return data

        async with their_server(hold) as (server, channel):
            call = asyncio.ensure_future(stub(Probe, channel).Echo(BytesValue()))
            assert await asyncio.to_thread(entered.wait, 30)
            stopped = server.server.stop(30)
            release.set()
            assert await call == BytesValue()
            await asyncio.to_thread(stopped.wait)
            with pytest.raises(errors.UnavailableError):
                await stub(Probe, channel).Echo(BytesValue())

    async def test_our_pings_keep_a_quiet_call(self) -> None:
        release = threading.Event()
        patient = [("grpc.http2.max_ping_strikes", 0)]
        async with their_server(lambda data, _: (release.wait(30), data)[1], options=patient) as (
            server,
            _,
        ):
            channel = H2Channel(f"127.0.0.1:{server.port}", keepalive_s=0.05)
            call = asyncio.ensure_future(stub(Probe, channel).Block(Empty()))
            done, _ = await asyncio.wait({call}, timeout=0.5)
            assert not done
            release.set()
            assert await call == Empty()
            await channel.close()
