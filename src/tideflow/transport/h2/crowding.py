"""What a server does when connections use up the descriptors of its process.

A fifth of them is kept for files, and for what the server itself connects to.  The kernel gives
each connection the lowest number that is free, so a high one tells that the others are taken.
"""

from __future__ import annotations

import logging
import resource
from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from tideflow.platform import clock
from tideflow.transport.admission import RefusedError
from tideflow.transport.limited_log import LimitedLog

_SHARE = 0.8

_log = LimitedLog(logging.getLogger(__name__), clock.monotonic_s)


class Connected(Protocol):
    """A connection of a server.

    Attributes:
      peer: what the log calls the other end.
      is_limited: whether the peer is neither the server's user nor a task.
      since_s: when it came.
    """

    peer: str
    is_limited: bool
    since_s: float

    @property
    def has_calls(self) -> bool: ...

    def dismiss(self, reason: str) -> None:
        """Hang up, and say why."""


C = TypeVar("C", bound=Connected)


def make_room(newcomer: C, connection: Any, others: Iterable[C]) -> None:
    """Close an idle connection for a new one, where descriptors run out: strangers' first, the
    oldest first.

    connection: the newcomer's socket.
    Raises: RefusedError where none is idle.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or connection.fileno() < limit * _SHARE:
        return
    idle = [one for one in others if one is not newcomer and not one.has_calls]
    text = f"{_SHARE:.0%} of the {limit} descriptors of the process are taken"
    if not idle:
        raise RefusedError(f"a connection, as {text} and none of them is idle (see `ulimit -n`)")
    chosen = min(idle, key=lambda one: (not one.is_limited, one.since_s))
    _log.warning("%s: the idle connection of %s is closed", text, chosen.peer)
    chosen.dismiss(text)
