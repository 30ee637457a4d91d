"""Objects that a checkpoint follows: what they hold, and what is restored into them later.

A restoration that has not used up its checkpoint stays with the objects that it reached; when one
of them gets another object, it goes on there.

Source: tensorflow/python/trackable/autotrackable.py.
"""

from __future__ import annotations

from collections import UserDict, UserList
from typing import Any, Protocol, SupportsIndex


class Restoration(Protocol):
    """A checkpoint that is being restored into objects."""

    def proceed(self) -> None:
        """Restore what has been added since."""


class Trackable:
    """An object whose attributes are saved and restored with it."""

    _untracked: frozenset[str] = frozenset()

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value if name in self._untracked else tracked(value))
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


# ---- lists and dicts


def tracked(value: Any) -> Any:
    """Return a list or dict as one that restorations follow, with the same members; else itself."""
    if type(value) is list:
        return ListWrapper(value)
    return DictWrapper(value) if type(value) is dict else value


class ListWrapper(UserList[Any], list[Any]):  # type: ignore[misc]
    """A list that lets restorations go on when it grows.

    It is a view of the list that was given: who holds that sees the same members.
    """

    def __init__(self, given: Any = ()) -> None:
        self.data = given if type(given) is list else list(given)
        self.data[:] = map(tracked, self.data)

    __hash__ = None

    def _checkpoint_children(self) -> dict[str, Any]:
        return {str(i): value for i, value in enumerate(self.data)}

    def __setitem__(self, index: Any, value: Any) -> None:
        many = isinstance(index, slice)
        super().__setitem__(index, map(tracked, value) if many else tracked(value))
        resume_restoring(self)

    def append(self, value: Any) -> None:
        """Add a member."""
        super().append(tracked(value))
        resume_restoring(self)

    def insert(self, index: SupportsIndex, value: Any) -> None:
        """Add a member before another one."""
        super().insert(index, tracked(value))  # type: ignore[arg-type]
        resume_restoring(self)

    def extend(self, values: Any) -> None:
        """Add members."""
        super().extend([tracked(value) for value in values])
        resume_restoring(self)

    def __iadd__(self, values: Any) -> Any:
        self.extend(values)
        return self

    # What is made of it is a plain list.

    def __getitem__(self, index: Any) -> Any:
        return self.data[index]

    def __add__(self, others: Any) -> Any:
        return self.data + list(others)

    def __radd__(self, others: Any) -> Any:
        return list(others) + self.data

    def __mul__(self, times: Any) -> Any:
        return self.data * times

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"ListWrapper({self.data!r})"

    def copy(self) -> Any:
        """Return a list of the same members, on its own."""
        return self.data.copy()

    def __reduce__(self) -> Any:
        return ListWrapper, (self.data,)


class DictWrapper(UserDict[Any, Any], dict[Any, Any]):  # type: ignore[misc]
    """A dict that lets restorations go on when it grows; a view like ListWrapper.

    The base has the keys, too, since the encoder of JSON asks it whether the dict is empty.
    """

    def __init__(self, given: Any = (), **named: Any) -> None:
        self.data = given if type(given) is dict else dict(given, **named)
        for key, value in self.data.items():
            self.data[key] = tracked(value)
            dict.__setitem__(self, key, None)

    __hash__ = None

    def _checkpoint_children(self) -> dict[str, Any]:
        return {name: value for name, value in self.data.items() if isinstance(name, str)}

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, tracked(value))
        dict.__setitem__(self, key, None)
        resume_restoring(self)

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        dict.pop(self, key, None)

    def __ior__(self, others: Any) -> Any:  # type: ignore[misc]
        self.update(others)
        return self

    def __repr__(self) -> str:
        return f"DictWrapper({self.data!r})"

    def copy(self) -> Any:
        """Return a dict of the same members, on its own."""
        return self.data.copy()

    def __reduce__(self) -> Any:
        return DictWrapper, (self.data,)
