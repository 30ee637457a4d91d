"""Objects whose attributes a checkpoint follows, and the lists and dicts that they hold.

Source: tensorflow/python/trackable/autotrackable.py, trackable/data_structures.py.
"""

from __future__ import annotations

from collections import OrderedDict, UserDict, UserList
from collections.abc import Iterable, Iterator
from typing import Any, SupportsIndex

from tideflow.ops.framework import Trackable, hold_structure, let_go
from tideflow.ops.state.base import Variable

# What models hold besides what checkpoints follow: functions, which are kept with their traces.
function_kinds: list[type] = []


def functions_of(thing: Any) -> dict[str, Any]:
    """Return the traced functions among the attributes of an object, by name.

    What makes variables when it is first traced has made them then.
    """
    found: dict[str, Any] = {}
    for name in dir(thing):
        try:
            value = getattr(thing, name)
        except Exception:  # a property may fail in any way
            continue
        if isinstance(value, tuple(function_kinds)):
            found[name] = value
    for function in found.values():
        function.traces_to_save()
    return found


# ---- attributes


class AutoTrackable(Trackable):
    """An object whose attributes are saved and restored with it.

    What an attribute held stays part of the object when the attribute gets something that
    checkpoints do not follow, until it is deleted.
    """

    _untracked: frozenset[str] = frozenset()

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            if getattr(self, name) is value:
                return
        except AttributeError:
            pass
        if self._self_setattr_tracking and name not in self._untracked:
            value = sticky_attribute_assignment(self, name, value)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        let_go(self, name)
        super().__delattr__(name)

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        functions = functions_of(self) if save_type == "savedmodel" else {}
        return {**super()._trackable_children(save_type, **kwargs), **functions}

    def _no_dependency(self, value: Any) -> Any:
        return NoDependency(value)


class NoDependency:
    """Marks a value that an attribute is to hold without being part of what checkpoints follow."""

    def __init__(self, value: Any) -> None:
        self.value = value


def sticky_attribute_assignment(trackable: Any, name: str, value: Any) -> Any:
    """Have an object hold what one of its attributes gets, where checkpoints follow that.

    Returns: what the attribute is to hold, such as a list that restorations follow.
    """
    if isinstance(value, NoDependency):
        return value.value
    value = wrap_or_unwrap(value)
    if isinstance(value, Trackable):
        trackable._track_trackable(value, name=name, overwrite=True)
    elif _leads_to_trackables(value):
        hold_structure(trackable, value, name)
    return value


def wrap_or_unwrap(value: Any) -> Any:
    """Return a list or dict as one that checkpoints follow, what NoDependency holds, or itself."""
    if isinstance(value, NoDependency):
        return value.value
    if type(value) is list:
        return ListWrapper(value)
    return DictWrapper(value) if type(value) is dict else value


def _leads_to_trackables(value: Any) -> bool:
    if isinstance(value, tuple):
        members: Iterable[Any] = value
    elif type(value) is OrderedDict:
        members = value.values()
    else:
        return False
    return any(
        isinstance(each, (Trackable, list, dict)) or _leads_to_trackables(each) for each in members
    )


# ---- lists and dicts


class TrackableDataStructure(Trackable):
    """A list or dict that checkpoints follow; it knows the variables of what it holds."""

    trainable = True

    @property
    def _values(self) -> Iterable[Any]:
        """The members."""
        return ()

    @property
    def _layers(self) -> list[Any]:
        found: list[Any] = []
        for value in self._values:
            if isinstance(value, TrackableDataStructure):
                found += value._layers
            elif hasattr(value, "trainable_weights"):
                found.append(value)
        return found

    @property
    def layers(self) -> list[Any]:
        """The layers among the members, and those in lists and dicts among them."""
        return self._layers

    @property
    def variables(self) -> list[Any]:
        """The variables of the members, those that are trained first."""
        return self.trainable_variables + self.non_trainable_variables

    weights = variables

    @property
    def trainable_variables(self) -> list[Any]:
        """The variables that are trained."""
        return [v for v in _variables(self._values) if v.trainable] if self.trainable else []

    trainable_weights = trainable_variables

    @property
    def non_trainable_variables(self) -> list[Any]:
        """The variables that are not trained."""
        found = _variables(self._values)
        return [v for v in found if not v.trainable] if self.trainable else list(found)

    non_trainable_weights = non_trainable_variables

    def _refuse(self, kind: str, why: str) -> ValueError:
        return ValueError(
            f"Unable to save the object {self} (a {kind} wrapper made when it was assigned to an "
            f"attribute): {why}, so that it could not be restored as it is made. Keep it in an "
            "object that checkpoints do not follow if it need not be saved."
        )


def _variables(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, Variable):
            yield value
        else:
            yield from getattr(value, "variables", ())


