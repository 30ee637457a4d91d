"""What is the default in each thread: graphs and sessions, as stacks; and who watches what is made.

Where the eager side is in use, a thread without a graph of its own calls operations at once: its
default graph is the one that `eager.make` gives (see tideflow.eager.eager_graph).  Where it is
not, `eager_mode` has a thread do so for a while, such as for a Python function of a graph.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class _Local(threading.local):
    """What is the default in one thread."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []
        self.sessions: list[Any] = []
        # The tapes that take note of operations, outermost first (see tideflow.eager.backprop).
        self.tapes: tuple[Any, ...] = ()
        self.eager_graph: Any = None
        # What looks at each operation that is made in a function's graph, where something does.
        self.check: Callable[[Any], None] | None = None
        # How often eager mode was entered while it was off for threads in general.
        self.eager_levels = 0


class _Eager:
    """How threads get an eager graph, and whether those without a graph of their own do."""

    def __init__(self) -> None:
        self.make: Callable[[], Any] | None = None
        self.is_on = False


local = _Local()
eager = _Eager()


def eager_graph() -> Any:
    """Return the calling thread's eager graph, or None where nothing is eager."""
    if eager.make is None or not (eager.is_on or local.eager_levels):
        return None
    if local.eager_graph is None:
        local.eager_graph = eager.make()
    return local.eager_graph


def default_sessions() -> list[Any]:
    """Return the calling thread's stack of default sessions."""
    return local.sessions


def get_default_session() -> Any:
    """Return the calling thread's default session, or None."""
    return local.sessions[-1] if local.sessions else None


def session_or_default(session: Any, graph: Any, subject: str = "tensor") -> Any:
    """Return the session that evaluates a tensor, or runs an operation.

    Raises: ValueError without a session, and for one of another graph.
    """
    can = (
        "evaluate tensor using `eval()`"
        if subject == "tensor"
        else "execute operation using `run()`"
    )
    if session is not None:
        if session.graph is not graph:
            raise ValueError(f"The {subject}'s graph is different from the session graph.")
        return session
    session = get_default_session()
    if session is None:
        raise ValueError(
            f"Cannot {can}: No default session is registered. Use `with tf.Session():`, or give "
            "one."
        )
    if session.graph is not graph:
        raise ValueError(
            f"Cannot {can}: the {subject}'s graph is different from the default session's graph. "
            "Give a session of that graph."
        )
    return session
