from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.wrappers_pb2 import BytesValue, StringValue

from tideflow.platform.settings import process_settings
from tideflow.runtime.loop import run_sync
from tideflow.transport import make_channel, make_server, methods_of, stub, within
from tideflow.wire import errors, status
from transport.contract import Pair, Probe, Prober, run_pair

OPEN = process_settings().replace(insecure=True)


class GrpcPair(Pair):
    max_message_bytes: int | None = None

    async def start(self) -> None:
        self.server = Prober()
        self.transport = make_server(
            "grpc", [self.server], "127.0.0.1:0", max_message_bytes=self.max_message_bytes
        )
        self.port = await self.transport.start()
        self.channel = make_channel(f"grpc://127.0.0.1:{self.port}", peer_name="/job:p/task:0")

    async def stop_server(self) -> None:
        await self.transport.stop()


class LimitedPair(GrpcPair):
    max_message_bytes = 1 << 20


class TestGrpc:
    @pytest.fixture
    def pair(self) -> Iterator[Pair]:
        yield from run_pair(GrpcPair)

    async def test_an_error_says_where_it_came_from(self, pair: GrpcPair) -> None:
        with pytest.raises(errors.AbortedError) as caught:
            await pair.stub.FailWith(StringValue(value="no"))
        assert caught.value.message == (
            "no\nAdditional information: the error came from remote target"
            f" /job:p/task:0 (127.0.0.1:{pair.port}) while calling /tideflow.test.Probe/FailWith"
        )

    async def test_a_long_error_text_is_cut_and_marked(self, pair: Pair) -> None:
        with pytest.raises(errors.AbortedError) as caught:
            await pair.stub.FailWith(StringValue(value="x" * 5000))
        text = caught.value.message.partition("\n")[0]
        assert 3000 < len(text) < 3100
        assert re.fullmatch(r"x+ \.\.\. \[\w+\]", text)

    async def test_a_text_that_utf8_cannot_say_arrives_without_that_part(self, pair: Pair) -> None:
        with pytest.raises(errors.AbortedError, match=r"cannot open \?\.txt"):
            await pair.stub.FailOddly(Empty())

    async def test_a_peer_s_cancelled_is_derived(self, pair: Pair) -> None:
        with pytest.raises(errors.CancelledError) as caught:
            await pair.stub.CancelItself(Empty())
        assert status.is_derived(caught.value)

    async def test_bytes_are_counted(self, pair: Pair) -> None:
        request = BytesValue(value=b"12345")
        await pair.stub.Echo(request)
        seen = pair.server.statistics["Echo"]
        assert (seen.received_bytes, seen.sent_bytes) == (request.ByteSize(),) * 2

    async def test_bytes_that_are_not_grpc_leave_the_server_fine(self, pair: GrpcPair) -> None:
        for garbage in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\xff\x00" * 500, b"PRI * HTTP/2"):
            reader, writer = await asyncio.open_connection("127.0.0.1", pair.port)
            writer.write(garbage)
            writer.write_eof()
            await reader.read()
            writer.close()
        assert await pair.stub.Echo(BytesValue(value=b"ok")) == BytesValue(value=b"ok")

    async def test_a_port_in_use_is_refused_with_the_next_step(self, pair: GrpcPair) -> None:
        second = make_server("grpc", [Prober()], f"127.0.0.1:{pair.port}")
        with pytest.raises(errors.AlreadyExistsError, match=f"127.0.0.1:{pair.port}.*another port"):
            await second.start()

    async def test_a_restarted_peer_is_found_again_within_a_second(self, pair: GrpcPair) -> None:
        await pair.stub.Echo(BytesValue())
        await pair.stop_server()
        with pytest.raises(errors.UnavailableError, match="cannot reach /job:p/task:0"):
            await pair.stub.Echo(BytesValue())
        pair.transport = make_server("grpc", [pair.server], f"127.0.0.1:{pair.port}")
        await pair.transport.start()
        echo = methods_of(Probe)["Echo"]
        await pair.channel.unary(echo, BytesValue(), timeout_s=1.0, wait_for_ready=True)

    async def test_a_call_waits_for_an_absent_peer_if_asked(self, pair: GrpcPair) -> None:
        await pair.stop_server()
        echo = methods_of(Probe)["Echo"]
        with pytest.raises(errors.DeadlineExceededError):
            await pair.channel.unary(echo, BytesValue(), timeout_s=0.2, wait_for_ready=True)

    async def test_a_server_lets_calls_end_within_the_grace(self, pair: GrpcPair) -> None:
        call = asyncio.ensure_future(pair.stub.Block(Empty()))
        await pair.server.wait_blocked(1)
        stopping = asyncio.ensure_future(pair.transport.stop(grace_s=30))
        await asyncio.sleep(0)
        assert not stopping.done()
        call.cancel()
        await stopping
        await pair.transport.wait_stopped()


