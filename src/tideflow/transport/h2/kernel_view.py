"""What this machine's kernel knows of the peer of a connection.

TCP: whether the other host acknowledges what is sent.  Unix sockets: whether the process at the
other end is there.  Neither needs an answer from the peer's process.
Source: tcp(7), unix(7) and proc(5) of Linux; `struct tcp_info` of linux/tcp.h
"""

from __future__ import annotations

import functools
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tideflow.transport.h2.failure_detector import Evidence, TcpFacts, TcpPath

# Where in tcp_info the fields are that are of interest.
_RETRANSMITS_AND_PROBES = struct.Struct("=2B")
_AT_RETRANSMITS = 2
_U32 = struct.Struct("=I")
_AT_UNACKED = 24
_AT_SEGMENTS_IN = 140
_INFO_BYTES = 256

_CREDENTIALS = struct.Struct("3i")
# A process that has ended, and was not waited for yet.
_ENDED_STATES = "ZX"

View = Callable[[], Evidence]


def view_of(connection: Any) -> View:
    """Return what tells what the kernel knows of a connected socket's peer, now.

    connection: a socket, or what an event loop shows of one.
    """
    if sys.platform != "linux":
        return _blind
    if connection.family == socket.AF_UNIX:
        return _process_view(connection)
    return functools.partial(_look_at_tcp, connection, TcpPath())


def _blind() -> Evidence:
    return Evidence.NONE


# ---- TCP


def _look_at_tcp(connection: Any, path: TcpPath) -> Evidence:
    try:
        data = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    except (OSError, ValueError):
        return Evidence.NONE  # it is closed already, or no TCP
    facts = read_tcp_info(data)
    return Evidence.NONE if facts is None else path.note(facts)


def read_tcp_info(data: bytes) -> TcpFacts | None:
    """Return what a `struct tcp_info` says; None for one of an older kernel."""
    if len(data) < _AT_SEGMENTS_IN + _U32.size:
        return None
    retransmits, probes = _RETRANSMITS_AND_PROBES.unpack_from(data, _AT_RETRANSMITS)
    (unacknowledged,) = _U32.unpack_from(data, _AT_UNACKED)
    (received,) = _U32.unpack_from(data, _AT_SEGMENTS_IN)
    return TcpFacts(unacknowledged, retransmits + probes, received)


# ---- Unix sockets


def _process_view(connection: Any) -> View:
    """A Unix socket ends with its last holder, but a child of the peer may hold it, too."""
    pid = peer_pid(connection)
    began = _beginning_of(pid)
    # A peer in another name space of processes has no number here: it lives while its socket does.
    return _always_alive if began is None else functools.partial(_look_at_process, pid, began)


def peer_pid(connection: Any) -> int:
    """Return the process at the other end of a Unix socket; 0 where that is not known."""
    try:
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return 0
    pid, _, _ = _CREDENTIALS.unpack(found)
    return int(pid)


def _always_alive() -> Evidence:
    return Evidence.ALIVE


def _look_at_process(pid: int, began: str) -> Evidence:
    return Evidence.ALIVE if _beginning_of(pid) == began else Evidence.ENDED


def _beginning_of(pid: int) -> str | None:
    """Return when a process began, in ticks; None for one that is not there, or has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The name, in brackets, may hold anything.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in _ENDED_STATES else fields[19]
