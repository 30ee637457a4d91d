"""An HTTP/2 connection without I/O: bytes in, events out; requests in, bytes out.

Rule 1: `receive` takes what was read and returns events; it never raises for what the peer did.
Rule 2: `take_output` returns what to write: control frames first, then DATA of all streams in turn,
        as far as the peer's windows and the caller's limit go.
Rule 3: a method called in the wrong state raises MisuseError and changes nothing.
Rule 4: bodies pass through in pieces as they arrive.  While more of one is expected, `body_wanted`
        tells how much, so that the caller can receive it where it belongs.
Rule 5: `receive` parses as many frames as the caller allows; `has_more` says that others wait, and
        the next call goes on with them.
Source: RFC 9113
"""

from __future__ import annotations

from collections.abc import Callable

from tideflow.platform import clock
from tideflow.transport.h2 import frames
from tideflow.transport.h2.events import (
    ConnectionFailed,
    DataReceived,
    Event,
    HeadersReceived,
    StreamReset,
)
from tideflow.transport.h2.faults import ConnectionFault, ErrorCode, StreamFault
from tideflow.transport.h2.frames import FRAME_HEADER_BYTES, Buffer
from tideflow.transport.h2.header_blocks import HeaderReader
from tideflow.transport.h2.limits import Limits
from tideflow.transport.h2.sending import SendingConnection
from tideflow.transport.h2.streams import Act, Stream


def _monotonic_s() -> float:
    return clock.monotonic_s()


