"""Public names: which function or class appears under which name of the API.

`@export("math.add", "add")` puts the decorated object at `tf.math.add` and `tf.add`; the front
doors (tideflow.v1, tideflow.v2) build their namespaces from this table.  What differs between the
two shapes of the API has `export` for the first and `export_v2` for the second.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
# What is called for arguments that a function does not take: overload(function, args, kwargs).
Overload = Callable[[Callable[..., Any], Any, Any], Any]

_exports: dict[str, Any] = {}
_exports_v2: dict[str, Any] = {}
# By name: for arguments of which kind a call is, those for any kind last.
_overloads: dict[str, list[tuple[type, Overload]]] = {}
_overloaded_kinds: set[type] = set()
_plain: dict[Callable[..., Any], Callable[..., Any]] = {}


def export(*names: str) -> Callable[[T], T]:
    """Give the decorated function or class one or more public names, dotted below `tf`.

    Raises: ValueError for a name that is taken.
    """

    def register(thing: T) -> T:
        for name in names:
            export_value(name, thing)
        return thing

    return register


def export_value(name: str, thing: object) -> None:
    """Give a public name to something that cannot be decorated."""
    if _exports.get(name, thing) is not thing:
        raise ValueError(f"tf.{name} is exported twice")
    _exports[name] = thing


def exports() -> dict[str, Any]:
    """Return all public names with what they stand for."""
    return _with_overloads(_exports)


def export_v2(*names: str) -> Callable[[T], T]:
    """Give the decorated function or class public names of the TF2 shape, before those of `export`.

    Raises: ValueError for a name that is taken.
    """

    def register(thing: T) -> T:
        for name in names:
            export_value_v2(name, thing)
        return thing

    return register


def export_value_v2(name: str, thing: object) -> None:
    """Give a public name of the TF2 shape to something that cannot be decorated."""
    if _exports_v2.get(name, thing) is not thing:
        raise ValueError(f"tf.{name} is exported twice")
    _exports_v2[name] = thing


def exports_v2() -> dict[str, Any]:
    """Return the public names that differ, or exist only, in the TF2 shape."""
    return _with_overloads(_exports_v2)


# ---- overloads


def overload(name: str) -> Callable[[T], T]:
    """Let the decorated function take those calls of a public one that have other arguments.

    They are those with an argument, or a member of a list, of a kind given to `overload_for`.
    """

    def register(function: T) -> T:
        overload_each(name, lambda _, args, kwargs: function(*args, **kwargs))  # type: ignore[operator]
        return function

    return register


def overload_each(name: str, call: Overload, kind: type = object) -> None:
    """Let `call(function, args, kwargs)` take them (see `overload`), on what has a public name.

    kind: leaves calls without an argument of that kind to others.
    """
    calls = _overloads.setdefault(name, [])
    calls.insert(len(calls) if kind is object else 0, (kind, call))


def overload_for(kind: type) -> None:
    """Say which class of arguments overloads are for."""
    _overloaded_kinds.add(kind)


def arguments_of(function: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments of a call by the names of parameters, without defaults.

    Raises: TypeError for arguments that the function does not take.
    """
    return dict(inspect.signature(function).bind(*args, **kwargs).arguments)


def before_overload(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that takes the calls that no overload takes; itself, if it has none."""
    return _plain.get(function, function)


def _with_overloads(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table in which functions with an overload ask it, under all their names."""
    made: dict[int, Any] = {}
    for name, calls in _overloads.items():
        function = table.get(name)
        if function is not None:
            made[id(function)] = _overloaded(function, tuple(calls))
    return {name: made.get(id(thing), thing) for name, thing in table.items()}


@functools.cache
def _overloaded(
    function: Callable[..., Any], calls: tuple[tuple[type, Overload], ...]
) -> Callable[..., Any]:
    def answered(args: Any, kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        for kind, call in calls:
            if any(isinstance(value, kind) for value in given):
                return call(function, args, kwargs)
        return function(*args, **kwargs)

    @functools.wraps(function)
    def either(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            kind = type(value)
            if kind in _overloaded_kinds or (
                kind in (list, tuple) and any(type(item) in _overloaded_kinds for item in value)
            ):
                return answered(args, kwargs)
        return function(*args, **kwargs)

    _plain[either] = function
    return either
