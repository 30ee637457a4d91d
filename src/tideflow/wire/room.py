"""Whether this process has room for what takes few bytes to ask for and many to hold.

Rule 1: servers say how much their process may hold (`limit_room`); without one, nothing is refused.
Rule 2: what may become large asks before it does (`require_room`), and again while it grows.
Rule 3: what is held is what the kernel says: memory of the process's own that is in use.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from tideflow.wire.errors import ResourceExhaustedError

# What is smaller is not worth a look.
LEAST_BYTES = 4 << 20

_limits: dict[object, int] = {}
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def limit_room(most_bytes: int) -> Callable[[], None]:
    """Let this process hold so much, until what this returns is called; the least limit counts."""
    key = object()
    _limits[key] = most_bytes

    def lift() -> None:
        _limits.pop(key, None)

    return lift


def require_room(size_bytes: int, what: str) -> None:
    """Refuse what the process has no room for.

    size_bytes: how much more it takes.  what: it is, for the message, as "a message".
    Raises: ResourceExhaustedError with figures.
    """
    if size_bytes < LEAST_BYTES or not _limits:
        return
    most = min(_limits.values())
    held = held_bytes()
    if held + size_bytes > most:
        raise ResourceExhaustedError(f"{what} takes {size_bytes} bytes; {_in_words(held, most)}")


def is_full() -> bool:
    """Whether the process holds more than it may."""
    return bool(_limits) and held_bytes() > min(_limits.values())


def limits_in_words() -> str:
    """Return what is_full goes by, for messages."""
    return _in_words(held_bytes(), min(_limits.values(), default=0))


def _in_words(held: int, most: int) -> str:
    return (
        f"this process holds {held} bytes of the {most} that it may; ask for less, or start the"
        " server with --set memory=MIB"
    )


def held_bytes() -> int:
    """Return how much memory the process holds that is its own; 0 where the kernel does not say.

    Source: proc(5), statm
    """
    try:
        with open("/proc/self/statm", "rb") as file:
            _, resident, shared, *_ = file.read().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * _PAGE_BYTES
