"""Room for calls within calls, where users' functions are traced within each other.

Each level of nested branches takes a few dozen of Python's calls, of which the interpreter allows a
thousand.  They are few for what a stack holds: the limit is there to find recursion without end.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

# How many calls a level may take, for how many of them there is room anyway, and for how many more
# it is made.
_CALLS_OF_A_LEVEL = 60
_FEW_LEVELS = 8
_MOST_LEVELS = 150

_lock = threading.Lock()
_levels = 0
# The limit as it was set here last.
_made = 0


@contextlib.contextmanager
def room_for_calls() -> Iterator[None]:
    """Allow more calls within calls for the body of `with`, if that is nested in others."""
    global _levels, _made
    with _lock:
        _levels += 1
        added = _CALLS_OF_A_LEVEL if _FEW_LEVELS < _levels <= _MOST_LEVELS else 0
        if added:
            _made = sys.getrecursionlimit() + added
            sys.setrecursionlimit(_made)
    try:
        yield
    finally:
        with _lock:
            _levels -= 1
            # A limit that the user has set meanwhile stays.
            if added and sys.getrecursionlimit() == _made:
                _made -= added
                sys.setrecursionlimit(_made)
