"""What happened to steps, for the texts of errors and for debugging: the last events, bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

# Of all steps together.  An entry is a tuple of numbers and constant words.
_MOST_EVENTS = 4096
_MOST_TOLD = 12


class Event(NamedTuple):
    """One thing that happened to a step."""

    at_s: float
    step_id: int
    what: str
    detail: object


class Stories:
    """The latest events of all steps, by the time at which they happened."""

    def __init__(self, most_events: int = _MOST_EVENTS) -> None:
        self._events: deque[tuple[float, int, str, object]] = deque(maxlen=most_events)
        # Called several times in a step: events are named when they are looked at.
        self._append = self._events.append

    def note(self, at_s: float, step_id: int, what: str, detail: object = None) -> None:
        """Add an event.  what: a constant word; detail: told after it, if it is not None."""
        self._append((at_s, step_id, what, detail))

    def __len__(self) -> int:
        return len(self._events)

    def of(self, step_id: int) -> Iterator[Event]:
        """Return what is remembered of a step, oldest first."""
        return (Event(*event) for event in list(self._events) if event[1] == step_id)

    def tell(self, step_id: int, now_s: float) -> str:
        """Return a step's story as one line: `3.02 s ago started; 3.01 s ago run began`."""
        events = list(self.of(step_id))
        told = [_told(event, now_s) for event in events[-_MOST_TOLD:]]
        if len(events) > len(told):
            told.insert(0, f"{len(events) - len(told)} earlier events")
        return "; ".join(told) or "nothing is remembered of it"


def _told(event: Event, now_s: float) -> str:
    detail = "" if event.detail is None else f" ({event.detail})"
    return f"{now_s - event.at_s:.2f} s ago {event.what}{detail}"
