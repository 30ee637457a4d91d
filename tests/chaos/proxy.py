"""The connections to a task, in our hands: passed on, cut, or silent."""

from __future__ import annotations

import asyncio
from typing import cast


class Relay:
    """Listens at one port of this machine, and passes connections on to another.

    Args:
      port: where to listen; target_port: where to pass on to.
    Attributes:
      port: where it listens.
    """

    def __init__(self, port: int, target_port: int) -> None:
        self.port = port
        self._target_port = target_port
        self._ends: set[_End] = set()
        self._server: asyncio.Server | None = None
        self.is_silent = False

    async def start(self) -> None:
        """Begin to listen."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _End(self), "127.0.0.1", self.port)

    def cut(self) -> None:
        """Break all connections, as a switch that restarts does."""
        for end in list(self._ends):
            end.abort()

    def silence(self) -> None:
        """Pass nothing on any more and say nothing, as a cable that is pulled out."""
        self.is_silent = True
        for end in self._ends:
            end.pause()

    def speak(self) -> None:
        """Pass on again, also what has gathered meanwhile."""
        self.is_silent = False
        for end in list(self._ends):
            end.resume()

    def close(self) -> None:
        """End all."""
        if self._server is not None:
            self._server.close()
        self.cut()

    # ---- its ends

    def opened(self, end: _End) -> None:
        """Take note of an end; connect a client's end to the target."""
        self._ends.add(end)
        if end.other is None:
            end.connecting = asyncio.ensure_future(self._connect(end))

    async def _connect(self, end: _End) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: _End(self, end), "127.0.0.1", self._target_port)
        except OSError:  # the task is away: the client must see that, too
            end.abort()

    def lost(self, end: _End) -> None:
        """Take note that an end is gone."""
        self._ends.discard(end)


class _End(asyncio.Protocol):
    """One end of a connection; other is the one to pass on to."""

    def __init__(self, relay: Relay, other: _End | None = None) -> None:
        self._relay = relay
        self.other = other
        self.connecting: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self.is_full = False
        # What came before there was an end to pass it on to: uvloop reads a little at first.
        self._early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.pause_reading()
        self._relay.opened(self)
        if self.other is not None:
            self.other.pair_with(self)
            self.resume()

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self._early += data
        else:
            self.other.write(data)

    def pair_with(self, other: _End) -> None:
        """Pass on to another end from now on."""
        self.other = other
        other.write(self._early)
        self._early = b""
        self.resume()

    def pause_writing(self) -> None:
        self.is_full = True
        if self.other is not None:
            self.other.pause()

    def resume_writing(self) -> None:
        self.is_full = False
        if self.other is not None:
            self.other.resume()

    def write(self, data: bytes) -> None:
        """Pass data on to this end's peer."""
        if self._transport is not None:
            self._transport.write(data)

    def pause(self) -> None:
        """Read no more."""
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on, if what is read can be passed on."""
        other, transport = self.other, self._transport
        if other is None or other.is_full or self._relay.is_silent or transport is None:
            return
        if not transport.is_reading() and not transport.is_closing():
            transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._relay.lost(self)
        if self.connecting is not None:
            self.connecting.cancel()
        if self.other is not None:
            self.other.abort()

    def abort(self) -> None:
        """Break the connection."""
        if self._transport is not None:
            self._transport.abort()
