"""The one place where tideflow opens sockets, connects them and listens.

Others decide where to connect, when and how often.  grpcio, where it is chosen, opens its own
sockets (`grpc_channel.py`, `grpc_server.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from tideflow.blocking import spawn

_LOGGER = logging.getLogger(__name__)

P = TypeVar("P", bound=asyncio.BaseProtocol)

# Clients of a large job come all at once.
_BACKLOG = 1024
_LOOPBACK = "127.0.0.1"
# Nothing is sent there: a datagram socket that is connected says from where it would send.
_ANY_PORT = 9
# How long to wait where there is no room for another connection.
_NO_ROOM_S = 1.0
# NETLINK_SOCK_DIAG of linux/netlink.h, and room for an answer about one socket.
_SOCK_DIAG = 4
_SOCK_DIAG_BYTES = 4096


# ---- names


async def resolve(host: str, port: int | None, *, to_listen: bool = False) -> list[tuple[Any, ...]]:
    """Return the addresses of a host, as getaddrinfo does.  Raises: OSError for an unknown host."""
    flags = socket.AI_PASSIVE if to_listen else 0
    found: list[tuple[Any, ...]] = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=flags
    )
    return found


def resolve_blocking(
    host: str | None, port: int | None, *, to_listen: bool = False
) -> list[tuple[Any, ...]]:
    """Do as `resolve`, on a thread that may wait."""
    flags = socket.AI_PASSIVE if to_listen else 0
    return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags))


def is_address_of_this_host(address: str) -> bool:
    """Whether the kernel would send from an IP address to itself."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as asked, contextlib.suppress(OSError):
        asked.connect((address, _ANY_PORT))
        return bool(asked.getsockname()[0] == address)
    return False


class SocketTable:
    """The kernel's table of sockets, for requests about single ones (see peer_user.py).

    It answers at once, within the call.  Threads do not share one.
    """

    def __init__(self) -> None:
        self._asked: socket.socket | None = None

    def ask(self, request: bytes) -> bytes:
        """Return the answer to a request.  Raises: OSError where the kernel has no such way."""
        if self._asked is None:
            self._asked = _open_socket_table()
        self._asked.sendto(request, (0, 0))
        return self._asked.recv(_SOCK_DIAG_BYTES)

    def close(self) -> None:
        """Let go of the way to the kernel, until something is asked again."""
        asked, self._asked = self._asked, None
        if asked is not None:
            asked.close()


def _open_socket_table() -> socket.socket:
    if not hasattr(socket, "AF_NETLINK"):
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    return socket.socket(socket.AF_NETLINK, kind, _SOCK_DIAG)


@contextlib.contextmanager
def listening_briefly() -> Iterator[tuple[str, int]]:
    """Give the address and port of a socket at which nobody is ever accepted.  Raises: OSError."""
    with socket.socket() as made:
        made.bind((_LOOPBACK, 0))
        made.listen(1)
        yield made.getsockname()


# ---- connections of the loop


async def connect_tcp(
    make_protocol: Callable[[], P], host: str, port: int, tls: ssl.SSLContext | None
) -> P:
    """Connect to a port.  Raises: OSError; ssl.SSLError."""
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(make_protocol, host, port, ssl=tls)
    return protocol


async def connect_unix(make_protocol: Callable[[], P], path: str, tls: ssl.SSLContext | None) -> P:
    """Connect to a Unix socket in the file system.  Raises: OSError; ssl.SSLError."""
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_unix_connection(make_protocol, path, ssl=tls)
    return protocol


