"""Public names that are loaded later: their modules are imported when they are first asked for.

`later.txt` lists them by module.  Such a module registers its names when it is imported, as all
others do (tideflow.ops.export).
"""

from __future__ import annotations

import functools
import importlib
import importlib.resources
import pkgutil
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tideflow.ops.export import exports, exports_v2

# The two shapes of the API, as the table marks them.
V1, V2 = "1", "2"


@functools.cache
def names_later(shape: str) -> Mapping[str, str]:
    """Return the public names of a shape that are loaded later, each with its module.

    Args:
      shape: V1 or V2.
    """
    text = importlib.resources.files(__package__).joinpath("later.txt").read_text()
    return read_table(text.splitlines())[shape]


def read_table(lines: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return what a table says: modules by shape and public name.

    Raises: ValueError for a line that is none of a table.
    """
    found: dict[str, dict[str, str]] = {V1: {}, V2: {}}
    module = namespace = ""
    shapes: tuple[str, ...] = ()
    for line in lines:
        text = line.partition("#")[0].strip()
        if text.startswith("["):
            module, shapes = text.strip("[]"), ()
            continue
        before, colon, names = text.rpartition(":")
        if colon:
            *marks, namespace = before.split()
            shapes = tuple(marks) or (V1, V2)
        for name in names.split():
            if not shapes or not {*shapes} <= {V1, V2}:
                raise ValueError(f"names without a module or a namespace before them: {line!r}")
            for shape in shapes:
                found[shape][name if namespace == "." else f"{namespace}.{name}"] = module
    return found


def load(shape: str, path: str) -> Any:
    """Return what a public name stands for that is loaded later.

    Args:
      shape: V1 or V2.
      path: the name, with dots between namespaces.

    Raises: AttributeError for another name.
    """
    module = names_later(shape).get(path)
    if module is None:
        parent, _, name = f"tf.{path}".rpartition(".")
        raise AttributeError(f"module {parent!r} has no attribute {name!r}")
    imported = import_later(module)
    tables = (exports(), exports_v2()) if shape == V1 else (exports_v2(), exports())
    for table in tables:
        if path in table:
            return table[path]
    return getattr(imported, path.rpartition(".")[2])


# What is told the name of a module that was imported later.
_listeners: list[Callable[[str], None]] = []


def import_later(module: str) -> types.ModuleType:
    """Return a module; those that listen are told when it is imported for the first time."""
    is_new = module not in sys.modules
    found = importlib.import_module(module)
    if is_new:
        for listener in _listeners:
            listener(module)
    return found


def on_import(listener: Callable[[str], None]) -> None:
    """Call something with the name of each module that `import_later` imports from now on."""
    _listeners.append(listener)


def load_all() -> None:
    """Import all modules of the table, for what looks at every public name."""
    for shape in (V1, V2):
        for module in names_later(shape).values():
            import_later(module)


def import_modules(package: str, path: Iterable[str], leave_out: str = "") -> None:
    """Import all modules of a package but those that are loaded later.

    Args:
      package, path: its `__name__` and `__path__`.
      leave_out: the beginning of the names of modules that are not imported either; "" for none.
    """
    later = {*names_later(V1).values(), *names_later(V2).values()}
    for module in pkgutil.walk_packages(path, f"{package}."):
        is_left_out = leave_out and module.name.startswith(leave_out)
        if module.name not in later and not is_left_out:
            importlib.import_module(module.name)
