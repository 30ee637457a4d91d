"""Servers that break rules, over real sockets: a call of ours ends with an error that says so."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.wrappers_pb2 import BytesValue, Int32Value

from tideflow.transport import Channel, NotGrpcError, make_channel, make_server, stub
from tideflow.transport.h2 import frames
from tideflow.transport.h2.header_blocks import encode_block
from tideflow.wire import errors
from transport.contract import Probe, Prober
from transport.raw_peer import RawPeer, data, frame, headers, message

U32 = struct.Struct(">L").pack
HELLO = frames.settings_frame({})
HEAD = encode_block([(b":status", b"200"), (b"content-type", b"application/grpc")])
GZIPPED = encode_block(
    [(b":status", b"200"), (b"content-type", b"application/grpc"), (b"grpc-encoding", b"gzip")]
)
OK = encode_block([(b"grpc-status", b"0")])
REPLY = BytesValue(value=b"hi").SerializeToString()


def fields(*pairs: tuple[bytes, bytes]) -> bytes:
    return encode_block(pairs)


def answer(*, stream_id: int = 1) -> bytes:
    return (
        headers(stream_id, HEAD)
        + data(stream_id, message(REPLY))
        + headers(stream_id, OK, end=True)
    )


@contextlib.asynccontextmanager
async def scripted(talk: Callable[[RawPeer], Awaitable[None]]) -> AsyncIterator[int]:
    """Run a server that does on each connection what `talk` does, then hangs up."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        peer = RawPeer(reader, writer)
        try:
            with contextlib.suppress(ConnectionError, EOFError, asyncio.CancelledError):
                await talk(peer)
        finally:
            await peer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 24)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def read_call(peer: RawPeer, *, says: bytes = HELLO) -> int:
    """Greet, read until a call has come whole, and return its stream."""
    await peer.reader.readexactly(len(frames.PREFACE))
    await peer.send(says)
    return await next_call(peer)


async def next_call(peer: RawPeer) -> int:
    """Read until another call has come whole, and return its stream."""
    async for found in peer.read_frames():
        if found.kind in (frames.HEADERS, frames.DATA) and found.flags & frames.END_STREAM:
            return found.stream_id
    raise ConnectionResetError


def saying(*said: bytes) -> Callable[[RawPeer], Awaitable[None]]:
    """Return a server that answers its first call with some bytes, then reads to the end."""

    async def talk(peer: RawPeer) -> None:
        await read_call(peer)
        await peer.send(b"".join(said))
        await peer.read_end()

    return talk


def greeting(said: bytes) -> Callable[[RawPeer], Awaitable[None]]:
    async def talk(peer: RawPeer) -> None:
        await peer.send(said)
        await peer.read_end()

    return talk


async def _then(peer: RawPeer, said: bytes) -> None:
    """Answer a call with some bytes, and hang up."""
    await read_call(peer)
    await peer.send(said)


async def _refuse(peer: RawPeer) -> None:
    stream_id = await read_call(peer)
    while True:
        await peer.send(frames.reset_frame(stream_id, 0x7))
        stream_id = await next_call(peer)


@dataclass(frozen=True)
class Case:
    """What a server does, and the error that the call gets."""

    talk: Callable[[RawPeer], Awaitable[None]]
    error: type[errors.OpError]
    words: str


PING = frame(frames.PING, 0, 0, b"12345678")
BROKE = "lost|broke the protocol|cannot reach|reset"

