"""Streaming calls both ways, whose messages are taken and given without tasks.

`Channel.open_message_stream` opens one, and `Service.accept_message_stream` answers it.  On the
wire it is a bidirectional stream of gRPC like any other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from tideflow.wire import errors


class StreamReceiver(Protocol):
    """What takes what the peer sends; called on the loop, and must not wait."""

    def received(self, message: Any) -> None:
        """Take a message.  An OpError ends the stream, and the peer is told of it."""

    def ended(self, error: errors.OpError | None) -> None:
        """Take note, once, that nothing comes or goes any more, whoever ended it and why."""


class MessageStream(ABC):
    """One end of a stream.  Use it on the loop."""

    @abstractmethod
    def send(self, message: Any) -> bool:
        """Send a message; False when the stream has ended.

        Memory that the message refers to must not change until it is written.
        Raises: ResourceExhaustedError for a message that no peer can read; whatever is wrong with
        one that cannot be written.  Nothing of it was sent then, and the stream goes on.
        """

    @abstractmethod
    def close(self, error: errors.OpError | None = None) -> None:
        """End the stream; a server can tell its client why.  The receiver hears of it as well."""

    @property
    @abstractmethod
    def pending_bytes(self) -> int:
        """How much of what was sent has not been written yet."""
