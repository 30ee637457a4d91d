"""A peer that says what a test wants, byte by byte, and reads the answers frame by frame."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import hpack

from tideflow.transport.h2 import frames
from tideflow.transport.h2.faults import ErrorCode
from tideflow.transport.h2.header_blocks import encode_block

Pairs = Sequence[tuple[bytes, bytes]]

HELLO = frames.PREFACE + frames.settings_frame({})


def call_block(method: str = "Echo", *more: tuple[bytes, bytes]) -> bytes:
    """Return the headers of a call of the Probe."""
    return encode_block(
        [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", b"/tideflow.test.Probe/" + method.encode()),
            (b":authority", b"test"),
            (b"content-type", b"application/grpc"),
            (b"te", b"trailers"),
            *more,
        ]
    )


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    return frames.frame_header(len(payload), kind, flags, stream_id) + payload


def headers(stream_id: int, block: bytes = b"", *, end: bool = False, flags: int = 0) -> bytes:
    flags |= frames.END_HEADERS | (frames.END_STREAM if end else 0)
    return frame(frames.HEADERS, flags, stream_id, block or call_block())


def data(stream_id: int, payload: bytes, *, end: bool = False) -> bytes:
    return frame(frames.DATA, frames.END_STREAM if end else 0, stream_id, payload)


def message(body: bytes, *, compressed: bool = False) -> bytes:
    return bytes([compressed]) + len(body).to_bytes(4, "big") + body


def whole_call(stream_id: int, body: bytes = b"", *, method: str = "Echo") -> bytes:
    return headers(stream_id, call_block(method)) + data(stream_id, message(body), end=True)


@dataclass(frozen=True)
class Frame:
    kind: int
    flags: int
    stream_id: int
    payload: bytes


@dataclass(frozen=True)
class Ended:
    """How a connection ended for the peer: the code of its GOAWAY, if there was one."""

    code: ErrorCode | None
    text: str = ""


class RawPeer:
    """One connection, of which the test writes every byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._decoder = hpack.Decoder()

    async def send(self, sent: bytes) -> None:
        """Write; a peer that has hung up meanwhile is no error here."""
        self.writer.write(sent)
        with contextlib.suppress(ConnectionError):
            await self.writer.drain()

    async def read_frame(self) -> Frame | None:
        """Return the next frame; None when the connection has ended."""
        try:
            head = await self.reader.readexactly(frames.FRAME_HEADER_BYTES)
            high, low, kind, flags, stream_id = frames.unpack_header(head)
            payload = await self.reader.readexactly(high << 16 | low)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return Frame(kind, flags, stream_id, payload)

    async def read_frames(self) -> AsyncIterator[Frame]:
        while (found := await self.read_frame()) is not None:
            yield found

    async def read_end(self) -> Ended:
        """Read until the connection ends."""
        ended = Ended(None)
        async for found in self.read_frames():
            if found.kind == frames.GOAWAY:
                _, code, text = frames.read_goaway(found.payload)
                ended = Ended(ErrorCode(code), text)
        return ended

    async def read_reset(self, stream_id: int) -> ErrorCode | None:
        """Read until a stream is reset, and say why; None when the connection ends first."""
        async for found in self.read_frames():
            if found.kind == frames.RST_STREAM and found.stream_id == stream_id:
                return ErrorCode(frames.read_u32(found.payload, "RST_STREAM"))
        return None

    async def read_answer(self, stream_id: int) -> tuple[dict[bytes, bytes], bytes]:
        """Return the fields of a call's headers and trailers, and its body."""
        fields: dict[bytes, bytes] = {}
        body = b""
        async for found in self.read_frames():
            if found.kind == frames.HEADERS:
                pairs = dict(self._decoder.decode(found.payload, raw=True))
                if found.stream_id == stream_id:
                    fields |= pairs
            elif found.kind == frames.DATA and found.stream_id == stream_id:
                body += found.payload
            elif found.kind == frames.RST_STREAM and found.stream_id == stream_id:
                return fields, body
            has_end = found.kind in (frames.HEADERS, frames.DATA)
            if has_end and found.stream_id == stream_id and found.flags & frames.END_STREAM:
                return fields, body
        raise AssertionError(f"the connection ended before the answer: {fields}, {body!r}")

    async def read_ended(self, count: int) -> dict[int, bytes]:
        """Return the gRPC status of the next streams to end, by stream, in whatever order."""
        ended: dict[int, bytes] = {}
        async for found in self.read_frames():
            if found.kind == frames.HEADERS:
                pairs = dict(self._decoder.decode(found.payload, raw=True))
                if found.flags & frames.END_STREAM:
                    ended[found.stream_id] = pairs[b"grpc-status"]
            if len(ended) == count:
                return ended
        raise AssertionError(f"the connection ended after {len(ended)} of {count} streams")

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


@contextlib.asynccontextmanager
async def raw_peer(port: int, *, says: bytes = HELLO) -> AsyncIterator[RawPeer]:
    """Connect to a server; `says` goes out first."""
    peer = RawPeer(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))
    try:
        await peer.send(says)
        yield peer
    finally:
        await peer.close()
