"""How long peers may be silent, and what the kernel is asked to find out about their hosts."""

from __future__ import annotations

import socket
import sys

# How often a peer is pinged that is no tideflow, where the kernel cannot tell whether its host is
# there, and how long it may take to answer.
KEEPALIVE_S = 310.0
PING_TIMEOUT_S = 20.0

# Questions that a kernel asks of a host that says nothing, before it ends the connection.
_KERNEL_ASKS = 3


def let_kernel_watch(connection: socket.socket, silence_s: float) -> None:
    """Have the kernel end an idle TCP connection whose other host does not answer.

    The failure detector looks after those on which something is on its way.  TCP_USER_TIMEOUT would
    not do: it also ends the connection to a process that is stopped while its buffers are full.
    """
    # The first question after two fifths of the time, and three that are not answered.
    first_s, next_s = (max(1, round(silence_s * share)) for share in (0.4, 0.2))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, next_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KERNEL_ASKS)
    if sys.platform == "linux":
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, first_s)
