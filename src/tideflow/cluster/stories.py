"""What happened to steps and tasks, for the texts of errors: the last events, bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import NamedTuple, TypeAlias

# Of all together.  An entry is a tuple of numbers and constant words.
_MOST_EVENTS = 4096
_MOST_TOLD = 12


class Event(NamedTuple):
    """One thing that happened.

    Attributes:
      subject: the number of a step, or the name of a task.
    """

    at_s: float
    subject: Hashable
    what: str
    detail: object


_Noted: TypeAlias = tuple[float, Hashable, str, object]


class Stories:
    """The latest events of all steps, or all tasks, by the time at which they happened."""

    def __init__(self, most_events: int = _MOST_EVENTS) -> None:
        self._events: deque[_Noted] = deque(maxlen=most_events)
        # `note` with one tuple, for those who do it several times in a step: it is named when it is
        # looked at.
        self.append: Callable[[_Noted], None] = self._events.append

    def note(self, at_s: float, subject: Hashable, what: str, detail: object = None) -> None:
        """Add an event.  what: a constant word; detail: told after it, if it is not None."""
        self.append((at_s, subject, what, detail))

    def __len__(self) -> int:
        return len(self._events)

    def of(self, subject: Hashable) -> Iterator[Event]:
        """Return what is remembered of a step or task, oldest first."""
        return (Event(*event) for event in list(self._events) if event[1] == subject)

    def tell(self, subject: Hashable, now_s: float) -> str:
        """Return a story as one line: `3.02 s ago started; 3.01 s ago run began`."""
        events = list(self.of(subject))
        told = [_told(event, now_s) for event in events[-_MOST_TOLD:]]
        if len(events) > len(told):
            told.insert(0, f"{len(events) - len(told)} earlier events")
        return "; ".join(told) or "nothing is remembered of it"


def _told(event: Event, now_s: float) -> str:
    detail = "" if event.detail is None else f" ({event.detail})"
    return f"{now_s - event.at_s:.2f} s ago {event.what}{detail}"
