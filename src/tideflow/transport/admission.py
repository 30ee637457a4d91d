"""Who may speak on a connection that a server has accepted: decided before a byte of it is read.

Rule 1: whoever runs the server, and root, may on the same host, as the kernel knows them.
Rule 2: others of the host may where the server was told so (Settings.local_users).
Rule 3: whoever shows a certificate of a trusted authority may, from wherever (Settings.tls).
Rule 4: from other hosts nobody may without TLS, unless the server was told to do without any proof
        (Settings.insecure).
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable
from typing import Any

from tideflow.blocking import FILES, run_blocking
from tideflow.platform import clock
from tideflow.platform.settings import Settings
from tideflow.transport.certificates import Certificate, ends_at_s, identity_in
from tideflow.transport.identity import Identity, Kind
from tideflow.transport.limited_log import LimitedLog
from tideflow.transport.network import SocketTable
from tideflow.transport.peer_user import (
    Ends,
    ends_of,
    is_in,
    kernel_answers,
    user_in_tables,
    user_of_tcp_peer,
    user_of_unix_peer,
)
from tideflow.transport.token import HEADER, holds, token_of
from tideflow.wire import errors

_LOGGER = logging.getLogger(__name__)
_ROOT = 0
_AUTHORIZATION = HEADER.encode()

OPEN_TO_USERS = (
    "start it with --allow-local-users (in a program: Server(..., allow_local_users=True), or "
    "TIDEFLOW_LOCAL_USERS=on) to let other users of this host in"
)


class RefusedError(Exception):
    """A peer may not speak here; the text says who it is, and what would let it in."""


class Admission:
    """What a server asks about its connections.

    Args:
      settings: of the server.
      trusts_tls: whether everybody whom the server's own TLS context lets in may speak.
    """

    def __init__(self, settings: Settings, *, trusts_tls: bool = False) -> None:
        self._trusts_tls = trusts_tls
        self._is_insecure = settings.insecure
        self._admits_users = settings.local_users
        self._token = token_of(settings)
        self._insecure_peers = settings.insecure_peers
        self._own_users = (os.geteuid(), _ROOT)
        self._table = SocketTable()
        self._log = LimitedLog(_LOGGER, clock.monotonic_s)

    def identify(self, transport: Any) -> Identity:
        """Return who is at the other end of a transport.  Raises: RefusedError."""
        quick = self._without_looking(transport)
        if quick is not None:
            return quick
        connection = transport.get_extra_info("socket")
        if connection.family == socket.AF_UNIX:
            return self._user(user_of_unix_peer(connection), "")
        own, peer = _names_of(transport)
        user = user_of_tcp_peer(own, peer, self._table)
        if user in self._own_users:
            return self._own_user(user)
        return self._tcp_peer(ends_of(own, peer), user)

    async def identify_slowly(self, transport: Any) -> Identity:
        """Do as `identify`, where the kernel does not tell of single sockets."""
        connection = transport.get_extra_info("socket")
        if connection.family == socket.AF_UNIX:
            return self.identify(transport)
        quick = self._without_looking(transport)
        if quick is not None:
            return quick
        ends = ends_of(*_names_of(transport))
        return self._tcp_peer(ends, await run_blocking(FILES, lambda _: user_in_tables(ends)))

    def proven(self, identity: Identity, headers: Iterable[tuple[bytes, bytes]]) -> Identity:
        """Return who makes a call, whose headers may bring the cluster's token."""
        if not self._token or identity.kind is Kind.TASK:
            return identity
        if any(n == _AUTHORIZATION and holds(self._token, value) for n, value in headers):
            return Identity(Kind.TASK, "a holder of the cluster's token", identity.host)
        return identity

    def lifetime_s(self, transport: Any) -> float | None:
        """Return for how long what proved who the peer is holds; None: no end."""
        certificate = _certificate_of(transport)
        return ends_at_s(certificate) - clock.wall_s() if certificate else None

    def require_user(self, own: list[str], port: int, peer: Any) -> None:
        """Do as `identify` for a TCP connection of which only the peer's address is known.

        own, port: where the server listens.  peer: as sockets give it.  Raises: RefusedError.
        """
        user = None
        for place in ((one, port) for one in own):
            ends = ends_of(place, peer)
            if ends.own[0].version != ends.peer[0].version:
                continue
            if kernel_answers():
                user = user_of_tcp_peer(place, peer, self._table)
            else:
                user = user_in_tables(ends)
            if user is not None:
                break
        self._tcp_peer(ends, user)

    def _without_looking(self, transport: Any) -> Identity | None:
        certificate = _certificate_of(transport)
        if certificate and not self._trusts_tls:
            return identity_in(certificate, _host_of(transport))
        if self._trusts_tls and _is_secured(transport):
            return Identity(Kind.UNPROVEN, "a peer whom the TLS context of the server lets in")
        if _is_secured(transport) and not self._token:
            raise RefusedError(
                f"whoever calls from {_host_of(transport)}: it wants a certificate, and none was"
                " shown: give --tls DIR, or TIDEFLOW_TLS"
            )
        if _is_secured(transport):
            return Identity(Kind.STRANGER, f"whoever calls from {_host_of(transport)}")
        if self._is_insecure:
            return Identity(Kind.UNPROVEN, "anybody, as the server runs with --insecure")
        return None

    def _tcp_peer(self, ends: Ends, user: int | None) -> Identity:
        where = f"{ends.peer[0]} port {ends.peer[1]}"
        if user is not None:
            return self._user(user, where)
        if is_in(ends.peer[0], self._insecure_peers):
            return Identity(Kind.UNPROVEN, f"a peer at {ends.peer[0]}, of an insecure network")
        if ends.is_within_host:
            raise RefusedError(f"{where}, which has hung up already")
        raise RefusedError(
            f"{where}, which is another host: without TLS only this host may call the server; start"
            " it with --tls DIR (`tideflow certs` makes what that needs), or with --insecure to let"
            " anybody run code as its user"
        )

    @staticmethod
    def _own_user(user: int | None) -> Identity:
        return Identity(Kind.LOCAL_USER, f"the user {user} of this host")

    def close(self) -> None:
        """Let go of the way to the kernel; nothing is lost that is needed again."""
        self._table.close()

    def _user(self, user: int, where: str) -> Identity:
        if user in self._own_users:
            return self._own_user(user)
        if self._token:
            return Identity(Kind.STRANGER, f"the user {user} of this host")
        if self._admits_users:
            return Identity(Kind.UNPROVEN, f"the user {user} of this host")
        at = f" at {where}" if where else ""
        raise RefusedError(
            f"the user {user} of this host{at}: the server answers its own user ({os.geteuid()}) "
            f"and root; {OPEN_TO_USERS}"
        )

    def tell(self, refused: RefusedError, address: str) -> None:
        """Write to the log who was refused; not more often than somebody can read."""
        self._log.warning("%s refused %s", address, refused)

    def tell_denied(self, error: errors.OpError, address: str) -> None:
        """Write to the log which call was not its caller's to make; not too often either."""
        self._log.warning("%s: %s", address, error.message)


def _certificate_of(transport: Any) -> Certificate:
    secured = transport.get_extra_info("ssl_object")
    return {} if secured is None else secured.getpeercert() or {}


def _host_of(transport: Any) -> str:
    return str(transport.get_extra_info("peername")[0])


def _is_secured(transport: Any) -> bool:
    return transport.get_extra_info("ssl_object") is not None


def _names_of(transport: Any) -> tuple[Any, Any]:
    return transport.get_extra_info("sockname"), transport.get_extra_info("peername")
