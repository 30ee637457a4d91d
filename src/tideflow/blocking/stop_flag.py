"""How work in a thread hears that nobody waits for it any more."""

from __future__ import annotations

from tideflow.wire import errors


class Stopped(errors.CancelledError):
    """Work in a thread ended early, since it was told to stop."""


class StopFlag:
    """Tells work to stop.  Any thread may set it; work looks at it between pieces.

    Attributes:
      is_stopped: whether the work should end.
      may_wait_s: for how long the work may be held up in all, so that later work is faster.
    """

    __slots__ = ("is_stopped", "may_wait_s")

    def __init__(self) -> None:
        self.is_stopped = False
        self.may_wait_s = 0.0

    def stop(self) -> None:
        """Ask the work to end."""
        self.is_stopped = True

    def check(self) -> None:
        """Raise Stopped if the work should end.  Work calls this between pieces, and always
        between what may hang and what has an effect."""
        if self.is_stopped:
            raise Stopped("the work was stopped, since nobody waits for it any more")
