"""Which user of this host has the other end of a connection, as the kernel says.

Unix sockets tell it themselves.  For TCP the kernel is asked for the peer's own socket, by the two
addresses: once for a connection, in some 10 us.  Where it has no such way (`kernel_answers`) there
is /proc/net/tcp, which takes as long as there are connections, so it is read beside the loop.
A socket that its process has closed already belongs to nobody, whatever user the kernel then names.
Source: sock_diag(7), unix(7), proc(5); linux/inet_diag.h
"""

from __future__ import annotations

import functools
import ipaddress
import socket
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tideflow.transport import network

_CREDENTIALS = struct.Struct("3i")

_HEADER = struct.Struct("=IHHII")
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST = 1
_ERROR = 2
# Family, protocol, what is wanted besides, all states.
_QUERY = struct.Struct("=BBBxI")
_ALL_STATES = 0xFFFFFFFF
_PORTS = struct.Struct(">HH")
# Interface and cookie; no cookie is known.
_REST = struct.Struct("=III")
_NO_COOKIE = 0xFFFFFFFF
# Of the answer: after family, state, timer and retransmissions (4 bytes) and the socket's names (48
# bytes) come when the timer ends, the two queues, user and inode.
_TAIL = struct.Struct("=5I")
_AT_TAIL = _HEADER.size + 4 + 48

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


@dataclass(frozen=True)
class Ends:
    """The two addresses of a TCP connection of this process.

    Attributes:
      peer, own: addresses with ports; those of IPv4 that an IPv6 socket shows count as what they
        are.
    """

    peer: tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]
    own: tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]

    @property
    def is_within_host(self) -> bool:
        """Whether the peer's address is one of this host."""
        address = self.peer[0]
        return (
            address.is_loopback
            or address == self.own[0]
            or network.is_address_of_this_host(str(address))
        )


def ends_of(own: Any, peer: Any) -> Ends:
    """Return the ends of a TCP connection, given as a socket gives them."""
    return Ends(_place(peer), _place(own))


def _place(name: Any) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    return address_of(name), int(name[1])


def address_of(name: Any) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the address in a socket's name; one of IPv4 also where IPv6 shows it."""
    address = ipaddress.ip_address(str(name[0]).partition("%")[0])
    mapped: ipaddress.IPv4Address | None = getattr(address, "ipv4_mapped", None)
    return mapped or address


def is_in(address: ipaddress.IPv4Address | ipaddress.IPv6Address, networks: str) -> bool:
    """Whether an address is in one of some networks, written with commas between them."""
    return any(address in ipaddress.ip_network(one) for one in networks.split(",") if one)


def user_of_unix_peer(connection: Any) -> int:
    """Return the user at the other end of a Unix socket.  Raises: OSError."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1])


def user_of_tcp_peer(own: Any, peer: Any, table: network.SocketTable) -> int | None:
    """Return the user who holds a connection's other end; None if that is of another host, or if
    nobody holds it any more.

    own, peer: the connection's ends, as a socket gives them.
    """
    try:
        answer = table.ask(_request(own, peer))
    except OSError:
        return None
    if len(answer) < _AT_TAIL + _TAIL.size or _HEADER.unpack_from(answer)[1] == _ERROR:
        return None
    *_, user, inode = _TAIL.unpack_from(answer, _AT_TAIL)
    return int(user) if inode else None


@functools.cache
def kernel_answers() -> bool:
    """Whether the kernel can be asked for single sockets: it may lack the module for that."""
    table = network.SocketTable()
    try:
        with network.listening_briefly() as place:
            return user_of_tcp_peer((place[0], 0), place, table) is not None
    except OSError:
        return False
    finally:
        table.close()


def _request(own: Any, peer: Any) -> bytes:
    family = socket.AF_INET6 if ":" in peer[0] else socket.AF_INET
    ends = [
        socket.inet_pton(family, name[0].partition("%")[0]).ljust(16, b"\0") for name in (peer, own)
    ]
    body = (
        _QUERY.pack(family, socket.IPPROTO_TCP, 0, _ALL_STATES)
        + _PORTS.pack(peer[1], own[1])
        + b"".join(ends)
        + _REST.pack(peer[3] if len(peer) > 3 else 0, _NO_COOKIE, _NO_COOKIE)
    )
    return _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST, 0, 0) + body


def user_in_tables(ends: Ends) -> int | None:
    """Do as `user_of_tcp_peer` by the kernel's tables of text, which may take milliseconds."""
    for table in _TABLES:
        try:
            text = Path(table).read_text(encoding="ascii")
        except OSError:
            continue
        found = user_in_table(text, ends)
        if found is not None:
            return found
    return None


def user_in_table(text: str, ends: Ends) -> int | None:
    """Return whose the peer's socket is by the text of /proc/net/tcp or tcp6; None if nobody's."""
    wanted = {tuple(_written(one, mapped) for one in (ends.peer, ends.own)) for mapped in (0, 1)}
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and (fields[1], fields[2]) in wanted:
            return int(fields[7]) if int(fields[9]) else None
    return None


def _written(place: tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int], mapped: int) -> str:
    """Return an address and port as the tables write them: words in this machine's order."""
    address, port = place
    if mapped and address.version == 4:
        address = ipaddress.IPv6Address(f"::ffff:{address}")
    words = [address.packed[i : i + 4] for i in range(0, len(address.packed), 4)]
    if sys.byteorder == "little":
        words = [word[::-1] for word in words]
    return f"{b''.join(words).hex().upper()}:{port:04X}"