CASES: dict[str, Case] = {
    "HTTP/1.1": Case(greeting(b"HTTP/1.1 400 Bad Request\r\n\r\n"), NotGrpcError, "HTTP/2"),
    "an SSH greeting": Case(greeting(b"SSH-2.0-OpenSSH_9.6\r\n"), NotGrpcError, "HTTP/2"),
    "a TLS alert": Case(greeting(b"\x15\x03\x03\0\x02\x02\x28"), NotGrpcError, "TLS"),
    "PING before SETTINGS": Case(greeting(PING), NotGrpcError, "SETTINGS"),
    "SETTINGS out of range": Case(
        greeting(frames.settings_frame({5: 1})), errors.UnavailableError, "frames of 1 bytes"
    ),
    "a GOAWAY as greeting": Case(
        greeting(HELLO + frames.goaway_frame(0, 0xB, "go away")),
        errors.UnavailableError,
        "refused|reach",
    ),
    "it hangs up on each connection": Case(
        lambda peer: asyncio.sleep(0),
        errors.UnavailableError,
        "does it want TLS|cannot reach",
    ),
    "it hangs up in the answer": Case(
        lambda peer: _then(peer, headers(1, HEAD) + data(1, message(REPLY))[:10]),
        errors.UnavailableError,
        "connection was lost",
    ),
    "a frame larger than granted": Case(
        saying(frame(frames.DATA, 0, 1, bytes(1 << 20) + b"x")), errors.UnavailableError, BROKE
    ),
    "PUSH_PROMISE": Case(
        saying(frame(frames.PUSH_PROMISE, 4, 1, U32(2) + HEAD)), errors.UnavailableError, BROKE
    ),
    "a stream of the server's": Case(saying(headers(2, HEAD)), errors.UnavailableError, BROKE),
    "a stream that we did not begin": Case(
        saying(headers(9, HEAD)), errors.UnavailableError, BROKE
    ),
    "a window that overflows": Case(
        saying(2 * frames.window_update_frame(0, 2**31 - 1)), errors.UnavailableError, BROKE
    ),
    "a stream's window that overflows": Case(
        saying(headers(1, HEAD) + frames.window_update_frame(1, 2**31 - 1)),
        errors.InternalError,
        "window grows over",
    ),
    "PING without end": Case(saying(12_000 * PING), errors.UnavailableError, BROKE),
    "SETTINGS without end": Case(saying(12_000 * HELLO), errors.UnavailableError, BROKE),
    "a header bomb": Case(
        saying(headers(1, HEAD + b"\x40\x01x\x7f\xe1\x1e" + b"a" * 4000 + b"\xbe" * 100)),
        errors.UnavailableError,
        BROKE,
    ),
    "CONTINUATION without end": Case(
        saying(frame(frames.HEADERS, 0, 1, HEAD) + 100 * frame(frames.CONTINUATION, 0, 1)),
        errors.UnavailableError,
        BROKE,
    ),
    "a name in upper case": Case(
        saying(headers(1, HEAD + fields((b"X", b"")))), errors.InternalError, "'X'"
    ),
    "a body before its headers": Case(
        saying(data(1, message(REPLY))), errors.InternalError, "body before its headers"
    ),
    "no trailers": Case(
        saying(headers(1, HEAD) + data(1, message(REPLY), end=True)),
        errors.InternalError,
        "without a grpc-status",
    ),
    "trailers without a status": Case(
        saying(headers(1, HEAD) + headers(1, fields((b"x", b"y")), end=True)),
        errors.InternalError,
        "without a grpc-status",
    ),
    "a status that is no number": Case(
        saying(headers(1, HEAD) + headers(1, fields((b"grpc-status", b"fine")), end=True)),
        errors.UnknownError,
        "Additional information",
    ),
    "OK without a message": Case(
        saying(headers(1, HEAD) + headers(1, OK, end=True)), errors.InternalError, "no message"
    ),
    "OK after half a message": Case(
        saying(headers(1, HEAD) + data(1, message(REPLY)[:-1]) + headers(1, OK, end=True)),
        errors.InternalError,
        "within a message",
    ),
    "two messages": Case(
        saying(headers(1, HEAD) + data(1, 2 * message(REPLY)) + headers(1, OK, end=True)),
        errors.InternalError,
        "more than one message",
    ),
    "bytes that are no message": Case(
        saying(headers(1, HEAD) + data(1, message(b"\xff\xff")) + headers(1, OK, end=True)),
        errors.InternalError,
        "not a BytesValue",
    ),
    "a message in shared memory, unasked": Case(
        saying(headers(1, HEAD) + data(1, b"\x02\0\0\0\x01x") + headers(1, OK, end=True)),
        errors.InternalError,
        "shared memory",
    ),
    "no gzip": Case(
        saying(
            headers(1, GZIPPED)
            + data(1, message(b"no", compressed=True))
            + headers(1, OK, end=True)
        ),
        errors.InternalError,
        "cannot be decompressed",
    ),
    "a web page": Case(
        saying(headers(1, fields((b":status", b"200"), (b"content-type", b"text/html")), end=True)),
        errors.UnknownError,
        "text/html",
    ),
    "HTTP 503": Case(
        saying(headers(1, fields((b":status", b"503")), end=True)), errors.UnavailableError, "503"
    ),
    "it resets the call": Case(
        saying(frames.reset_frame(1, 0x8)), errors.CancelledError, "reset with CANCEL"
    ),
    "it resets the call with a code of its own": Case(
        saying(frames.reset_frame(1, 0xBAD)), errors.InternalError, "reset with error 0xbad"
    ),
    "it refuses every stream": Case(_refuse, errors.UnavailableError, "refused .* 5 times"),
    "it says goodbye to every call": Case(
        saying(frames.goaway_frame(0, 0)), errors.UnavailableError, "refused .* 5 times"
    ),
}


