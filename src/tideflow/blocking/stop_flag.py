"""How work in a thread hears that nobody waits for it any more."""

from __future__ import annotations

from tideflow.wire import errors


class Stopped(errors.CancelledError):
    """Work in a thread ended early, since it was told to stop."""


class StopFlag:
    """Tells work to stop.  Any thread may set it; work looks at it between pieces.

    Attributes:
      is_stopped: whether the work should end.
      has_deadline: whether somebody said by when the work is to be done.
    """

    __slots__ = ("has_deadline", "is_stopped")

    def __init__(self) -> None:
        self.is_stopped = False
        self.has_deadline = False

    def stop(self) -> None:
        """Ask the work to end."""
        self.is_stopped = True

    def check(self) -> None:
        """Raise Stopped if the work should end.  Work calls this between pieces, and always
        between what may hang and what has an effect."""
        if self.is_stopped:
            raise Stopped("the work was stopped, since nobody waits for it any more")
