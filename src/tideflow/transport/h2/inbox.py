"""Messages of a stream that its reader has not taken yet."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from tideflow.transport.h2.connection import Connection
from tideflow.transport.h2.messages import MessageData
from tideflow.wire import errors

# While more than this waits here, the peer gets no room for more.
_MOST_HELD_BYTES = 4 << 20


class Messages(Protocol):
    """Where the messages of a streaming call go; an Inbox, or a message stream."""

    def received(self, count: int) -> None:
        """Take note of bytes received, whether or not they complete a message."""
        ...

    def put(self, message: MessageData) -> None:
        """Take a message."""
        ...

    def end(self, error: errors.OpError | None = None) -> None:
        """Take note that no more will come."""
        ...


def note_received(core: Connection, stream_id: int, count: int, inbox: Messages | None) -> None:
    """Take note of bytes received: at once where nobody keeps them, else as they are taken."""
    if inbox is None:
        core.acknowledge(stream_id, count)
    else:
        inbox.received(count)


class Inbox:
    """A queue from the connection to one reader.

    acknowledge is called with counts of bytes for which the peer may send as many again.
    """

    def __init__(self, acknowledge: Callable[[int], None]) -> None:
        self._acknowledge = acknowledge
        self._messages: deque[MessageData] = deque()
        self._held_bytes = 0
        self._owed_bytes = 0
        self._has_ended = False
        self._error: errors.OpError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def received(self, count: int) -> None:
        """Take note of bytes received, whether or not they complete a message."""
        self._owed_bytes += count
        self._settle()

    def put(self, message: MessageData) -> None:
        """Add a message."""
        self._messages.append(message)
        self._held_bytes += len(message)
        self._wake()

    def end(self, error: errors.OpError | None = None) -> None:
        """Let the reader get no more than what is here, and then an error, if one is given.

        An error that says more than the end may come after it; a second one is not looked at.
        """
        if not self._has_ended:
            self._has_ended = True
            self._error = error
            self._wake()

    async def get(self) -> MessageData | None:
        """Return the next message; None after the last.  Raises: the OpError of `end`."""
        while not self._messages:
            if self._error is not None:
                raise self._error
            if self._has_ended:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        message = self._messages.popleft()
        self._held_bytes -= len(message)
        self._settle()
        return message

    def _settle(self) -> None:
        if self._owed_bytes and self._held_bytes <= _MOST_HELD_BYTES:
            owed, self._owed_bytes = self._owed_bytes, 0
            self._acknowledge(owed)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
