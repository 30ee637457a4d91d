"""Pipes: streams of messages both ways, taken and given where one stands, without tasks.

A streaming method that a service answers with `Service.accept_pipe` is a pipe there, and
`Channel.open_pipe` opens one.  On the wire it is a bidirectional stream like any other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from tideflow.wire import errors


class PipeReceiver(Protocol):
    """What takes what the peer sends; called on the loop, and must not wait."""

    def received(self, message: Any) -> None:
        """Take a message.  An OpError ends the pipe, and the peer is told of it."""

    def ended(self, error: errors.OpError | None) -> None:
        """Take note, once, that nothing comes or goes any more, whoever ended it and why."""


class Pipe(ABC):
    """One end of a pipe.  Use it on the loop."""

    @abstractmethod
    def send(self, message: Any) -> bool:
        """Send a message; False when the pipe has ended.

        Memory that the message refers to must not change until it is written.
        Raises: ResourceExhaustedError for a message that no peer can read.
        """

    @abstractmethod
    def close(self, error: errors.OpError | None = None) -> None:
        """End the pipe; a server can tell its client why.  The receiver hears of it as well."""

    @property
    @abstractmethod
    def pending_bytes(self) -> int:
        """How much of what was sent has not been written yet."""
