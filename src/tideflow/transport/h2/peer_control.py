"""The part of a connection that concerns it as a whole: settings, pings, windows, GOAWAY.

Source: RFC 9113, sections 6.5 to 6.9
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from tideflow.transport.h2 import frames
from tideflow.transport.h2.events import Event, GoAway, PingAnswered, SettingsReceived
from tideflow.transport.h2.faults import ConnectionFault, ErrorCode, StreamFault
from tideflow.transport.h2.frames import Buffer
from tideflow.transport.h2.limits import Budgets, Limits
from tideflow.transport.h2.streams import Stream

# As much work as a frame.
_STREAMS_PER_FRAME = 4


class PeerControl(ABC):
    """What both ends know of each other.

    Attributes:
      streams: those that are not over, by id.
      has_settings: whether the peer has said what it grants.
      peer_max_frame_bytes, peer_initial_window, peer_max_streams: what it grants.
      send_window, receive_window: bytes of DATA that may still go out and come in, in all.
      last_peer_stream: the highest stream that the peer began.
      data_bytes_sent: DATA written so far; tells progress from a stall.
      is_going_away: the peer takes no more streams; is_leaving: we do not.
      is_failed: the peer broke the protocol, and nothing more is read.
      has_heartbeat: the peer may be pinged often.
      budgets: what the peer may do that costs it nothing.
    """

    def __init__(self, *, is_client: bool, limits: Limits, clock: Callable[[], float]) -> None:
        self.is_client = is_client
        self.limits = limits
        self.streams: dict[int, Stream] = {}
        self.has_settings = False
        self.peer_max_frame_bytes = frames.DEFAULT_MAX_FRAME_BYTES
        self.peer_initial_window = frames.DEFAULT_WINDOW
        self.peer_max_streams = frames.MAX_STREAM_ID
        self.send_window = frames.DEFAULT_WINDOW
        self.receive_window = limits.connection_window_bytes
        self.last_peer_stream = 0
        self.data_bytes_sent = 0
        self.is_going_away = False
        self.is_leaving = False
        self.is_failed = False
        self.has_heartbeat = False
        self._out: list[Buffer] = []
        self.budgets = Budgets.of(limits, clock)

    def _begin(self) -> None:
        """Say what we grant."""
        limits = self.limits
        settings = {
            frames.SETTING_INITIAL_WINDOW: limits.stream_window_bytes,
            frames.SETTING_MAX_FRAME_BYTES: limits.max_frame_bytes,
            frames.SETTING_MAX_HEADER_LIST_BYTES: limits.max_header_list_bytes,
            frames.SETTING_HEARTBEAT: 1,
        }
        if self.is_client:
            self._out.append(frames.PREFACE)
            settings[frames.SETTING_ENABLE_PUSH] = 0
        else:
            settings[frames.SETTING_MAX_STREAMS] = limits.max_streams
        self._out.append(frames.settings_frame(settings))
        more = limits.connection_window_bytes - frames.DEFAULT_WINDOW
        self._out.append(frames.window_update_frame(0, more))

    def ping(self, payload: bytes) -> None:
        """Ask the peer for a sign of life; the answer has the same eight bytes."""
        self._out.append(frames.ping_frame(payload, ack=False))

    def say(self, settings: dict[int, int]) -> None:
        """Send settings of our own; peers that do not know them do not mind."""
        self._out.append(frames.settings_frame(settings))

    def leave(self, code: ErrorCode = ErrorCode.NO_ERROR, text: str = "") -> None:
        """Take no more streams, and say so; those started go on."""
        self.is_leaving = True
        self._out.append(frames.goaway_frame(self.last_peer_stream, code, text))

    def _on_control(
        self, kind: int, flags: int, stream_id: int, payload: memoryview, events: list[Event]
    ) -> None:
        if kind == frames.WINDOW_UPDATE:
            self._on_window_update(stream_id, payload)
            return
        if kind == frames.PUSH_PROMISE:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE, which nobody allowed")
        if kind == frames.PRIORITY:
            self._on_priority(stream_id, payload)
            return
        if kind not in (frames.SETTINGS, frames.PING, frames.GOAWAY):
            self._idle(f"frames of the unknown kind {kind}")
            return
        if stream_id:
            raise ConnectionFault(
                ErrorCode.PROTOCOL_ERROR, f"a frame of kind {kind} belongs on stream 0"
            )
        if kind == frames.SETTINGS:
            self._on_settings(flags, payload, events)
        elif kind == frames.PING:
            self._on_ping(flags, bytes(payload), events)
        else:
            self.is_going_away = True
            events.append(GoAway(*frames.read_goaway(payload)))

    def _on_priority(self, stream_id: int, payload: memoryview) -> None:
        """Check what has no meaning any more."""
        if not stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PRIORITY on stream 0")
        self._idle("PRIORITY")
        if len(payload) != 5:
            raise StreamFault(
                stream_id, ErrorCode.FRAME_SIZE_ERROR, f"PRIORITY with {len(payload)} bytes"
            )

    def _on_ping(self, flags: int, payload: bytes, events: list[Event]) -> None:
        if len(payload) != 8:
            raise ConnectionFault(
                ErrorCode.FRAME_SIZE_ERROR, f"PING with {len(payload)} bytes; it has 8"
            )
        if flags & frames.ACK:
            events.append(PingAnswered(payload))
            return
        self._idle("PING")
        self._out.append(frames.ping_frame(payload, ack=True))

    def _on_settings(self, flags: int, payload: memoryview, events: list[Event]) -> None:
        if flags & frames.ACK:
            if payload:
                raise ConnectionFault(
                    ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS with a payload"
                )
            return
        self._idle("SETTINGS")
        others = {}
        # Of a setting that comes again and again only the last value means anything.
        for number, value in dict(frames.read_settings(payload)).items():
            if number == frames.SETTING_INITIAL_WINDOW:
                self._shift_windows(value - self.peer_initial_window)
                self.peer_initial_window = value
            elif number == frames.SETTING_MAX_FRAME_BYTES:
                self.peer_max_frame_bytes = min(value, self.limits.max_frame_bytes)
            elif number == frames.SETTING_MAX_STREAMS:
                self.peer_max_streams = value
            elif number == frames.SETTING_HEARTBEAT:
                self.has_heartbeat = value == 1
            else:
                others[number] = value
        self.has_settings = True
        self._out.append(frames.SETTINGS_ACK)
        events.append(SettingsReceived(others))

    def _shift_windows(self, by: int) -> None:
        # All streams are looked at, which a few bytes ask for.
        self._idle("SETTINGS", is_idle=bool(by), cost=len(self.streams) // _STREAMS_PER_FRAME)
        for stream in self.streams.values():
            if stream.send_window + by > frames.MAX_WINDOW:
                raise ConnectionFault(
                    ErrorCode.FLOW_CONTROL_ERROR, f"SETTINGS overflow the window of {stream.id}"
                )
            stream.send_window += by
            self._stream_window_opened(stream)

    def _on_window_update(self, stream_id: int, payload: memoryview) -> None:
        increment = frames.read_u32(payload, "WINDOW_UPDATE") & frames.MAX_WINDOW
        if not stream_id:
            if not increment or self.send_window + increment > frames.MAX_WINDOW:
                raise ConnectionFault(
                    ErrorCode.FLOW_CONTROL_ERROR if increment else ErrorCode.PROTOCOL_ERROR,
                    f"the window of {self.send_window} grows by {increment}",
                )
            self.send_window += increment
            return
        self._require_begun(stream_id, "WINDOW_UPDATE")
        stream = self.streams.get(stream_id)
        if stream is None:
            return
        if not increment:
            raise StreamFault(stream_id, ErrorCode.PROTOCOL_ERROR, "a window grows by 0")
        if stream.send_window + increment > frames.MAX_WINDOW:
            raise StreamFault(stream_id, ErrorCode.FLOW_CONTROL_ERROR, "a window grows over 2^31-1")
        stream.send_window += increment
        self._stream_window_opened(stream)

    def _take_connection_window(self, count: int) -> None:
        """Take room for DATA, and give it back before half is gone: nothing is kept here."""
        if count > self.receive_window:
            raise ConnectionFault(
                ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the connection has room for"
            )
        self.receive_window -= count
        used = self.limits.connection_window_bytes - self.receive_window
        if used * 2 >= self.limits.connection_window_bytes:
            self.receive_window += used
            self._out.append(frames.window_update_frame(0, used))

    def _idle(self, what: str, *, is_idle: bool = True, cost: int = 1) -> None:
        """Count a frame that makes us work for nothing."""
        if is_idle and not self.budgets.idle_frames.take(cost):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, f"{what}: more than is sensible")
        if len(self._out) > 64 and sum(map(len, self._out)) > self.limits.most_control_bytes:
            raise ConnectionFault(
                ErrorCode.ENHANCE_YOUR_CALM, f"{what}: the peer does not read our answers"
            )

    @abstractmethod
    def _stream_window_opened(self, stream: Stream) -> None: ...

    @abstractmethod
    def _require_begun(self, stream_id: int, kind: str) -> None: ...