async def adopt_unix(make_protocol: Callable[[], P], connection: socket.socket) -> P:
    """Have the loop take over a connected Unix socket."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_unix_connection(make_protocol, sock=connection)
    if transport.is_closing():
        # The peer hung up before the loop had taken the socket over: the descriptor is closed, and
        # its number may be another's by the time the socket is collected.
        connection.detach()
    return protocol


# ---- connections of a thread


def open_tcp(host: str, port: int, timeout_s: float) -> socket.socket:
    """Connect to a port on the calling thread.  Raises: OSError, TimeoutError."""
    made = socket.create_connection((host, port), timeout_s)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def open_unix(name: str | bytes, timeout_s: float) -> socket.socket:
    """Connect to a Unix socket, by its path or its abstract name.

    timeout_s: 0 for a socket that does not block, which has nothing to wait for but a place in the
    server's line.  Raises: OSError, TimeoutError.
    """
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(timeout_s)
        made.connect(name)
    except BaseException:
        made.close()
        raise
    return made


# ---- listening


class Listening(Protocol):
    """What listens, as asyncio.Server does."""

    @property
    def sockets(self) -> Sequence[Any]:
        """The sockets that listen."""

    def close(self) -> None:
        """Listen no more."""


async def listen_tcp(
    make_protocol: Callable[[], asyncio.BaseProtocol],
    host: str,
    port: int,
    **tls: Any,
) -> asyncio.Server:
    """Listen at a port of an address.

    tls: ssl, ssl_handshake_timeout and ssl_shutdown_timeout, as loop.create_server takes them.
    Raises: OSError.
    """
    loop = asyncio.get_running_loop()
    return await loop.create_server(make_protocol, host, port, backlog=_BACKLOG, **tls)


async def listen_unix(
    make_protocol: Callable[[], asyncio.BaseProtocol], name: str | bytes, **tls: Any
) -> asyncio.Server:
    """Listen at a Unix socket: at a path (text) or an abstract name (bytes).

    tls: as `listen_tcp`.  Raises: OSError, also where somebody has the name.
    """
    loop = asyncio.get_running_loop()
    if isinstance(name, str):
        return await loop.create_unix_server(make_protocol, name, backlog=_BACKLOG, **tls)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(name)
    except OSError:
        listening.close()
        raise
    return await loop.create_unix_server(make_protocol, sock=listening, backlog=_BACKLOG, **tls)


async def listen_tcp_by_peer(
    make_protocol: Callable[[], asyncio.BaseProtocol],
    tls_for: Callable[[Any], dict[str, Any]],
    host: str,
    port: int,
) -> Listening:
    """Do as `listen_tcp`, with TLS that depends on who connects.

    tls_for: gives it for a peer's address, as a socket gives that.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    made.setblocking(False)
    return _ByPeer(made, make_protocol, tls_for)


class _ByPeer:
    def __init__(
        self,
        listening: socket.socket,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        tls_for: Callable[[Any], dict[str, Any]],
    ) -> None:
        self.sockets = (listening,)
        self._make_protocol = make_protocol
        self._tls_for = tls_for
        self._accepting = spawn(self._accept_all(listening))

    async def _accept_all(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(listening)
            except OSError as error:
                _LOGGER.warning("no connection can be accepted now: %s", error)
                await asyncio.sleep(_NO_ROOM_S)
                continue
            spawn(self._take(accepted, self._tls_for(peer)))

    async def _take(self, accepted: socket.socket, tls: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.connect_accepted_socket(self._make_protocol, accepted, **tls)
        except OSError as error:  # of which ssl.SSLError is one
            _LOGGER.info("a handshake failed: %s", error)
            return
        if transport.is_closing():
            accepted.detach()  # as in adopt_unix

    def close(self) -> None:
        self._accepting.cancel()
        for one in self.sockets:
            one.close()


def try_to_bind(host: str | None, port: int) -> None:
    """Bind to a port and let it go again.

    Raises: OSError that says why nobody can listen there; socket.gaierror for an unknown host.
    """
    for family, kind, protocol, _, where in resolve_blocking(host, port, to_listen=True):
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)


def free_ports(among: Sequence[int], count: int) -> list[int]:
    """Return the first `count` of some ports of the loopback interface that nobody listens at.

    Raises: OSError when there are not so many.
    """
    found: list[int] = []
    for port in among if count else ():
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((_LOOPBACK, port))
            found.append(port)
        if len(found) == count:
            break
    if len(found) == count:
        return found
    raise OSError(f"this machine has no {count} free ports among the {len(among)} that were tried")
