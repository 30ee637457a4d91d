"""The base of what checkpoints follow: which objects one holds, and the tensors of its own value.

A restoration that has not used up its checkpoint stays with the objects that it reached; when one
of them gets another object, it goes on there.

Source: tensorflow/python/trackable/base.py.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, Protocol


class Restoration(Protocol):
    """A checkpoint that is being restored into objects."""

    def proceed(self) -> None:
        """Restore what has been added since."""


class TrackableReference:
    """An object that another one holds, with its name there; can be unpacked as a pair."""

    __slots__ = ("_name", "_ref")

    def __init__(self, name: str, ref: Any) -> None:
        self._name = name
        self._ref = ref

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @property
    def ref(self) -> Any:
        """The object."""
        return self._ref

    def __iter__(self) -> Iterator[Any]:
        yield self.name
        yield self.ref

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name}, ref={self.ref})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, tuple):
            return (self.name, self.ref) == other
        if isinstance(other, TrackableReference):
            return self.name == other.name and self.ref == other.ref
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]


# What an object holds, by name; the restorations that wait for more; whether attributes count.
_HELD = "_self_unconditional_dependency_names"
_WAITING = "_restorations"
_FOLLOWS = "_self_setattr_tracking"
# Attributes that the classes here make.
OWN_ATTRIBUTES = frozenset({_HELD, _WAITING, _FOLLOWS})


class Trackable:
    """An object that checkpoints follow, by what it says that it holds.

    Libraries derive from it.  They override `_trackable_children` to hold other objects than those
    of `_track_trackable`, and `_serialize_to_tensors` with `_restore_from_tensors` to have a value
    of their own.
    """

    # Whether attributes that are set are followed; see no_automatic_dependency_tracking.
    _self_setattr_tracking = True

    @property
    def _setattr_tracking(self) -> bool:
        return self._self_setattr_tracking

    @_setattr_tracking.setter
    def _setattr_tracking(self, value: bool) -> None:
        object.__setattr__(self, _FOLLOWS, value)

    def _maybe_initialize_trackable(self) -> None:
        vars(self).setdefault(_HELD, {})

    # ---- what it holds

    @property
    def _unconditional_dependency_names(self) -> dict[str, Any]:
        found: dict[str, Any] = vars(self).get(_HELD, {})
        return found

    @property
    def _unconditional_checkpoint_dependencies(self) -> list[TrackableReference]:
        return [TrackableReference(*each) for each in self._unconditional_dependency_names.items()]

    _self_unconditional_checkpoint_dependencies = _unconditional_checkpoint_dependencies

    @property
    def _checkpoint_dependencies(self) -> list[TrackableReference]:
        return [TrackableReference(*each) for each in self._trackable_children().items()]

    @property
    def _object_identifier(self) -> str:
        return "_generic_user_object"

    def _no_dependency(self, value: Any) -> Any:
        return value

    def _lookup_dependency(
        self, name: str, cached_dependencies: dict[str, Any] | None = None
    ) -> Any:
        """Return the object that is held under a name; None if there is none."""
        known = self._unconditional_dependency_names
        return (known if cached_dependencies is None else cached_dependencies).get(name)

    def _track_trackable(self, trackable: Any, name: str, overwrite: bool = False) -> Any:
        """Hold an object from now on, under a name.

        Returns: the object.
        Raises: TypeError for what checkpoints do not follow; ValueError for a name under which
        another one is held, unless that may be replaced.
        """
        self._maybe_initialize_trackable()
        if not isinstance(trackable, Trackable):
            raise TypeError(
                "Trackable._track_trackable() can only be used to track objects of type "
                f"Trackable. Got type {type(trackable)}."
            )
        _hold(self, trackable, name, overwrite)
        return trackable

    def _handle_deferred_dependencies(self, name: str, trackable: Any) -> None:
        """Let restorations go on in an object that is held under a name."""
        resume_restoring(self)

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        """Return what it holds, by name."""
        return dict(self._unconditional_dependency_names)

    def _checkpoint_children(self) -> dict[str, Any]:
        return self._trackable_children()

    # ---- its own value

    def _serialize_to_tensors(self) -> dict[str, Any]:
        """Return the tensors of its value by name: tensors, or functions that give them.

        Raises: NotImplementedError for an object that has none.
        """
        raise NotImplementedError

    def _restore_from_tensors(self, restored_tensors: dict[str, Any]) -> Any:
        """Take the value from what `_serialize_to_tensors` gave.  Raises: NotImplementedError."""
        raise NotImplementedError

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        """Return its value in the older form; nothing for an object that has the newer one."""
        return {}


def _hold(holder: Trackable, thing: Any, name: str, overwrite: bool) -> None:
    current = holder._lookup_dependency(name)
    if current is thing:
        return
    if current is not None and not overwrite:
        raise ValueError(
            f"Called Trackable._track_trackable() with name='{name}', but a Trackable with "
            "this name is already declared as a dependency. Names must be unique "
            "(or overwrite=True)."
        )
    vars(holder).setdefault(_HELD, {})[name] = thing
    holder._handle_deferred_dependencies(name, thing)


def hold_structure(holder: Trackable, thing: Any, name: str) -> None:
    """Let an object hold a tuple or mapping, which is no Trackable and yet leads to some."""
    _hold(holder, thing, name, overwrite=True)


def let_go(holder: Trackable, name: str) -> None:
    """Let an object hold nothing under a name any more."""
    vars(holder).get(_HELD, {}).pop(name, None)


# ---- attributes that do not count


@contextlib.contextmanager
def no_automatic_dependency_tracking_scope(obj: Any) -> Iterator[None]:
    """Let attributes of an object that are set meanwhile be no part of what checkpoints follow."""
    before = getattr(obj, _FOLLOWS, True)
    object.__setattr__(obj, _FOLLOWS, False)
    try:
        yield
    finally:
        object.__setattr__(obj, _FOLLOWS, before)


def no_automatic_dependency_tracking(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let attributes that a method sets be no part of what checkpoints follow.  A decorator."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with no_automatic_dependency_tracking_scope(self):
            return method(self, *args, **kwargs)

    return call


# ---- restorations that wait


def resume_restoring(thing: Any) -> None:
    """Let the restorations that have reached an object go on, since it has got something new."""
    for restoration in list(vars(thing).get(_WAITING, ())):
        restoration.proceed()


def join_restoration(thing: Any, restoration: Restoration) -> None:
    """Have an object tell a restoration of what it gets."""
    held = getattr(thing, "__dict__", {}).setdefault(_WAITING, [])
    if restoration not in held:
        held.append(restoration)


def leave_restoration(thing: Any, restoration: Restoration) -> None:
    """Have an object forget a restoration that is over."""
    held = getattr(thing, "__dict__", {}).get(_WAITING, [])
    if restoration in held:
        held.remove(restoration)
