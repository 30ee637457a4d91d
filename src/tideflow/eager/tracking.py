"""Objects that a checkpoint follows: what they hold, and what is restored into them later.

A restoration that has not used up its checkpoint stays with the objects that it reached; when one
of them gets another object, it goes on there.

Source: tensorflow/python/trackable/autotrackable.py.
"""

from __future__ import annotations

from typing import Any, Protocol


class Restoration(Protocol):
    """A checkpoint that is being restored into objects."""

    def proceed(self) -> None:
        """Restore what has been added since."""


class Trackable:
    """An object whose attributes are saved and restored with it."""

    _untracked: frozenset[str] = frozenset()

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        resume_restoring(self)

    def _checkpoint_children(self) -> dict[str, Any]:
        hidden = self._untracked | {_KEY}
        return {name: value for name, value in vars(self).items() if name not in hidden}


_KEY = "_restorations"


def resume_restoring(thing: Any) -> None:
    """Let the restorations that have reached an object go on, since it has got something new."""
    for restoration in list(vars(thing).get(_KEY, ())):
        restoration.proceed()


def join_restoration(thing: Any, restoration: Restoration) -> None:
    """Have an object tell a restoration of what it gets."""
    held = getattr(thing, "__dict__", {}).setdefault(_KEY, [])
    if restoration not in held:
        held.append(restoration)


def leave_restoration(thing: Any, restoration: Restoration) -> None:
    """Have an object forget a restoration that is over."""
    held = getattr(thing, "__dict__", {}).get(_KEY, [])
    if restoration in held:
        held.remove(restoration)
