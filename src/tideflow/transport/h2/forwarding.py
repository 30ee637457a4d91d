"""Forwards connections of this user, on this host, to a server beyond by mutual TLS.

For clients that speak no TLS, such as TensorFlow's.  Bytes go through as they are: what is said is
between the client and the server, to which the client is whoever this process's certificate names.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from typing import Any, cast

from tideflow.blocking import spawn
from tideflow.platform.settings import Settings
from tideflow.transport import network, peer_user
from tideflow.transport.admission import Admission, RefusedError
from tideflow.transport.credentials import Credentials, credentials_of
from tideflow.transport.h2 import frames, listening
from tideflow.transport.h2.faults import ErrorCode
from tideflow.transport.h2.forks import keep_from_children
from tideflow.transport.h2.tls import fault_of, why_not_connected
from tideflow.wire import errors

_LOGGER = logging.getLogger(__name__)

_CONNECT_S = 20.0


class Proxy:
    """Listens on this host, and forwards to one server.

    Args:
      address: where, HOST:PORT on loopback or unix:PATH.
      target: HOST:PORT of the server.
      settings: `tls` says who this process is there.
    Raises: InvalidArgumentError for settings without TLS, or certificates that make no sense.
    """

    def __init__(self, address: str, target: str, settings: Settings) -> None:
        if not settings.tls:
            raise errors.InvalidArgumentError("a proxy needs certificates: give --tls DIR")
        self.address = address
        self.target = target
        self._place = listening.split_host_port(target)
        self._credentials: Credentials = credentials_of(settings.tls)
        # Whatever servers of this process may be open to.
        self._admission = Admission(Settings())
        self._servers: list[network.Listening] = []
        self._ends: set[_End] = set()

    async def start(self) -> int:
        """Begin to forward; return the port.  Raises: as TransportServer.start, and for an address
        that other hosts reach FailedPreconditionError."""
        self._servers, port = await listening.listen(
            lambda: _Near(self), self.address, listen_all=False, tls=None
        )
        path = listening.unix_path(self.address)
        if path is not None:
            os.chmod(path, 0o600)
        elif self.address.endswith(":0"):
            self.address = f"{self.address[:-1]}{port}"
        return port

    async def stop(self) -> None:
        """Hang up on both sides."""
        for server in self._servers:
            server.close()
        self._admission.close()
        listening.remove_socket_file(self.address)
        for end in list(self._ends):
            end.hang_up()

    async def identify(self, transport: asyncio.Transport) -> None:
        """Find out who has connected.  Raises: RefusedError for another user."""
        if peer_user.kernel_answers():
            self._admission.identify(transport)
        else:
            await self._admission.identify_slowly(transport)

    async def connect(self) -> _End:
        """Return the end of a connection to the server.  Raises: OSError that says why there is
        none."""
        try:
            async with asyncio.timeout(_CONNECT_S):
                far = await network.connect_tcp(
                    lambda: _End(self), *self._place, self._credentials.for_client()
                )
        except (OSError, ssl.SSLError, TimeoutError) as error:
            lacks = self._credentials.what_it_lacks()
            reason = why_not_connected(error, has_tls=True, was_open=False, lacks=lacks)
            found = reason or f"no answer within {_CONNECT_S:g} s"
            raise ConnectionError(f"cannot reach {self.target}: {found}") from None
        return far

    def refuse(self, transport: asyncio.Transport, reason: str) -> None:
        """Hang up on who has connected, with the reason, and write it to the log."""
        _LOGGER.warning("%s: %s", self.address, reason)
        goaway = frames.goaway_frame(0, ErrorCode.INADEQUATE_SECURITY, reason)
        transport.write(frames.settings_frame({}) + goaway)
        transport.close()

    def opened(self, end: _End) -> None:
        """Take note of an end that is to be closed with the proxy."""
        self._ends.add(end)

    def closed(self, end: _End) -> None:
        """Forget an end."""
        self._ends.discard(end)


class _End(asyncio.Protocol):
    """One of two connections; what comes in here goes out at the other."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._early = b""
        self.other: _End | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self.transport = cast(asyncio.Transport, transport)
        connection: Any = transport.get_extra_info("socket")
        if connection is not None:
            keep_from_children(connection)
        self._proxy.opened(self)
        fault = fault_of(transport)
        if fault:
            _LOGGER.warning("%s: %s", self._proxy.target, fault)
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        other = None if self.other is None else self.other.transport
        if other is None:
            self._early += data
            if self.transport is not None:
                self.transport.pause_reading()
        elif not other.is_closing():
            other.write(data)

    def join(self, other: _End) -> None:
        """From now on, hand on what comes."""
        self.other = other
        if self._early and self.transport is not None and other.transport is not None:
            early, self._early = self._early, b""
            other.transport.write(early)
            if not self.transport.is_closing():
                self.transport.resume_reading()

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        other = None if self.other is None else self.other.transport
        if other is not None and not other.is_closing():
            other.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._proxy.closed(self)
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()

    def hang_up(self) -> None:
        """Close this side, and so the other."""
        if self.transport is not None:
            self.transport.abort()


class _Near(_End):
    """The end that a client has connected to."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        spawn(self._lead_on(self.transport))

    async def _lead_on(self, transport: asyncio.Transport) -> None:
        try:
            await self._proxy.identify(transport)
            far = await self._proxy.connect()
        except RefusedError as refused:
            self._proxy.refuse(transport, f"refused {refused}")
            return
        except OSError as error:
            self._proxy.refuse(transport, str(error))
            return
        if transport.is_closing():
            far.hang_up()
            return
        far.join(self)
        self.join(far)
