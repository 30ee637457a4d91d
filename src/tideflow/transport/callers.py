"""Who makes the call that is being answered, for what is kept on behalf of a client."""

from __future__ import annotations

from contextvars import ContextVar, copy_context

from tideflow.transport.identity import Identity


class Caller:
    """A connection on which calls come in.

    Attributes:
      has_left: whether it has ended.
      identity: who calls; None where nobody asked.
    """

    __slots__ = ("context", "has_left", "identity")

    def __init__(self, identity: Identity | None = None) -> None:
        self.has_left = False
        self.identity = identity
        # That in which calls are answered; a copy for each.
        self.context = copy_context()
        self.context.run(_caller.set, self)


_caller: ContextVar[Caller | None] = ContextVar("tideflow_caller", default=None)


def current_caller() -> Caller | None:
    """Return the caller of the call that the current task answers; None where it is unknown, as for
    calls within the process."""
    return _caller.get()
