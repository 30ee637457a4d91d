"""Clients that break rules, over real sockets: each ends alone, and everybody else goes on."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import struct
import zlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import hpack
import pytest
from google.protobuf.wrappers_pb2 import BytesValue

from tideflow.runtime.loop import run_sync
from tideflow.transport import Channel, make_channel, stub
from tideflow.transport.h2 import H2Server, frames
from tideflow.transport.h2.faults import ErrorCode
from tideflow.transport.h2.header_blocks import encode_block, encode_field
from tideflow.transport.h2.limits import Limits
from transport.contract import Probe, Prober
from transport.raw_peer import (
    HELLO,
    Ended,
    RawPeer,
    call_block,
    data,
    frame,
    headers,
    message,
    raw_peer,
    whole_call,
)

E = ErrorCode
U32 = struct.Struct(">L").pack

SMALL = Limits(
    max_frame_bytes=16384,
    stream_window_bytes=65535,
    connection_window_bytes=100_000,
    max_streams=10,
    idle_frames=50,
    resets=50,
    max_continuations=8,
    greeting_s=0.1,
    watch_s=0.1,
)


class Served:
    """A running server, and a healthy channel to it that was there before the hostile peer."""

    def __init__(self, limits: Limits | None, max_message_bytes: int | None = None) -> None:
        self.prober = Prober()
        self.server = H2Server(
            [self.prober], "127.0.0.1:0", limits=limits, max_message_bytes=max_message_bytes
        )
        self.port = 0
        self.healthy: Channel

    async def start(self) -> None:
        self.port = await self.server.start()
        self.healthy = make_channel(f"h2://127.0.0.1:{self.port}")
        await self.require_healthy()

    async def require_healthy(self) -> None:
        request = BytesValue(value=b"still here")
        assert await stub(Probe, self.healthy).Echo(request, timeout_s=10) == request

    async def wait_links(self, count: int) -> None:
        """Wait until the server has that many connections, the healthy one among them."""
        async with asyncio.timeout(20):
            while len(self.server.links) != count:
                await asyncio.sleep(0.005)

    async def read_given_up(self, peer: RawPeer) -> Ended:
        """Read until a peer is given up; return how, once only the healthy connection is left."""
        async with asyncio.timeout(20):
            ended = await peer.read_end()
        await self.wait_links(1)
        await self.require_healthy()
        return ended

    async def stop(self) -> None:
        await self.require_healthy()
        await self.healthy.close()
        await self.server.stop()
        assert self.server.tasks == set()


@contextlib.asynccontextmanager
async def serving(
    limits: Limits | None = None, max_message_bytes: int | None = None
) -> AsyncIterator[Served]:
    served = Served(limits, max_message_bytes)
    await served.start()
    try:
        yield served
    finally:
        await served.stop()


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served(SMALL)
    run_sync(made.start(), timeout_s=30)
    yield made
    run_sync(made.stop(), timeout_s=30)


def setting(number: int, value: int) -> bytes:
    return frames.settings_frame({number: value})


def window(stream_id: int, by: int) -> bytes:
    return frames.window_update_frame(stream_id, by)


def block_with(*pairs: tuple[bytes, bytes]) -> bytes:
    return call_block() + encode_block(pairs)


def hpack_bomb() -> bytes:
    """Return a block of a few KiB that says a few hundred KiB: one long field, again and again."""
    long_field = hpack.Encoder().encode([(b"x-bomb", b"a" * 4000)], huffman=False)
    return long_field + b"\xbe" * 200


PING = frame(frames.PING, 0, 0, b"12345678")
MANY_FIELDS = encode_block([(b"x%d" % i, b"") for i in range(2000)])
OPEN = headers(1, call_block("Count"))
# The end of who does not listen: no GOAWAY would reach it.
CUT_OFF = Ended(None)

# What is sent after the greeting, and with which code the connection ends.
ENDS_THE_CONNECTION: dict[str, tuple[bytes, ErrorCode]] = {
    "a frame larger than granted": (frame(frames.DATA, 0, 1, bytes(16385)), E.FRAME_SIZE_ERROR),
    "SETTINGS that are no list": (frame(frames.SETTINGS, 0, 0, bytes(5)), E.FRAME_SIZE_ERROR),
    "SETTINGS on a stream": (frame(frames.SETTINGS, 0, 1), E.PROTOCOL_ERROR),
    "SETTINGS ACK with a payload": (frame(frames.SETTINGS, 1, 0, bytes(6)), E.FRAME_SIZE_ERROR),
    "a window of 2^31": (setting(4, 1 << 31), E.FLOW_CONTROL_ERROR),
    "frames of 100 bytes": (setting(5, 100), E.PROTOCOL_ERROR),
    "frames of 2^24 bytes": (setting(5, 1 << 24), E.PROTOCOL_ERROR),
    "ENABLE_PUSH of 2": (setting(2, 2), E.PROTOCOL_ERROR),
    "SETTINGS that overflow a stream's window": (
        OPEN + window(1, 2**31 - 1 - 65535) + setting(4, 70_000),
        E.FLOW_CONTROL_ERROR,
    ),
    "the connection's window overflows": (window(0, 2**31 - 1), E.FLOW_CONTROL_ERROR),
    "the connection's window grows by 0": (window(0, 0), E.PROTOCOL_ERROR),
    "a window update of 3 bytes": (frame(frames.WINDOW_UPDATE, 0, 0, b"abc"), E.FRAME_SIZE_ERROR),
    "a window update for an idle stream": (window(7, 1), E.PROTOCOL_ERROR),
    "DATA on stream 0": (data(0, b"x"), E.PROTOCOL_ERROR),
    "DATA on an idle stream": (data(1, b"x"), E.PROTOCOL_ERROR),
    "more padding than DATA": (
        OPEN + frame(frames.DATA, frames.PADDED, 1, b"\xffabc"),
        E.PROTOCOL_ERROR,
    ),
    "padded DATA without a length": (
        OPEN + frame(frames.DATA, frames.PADDED, 1),
        E.FRAME_SIZE_ERROR,
    ),
    "more padding than HEADERS": (
        frame(frames.HEADERS, frames.PADDED | frames.END_HEADERS, 1, b"\xff" + call_block()),
        E.PROTOCOL_ERROR,
    ),
    "padding without end": (
        OPEN + 60 * frame(frames.DATA, frames.PADDED, 1, b"\xff" + bytes(255)),
        E.ENHANCE_YOUR_CALM,
    ),
    "empty DATA without end": (OPEN + 60 * data(1, b""), E.ENHANCE_YOUR_CALM),
    "HEADERS on stream 0": (headers(0), E.PROTOCOL_ERROR),
    "HEADERS on a stream of ours": (headers(2), E.PROTOCOL_ERROR),
    "HEADERS on closed streams without end": (
        whole_call(101) + 60 * headers(1),
        E.ENHANCE_YOUR_CALM,
    ),
    "PRIORITY on stream 0": (frame(frames.PRIORITY, 0, 0, bytes(5)), E.PROTOCOL_ERROR),
    "PRIORITY without end": (60 * frame(frames.PRIORITY, 0, 3, bytes(5)), E.ENHANCE_YOUR_CALM),
    "RST_STREAM on an idle stream": (frames.reset_frame(1, 8), E.PROTOCOL_ERROR),
    "RST_STREAM of 3 bytes": (OPEN + frame(frames.RST_STREAM, 0, 1, b"abc"), E.FRAME_SIZE_ERROR),
    "PUSH_PROMISE to a server": (
        OPEN + frame(frames.PUSH_PROMISE, frames.END_HEADERS, 1, U32(2) + call_block()),
        E.PROTOCOL_ERROR,
    ),
    "PING of 7 bytes": (frame(frames.PING, 0, 0, b"1234567"), E.FRAME_SIZE_ERROR),
    "PING on a stream": (frame(frames.PING, 0, 1, b"12345678"), E.PROTOCOL_ERROR),
    "PING without end": (60 * PING, E.ENHANCE_YOUR_CALM),
    "SETTINGS without end": (60 * setting(0x4, 65535), E.ENHANCE_YOUR_CALM),
    "frames of an unknown kind without end": (60 * frame(0xEE, 0, 1, b"x"), E.ENHANCE_YOUR_CALM),
    "GOAWAY of 7 bytes": (frame(frames.GOAWAY, 0, 0, bytes(7)), E.FRAME_SIZE_ERROR),
    "GOAWAY on a stream": (frame(frames.GOAWAY, 0, 1, bytes(8)), E.PROTOCOL_ERROR),
    "CONTINUATION of nothing": (frame(frames.CONTINUATION, 4, 1, b""), E.PROTOCOL_ERROR),
    "a PING within a header block": (frame(frames.HEADERS, 0, 1, b"\x83") + PING, E.PROTOCOL_ERROR),
    "CONTINUATION on another stream": (
        frame(frames.HEADERS, 0, 1, b"\x83") + frame(frames.CONTINUATION, 4, 3, b"\x86"),
        E.PROTOCOL_ERROR,
    ),
    "empty CONTINUATIONs without end": (
        frame(frames.HEADERS, 0, 1) + 20 * frame(frames.CONTINUATION, 0, 1),
        E.ENHANCE_YOUR_CALM,
    ),
    "long CONTINUATIONs": (
        frame(frames.HEADERS, 0, 1) + 6 * frame(frames.CONTINUATION, 0, 1, bytes(16000)),
        E.ENHANCE_YOUR_CALM,
    ),
    "a header list that is too long": (
        frame(frames.HEADERS, 0, 1, MANY_FIELDS[:9000])
        + frame(frames.CONTINUATION, frames.END_HEADERS, 1, MANY_FIELDS[9000:]),
        E.ENHANCE_YOUR_CALM,
    ),
    "a header bomb": (headers(1, hpack_bomb()), E.ENHANCE_YOUR_CALM),
    "a header table larger than granted": (
        headers(1, b"\x3f\xe1\xff\xff\x03"),
        E.COMPRESSION_ERROR,
    ),
    "an index that the table lacks": (headers(1, b"\xff\x7f"), E.COMPRESSION_ERROR),
    "a header integer without end": (headers(1, b"\xff" + b"\xff" * 9000), E.COMPRESSION_ERROR),
    "a header string that is cut": (headers(1, b"\x00\x7fabc"), E.COMPRESSION_ERROR),
    "streams started and reset without end": (
        b"".join(headers(i) + frames.reset_frame(i, 8) for i in range(1, 201, 2)),
        E.ENHANCE_YOUR_CALM,
    ),
    "streams that break rules without end": (
        b"".join(headers(i, block_with((b"X", b""))) for i in range(1, 201, 2)),
        E.ENHANCE_YOUR_CALM,
    ),
    "streams over the limit without end": (
        b"".join(headers(i) for i in range(1, 201, 2)),
        E.ENHANCE_YOUR_CALM,
    ),
}


@pytest.mark.parametrize("what", ENDS_THE_CONNECTION)
async def test_it_ends_the_connection_with_the_right_code(served: Served, what: str) -> None:
    sent, code = ENDS_THE_CONNECTION[what]
    async with raw_peer(served.port) as peer:
        await peer.send(sent)
        ended = await peer.read_end()
        assert ended.code == code, ended
        assert ended.text
    await served.wait_links(1)


@pytest.mark.parametrize(
    "greeting",
    [b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"\x16\x03\x01\x02\x00", b"\0" * 100, b"PRI * HTTP/2.1"],
)
async def test_it_ends_the_connection_of_who_speaks_no_http2(
    served: Served, greeting: bytes
) -> None:
    async with raw_peer(served.port, says=greeting) as peer:
        ended = await peer.read_end()
    assert ended.code == E.PROTOCOL_ERROR
    assert "does not speak HTTP/2" in ended.text


async def test_a_greeting_without_settings_ends_the_connection(served: Served) -> None:
    async with raw_peer(served.port, says=frames.PREFACE + PING) as peer:
        assert (await peer.read_end()).code == E.PROTOCOL_ERROR


# What is sent on stream 1, and with which code that stream is reset, while others go on.
ENDS_THE_STREAM: dict[str, tuple[bytes, ErrorCode]] = {
    "its window overflows": (OPEN + window(1, 2**31 - 1), E.FLOW_CONTROL_ERROR),
    "its window grows by 0": (OPEN + window(1, 0), E.PROTOCOL_ERROR),
    "DATA after its end": (
        headers(1, call_block("Block")) + data(1, message(b""), end=True) + data(1, b"x"),
        E.STREAM_CLOSED,
    ),
    "HEADERS after its end": (
        headers(1, call_block("Block")) + data(1, message(b""), end=True) + headers(1, end=True),
        E.STREAM_CLOSED,
    ),
    "trailers that do not end it": (OPEN + headers(1, b"\x83"), E.PROTOCOL_ERROR),
    "a name in upper case": (headers(1, block_with((b"X-Up", b""))), E.PROTOCOL_ERROR),
    "a name without letters": (headers(1, block_with((b"", b"x"))), E.PROTOCOL_ERROR),
    "a header of HTTP/1.1": (headers(1, block_with((b"connection", b"x"))), E.PROTOCOL_ERROR),
    "two paths": (
        headers(1, encode_field(b":path", b"/x") + call_block()),
        E.PROTOCOL_ERROR,
    ),
    "a path after the others": (headers(1, block_with((b":path", b"/"))), E.PROTOCOL_ERROR),
    "PRIORITY of 4 bytes": (OPEN + frame(frames.PRIORITY, 0, 1, bytes(4)), E.FRAME_SIZE_ERROR),
    "over the limit": (
        b"".join(headers(i, call_block("Block")) for i in range(3, 23, 2)) + headers(23),
        E.REFUSED_STREAM,
    ),
}


@pytest.mark.parametrize("what", ENDS_THE_STREAM)
async def test_it_ends_the_stream_only(served: Served, what: str) -> None:
    sent, code = ENDS_THE_STREAM[what]
    stream_id = 23 if what == "over the limit" else 1
    async with raw_peer(served.port) as peer:
        await peer.send(sent)
        assert await peer.read_reset(stream_id) == code
        if what == "over the limit":
            await peer.send(frames.reset_frame(3, 8))
        await peer.send(whole_call(101, b"\x0a\x02ok"))
        fields, body = await peer.read_answer(101)
        assert fields[b"grpc-status"] == b"0"
        assert body == message(b"\x0a\x02ok")
    await served.wait_links(1)


async def test_data_beyond_the_window_ends_what_it_overflows() -> None:
    # Frames larger than a window, as a server that reads gives room back before it is used up.
    limits = Limits(stream_window_bytes=20_000, connection_window_bytes=70_000)
    async with serving(limits) as served:
        async with raw_peer(served.port) as peer:
            await peer.send(headers(1) + data(1, bytes(20_001)))
            assert await peer.read_reset(1) == E.FLOW_CONTROL_ERROR
            await peer.send(whole_call(3))
            assert (await peer.read_answer(3))[0][STATUS] == b"0"
            await peer.send(headers(5) + data(5, bytes(70_001)))
            assert (await peer.read_end()).code == E.FLOW_CONTROL_ERROR


@dataclass(frozen=True)
class Answer:
    """What a strange but legal call gets."""

    sent: bytes
    fields: dict[bytes, bytes] = field(default_factory=dict)


def zipped(body: bytes, encoding: bytes) -> bytes:
    head = headers(1, call_block("Echo", (b"grpc-encoding", encoding)))
    return head + data(1, message(body, compressed=True), end=True)


STATUS = b"grpc-status"
STRANGE_CALLS: dict[str, Answer] = {
    "no body": Answer(headers(1, end=True), {STATUS: b"13"}),
    "half a prefix": Answer(headers(1) + data(1, b"\0\0", end=True), {STATUS: b"13"}),
    "half a message": Answer(headers(1) + data(1, message(b"abc")[:-1], end=True), {STATUS: b"13"}),
    "two messages": Answer(headers(1) + data(1, 2 * message(b""), end=True), {STATUS: b"13"}),
    "a prefix that begins with 7": Answer(
        headers(1) + data(1, b"\x07\0\0\0\0", end=True), {STATUS: b"13"}
    ),
    "another method": Answer(
        headers(1, encode_block([(b":method", b"GET"), (b":path", b"/")]), end=True),
        {b":status": b"405"},
    ),
    "another content": Answer(
        headers(
            1,
            encode_block(
                [(b":method", b"POST"), (b":path", b"/"), (b"content-type", b"text/html")]
            ),
            end=True,
        ),
        {b":status": b"415"},
    ),
    "nobody's method": Answer(headers(1, call_block("Nonsense"), end=True), {STATUS: b"12"}),
    "an unknown encoding": Answer(
        zipped(b"x", b"snappy"),
        {STATUS: b"12", b"grpc-accept-encoding": b"identity,deflate,gzip"},
    ),
    "compressed, but it does not say how": Answer(zipped(b"x", b"identity"), {STATUS: b"13"}),
    "no gzip": Answer(zipped(b"not gzip", b"gzip"), {STATUS: b"13"}),
    "a gzip that is cut": Answer(zipped(gzip.compress(b"x" * 99)[:-9], b"gzip"), {STATUS: b"13"}),
    "a message over the limit": Answer(
        headers(1) + data(1, message(bytes(70_000))[:5] + bytes(9000), end=True), {STATUS: b"8"}
    ),
    "a message of 4 GiB": Answer(
        headers(1) + data(1, b"\0\xff\xff\xff\xff", end=True), {STATUS: b"8"}
    ),
    "a gzip bomb": Answer(zipped(gzip.compress(bytes(10 << 20)), b"gzip"), {STATUS: b"8"}),
    "a timeout that is none": Answer(
        headers(1, call_block("Echo", (b"grpc-timeout", b"soon")), end=True), {STATUS: b"13"}
    ),
    "a timeout of nothing": Answer(
        headers(1, call_block("Block", (b"grpc-timeout", b"0n"))) + data(1, message(b""), end=True),
        {STATUS: b"4"},
    ),
    "interleaved with unknown frames": Answer(
        frame(0xEE, 0xFF, 1, b"?")
        + headers(1)
        + frame(0xEE, 0, 0)
        + data(1, message(b""), end=True),
        {STATUS: b"0"},
    ),
    "with padding and a priority": Answer(
        frame(
            frames.HEADERS,
            frames.PADDED | frames.HAS_PRIORITY | frames.END_HEADERS,
            1,
            b"\x03" + bytes(5) + call_block() + bytes(3),
        )
        + frame(
            frames.DATA, frames.PADDED | frames.END_STREAM, 1, b"\x09" + message(b"") + bytes(9)
        ),
        {STATUS: b"0"},
    ),
    "byte by byte in frames": Answer(
        headers(1)
        + b"".join(data(1, b"%c" % byte) for byte in message(b"\x0a\x01x"))
        + data(1, b"", end=True),
        {STATUS: b"0"},
    ),
    "ended by trailers": Answer(
        headers(1) + data(1, message(b"")) + headers(1, encode_field(b"x", b"y"), end=True),
        {STATUS: b"0"},
    ),
}


@pytest.mark.parametrize("what", STRANGE_CALLS)
async def test_a_strange_call_gets_its_answer(what: str) -> None:
    case = STRANGE_CALLS[what]
    async with serving(SMALL, max_message_bytes=60_000) as served:
        async with raw_peer(served.port) as peer:
            await peer.send(case.sent)
            fields, _ = await peer.read_answer(1)
            assert case.fields.items() <= fields.items(), fields
            await peer.send(whole_call(3))
            assert (await peer.read_answer(3))[0][STATUS] == b"0"


async def test_calls_in_flight_go_on_after_the_client_s_farewell(served: Served) -> None:
    async with raw_peer(served.port) as peer:
        await peer.send(OPEN + frames.goaway_frame(0, 0) + data(1, message(b"\x08\x05"), end=True))
        fields, body = await peer.read_answer(1)
    assert fields[STATUS] == b"0"
    assert body == message(b"\x08\x05")


class TestSlowPeers:
    """Peers that stop: the clock of SMALL gives them a tenth of a second."""

    STOPS: ClassVar = {
        "it says nothing": b"",
        "half a greeting": HELLO[:10],
        "a greeting, and no settings": frames.PREFACE,
        "half a frame header": HELLO + PING[:5],
        "half a PING": HELLO + PING[:-1],
        "half a HEADERS": HELLO + headers(1)[:-1],
        "a header block without end": HELLO + frame(frames.HEADERS, 0, 1, b"\x83"),
        "half a DATA": HELLO + headers(1) + data(1, bytes(100))[:-1],
    }

    @pytest.mark.parametrize("what", STOPS)
    async def test_who_stops_halfway_is_given_up(self, served: Served, what: str) -> None:
        async with raw_peer(served.port, says=self.STOPS[what]) as peer:
            assert await served.read_given_up(peer) == CUT_OFF
            assert len(served.server.links) == 1

    async def test_who_dribbles_a_frame_is_given_up(self, served: Served) -> None:
        async with raw_peer(served.port) as peer:
            ended = asyncio.ensure_future(peer.read_end())
            async with asyncio.timeout(20):
                for byte in headers(1) + bytes(10_000):
                    await peer.send(b"%c" % byte)
                    if (await asyncio.wait({ended}, timeout=0.02))[0]:
                        break
            assert ended.done()

    async def test_an_idle_connection_is_kept(self, served: Served) -> None:
        async with raw_peer(served.port) as idle:
            await idle.send(whole_call(1))
            await idle.read_answer(1)
            # Another one, given up meanwhile, tells that the clock has been looked at.
            for _ in range(3):
                async with raw_peer(served.port, says=b"") as silent:
                    await silent.read_end()
            await idle.send(whole_call(3))
            assert (await idle.read_answer(3))[0][STATUS] == b"0"

    async def test_who_takes_no_data_is_given_up(self, served: Served) -> None:
        # No window: the answer cannot leave, and the peer says nothing of it.
        async with raw_peer(served.port, says=frames.PREFACE + setting(4, 0)) as peer:
            await peer.send(whole_call(1, b"\x0a\x02ok"))
            assert await served.read_given_up(peer) == CUT_OFF
            assert len(served.server.links) == 1


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class TestFloods:
    """What a peer can make us hold, with the limits that servers really have."""

    async def test_many_idle_connections_cost_little(self) -> None:
        async with serving() as served, contextlib.AsyncExitStack() as stack:
            before = resident_bytes()
            peers: list[RawPeer] = []
            for _ in range(300):
                peers.append(await stack.enter_async_context(raw_peer(served.port)))
            await served.wait_links(301)
            assert resident_bytes() - before < 30 << 20
            await peers[7].send(whole_call(1))
            assert (await peers[7].read_answer(1))[0][STATUS] == b"0"

    async def test_answers_that_nobody_reads_hold_back_the_next_calls(self) -> None:
        limits = Limits(most_unsent_bytes=8 << 20)
        async with serving(limits) as served:
            async with raw_peer(served.port, says=HELLO + window(0, 2**31 - 1 - 65535)) as peer:
                body = bytes([0x0A]) + b"\x80\x80\x40" + bytes(1 << 20)
                echo = served.prober.statistics
                for i in range(100):
                    await peer.send(
                        headers(2 * i + 1)
                        + data(2 * i + 1, message(body)[:16000])
                        + data(2 * i + 1, message(body)[16000:], end=True)
                    )
                await served.require_healthy()
                done = [echo["Echo"].calls]
                assert done[0] < 20
                # Once the peer takes what is there, the rest is done.
                await peer.send(setting(4, 2**31 - 1))
                assert await peer.read_ended(100) == dict.fromkeys(range(1, 201, 2), b"0")
                assert echo["Echo"].calls >= 102

    async def test_refusals_that_nobody_reads_end_the_connection(self) -> None:
        async with serving(Limits(most_control_bytes=1 << 16)) as served:
            before = resident_bytes()
            async with raw_peer(served.port) as peer:
                peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
                stream_id = 1
                async with asyncio.timeout(30):
                    while len(served.server.links) == 2 and stream_id < 1_000_000:
                        calls = range(stream_id, stream_id + 1000, 2)
                        stream_id += 1000
                        await peer.send(
                            b"".join(headers(i, call_block("Nonsense"), end=True) for i in calls)
                        )
                assert len(served.server.links) == 1
            assert resident_bytes() - before < 60 << 20

    async def test_a_stream_of_answers_waits_for_its_reader(self) -> None:
        async with serving() as served:
            before = resident_bytes()
            async with raw_peer(served.port) as peer:
                # Each request is answered at once; 65535 bytes of answers may leave.
                await peer.send(OPEN)
                for _ in range(40):
                    await peer.send(data(1, message(b"\x08\x01") * 2000))
                await served.require_healthy()
            assert resident_bytes() - before < 60 << 20

    async def test_resets_by_the_ten_thousand_end_the_connection(self) -> None:
        async with serving() as served:
            before = resident_bytes()
            async with raw_peer(served.port) as peer:
                ended = asyncio.ensure_future(peer.read_end())
                block = call_block("Block")
                for begin in range(1, 60_000, 1000):
                    calls = range(begin, begin + 1000, 2)
                    await peer.send(
                        b"".join(
                            headers(i, block)
                            + data(i, message(b""), end=True)
                            + frames.reset_frame(i, 8)
                            for i in calls
                        )
                    )
                assert (await ended).code == E.ENHANCE_YOUR_CALM
            assert resident_bytes() - before < 60 << 20
            await served.prober.wait_blocked(0)

    @pytest.mark.parametrize("kind", ["gzip", "deflate"])
    async def test_a_bomb_is_not_expanded(self, kind: str) -> None:
        async with serving() as served:
            bomb = _bomb(kind)
            assert len(bomb) < 2 << 20
            before = resident_bytes()
            async with raw_peer(served.port) as peer:
                head = headers(1, call_block("Echo", (b"grpc-encoding", kind.encode())))
                body = message(bomb, compressed=True)
                pieces = [body[at : at + 16000] for at in range(0, len(body), 16000)]
                await peer.send(head + b"".join(data(1, piece) for piece in pieces))
                await peer.send(data(1, b"", end=True))
                fields, _ = await peer.read_answer(1)
                assert fields[STATUS] == b"8"
                assert b"larger than max" in fields[b"grpc-message"]
            assert resident_bytes() - before < 64 << 20

    async def test_a_promised_message_takes_no_memory_before_it_comes(self) -> None:
        async with serving() as served:
            before = resident_bytes()
            async with raw_peer(served.port) as peer:
                for i in range(1, 201, 2):
                    await peer.send(headers(i) + data(i, b"\0\x7f\0\0\0" + bytes(1000)))
                await peer.send(whole_call(301))
                assert (await peer.read_answer(301))[0][STATUS] == b"0"
                assert resident_bytes() - before < 60 << 20


def _bomb(kind: str) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31 if kind == "gzip" else 15)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(600)) + packer.flush()
