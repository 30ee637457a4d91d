"""One HTTP/2 stream: the table of its legal transitions, its windows, what it still has to send.

Rule 1: a stream is made by HEADERS; each side ends its half with END_STREAM, either ends all with
        RST_STREAM.
Rule 2: what the table does not list is a fault: ours (MisuseError) for what we do, the peer's
        (StreamFault STREAM_CLOSED) for what it does.
Source: RFC 9113, section 5.1 (without server push, which gRPC does not use)
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from tideflow.transport.h2.faults import ErrorCode, MisuseError, StreamFault
from tideflow.transport.h2.frames import Buffer


class State(Enum):
    """Where a stream is in its life; streams not yet started, or over, are not kept at all."""

    OPEN = "open"
    HALF_CLOSED_LOCAL = "half closed by us"
    HALF_CLOSED_REMOTE = "half closed by the peer"
    CLOSED = "closed"

    # Enum's own, which looks up the name, takes a good part of a frame's time.
    __hash__ = object.__hash__


class Act(Enum):
    """What either side does to a stream."""

    SEND = "send"
    SEND_END = "send the end"
    RECEIVE = "receive"
    RECEIVE_END = "receive the end"

    __hash__ = object.__hash__


_NEXT: dict[tuple[State, Act], State] = {
    (State.OPEN, Act.SEND): State.OPEN,
    (State.OPEN, Act.RECEIVE): State.OPEN,
    (State.OPEN, Act.SEND_END): State.HALF_CLOSED_LOCAL,
    (State.OPEN, Act.RECEIVE_END): State.HALF_CLOSED_REMOTE,
    (State.HALF_CLOSED_LOCAL, Act.RECEIVE): State.HALF_CLOSED_LOCAL,
    (State.HALF_CLOSED_LOCAL, Act.RECEIVE_END): State.CLOSED,
    (State.HALF_CLOSED_REMOTE, Act.SEND): State.HALF_CLOSED_REMOTE,
    (State.HALF_CLOSED_REMOTE, Act.SEND_END): State.CLOSED,
}


class Stream:
    """What a connection keeps of one stream.

    Attributes:
      send_window, receive_window: bytes of DATA that may still go out and come in.
      unacknowledged: bytes of DATA received whose room has not been given back yet.
      pending, pending_bytes: DATA accepted for sending but not sent.
      tail: how to end after pending: None for not yet, b"" by END_STREAM on DATA, else trailers.
      is_queued: whether the connection has it in line for sending.
    """

    __slots__ = (
        "id", "is_queued", "pending", "pending_bytes", "receive_window", "send_window", "state",
        "tail", "unacknowledged",
    )  # fmt: skip

    def __init__(self, stream_id: int, send_window: int, receive_window: int) -> None:
        self.id = stream_id
        self.state = State.OPEN
        self.send_window = send_window
        self.receive_window = receive_window
        self.unacknowledged = 0
        self.pending: deque[Buffer] = deque()
        self.pending_bytes = 0
        self.tail: bytes | None = None
        self.is_queued = False

    @property
    def may_receive(self) -> bool:
        """Whether the peer has not ended its half."""
        return self.state is State.OPEN or self.state is State.HALF_CLOSED_LOCAL

    def sending(self, act: Act) -> None:
        """Go on by what we do.  Raises: MisuseError where the table has no such step."""
        after = _NEXT.get((self.state, act))
        if after is None or (self.tail is not None and act is Act.SEND):
            raise MisuseError(f"cannot {act.value} on stream {self.id}: it is {self.state.value}")
        self.state = after

    def receiving(self, act: Act) -> None:
        """Go on by what the peer does.  Raises: StreamFault where the table has no such step."""
        after = _NEXT.get((self.state, act))
        if after is None:
            raise StreamFault(
                self.id, ErrorCode.STREAM_CLOSED, f"a frame on a stream {self.state.value}"
            )
        self.state = after
