"""The client's end of one connection: calls go out, answers come in."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable

from tideflow.platform.settings import Settings
from tideflow.transport.h2.calling import MOST_GREETING_S
from tideflow.transport.h2.client_calls import ClientCall, ClientCalls
from tideflow.transport.h2.connection import Connection
from tideflow.transport.h2.events import (
    Event,
    GoAway,
    SettingsReceived,
)
from tideflow.transport.h2.faults import ErrorCode, name_of
from tideflow.transport.h2.frames import Buffer
from tideflow.transport.h2.link import Link, tell_of_late_greeting


class ClientLink(ClientCalls, Link):
    """One connection that a channel has made."""

    def __init__(self, keepalive_s: float, settings: Settings) -> None:
        core = Connection(is_client=True)
        Link.__init__(self, core, keepalive_s, settings)
        ClientCalls.__init__(self, core, settings)
        self.ready: asyncio.Future[None] = self.loop.create_future()
        self._slots: list[asyncio.Future[None]] = []

    @property
    def is_usable(self) -> bool:
        """Whether calls can be made on it, now or when others have ended."""
        return not self.is_lost and not self.core.is_going_away and not self.core.is_failed

    @property
    def has_calls(self) -> bool:
        return bool(self._calls) or not self.ready.done()

    def watch(self) -> str:
        # How long the greeting may take is up to `greeted`.
        return super().watch() if self.core.has_settings else ""

    async def greeted(self, soon_s: float) -> None:
        """Wait until the peer has said that it speaks HTTP/2; for longer than soon_s only where the
        kernel can tell that the peer is there.

        Raises: TimeoutError; ConnectionError when the connection ends.
        """
        self.watch_peer()
        try:
            async with asyncio.timeout(soon_s):
                await asyncio.shield(self.ready)
        except TimeoutError:
            if not self.is_known_to_live:
                raise
            tell_of_late_greeting(self.peer, soon_s, MOST_GREETING_S)
            async with asyncio.timeout(MOST_GREETING_S - soon_s):
                await asyncio.shield(self.ready)

    async def wait_slot(self) -> None:
        """Wait until a call has ended, or the connection."""
        waiter = self.loop.create_future()
        self._slots.append(waiter)
        await waiter

    def begin(self, call: ClientCall, block: bytes, parts: list[Buffer] | None) -> None:
        """Send a call: whole with the parts of its one message, or only its beginning."""
        core = self.core
        call.stream_id = stream_id = core.open_stream()
        self._calls[stream_id] = call
        if parts is None:
            core.send_headers(stream_id, block)
        else:
            core.send_whole(stream_id, block, parts)
        if self._next_look is None:
            self.watch_peer()
        self.flush()

    def send(self, call: ClientCall, parts: list[Buffer]) -> bool:
        """Send a message of a streaming call; False when the call is over."""
        if call.stream_id not in self._calls:
            return False
        self.core.send_data(call.stream_id, parts)
        self.flush()
        return True

    def end_sending(self, call: ClientCall) -> None:
        """Say that a streaming call has no more messages."""
        if call.stream_id in self._calls:
            self.core.send_data(call.stream_id, (), end_stream=True)
            self.flush()

    def cancel(self, call: ClientCall) -> None:
        """Give a call up, and tell the peer; nothing happens for one that is over."""
        if self._forget(call.stream_id) is not None:
            self.core.reset(call.stream_id, ErrorCode.CANCEL)
            self.flush()

    # ---- events

    def handle(self, event: Event) -> None:
        if type(event) is SettingsReceived:
            super().handle(event)
            if not self.ready.done():
                self.ready.set_result(None)
            self._free_slots()
        elif type(event) is GoAway:
            self._on_go_away(event)
        else:
            super().handle(event)

    def _on_go_away(self, event: GoAway) -> None:
        self.end_unprocessed(event)
        if event.code == ErrorCode.INADEQUATE_SECURITY:
            self.abort(f"{name_of(event.code)}: {event.text}")
            return
        if event.code and not self.ready.done():
            self.ready.set_exception(ConnectionError(f"{name_of(event.code)}: {event.text}"))
        self._free_slots()
        self._close_if_idle()

    # ---- ends

    def lost(self, reason: str) -> None:
        if not self.ready.done():
            self.ready.set_exception(ConnectionError(reason))
            self.ready.exception()  # nobody may be waiting for it
        self.end_lost(reason)
        self._free_slots()

    def _forget(self, stream_id: int) -> ClientCall | None:
        call = super()._forget(stream_id)
        if call is not None:
            if self._slots:
                self.loop.call_soon(self._free_slots)
            if self.core.is_going_away:
                self._close_if_idle()
        return call

    def _free_slots(self) -> None:
        slots, self._slots = self._slots, []
        for waiter in slots:
            if not waiter.done():
                waiter.set_result(None)

    def _close_if_idle(self) -> None:
        if not self._calls and self.core.is_going_away:
            self.loop.call_soon(self.close_when_written)

    def acknowledger(self, call: ClientCall) -> Callable[[int], None]:
        """Return what an inbox calls when the peer may send more on the call."""
        return functools.partial(self._acknowledge, call)

    def _acknowledge(self, call: ClientCall, count: int) -> None:
        self.core.acknowledge(call.stream_id, count)
        self.flush()
