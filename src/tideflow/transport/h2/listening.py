"""Addresses as the protocol writes them, and listening at them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import ipaddress
import logging
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from tideflow.transport import network
from tideflow.transport.h2.same_host import listen_beside
from tideflow.transport.h2.tls import HANDSHAKE_S, SHUTDOWN_S
from tideflow.transport.peer_user import address_of, is_in
from tideflow.wire import errors

_LOGGER = logging.getLogger(__name__)

_UNIX = "unix:"
_NO_SUCH_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


def unix_path(address: str) -> str | None:
    """Return the path of a `unix:PATH` address, or None for another."""
    if not address.startswith(_UNIX):
        return None
    path = address.removeprefix(_UNIX)
    return path.removeprefix("//") if path.startswith("///") else path


def split_host_port(address: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT` or `[HOST]:PORT`.

    Raises: InvalidArgumentError for anything else.
    """
    found = re.fullmatch(r"(.+):(\d{1,5})", address)
    if found is None or int(found[2]) > 65535:
        raise errors.InvalidArgumentError(f"{address!r} is no address: give HOST:PORT")
    return found[1].strip("[]"), int(found[2])


async def listen(
    make_protocol: Callable[[], asyncio.BaseProtocol],
    address: str,
    *,
    listen_all: bool,
    tls: ssl.SSLContext | None,
    shares_host: bool = False,
    open_to: str = "",
    plain_peers: str = "",
) -> tuple[list[network.Listening], int]:
    """Listen at an address, or at its port on every interface; return the servers and the port.

    shares_host: peers of this host come in by a Unix socket beside the port (see same_host.py).
    open_to: who may come without TLS, in words; "" for nobody of other hosts.
    plain_peers: the networks whose hosts come without TLS although there is one.

    Raises: as TransportServer.start; FailedPreconditionError for an address that other hosts reach,
    without TLS.
    """
    path = unix_path(address)
    try:
        if path is not None:
            server = await network.listen_unix(make_protocol, path, **_arguments_of(tls))
            return [server], 0
        try:
            _, port = split_host_port(address)
        except errors.InvalidArgumentError:
            raise errors.InvalidArgumentError(
                f"cannot listen at {address!r}: give HOST:PORT"
            ) from None
        hosts = ["0.0.0.0", "::"] if listen_all else await addresses_of(address)
        if tls is None:
            require_loopback(address, hosts, open_to=open_to)
        servers, port = await _listen_at(
            _way_in(make_protocol, tls, plain_peers), hosts, port, needs_all=not listen_all
        )
        if shares_host:
            servers += await listen_beside(make_protocol, servers)
        return servers, port
    except socket.gaierror as error:
        raise errors.InvalidArgumentError(
            f"cannot listen at {address!r}: {error}; give HOST:PORT with a host of this machine"
        ) from None
    except OSError as error:
        raise _bind_error(address, error) from error


def require_loopback(address: str, hosts: list[str], *, open_to: str) -> None:
    """Let a server without TLS listen where other hosts reach it only if that is wanted, and warn.

    address: as the user wrote it.  hosts: what it stands for.  open_to: as of `listen`.
    Raises: FailedPreconditionError.
    """
    wide = [host for host in hosts if not _is_loopback(host)]
    if not wide:
        return
    if not open_to:
        raise errors.FailedPreconditionError(
            f"{address} ({', '.join(wide)}) is reached from other hosts, where nobody is known"
            " without TLS: anybody could run code here. Give --tls DIR (`tideflow certs` makes"
            " one), or --insecure to do without, as clusters with TensorFlow's own servers or"
            " clients on other hosts must, unless they come through `tideflow proxy`. In a program:"
            " Server(..., tls=DIR) or Server(..., insecure=True); for all of a process:"
            " TIDEFLOW_TLS=DIR or TIDEFLOW_INSECURE=on"
        )
    _LOGGER.warning("%s is open to %s: anybody there can run code as this user", address, open_to)


def is_loopback(address: str) -> bool:
    """Whether a server at an address is reached from this host alone.

    Raises: InvalidArgumentError for what is no address; socket.gaierror for an unknown host.
    """
    if unix_path(address) is not None:
        return True
    host, _ = split_host_port(address)
    found = network.resolve_blocking(host, None, to_listen=True)
    return all(_is_loopback(str(where[0])) for *_, where in found)


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


async def addresses_of(address: str) -> list[str]:
    """Return the addresses that a server at HOST:PORT listens at.

    Raises: InvalidArgumentError for another text; socket.gaierror for an unknown host.
    """
    host, _ = split_host_port(address)
    found = await network.resolve(host, None, to_listen=True)
    return list(dict.fromkeys(str(where[0]) for *_, where in found))


def _way_in(
    make_protocol: Callable[[], asyncio.BaseProtocol],
    tls: ssl.SSLContext | None,
    plain_peers: str,
) -> Callable[[str, int], Awaitable[network.Listening]]:
    """Return what listens at a port of an address."""
    if tls is None or not plain_peers:
        return functools.partial(network.listen_tcp, make_protocol, **_arguments_of(tls))

    def arguments_for(peer: Any) -> dict[str, Any]:
        return {} if is_in(address_of(peer), plain_peers) else _arguments_of(tls)

    return functools.partial(network.listen_tcp_by_peer, make_protocol, arguments_for)


async def _listen_at(
    listen_at: Callable[[str, int], Awaitable[network.Listening]],
    hosts: list[str],
    port: int,
    *,
    needs_all: bool,
) -> tuple[list[network.Listening], int]:
    """Listen at one port of several addresses; IPv6 may be missing where not all are needed."""
    servers: list[network.Listening] = []
    try:
        for host in hosts:
            try:
                server = await listen_at(host, port)
            except OSError as error:
                is_absent = error.errno in _NO_SUCH_FAMILY and ":" in host
                if is_absent and (servers or host != hosts[-1]) and not (needs_all and not servers):
                    continue
                raise
            servers.append(server)
            port = server.sockets[0].getsockname()[1]
    except BaseException:
        for server in servers:
            server.close()
        raise
    return servers, port


def _arguments_of(tls: ssl.SSLContext | None) -> dict[str, Any]:
    """Return TLS, where there is one, and how long a peer may take for its own messages."""
    if tls is None:
        return {}
    return {"ssl": tls, "ssl_handshake_timeout": HANDSHAKE_S, "ssl_shutdown_timeout": SHUTDOWN_S}


def remove_socket_file(address: str) -> None:
    """Remove what a server that listened at a Unix socket has left."""
    path = unix_path(address)
    if path is not None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _bind_error(address: str, error: OSError) -> errors.OpError:
    port = address.rpartition(":")[2]
    if error.errno == errno.EADDRINUSE:
        return errors.AlreadyExistsError(
            f"cannot listen at {address}: another process has that port; stop it"
            f" (`ss -ltnp 'sport = :{port}'` names it) or choose another port"
        )
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in (errno.EACCES, errno.EPERM):
        return errors.PermissionDeniedError(
            f"cannot listen at {address}: {reason}; choose a port of 1024 or above"
        )
    return errors.InvalidArgumentError(
        f"cannot listen at {address}: {reason}; give an address of this machine"
    )
