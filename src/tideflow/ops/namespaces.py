"""Modules for the namespaces of the API: `math.add` goes into a module `math` of a front door."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping


def fill(door: str, names: Mapping[str, object], packages: str = "") -> None:
    """Put things under their public names into a front door and the modules below it.

    Modules of the front door's own package are taken out of sight: they are no names of the API.

    Args:
      door: the name of the front door's module.
      names: things by name, with dots between namespaces.
      packages: the package whose own packages stand for the namespaces of their names; "" for none.
    """
    shown = vars(sys.modules[door])
    for name, thing in list(shown.items()):
        if isinstance(thing, types.ModuleType) and thing.__name__ == f"{door}.{name}":
            del shown[name]
    for path, thing in names.items():
        namespace, _, name = path.rpartition(".")
        setattr(_module(door, namespace, packages), name, thing)


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