class Connection(SendingConnection):
    """One end of a connection.

    Attributes:
      has_more: whether frames that were read wait to be parsed.
    """

    def __init__(
        self,
        *,
        is_client: bool,
        limits: Limits | None = None,
        clock: Callable[[], float] = _monotonic_s,
    ) -> None:
        super().__init__(is_client=is_client, limits=limits or Limits(), clock=clock)
        self._reader = HeaderReader(self.limits.max_header_list_bytes)
        self._partial = b""
        self._preface_left = b"" if is_client else frames.PREFACE
        # The DATA frame being received: its stream, bytes of body and padding to come, its end.
        self._body_stream = 0
        self._body_left = 0
        self._padding_left = 0
        self._body_ends = False
        # The header block being received.
        self._block: bytearray | None = None
        self._block_stream = 0
        self._block_ends = False
        self._block_pieces = 0
        self._frames_taken = 0
        self.has_more = False
        self._begin()

    # ---- receiving

    @property
    def unfinished(self) -> tuple[int, int] | None:
        """Where in a frame, or in a header block, the peer has stopped; None between two."""
        if self._partial or self._body_stream or self._block is not None:
            return (self._frames_taken, self._body_left)
        return None

    @property
    def body_wanted(self) -> tuple[int, int]:
        """The stream whose body comes next, and how much of it is sure to follow without a frame
        header between; (0, 0) when a frame header comes next."""
        stream = self.streams.get(self._body_stream) if self._body_left else None
        if stream is None or self._partial or stream.receive_window < 0 or not stream.may_receive:
            return (0, 0)
        return (stream.id, self._body_left)

    def received_in_place(self, count: int) -> list[Event]:
        """Take note of a part of the body that the caller received where it belongs.

        Returns the event that the body has ended, if it has: a DataReceived without data.
        """
        self._body_left -= count
        if self._body_left or self._padding_left:
            return []
        if self._body_ends:
            return self._end_of_body(b"")
        self._body_stream = 0
        return []

    def receive(self, data: Buffer, most_frames: int | None = None) -> list[Event]:
        """Take what was read from the peer, cut anywhere, and return what it means.

        With most_frames, no more are parsed now; where `has_more`, call it again, with b"".
        """
        events: list[Event] = []
        self.has_more = False
        if not self.is_failed:
            try:
                self._parse(data, events, most_frames)
            except ConnectionFault as fault:
                self._fail(fault, events)
        return events

    def _parse(self, data: Buffer, events: list[Event], most_frames: int | None) -> None:
        last = None if most_frames is None else self._frames_taken + most_frames
        if self._partial:
            data = self._partial + data
            self._partial = b""
        view = memoryview(data)
        at, size = 0, len(view)
        if self._preface_left:
            at = self._check_preface(view)
        elif not self.has_settings and frames.begins_tls(view):
            raise ConnectionFault(
                ErrorCode.PROTOCOL_ERROR,
                "the peer does not speak HTTP/2 without TLS: give the channel `tls`",
            )
        while True:
            if self._body_stream:
                at = self._take_body(view, at, events)
                if self._body_stream:
                    return
            if size - at < FRAME_HEADER_BYTES:
                break
            if self._frames_taken == last:
                self.has_more = True
                break
            high, low, kind, flags, stream_id = frames.unpack_header(view, at)
            length = high << 16 | low
            stream_id &= frames.MAX_STREAM_ID
            self._check_frame(length, kind)
            begin = at + FRAME_HEADER_BYTES
            if kind == frames.DATA:
                if flags & frames.PADDED and length and size == begin:
                    break
                self._frames_taken += 1
                at = begin + self._begin_body(length, flags, stream_id, view[begin : begin + 1])
                continue
            if size - begin < length:
                break
            self._frames_taken += 1
            at = begin + length
            self._handle(kind, flags, stream_id, view[begin:at], events)
        if at < size:
            self._partial = bytes(view[at:])

    def _check_preface(self, view: memoryview) -> int:
        found = bytes(view[: len(self._preface_left)])
        if not self._preface_left.startswith(found):
            said = f"{found[:24]!r}"
            if frames.begins_tls(found):
                said = "a TLS greeting, and this server was started without `tls`"
            raise ConnectionFault(
                ErrorCode.PROTOCOL_ERROR, f"the peer does not speak HTTP/2: it said {said}"
            )
        self._preface_left = self._preface_left[len(found) :]
        return len(found)

    def _check_frame(self, length: int, kind: int) -> None:
        if not self.has_settings and kind != frames.SETTINGS:
            raise ConnectionFault(
                ErrorCode.PROTOCOL_ERROR,
                "the peer does not speak HTTP/2: its first bytes are not SETTINGS",
            )
        if length > self.limits.max_frame_bytes:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
        if self._block is not None and kind != frames.CONTINUATION:
            raise ConnectionFault(
                ErrorCode.PROTOCOL_ERROR, f"a frame of kind {kind} came within a header block"
            )
        if kind != frames.DATA and length > self.limits.max_header_block_bytes:
            raise ConnectionFault(
                ErrorCode.ENHANCE_YOUR_CALM, f"a frame of kind {kind} with {length} bytes"
            )

    def _handle(
        self, kind: int, flags: int, stream_id: int, payload: memoryview, events: list[Event]
    ) -> None:
        try:
            if kind == frames.HEADERS:
                self._on_headers(flags, stream_id, payload, events)
            elif kind == frames.CONTINUATION:
                self._on_continuation(flags, stream_id, payload, events)
            elif kind == frames.RST_STREAM:
                self._on_reset(stream_id, payload, events)
            else:
                self._on_control(kind, flags, stream_id, payload, events)
        except StreamFault as fault:
            self._end_stream_for(fault, events)

    # ---- DATA

    def _begin_body(self, length: int, flags: int, stream_id: int, first: memoryview) -> int:
        """Begin a DATA frame; return how many bytes of its payload are used up by that."""
        self._require_begun(stream_id, "DATA")
        used = 0
        padding = 0
        if flags & frames.PADDED:
            if not length:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "padded DATA without a length")
            padding, used = first[0], 1
            if padding >= length:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "DATA with more padding than data")
        self._take_connection_window(length)
        if not length or length == padding + used:
            self._idle("empty DATA", is_idle=not flags & frames.END_STREAM)
        self._body_stream = stream_id
        self._body_left = length - used - padding
        self._padding_left = padding
        self._body_ends = bool(flags & frames.END_STREAM)
        stream = self.streams.get(stream_id)
        if stream is not None:
            stream.receive_window -= length
            if used:
                self.acknowledge(stream_id, used + padding)
        return used

    def _take_body(self, view: memoryview, at: int, events: list[Event]) -> int:
        """Pass on what is there of the body; return where it stops."""
        piece = view[at : at + self._body_left]
        self._body_left -= len(piece)
        at += len(piece)
        if self._body_left:
            if piece and self._body_stream in self.streams:
                self._pass_on(piece, False, events)
            return at
        skipped = min(self._padding_left, len(view) - at)
        self._padding_left -= skipped
        at += skipped
        if self._padding_left:
            # Padding is at most 255 bytes: the piece goes first, its end follows.
            if piece and self._body_stream in self.streams:
                self._pass_on(piece, False, events)
            return at
        if piece or self._body_ends:
            events += self._end_of_body(piece)
        else:
            self._body_stream = 0
        return at

    def _end_of_body(self, piece: Buffer) -> list[Event]:
        events: list[Event] = []
        if self._body_stream in self.streams:
            self._pass_on(piece, self._body_ends, events)
        self._body_stream = 0
        return events

    def _pass_on(self, piece: Buffer, ends: bool, events: list[Event]) -> None:
        stream = self.streams[self._body_stream]
        try:
            if stream.receive_window < 0:
                raise StreamFault(
                    stream.id, ErrorCode.FLOW_CONTROL_ERROR, "more DATA than there is room for"
                )
            stream.receiving(Act.RECEIVE_END if ends else Act.RECEIVE)
        except StreamFault as fault:
            self._end_stream_for(fault, events)
            return
        events.append(DataReceived(stream.id, piece, ends))
        self._forget_if_closed(stream)

    # ---- HEADERS

    def _on_headers(
        self, flags: int, stream_id: int, payload: memoryview, events: list[Event]
    ) -> None:
        if not stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "HEADERS on stream 0")
        if flags & (frames.PADDED | frames.HAS_PRIORITY):
            payload = frames.without_padding(payload, flags)
        ends = bool(flags & frames.END_STREAM)
        if flags & frames.END_HEADERS:
            self._on_block(stream_id, bytes(payload), ends, events)
            return
        self._block = bytearray(payload)
        self._block_stream = stream_id
        self._block_ends = ends
        self._block_pieces = 0

    def _on_continuation(
        self, flags: int, stream_id: int, payload: memoryview, events: list[Event]
    ) -> None:
        block = self._block
        if block is None or stream_id != self._block_stream:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of no header block")
        self._block_pieces += 1
        block += payload
        if (
            len(block) > self.limits.max_header_block_bytes
            or self._block_pieces > self.limits.max_continuations
        ):
            raise ConnectionFault(
                ErrorCode.ENHANCE_YOUR_CALM,
                f"a header block of over {len(block)} bytes in {self._block_pieces + 1} frames",
            )
        if flags & frames.END_HEADERS:
            self._block = None
            self._on_block(stream_id, bytes(block), self._block_ends, events)

    def _on_block(self, stream_id: int, block: bytes, ends: bool, events: list[Event]) -> None:
        headers = self._reader.read(block)
        stream = self.streams.get(stream_id)
        opens = stream is None
        if stream is None:
            stream = self._open_for_peer(stream_id)
            if stream is None:
                return
        if headers.fault:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, headers.fault)
        if not opens and not self.is_client and not ends:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, "trailers without END_STREAM")
        stream.receiving(Act.RECEIVE_END if ends else Act.RECEIVE)
        events.append(HeadersReceived(stream_id, headers, ends, opens))
        self._forget_if_closed(stream)

    def _open_for_peer(self, stream_id: int) -> Stream | None:
        """Return the stream that a peer begins; None for one that is not to be looked at."""
        if self.is_client or not stream_id & 1:
            if self.is_client and stream_id & 1 and stream_id < self._next_id:
                self._idle("HEADERS on a closed stream")
                return None
            raise ConnectionFault(
                ErrorCode.PROTOCOL_ERROR, f"the peer may not begin stream {stream_id}"
            )
        if stream_id <= self.last_peer_stream:
            self._idle("HEADERS on a closed stream")
            return None
        self.last_peer_stream = stream_id
        if self.is_leaving or len(self.streams) >= self.limits.max_streams:
            self._spend_reset("a stream over the limit")
            self._out.append(frames.reset_frame(stream_id, ErrorCode.REFUSED_STREAM))
            return None
        stream = self.streams[stream_id] = Stream(
            stream_id, self.peer_initial_window, self.limits.stream_window_bytes
        )
        return stream

    # ---- ends

    def _on_reset(self, stream_id: int, payload: memoryview, events: list[Event]) -> None:
        code = frames.read_u32(payload, "RST_STREAM")
        self._require_begun(stream_id, "RST_STREAM")
        if not self.is_client:
            self._spend_reset("RST_STREAM")
        stream = self.streams.get(stream_id)
        if stream is not None:
            self._drop(stream)
            events.append(StreamReset(stream_id, code, "", True))

    def _end_stream_for(self, fault: StreamFault, events: list[Event]) -> None:
        self._spend_reset(fault.text)
        stream = self.streams.get(fault.stream_id)
        if stream is not None:
            self._drop(stream)
        self._out.append(frames.reset_frame(fault.stream_id, fault.code))
        events.append(StreamReset(fault.stream_id, fault.code, fault.text, False))

    def _spend_reset(self, what: str) -> None:
        if not self.budgets.resets.take():
            raise ConnectionFault(
                ErrorCode.ENHANCE_YOUR_CALM, f"{what}: more streams ended early than is sensible"
            )

    def _fail(self, fault: ConnectionFault, events: list[Event]) -> None:
        self.is_failed = True
        self._out.append(frames.goaway_frame(self.last_peer_stream, fault.code, fault.text))
        events.append(ConnectionFailed(fault.code, fault.text))

    def _require_begun(self, stream_id: int, kind: str) -> None:
        ours = bool(stream_id & 1) == self.is_client
        started = 0 < stream_id < self._next_id if ours else 0 < stream_id <= self.last_peer_stream
        if not started:
            raise ConnectionFault(
                ErrorCode.PROTOCOL_ERROR, f"{kind} on stream {stream_id}, which has not started"
            )
