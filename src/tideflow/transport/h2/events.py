"""What a connection reports about its peer."""

from __future__ import annotations

from dataclasses import dataclass, field

from tideflow.transport.h2.faults import ErrorCode
from tideflow.transport.h2.frames import Buffer
from tideflow.transport.h2.header_blocks import Headers


@dataclass(slots=True)
class Event:
    """Base of all."""


@dataclass(slots=True)
class HeadersReceived(Event):
    """A header block; `opens` marks the first of a stream that the peer began."""

    stream_id: int
    headers: Headers
    end_stream: bool
    opens: bool


@dataclass(slots=True)
class DataReceived(Event):
    """A piece of a body, seldom a whole frame.  `data` is valid until the next receive."""

    stream_id: int
    data: Buffer
    end_stream: bool


@dataclass(slots=True)
class StreamReset(Event):
    """A stream has ended before its end; by_peer tells a RST_STREAM from a fault that we saw."""

    stream_id: int
    code: int
    text: str
    by_peer: bool


@dataclass(slots=True)
class SettingsReceived(Event):
    """The peer said what it grants; the first tells that it speaks HTTP/2.

    `others` are the settings that are none of HTTP/2's windows and limits, by number.
    """

    others: dict[int, int] = field(default_factory=dict, compare=False)


@dataclass(slots=True)
class PingAnswered(Event):
    """The peer answered our PING."""

    payload: bytes


@dataclass(slots=True)
class GoAway(Event):
    """The peer takes no more streams; those of ours above last_stream_id it never looked at."""

    last_stream_id: int
    code: int
    text: str


@dataclass(slots=True)
class ConnectionFailed(Event):
    """The peer broke the protocol: send what there is to send, then hang up."""

    code: ErrorCode
    text: str
