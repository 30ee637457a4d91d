"""An HTTP/2 connection without I/O: bytes in, events out; requests in, bytes out.

Rule 1: `receive` takes what was read and returns events; it never raises for what the peer did.
Rule 2: `take_output` returns what to write: control frames first, then DATA of all streams in turn,
        as far as the peer's windows and the caller's limit go.
Rule 3: a method called in the wrong state raises MisuseError and changes nothing.
Rule 4: bodies pass through in pieces as they arrive.  While more of one is expected, `body_wanted`
        tells how much, so that the caller can receive it where it belongs.
Source: RFC 9113
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tideflow.platform import clock
from tideflow.transport.h2 import frames
from tideflow.transport.h2.events import (
    ConnectionFailed,
    DataReceived,
    Event,
    HeadersReceived,
    StreamReset,
)
from tideflow.transport.h2.faults import ConnectionFault, ErrorCode, MisuseError, StreamFault
from tideflow.transport.h2.frames import FRAME_HEADER_BYTES, Buffer, frame_header
from tideflow.transport.h2.header_blocks import HeaderReader
from tideflow.transport.h2.limits import Budget, Limits
from tideflow.transport.h2.peer_control import PeerControl
from tideflow.transport.h2.streams import Act, State, Stream

# Below this, frames and body are written as one piece.
_SMALL_BYTES = 16384


def _monotonic_s() -> float:
    return clock.monotonic_s()


class Connection(PeerControl):
    """One end of a connection."""

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
        self._next_id = 1 if is_client else 2
        self._frames_taken = 0
        self._unsent_bytes = 0
        self._queue: deque[Stream] = deque()
        self._resets = Budget(self.limits.resets, clock)
        self._begin()

    # ---- sending

    @property
    def can_open(self) -> bool:
        """Whether a new stream may be opened now."""
        return (
            not self.is_failed
            and not self.is_going_away
            and len(self.streams) < self.peer_max_streams
            and self._next_id < frames.MAX_STREAM_ID
        )

    def open_stream(self) -> int:
        """Return the id of a new stream; send headers on it next.  Raises: MisuseError."""
        if not self.can_open:
            raise MisuseError("no stream can be opened on this connection now")
        stream_id = self._next_id
        self._next_id += 2
        self.streams[stream_id] = Stream(
            stream_id, self.peer_initial_window, self.limits.stream_window_bytes
        )
        return stream_id

    def send_headers(self, stream_id: int, block: bytes, *, end_stream: bool = False) -> None:
        """Send a header block, behind all DATA that waits."""
        stream = self._stream(stream_id)
        if end_stream and stream.pending:
            stream.sending(Act.SEND)
            stream.tail = block
            self._unsent_bytes += stream.pending_bytes
            return
        stream.sending(Act.SEND_END if end_stream else Act.SEND)
        self._write_headers(stream, block, end_stream)
        if end_stream:
            self._forget_if_closed(stream)

    def send_data(
        self, stream_id: int, buffers: Sequence[Buffer], *, end_stream: bool = False
    ) -> None:
        """Send a body, or a part of one; the buffers must not change until they are written."""
        stream = self._stream(stream_id)
        stream.sending(Act.SEND)
        for buffer in buffers:
            if len(buffer):
                stream.pending.append(buffer)
                stream.pending_bytes += len(buffer)
        if end_stream:
            stream.tail = b""
            self._unsent_bytes += stream.pending_bytes
        self._enqueue(stream)

    def send_whole(
        self, stream_id: int, head: bytes, body: Sequence[Buffer], trailers: bytes = b""
    ) -> None:
        """Send headers, a body, and the end: trailers, or END_STREAM on the body."""
        stream = self._stream(stream_id)
        size = sum(map(len, body))
        most = min(stream.send_window, self.send_window, self.peer_max_frame_bytes, _SMALL_BYTES)
        longest_block = max(len(head), len(trailers))
        if size > most or not size or longest_block > self.peer_max_frame_bytes or stream.pending:
            self.send_headers(stream_id, head)
            self.send_data(stream_id, body, end_stream=not trailers)
            if trailers:
                self.send_headers(stream_id, trailers, end_stream=True)
            return
        stream.sending(Act.SEND_END)
        stream.send_window -= size
        self.send_window -= size
        self.data_bytes_sent += size
        data_flags = 0 if trailers else frames.END_STREAM
        parts: list[Buffer] = [
            frame_header(len(head), frames.HEADERS, frames.END_HEADERS, stream_id),
            head,
            frame_header(size, frames.DATA, data_flags, stream_id),
            *body,
        ]
        if trailers:
            both = frames.END_HEADERS | frames.END_STREAM
            parts += [frame_header(len(trailers), frames.HEADERS, both, stream_id), trailers]
        self._out.append(b"".join(parts))
        self._forget_if_closed(stream)

    def abandon(self) -> None:
        """Do nothing more: the bytes have nowhere to go."""
        self.is_failed = True

    def reset(self, stream_id: int, code: ErrorCode) -> None:
        """End a stream at once; nothing happens for one that is over."""
        stream = self.streams.get(stream_id)
        if stream is not None:
            self._drop(stream)
            self._out.append(frames.reset_frame(stream_id, code))

    def acknowledge(self, stream_id: int, count: int) -> None:
        """Give the peer back the room of DATA that was used; the connection's comes by itself."""
        stream = self.streams.get(stream_id)
        if stream is None:
            return
        stream.unacknowledged += count
        ended = stream.state is State.HALF_CLOSED_REMOTE
        if not ended and stream.unacknowledged * 2 >= self.limits.stream_window_bytes:
            stream.receive_window += stream.unacknowledged
            self._out.append(frames.window_update_frame(stream_id, stream.unacknowledged))
            stream.unacknowledged = 0

    def pending_bytes(self, stream_id: int) -> int:
        """Return how much of a stream's DATA has not been sent yet."""
        stream = self.streams.get(stream_id)
        return 0 if stream is None else stream.pending_bytes

    @property
    def unsent_bytes(self) -> int:
        """DATA that waits on streams to which we add nothing more."""
        return self._unsent_bytes

    @property
    def unsent_control_bytes(self) -> int:
        """What waits to be written before any DATA."""
        return sum(map(len, self._out))

    @property
    def has_output(self) -> bool:
        """Whether `take_output` would return anything."""
        return bool(self._out) or (
            bool(self._queue) and not self.is_failed and self._next_can_send()
        )

    @property
    def is_stalled(self) -> bool:
        """Whether DATA waits for the peer's windows."""
        return any(stream.pending for stream in self.streams.values())

    def take_output(self, most_bytes: int = 1 << 62) -> list[Buffer]:
        """Return what to write next: all control frames, and about most_bytes of DATA."""
        out, self._out = self._out, []
        while self._queue and most_bytes > 0 and not self.is_failed:
            if not self._next_can_send():
                break
            stream = self._queue.popleft()
            stream.is_queued = False
            # SETTINGS may have taken the window back since the stream came into line.
            if stream.send_window > 0 or not stream.pending:
                most_bytes -= self._write_data(stream, out)
                self._enqueue(stream)
        return out

    def _next_can_send(self) -> bool:
        return self.send_window > 0 or not self._queue[0].pending

    def _write_data(self, stream: Stream, out: list[Buffer]) -> int:
        """Put one DATA frame into out, and what ends the stream after its last."""
        size = min(
            stream.pending_bytes, stream.send_window, self.send_window, self.peer_max_frame_bytes
        )
        stream.pending_bytes -= size
        stream.send_window -= size
        self.send_window -= size
        self.data_bytes_sent += size
        if stream.tail is not None:
            self._unsent_bytes -= size
        is_last = not stream.pending_bytes and stream.tail is not None
        ends = is_last and not stream.tail
        flags = frames.END_STREAM if ends else 0
        if size or ends:
            out.append(frame_header(size, frames.DATA, flags, stream.id))
        left = size
        while left:
            buffer = stream.pending.popleft()
            if len(buffer) > left:
                view = memoryview(buffer)
                out.append(view[:left])
                stream.pending.appendleft(view[left:])
                break
            out.append(buffer)
            left -= len(buffer)
        if is_last:
            tail, stream.tail = stream.tail, None
            stream.sending(Act.SEND_END)
            if tail:
                out += frames.headers_frames(
                    stream.id, tail, end_stream=True, max_frame_bytes=self.peer_max_frame_bytes
                )
            self._forget_if_closed(stream)
        return size + FRAME_HEADER_BYTES

    def _enqueue(self, stream: Stream) -> None:
        """Put a stream in line if it has something to send that its own window lets out."""
        if stream.is_queued or stream.state is State.CLOSED:
            return
        if stream.send_window > 0 if stream.pending else stream.tail is not None:
            stream.is_queued = True
            self._queue.append(stream)

    def _stream_window_opened(self, stream: Stream) -> None:
        self._enqueue(stream)

    def _write_headers(self, stream: Stream, block: bytes, end_stream: bool) -> None:
        self._out += frames.headers_frames(
            stream.id, block, end_stream=end_stream, max_frame_bytes=self.peer_max_frame_bytes
        )

    def _stream(self, stream_id: int) -> Stream:
        stream = self.streams.get(stream_id)
        if stream is None:
            raise MisuseError(f"stream {stream_id} is not open")
        return stream

    def _forget_if_closed(self, stream: Stream) -> None:
        if stream.state is State.CLOSED:
            del self.streams[stream.id]

    def _drop(self, stream: Stream) -> None:
        stream.state = State.CLOSED
        if stream.tail is not None:
            self._unsent_bytes -= stream.pending_bytes
        stream.pending.clear()
        stream.pending_bytes = 0
        stream.tail = None
        if stream.is_queued:
            stream.is_queued = False
            self._queue.remove(stream)
        del self.streams[stream.id]

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
        if stream is None or stream.receive_window < 0 or not stream.may_receive:
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

    def receive(self, data: Buffer) -> list[Event]:
        """Take what was read from the peer, cut anywhere, and return what it means."""
        events: list[Event] = []
        if not self.is_failed:
            try:
                self._parse(data, events)
            except ConnectionFault as fault:
                self._fail(fault, events)
        return events

    def _parse(self, data: Buffer, events: list[Event]) -> None:
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
        if not self._resets.take():
            raise ConnectionFault(
                ErrorCode.ENHANCE_YOUR_CALM, f"{what}: more streams ended early than is sensible"
            )

    def _fail(self, fault: ConnectionFault, events: list[Event]) -> None:
        self.is_failed = True
        self._out.append(frames.goaway_frame(self.last_peer_stream, fault.code, fault.text))
        events.append(ConnectionFailed(fault.code, fault.text))

    def _require_begun(self, stream_id: int, kind: str) -> None:
        ours = bool(stream_id & 1) == self.is_client
        begun = 0 < stream_id < self._next_id if ours else 0 < stream_id <= self.last_peer_stream
        if not begun:
            raise ConnectionFault(
                ErrorCode.PROTOCOL_ERROR, f"{kind} on stream {stream_id}, which has not begun"
            )