class ListWrapper(UserList[Any], TrackableDataStructure, list[Any]):
    """A list that lets restorations go on when it grows.

    It is a view of the list that was given: who holds that sees the same members.  Checkpoints
    know members by their places, so one whose members were moved or replaced cannot be saved.
    """

    def __init__(self, given: Any = ()) -> None:
        self.data = given if type(given) is list else list(given)
        self._was_moved = False
        self._known: list[Any] = []
        self._take_new()

    __hash__ = None

    @property
    def _values(self) -> Iterable[Any]:
        return list(self.data)

    def _take_new(self) -> None:
        """Follow the members that are new at the end, and remember what there is."""
        self._follow_all(range(len(self._known), len(self.data)))

    def _follow_all(self, places: Iterable[int]) -> None:
        # A restoration that waits for a member looks at the list when the member is followed.
        self._known = list(self.data)
        for place in places:
            followed = sticky_attribute_assignment(self, str(place), self.data[place])
            self.data[place] = self._known[place] = followed

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        if self._was_moved:
            raise self._refuse("list", "a member was replaced, deleted or moved")
        if not _same(self.data, self._known):
            raise self._refuse("list", "the list was changed other than by the wrapper")
        return super()._trackable_children(save_type, **kwargs)

    def _move(self, change: Any, *args: Any) -> Any:
        """Change the list other than at its end."""
        before = list(self.data)
        found = change(self, *args)
        self._was_moved |= any(isinstance(each, Trackable) for each in [*before, *self.data])
        self._follow_changed(before)
        return found

    def _follow_changed(self, before: list[Any]) -> None:
        self._follow_all(
            place
            for place, value in enumerate(list(self.data))
            if place >= len(before) or before[place] is not value
        )

    def __setitem__(self, index: Any, value: Any) -> None:
        before = list(self.data)
        super().__setitem__(index, value)
        self._was_moved |= any(
            isinstance(old, Trackable) and not (place < len(self.data) and self.data[place] is old)
            for place, old in enumerate(before)
        )
        self._follow_changed(before)

    def __delitem__(self, index: Any) -> None:
        self._move(UserList.__delitem__, index)

    def append(self, value: Any) -> None:
        """Add a member."""
        super().append(value)
        self._take_new()

    def insert(self, index: SupportsIndex, value: Any) -> None:
        """Add a member before another one."""
        self._move(UserList.insert, index, value)

    def pop(self, index: SupportsIndex = -1) -> Any:
        """Take a member away and return it."""
        return self._move(UserList.pop, index)

    def remove(self, value: Any) -> None:
        """Take the first member away that is equal to a value."""
        self._move(UserList.remove, value)

    def clear(self) -> None:
        """Take all members away."""
        self._move(UserList.clear)

    def reverse(self) -> None:
        """Turn the order around."""
        self._move(UserList.reverse)

    def sort(self, /, *args: Any, **kwargs: Any) -> None:
        """Order the members."""
        self._move(lambda _: self.data.sort(*args, **kwargs))

    def extend(self, values: Any) -> None:
        """Add members."""
        super().extend(values)
        self._take_new()

    def __iadd__(self, values: Any) -> Any:
        self.extend(values)
        return self

    def __imul__(self, times: Any) -> Any:
        self._move(UserList.__imul__, times)
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
        return ListWrapper(self.data.copy())

    def __reduce__(self) -> Any:
        return ListWrapper, (self.data,)


class DictWrapper(UserDict[Any, Any], TrackableDataStructure, dict[Any, Any]):  # type: ignore[misc]
    """A dict that lets restorations go on when it grows; a view like ListWrapper.

    The base has the keys, too, since the encoder of JSON asks it whether the dict is empty.
    """

    def __init__(self, given: Any = (), **named: Any) -> None:
        self.data = given if type(given) is dict else dict(given, **named)
        self._has_nameless = False
        self._known: dict[Any, Any] = {}
        for key, value in self.data.items():
            self.data[key] = self._follow(key, value)
            dict.__setitem__(self, key, None)
        self._known = dict(self.data)

    __hash__ = None

    @property
    def _values(self) -> Iterable[Any]:
        return list(self.data.values())

    def _follow(self, key: Any, value: Any) -> Any:
        if isinstance(key, str):
            return sticky_attribute_assignment(self, key, value)
        wrapped = wrap_or_unwrap(value)
        if isinstance(wrapped, Trackable) and not isinstance(value, NoDependency):
            self._has_nameless = True
        return wrapped

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        if self._has_nameless:
            raise self._refuse("dictionary", "it has a key that is no string for such an object")
        if not _same(self.data.values(), self._known.values()) or [*self.data] != [*self._known]:
            raise self._refuse("dictionary", "the dictionary was changed other than by the wrapper")
        return super()._trackable_children(save_type, **kwargs)

    def __setitem__(self, key: Any, value: Any) -> None:
        followed = self._follow(key, value)
        super().__setitem__(key, followed)
        dict.__setitem__(self, key, None)
        self._known[key] = followed

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        dict.pop(self, key, None)
        self._known.pop(key, None)

    def __ior__(self, others: Any) -> Any:  # type: ignore[misc]
        self.update(others)
        return self

    def __repr__(self) -> str:
        return f"DictWrapper({self.data!r})"

    def __str__(self) -> str:
        return str(self.data)

    def copy(self) -> Any:
        """Return a dict of the same members, on its own."""
        return DictWrapper(self.data.copy())

    def __reduce__(self) -> Any:
        return DictWrapper, (self.data,)


def _same(some: Iterable[Any], others: Iterable[Any]) -> bool:
    """Whether two collections have the very same members."""
    return [id(one) for one in some] == [id(one) for one in others]
