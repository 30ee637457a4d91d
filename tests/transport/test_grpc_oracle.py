"""Our two ends against plain grpcio, which knows nothing of ours."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.wrappers_pb2 import BytesValue, Int32Value, StringValue

from tideflow.runtime.loop import run_sync
from tideflow.transport import make_channel, make_server, stub, within
from tideflow.wire import errors, status
from transport.contract import PAYLOAD, Probe, Prober

DETAILS = "grpc-status-details-bin"
# map<string, bytes> payloads = 1 of PAYLOAD, written out by hand.
DETAILS_OF_PAYLOAD = b"\x0a\x33\x0a\x26" + next(iter(PAYLOAD)).encode() + b"\x12\x09\x00\xffpayload"


class TestOurServer:
    """A blocking grpcio client, in this thread, calls our server on the loop."""

    @pytest.fixture
    def prober(self) -> Prober:
        return Prober()

    @pytest.fixture
    def client(self, prober: Prober) -> Iterator[grpc.Channel]:
        server = make_server("grpc", [prober], "127.0.0.1:0")
        port = run_sync(server.start())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
        run_sync(server.stop())

    def call(self, client: grpc.Channel, method: str, data: bytes, timeout: float = 30) -> bytes:
        reply: bytes = client.unary_unary(f"/tideflow.test.Probe/{method}")(data, timeout=timeout)
        return reply

    def test_it_answers(self, client: grpc.Channel) -> None:
        data = BytesValue(value=b"hello").SerializeToString()
        assert self.call(client, "Echo", data) == data

    def test_it_sends_code_text_and_payloads_in_the_trailers(self, client: grpc.Channel) -> None:
        with pytest.raises(grpc.RpcError) as caught:
            self.call(client, "Fail", Int32Value(value=errors.ABORTED).SerializeToString())
        assert caught.value.code() is grpc.StatusCode.ABORTED
        assert caught.value.details() == "as asked"
        assert (DETAILS, DETAILS_OF_PAYLOAD) in [tuple(m) for m in caught.value.trailing_metadata()]

    def test_an_error_without_payloads_has_no_metadata(self, client: grpc.Channel) -> None:
        with pytest.raises(grpc.RpcError) as caught:
            self.call(client, "FailWith", StringValue(value="no").SerializeToString())
        assert DETAILS not in dict(caught.value.trailing_metadata())

    @pytest.mark.parametrize(("letter", "kept"), [("x", 3000), ("数", 600), ("%", 2000)])
    def test_a_long_text_arrives_cut_on_a_client_with_default_limits(
        self, client: grpc.Channel, letter: str, kept: int
    ) -> None:
        for _ in range(20):  # over the soft limit, a client refuses at random
            with pytest.raises(grpc.RpcError) as caught:
                self.call(client, "FailWith", StringValue(value=letter * 9999).SerializeToString())
            assert caught.value.code() is grpc.StatusCode.ABORTED
            assert caught.value.details().startswith(letter * kept)
            assert caught.value.details().endswith("]")

    def test_a_request_that_does_not_parse_is_an_invalid_argument(
        self, client: grpc.Channel
    ) -> None:
        with pytest.raises(grpc.RpcError) as caught:
            self.call(client, "Echo", b"\xff\xff\xff")
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "3 bytes sent to /tideflow.test.Probe/Echo are not a BytesValue" in (
            caught.value.details()
        )

    def test_an_unknown_method_is_unimplemented_and_named(self, client: grpc.Channel) -> None:
        with pytest.raises(grpc.RpcError) as caught:
            self.call(client, "Nonsense", b"")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert "/tideflow.test.Probe/Nonsense" in caught.value.details()

    def test_a_client_s_cancel_frees_the_handler(
        self, client: grpc.Channel, prober: Prober
    ) -> None:
        call = client.unary_unary("/tideflow.test.Probe/Block").future(b"")
        run_sync(prober.wait_blocked(1), timeout_s=30)
        call.cancel()
        run_sync(prober.wait_blocked(0), timeout_s=30)
        assert call.cancelled()

    def test_a_client_that_vanishes_frees_the_handler(self, prober: Prober) -> None:
        server = make_server("grpc", [prober], "127.0.0.1:0")
        port = run_sync(server.start())
        channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        call = channel.unary_unary("/tideflow.test.Probe/Block").future(b"")
        run_sync(prober.wait_blocked(1), timeout_s=30)
        channel.close()
        run_sync(prober.wait_blocked(0), timeout_s=30)
        run_sync(server.stop())
        assert call.code() is grpc.StatusCode.CANCELLED

    def test_a_client_s_deadline_frees_the_handler(
        self, client: grpc.Channel, prober: Prober
    ) -> None:
        with pytest.raises(grpc.RpcError) as caught:
            self.call(client, "Block", b"", timeout=0.05)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        run_sync(prober.wait_blocked(0), timeout_s=30)

    def test_it_streams(self, client: grpc.Channel) -> None:
        replies = client.stream_stream("/tideflow.test.Probe/Count")(
            Int32Value(value=value).SerializeToString() for value in (4, 5)
        )
        assert [Int32Value.FromString(reply).value for reply in replies] == [4, 9]


class PlainServer:
    """A blocking grpcio server whose one behaviour each test chooses."""

    def __init__(self) -> None:
        self.behaviour: Callable[[bytes, grpc.ServicerContext], bytes] = lambda data, context: data
        self._threads = futures.ThreadPoolExecutor(2)
        self._server = grpc.server(self._threads)
        self._server.add_generic_rpc_handlers((self,))  # type: ignore[arg-type]
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        return grpc.unary_unary_rpc_method_handler(self.behaviour)

    def stop(self) -> None:
        self._server.stop(None).wait()
        self._threads.shutdown()


class TestOurChannel:
    @pytest.fixture
    def server(self) -> Iterator[PlainServer]:
        server = PlainServer()
        yield server
        server.stop()

    @pytest.fixture
    def probe(self, server: PlainServer) -> Iterator[Probe]:
        channel = make_channel(f"grpc://127.0.0.1:{server.port}")
        yield stub(Probe, channel)
        run_sync(channel.close())

    async def test_it_calls(self, probe: Probe) -> None:
        assert await probe.Echo(BytesValue(value=b"x")) == BytesValue(value=b"x")

    async def test_it_reads_code_text_and_payloads(self, server: PlainServer, probe: Probe) -> None:
        def fail(data: bytes, context: grpc.ServicerContext) -> bytes:
            context.set_trailing_metadata(((DETAILS, DETAILS_OF_PAYLOAD),))
            context.abort(grpc.StatusCode.OUT_OF_RANGE, "the input has ended")

        server.behaviour = fail
        with pytest.raises(errors.OutOfRangeError, match="the input has ended") as caught:
            await probe.Echo(BytesValue())
        assert caught.value.payloads == PAYLOAD

    async def test_details_of_another_kind_do_not_hide_the_error(
        self, server: PlainServer, probe: Probe
    ) -> None:
        def fail(data: bytes, context: grpc.ServicerContext) -> bytes:
            context.set_trailing_metadata(((DETAILS, b"\xff\xff\xff not a message"),))
            context.abort(grpc.StatusCode.OUT_OF_RANGE, "the input has ended")

        server.behaviour = fail
        with pytest.raises(errors.OutOfRangeError, match="the input has ended"):
            await probe.Echo(BytesValue())

    async def test_a_peer_s_cancelled_is_an_error_and_derived(
        self, server: PlainServer, probe: Probe
    ) -> None:
        server.behaviour = lambda data, context: context.abort(
            grpc.StatusCode.CANCELLED, "a step failed"
        )
        with pytest.raises(errors.CancelledError, match="a step failed") as caught:
            await probe.Echo(BytesValue())
        assert status.is_derived(caught.value)

    async def test_an_answer_that_does_not_parse_is_internal_and_named(
        self, server: PlainServer, probe: Probe
    ) -> None:
        server.behaviour = lambda data, context: b"\xff\xff\xff"
        with pytest.raises(errors.InternalError, match=r"127\.0\.0\.1:\d+ answered .*Probe/Echo"):
            await probe.Echo(BytesValue())

    async def test_a_method_the_peer_lacks_is_unimplemented(self) -> None:
        empty = grpc.server(futures.ThreadPoolExecutor(1))
        port = empty.add_insecure_port("127.0.0.1:0")
        empty.start()
        channel = make_channel(f"127.0.0.1:{port}")
        with pytest.raises(errors.UnimplementedError, match=r"127\.0\.0\.1.*Probe/Echo"):
            await stub(Probe, channel).Echo(BytesValue())
        await channel.close()
        empty.stop(None)

    @pytest.mark.parametrize("how", ["cancel", "deadline"])
    async def test_the_peer_learns_that_we_gave_up(
        self, server: PlainServer, probe: Probe, how: str
    ) -> None:
        loop = asyncio.get_running_loop()
        entered, ended = asyncio.Event(), threading.Event()

        def block(data: bytes, context: grpc.ServicerContext) -> bytes:
            context.add_callback(ended.set)
            loop.call_soon_threadsafe(entered.set)
            ended.wait(30)
            return b""

        server.behaviour = block
        timeout_s = 0.2 if how == "deadline" else None
        call = asyncio.ensure_future(within(timeout_s, probe.Block, Empty()))
        await entered.wait()
        if how == "cancel":
            call.cancel()
        with pytest.raises((asyncio.CancelledError, errors.DeadlineExceededError)):
            await call
        assert await asyncio.to_thread(ended.wait, 30)