@contextlib.asynccontextmanager
async def called(port: int) -> AsyncIterator[Channel]:
    channel = make_channel(f"h2://127.0.0.1:{port}")
    try:
        yield channel
    finally:
        await channel.close()


@pytest.mark.parametrize("what", CASES)
async def test_a_call_ends_with_what_the_server_did(what: str) -> None:
    case = CASES[what]
    async with scripted(case.talk) as port, called(port) as channel:
        with pytest.raises(case.error, match=case.words):
            await stub(Probe, channel).Echo(BytesValue(value=b"hi"), timeout_s=15)


@pytest.mark.parametrize("what", ["PING without end", "a header bomb", "it resets the call"])
async def test_the_channel_finds_a_better_server_afterwards(what: str) -> None:
    request = BytesValue(value=b"hi")
    async with scripted(CASES[what].talk) as port, called(port) as channel:
        with pytest.raises(errors.OpError):
            await stub(Probe, channel).Echo(request, timeout_s=15)
    async with called(port) as channel:
        with pytest.raises(errors.UnavailableError):
            await stub(Probe, channel).Echo(request)
        server = make_server("h2", [Prober()], f"127.0.0.1:{port}")
        await server.start()
        async with asyncio.timeout(10):
            while True:
                with contextlib.suppress(errors.UnavailableError):
                    assert await stub(Probe, channel).Echo(request) == request
                    break
        await channel.close()
        await server.stop()


@pytest.mark.parametrize(
    "said",
    {
        "as one": answer(),
        "in single bytes of DATA": headers(1, HEAD)
        + b"".join(data(1, b"%c" % byte) for byte in message(REPLY))
        + headers(1, OK, end=True),
        "after 1xx answers": 3 * headers(1, fields((b":status", b"103"))) + answer(),
        "with padding": headers(1, HEAD)
        + frame(frames.DATA, frames.PADDED, 1, b"\x04" + message(REPLY) + bytes(4))
        + headers(1, OK, end=True),
        "compressed": headers(1, GZIPPED)
        + data(1, message(gzip.compress(REPLY), compressed=True))
        + headers(1, OK, end=True),
        "among pings and unknown frames": PING + frame(0xEE, 7, 1, b"?") + answer() + PING,
        "with a window update of each kind": frames.window_update_frame(0, 5)
        + frames.window_update_frame(1, 5)
        + answer(),
        "and a GOAWAY": answer() + frames.goaway_frame(1, 0),
        "after a GOAWAY": frames.goaway_frame(1, 0) + answer(),
        "with a reset behind": answer() + frames.reset_frame(1, 0),
    }.items(),
    ids=lambda item: item[0],
)
async def test_an_odd_but_legal_answer_is_understood(said: tuple[str, bytes]) -> None:
    async with scripted(saying(said[1])) as port, called(port) as channel:
        reply = await stub(Probe, channel).Echo(BytesValue(value=b"hi"), timeout_s=15)
        assert reply == BytesValue(value=b"hi")


async def test_a_server_that_never_greets_is_given_up_at_the_deadline() -> None:
    async with scripted(greeting(b"")) as port, called(port) as channel:
        with pytest.raises(errors.DeadlineExceededError, match=r"Echo.*within 0\.1 s"):
            await stub(Probe, channel).Echo(BytesValue(), timeout_s=0.1)


async def test_a_server_without_a_window_makes_the_requests_wait() -> None:
    # The producer of a stream's requests is asked for no more than the peer has room for.
    produced = 0

    async def many() -> AsyncIterator[Int32Value]:
        nonlocal produced
        while True:
            produced += 1
            yield Int32Value(value=1 << 30)
            await asyncio.sleep(0)

    async def talk(peer: RawPeer) -> None:
        await peer.reader.readexactly(len(frames.PREFACE))
        await peer.send(frames.settings_frame({4: 0}))
        await peer.read_end()

    async def consume(channel: Channel) -> None:
        async for _ in stub(Probe, channel).Count(many(), timeout_s=0.5):
            pass

    async with scripted(talk) as port, called(port) as channel:
        with pytest.raises(errors.DeadlineExceededError):
            await consume(channel)
    # A MiB waits at most, of messages of 11 bytes.
    assert produced < (1 << 20) // 11 + 10


async def test_a_lost_connection_ends_all_its_calls() -> None:
    async def talk(peer: RawPeer) -> None:
        await read_call(peer)
        for _ in range(2):
            await next_call(peer)

    async with scripted(talk) as port, called(port) as channel:
        probe = stub(Probe, channel)
        calls = [asyncio.ensure_future(probe.Block(Empty())) for _ in range(3)]
        for done in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(done, errors.UnavailableError)
