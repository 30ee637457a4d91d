"""Modules for the namespaces of the API: `math.add` goes into a module `math` of a front door."""

from __future__ import annotations

import sys
import types
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from tideflow.ops.later import load, names_later


def fill(door: str, names: Mapping[str, object], shape: str, packages: str = "") -> None:
    """Put things under their public names into a front door and the modules below it.

    Names that are loaded later (tideflow.ops.later) are found when they are asked for.  Modules of
    the front door's own package are taken out of sight: they are no names of the API.

    Args:
      door: the name of the front door's module.
      names: things by name, with dots between namespaces.
      shape: which names are loaded later: V1 or V2 of tideflow.ops.later.
      packages: the package whose own packages stand for the namespaces of their names; "" for none.
    """
    shown = vars(sys.modules[door])
    for name, thing in list(shown.items()):
        if isinstance(thing, types.ModuleType) and thing.__name__ == f"{door}.{name}":
            del shown[name]
    for path, thing in names.items():
        namespace, _, name = path.rpartition(".")
        setattr(_module(door, namespace, packages), name, thing)
    later: dict[str, list[str]] = defaultdict(list)
    for path in names_later(shape).keys() - names.keys():
        namespace, _, name = path.rpartition(".")
        later[namespace].append(name)
    for namespace, found in later.items():
        _find_later(_module(door, namespace, packages), shape, namespace, found)


def _module(door: str, path: str, packages: str) -> types.ModuleType:
    """Return the module of a namespace, made on first use."""
    if not path:
        return sys.modules[door]
    own = sys.modules.get(f"{packages}.{path}") if packages else None
    full = f"{door}.{path}"
    found = own or sys.modules.get(full)
    if found is None:
        found = sys.modules[full] = types.ModuleType(full, f"tf.{path}")
    parent, _, name = path.rpartition(".")
    setattr(_module(door, parent, packages), name, found)
    return found


def _find_later(module: types.ModuleType, shape: str, namespace: str, names: Iterable[str]) -> None:
    """Let a namespace load these names when they are asked for, and show them to `dir`."""
    names = frozenset(names)

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        found = load(shape, f"{namespace}.{name}" if namespace else name)
        setattr(module, name, found)
        return found

    def show() -> list[str]:
        return sorted({*vars(module), *names})

    vars(module).update(__getattr__=find, __dir__=show)
