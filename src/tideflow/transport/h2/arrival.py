"""A connection whose peer has to be looked up beside the loop before a server's link takes it.

What the peer says meanwhile is kept, unread, and no more of it is taken from the socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from tideflow.blocking import spawn
from tideflow.transport.admission import RefusedError
from tideflow.transport.h2.server_link import ServerLink
from tideflow.transport.identity import Identity

LookUp = Callable[[asyncio.Transport], Awaitable[Identity]]
Refuse = Callable[[asyncio.Transport, RefusedError], None]


class Arrival(asyncio.Protocol):
    """Keeps a connection until it is known whether its peer may speak.

    Args:
      link: what takes the connection then.
      look_up: finds out who the peer is.  Raises: RefusedError.
      refuse: sends a peer away.
    """

    def __init__(self, link: ServerLink, look_up: LookUp, refuse: Refuse) -> None:
        self._link = link
        self._look_up = look_up
        self._refuse = refuse
        self._early = b""
        self._has_left = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        spawn(self._let_in(self._transport))

    def data_received(self, data: bytes) -> None:
        self._early += data
        if self._transport is not None:
            self._transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._has_left = True

    async def _let_in(self, transport: asyncio.Transport) -> None:
        try:
            identity = await self._look_up(transport)
        except RefusedError as refused:
            self._refuse(transport, refused)
            return
        if self._has_left or transport.is_closing():
            return
        self._link.let_in(identity)
        transport.set_protocol(self._link)
        self._link.connection_made(transport)
        early = memoryview(self._early)
        while early and not self._link.is_lost:
            room = self._link.get_buffer(len(early))
            size = min(len(room), len(early))
            room[:size] = early[:size]
            early = early[size:]
            self._link.buffer_updated(size)
        if self._early and not transport.is_closing():
            transport.resume_reading()
