"""The half of an HTTP/2 connection that sends: headers, DATA within the windows, ends of streams.

Source: RFC 9113, sections 5.1, 5.2 and 6.9
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tideflow.transport.h2 import frames
from tideflow.transport.h2.faults import ErrorCode, MisuseError
from tideflow.transport.h2.frames import FRAME_HEADER_BYTES, Buffer, frame_header
from tideflow.transport.h2.limits import Limits
from tideflow.transport.h2.peer_control import PeerControl
from tideflow.transport.h2.streams import Act, State, Stream

# Below this, frames and body are written as one piece.
_SMALL_BYTES = 16384


class SendingConnection(PeerControl):
    """The half of a connection that sends: what streams have to say becomes frames."""

    def __init__(self, *, is_client: bool, limits: Limits, clock: Callable[[], float]) -> None:
        super().__init__(is_client=is_client, limits=limits, clock=clock)
        self._next_id = 1 if is_client else 2
        self._unsent_bytes = 0
        self._queue: deque[Stream] = deque()

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