class TestMessageLimit:
    @pytest.fixture
    def pair(self) -> Iterator[GrpcPair]:
        pair = LimitedPair()
        run_sync(pair.start(), timeout_s=30)
        yield pair
        run_sync(pair.close(), timeout_s=30)

    async def test_a_request_over_the_limit_is_refused(self, pair: GrpcPair) -> None:
        with pytest.raises(errors.ResourceExhaustedError, match=r"larger than max.*1048576"):
            await pair.stub.Echo(BytesValue(value=b"x" * (2 << 20)))
        assert await pair.stub.Echo(BytesValue(value=b"ok")) == BytesValue(value=b"ok")


class TestStrangePeers:
    async def call(self, address: str) -> errors.OpError:
        channel = make_channel(address)
        try:
            with pytest.raises(errors.OpError) as caught:
                await within(20, stub(Probe, channel).Echo, BytesValue())
        finally:
            await channel.close()
        return caught.value

    async def test_nobody_there_is_unavailable_at_once(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        error = await self.call(f"127.0.0.1:{port}")
        assert isinstance(error, errors.UnavailableError)
        assert f"127.0.0.1:{port}" in error.message

    @pytest.mark.parametrize(
        "greeting", [b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", b"220 smtp\r\n"]
    )
    async def test_a_peer_that_is_not_grpc_is_unavailable(self, greeting: bytes) -> None:
        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(greeting)
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(greet, "127.0.0.1", 0) as peer:
            port = peer.sockets[0].getsockname()[1]
            error = await self.call(f"127.0.0.1:{port}")
        assert isinstance(error, errors.UnavailableError)
        assert "does not speak gRPC" in error.message

    async def test_a_connection_lost_during_a_call_is_unavailable(self) -> None:
        async def hang_up_on_the_call(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            writer.write(b"\0\0\0\x04\0\0\0\0\0")  # an empty HTTP/2 SETTINGS frame
            await reader.readuntil(b"\0\0\0\x04\x01\0\0\0\0")  # the client's acknowledgement
            await reader.read(1)
            writer.close()

        async with await asyncio.start_server(hang_up_on_the_call, "127.0.0.1", 0) as peer:
            port = peer.sockets[0].getsockname()[1]
            error = await self.call(f"127.0.0.1:{port}")
        assert isinstance(error, errors.UnavailableError)
        assert f"127.0.0.1:{port}" in error.message


class TestAddresses:
    async def test_stopping_again_or_before_the_start_is_harmless(self) -> None:
        never_started = make_server("grpc", [], "127.0.0.1:0")
        await never_started.stop()
        await never_started.wait_stopped()
        started = make_server("grpc", [], "127.0.0.1:0")
        port = await started.start()
        await asyncio.gather(started.stop(), started.stop())
        await started.stop()
        await started.wait_stopped()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    async def test_an_address_of_another_machine_cannot_be_bound(self) -> None:
        server = make_server("grpc", [], "192.0.2.1:0", settings=OPEN)
        with pytest.raises(errors.InvalidArgumentError, match=r"192\.0\.2\.1:0"):
            await server.start()

    @pytest.mark.parametrize("host_port", ["127.0.0.1", "127.0.0.1:http", ""])
    async def test_an_address_without_a_port_cannot_be_bound(self, host_port: str) -> None:
        server = make_server("grpc", [], host_port)
        with pytest.raises(errors.InvalidArgumentError, match="HOST:PORT"):
            await server.start()

    async def test_a_server_can_listen_on_every_interface(self) -> None:
        settings = process_settings().replace(insecure=True)
        server = make_server("grpc", [Prober()], "127.0.0.1:0", listen_all=True, settings=settings)
        port = await server.start()
        channel = make_channel(f"127.0.0.1:{port}")
        assert await stub(Probe, channel).Echo(BytesValue()) == BytesValue()
        await channel.close()
        await server.stop()

    async def test_a_server_can_listen_at_a_unix_socket(self, tmp_path: Path) -> None:
        address = f"unix:{tmp_path}/s"
        server = make_server("grpc", [Prober()], address)
        await server.start()
        channel = make_channel(address)
        assert await stub(Probe, channel).Echo(BytesValue()) == BytesValue()
        await channel.close()
        await server.stop()

    async def test_a_server_listens_only_where_told(self) -> None:
        server = make_server("grpc", [Prober()], "127.0.0.2:0")
        port = await server.start()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        await server.stop()

    @pytest.mark.parametrize("make", [make_channel, lambda a: make_server("carrier", [], a)])
    def test_an_unknown_scheme_is_refused_with_those_known(self, make: Any) -> None:
        with pytest.raises(errors.InvalidArgumentError, match=r"'carrier'.*grpc"):
            make("carrier://pigeon:1")
