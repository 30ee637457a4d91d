"""Sockets that forked children let go of.

A connection ends with the last process that holds its socket.  While a child of a process that has
died holds one, the kernel of its host goes on answering, and nobody notices the death.
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Any

# By descriptor, the file that it was of: numbers are used again, also for what children need.
_held: dict[int, int] = {}


def keep_from_children(connection: socket.socket | Any) -> None:
    """Have children that are forked from now on let go of a socket.

    connection: a socket, or what an event loop shows of one.
    """
    number = connection.fileno()
    with contextlib.suppress(OSError):
        _held[number] = os.fstat(number).st_ino


def _let_go() -> None:
    """Put nothing in the place of the sockets: whoever has the number may close it once more."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number, file in _held.items():
        with contextlib.suppress(OSError):
            if os.fstat(number).st_ino == file:
                os.dup2(nothing, number, inheritable=False)
    os.close(nothing)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)
