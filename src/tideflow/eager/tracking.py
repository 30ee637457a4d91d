"""Objects that a checkpoint follows: what they hold, and what is restored into them later.

A restoration that has not used up its checkpoint stays with the objects that it reached; when one
of them gets another object, it goes on there.

Source: tensorflow/python/trackable/autotrackable.py.
"""

from __future__ import annotations

import functools
from collections import UserDict, UserList
from collections.abc import Callable
from typing import Any, Protocol, SupportsIndex


class Restoration(Protocol):
    """A checkpoint that is being restored into objects."""

    def proceed(self) -> None:
        """Restore what has been added since."""


class Trackable:
    """An object that checkpoints follow, by what it says that it holds.

    Libraries derive from it, and override `_trackable_children`, as with TensorFlow.
    """

    # Whether attributes that are set are followed; see no_automatic_dependency_tracking.
    _self_setattr_tracking = True

    def _track_trackable(self, trackable: Any, name: str, overwrite: bool = False) -> Any:
        """Hold an object from now on, under a name.

        Returns: the object.
        Raises: ValueError for a name under which another one is held, unless that may be replaced.
        """
        held = vars(self).setdefault(_HELD, {})
        if not overwrite and held.get(name, trackable) is not trackable:
            raise ValueError(
                f"called Trackable._track_trackable() with name='{name}', but a Trackable with "
                "this name is already declared as a dependency; names must be unique "
                "(or overwrite=True)"
            )
        held[name] = trackable
        resume_restoring(self)
        return trackable

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        """Return what it holds, by name."""
        return dict(vars(self).get(_HELD, {}))

    def _checkpoint_children(self) -> dict[str, Any]:
        return self._trackable_children()


class AutoTrackable(Trackable):
    """An object whose attributes are saved and restored with it."""

    _untracked: frozenset[str] = frozenset()

    def __setattr__(self, name: str, value: Any) -> None:
        is_followed = self._self_setattr_tracking and name not in self._untracked
        object.__setattr__(self, name, tracked(value) if is_followed else value)
        left_out = vars(self).get(_LEFT_OUT, frozenset())
        if (name in left_out) == bool(self._self_setattr_tracking):
            object.__setattr__(self, _LEFT_OUT, left_out ^ {name})
        resume_restoring(self)

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        hidden = self._untracked | _OWN | vars(self).get(_LEFT_OUT, frozenset())
        seen = {name: value for name, value in vars(self).items() if name not in hidden}
        return {**seen, **super()._trackable_children(save_type, **kwargs)}


def no_automatic_dependency_tracking(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let attributes that a method sets be no part of what checkpoints follow.  A decorator."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = getattr(self, _FOLLOWS, True)
        object.__setattr__(self, _FOLLOWS, False)
        try:
            return method(self, *args, **kwargs)
        finally:
            object.__setattr__(self, _FOLLOWS, before)

    return call


_KEY, _HELD, _FOLLOWS = "_restorations", "_held", "_self_setattr_tracking"
# The names that were set last while attributes were not followed.
_LEFT_OUT = "_left_out"
_OWN = frozenset({_KEY, _HELD, _FOLLOWS, _LEFT_OUT})


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
