"""Public names: which function or class appears under which name of the API.

`@export("math.add", "add")` puts the decorated object at `tf.math.add` and `tf.add`; the front
doors (tideflow.v1, tideflow.v2) build their namespaces from this table.  What differs between the
two shapes of the API has `export` for the first and `export_v2` for the second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_exports: dict[str, Any] = {}
_exports_v2: dict[str, Any] = {}


def export(*names: str) -> Callable[[T], T]:
    """Give the decorated function or class one or more public names, dotted below `tf`.

    Raises: ValueError for a name that is taken.
    """

    def register(thing: T) -> T:
        for name in names:
            export_value(name, thing)
        return thing

    return register


def export_value(name: str, thing: Any) -> None:
    """Give a public name to something that cannot be decorated."""
    if _exports.get(name, thing) is not thing:
        raise ValueError(f"tf.{name} is exported twice")
    _exports[name] = thing


def exports() -> dict[str, Any]:
    """Return all public names with what they stand for."""
    return dict(_exports)


def export_v2(*names: str) -> Callable[[T], T]:
    """Give the decorated function or class public names of the TF2 shape, before those of `export`.

    Raises: ValueError for a name that is taken.
    """

    def register(thing: T) -> T:
        for name in names:
            export_value_v2(name, thing)
        return thing

    return register


def export_value_v2(name: str, thing: Any) -> None:
    """Give a public name of the TF2 shape to something that cannot be decorated."""
    if _exports_v2.get(name, thing) is not thing:
        raise ValueError(f"tf.{name} is exported twice")
    _exports_v2[name] = thing


def exports_v2() -> dict[str, Any]:
    """Return the public names that differ, or exist only, in the TF2 shape."""
    return dict(_exports_v2)
