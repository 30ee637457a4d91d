"""A Unix socket beside each TCP port, which peers of this host and user find by the port's address.

It takes a tenth less time than TCP, and nothing else is different: the same server accepts at both.
The socket's name is abstract: it is in no file system, ends with its server, and is known where the
port is, in one network namespace.  Anybody may take a name, so a client looks whose the socket is,
as the kernel says, before it says a word.  So does a server (see admission.py).
Source: unix(7)
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
from collections.abc import Callable, Iterable
from typing import Any

from tideflow.transport import network
from tideflow.transport.h2.shared_memory_limit import is_possible
from tideflow.transport.peer_user import user_of_unix_peer

_ANY = "*"


async def listen_beside(
    make_protocol: Callable[[], asyncio.BaseProtocol], servers: Iterable[network.Listening]
) -> list[network.Listening]:
    """Listen at a Unix socket for each address that servers listen at, where that is possible."""
    if not is_possible():
        return []
    where = [listening.getsockname() for server in servers for listening in server.sockets]
    names = {
        socket_name(_ANY if _is_any(address) else address, port) for address, port, *_ in where
    }
    made: list[network.Listening] = []
    for name in sorted(names):
        with contextlib.suppress(OSError):  # somebody has the name: peers come by TCP
            made.append(await network.listen_unix(make_protocol, name))
    return made


async def connect(host: str, port: int) -> socket.socket | None:
    """Return a connection to the server of this user at a port of this host; None if there is none.

    Raises: OSError for a host that is not known.
    """
    if not is_possible():
        return None
    return _connect_to_any(await network.resolve(host, port))


def connect_nowait(host: str, port: int) -> socket.socket | None:
    """Do as `connect`, on a thread that may wait for the name's resolution."""
    if not is_possible():
        return None
    return _connect_to_any(network.resolve_blocking(host, port))


def _connect_to_any(found: Iterable[Any]) -> socket.socket | None:
    for *_, (address, port, *_) in found:
        made = _connect_to(socket_name(address, port))
        if made is None and _is_own(address):
            made = _connect_to(socket_name(_ANY, port))
        if made is not None:
            return made
    return None


def _connect_to(name: bytes) -> socket.socket | None:
    with contextlib.suppress(OSError):
        made = network.open_unix(name, timeout_s=0.0)
        if user_of_unix_peer(made) == os.geteuid():
            return made
        made.close()
    return None


def socket_name(address: str, port: int) -> bytes:
    """Return the abstract name of the Unix socket beside a TCP port."""
    return f"\0tideflow {address} {port}".encode()


def _is_any(address: str) -> bool:
    return ipaddress.ip_address(address).is_unspecified


def _is_own(address: str) -> bool:
    """Whether an address is of this host: the kernel would then send from it to itself."""
    if ipaddress.ip_address(address).is_loopback:
        return True
    return network.is_address_of_this_host(address)
