"""Where modules of the stand-in find what they hold: the public API, and the tables of names."""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Iterable
from typing import Any

from tideflow.as_tensorflow import keras
from tideflow.as_tensorflow.modules import Absent
from tideflow.as_tensorflow.names import (
    ROOTS,
    V2,
    Own,
    Public,
    Target,
    of_libraries,
    own_for_public,
    public_names,
    recorded,
    same_thing,
)
from tideflow.as_tensorflow.version import VALUES
from tideflow.graph.op_def import registered_ops
from tideflow.ops.later import import_later, load, names_later
from tideflow.v1.api import public_api as public_api_v1
from tideflow.v2.api import public_api as public_api_v2

# By it a namespace finds names that are not listed: the ops of raw_ops.
_FINDER = "__getattr__"


# ---- things by their public names


@functools.cache
def _api(shape: str) -> dict[str, Any]:
    """Return what the front door of a shape shows, by path, and what only the stand-in says."""
    known = public_api_v2() if shape == V2 else public_api_v1()
    return {**known, **VALUES}


def find_public(public: Public) -> Any:
    """Return what a public name stands for: tideflow has it under this name, or another one.

    Raises: Absent.
    """
    for name in (public, *same_thing().get(public, ())):
        if isinstance(name, Public):
            try:
                return _find_by_name(name)
            except Absent:
                continue
    raise Absent


def _find_by_name(public: Public) -> Any:
    known = _api(public.shape)
    if public.path in known:
        return known[public.path]
    if public.path in names_later(public.shape):
        return load(public.shape, public.path)
    if public in own_for_public():
        return find_target(own_for_public()[public])
    parent, _, name = public.path.rpartition(".")
    holder, finder = known.get(parent), known.get(f"{parent}.{_FINDER}")
    try:
        if isinstance(holder, types.ModuleType) and _is_shown(holder, public):
            return getattr(holder, name)
        if finder is not None:
            return finder(name)
    except AttributeError:
        pass
    raise Absent


def _is_shown(holder: types.ModuleType, public: Public) -> bool:
    """Whether a module of tideflow's that stands for a namespace means to show a name."""
    name = public.path.rpartition(".")[2]
    return public in public_names() or name in getattr(holder, "__all__", ())


def find_target(target: Target) -> Any:
    """Return what an entry of a table stands for.  Raises: Absent."""
    if isinstance(target, Public):
        return find_public(target)
    module = import_later(target.module)
    return getattr(module, target.attr) if target.attr else module


def is_there(target: Target) -> bool:
    """Whether tideflow has something for an entry of a table."""
    if isinstance(target, Public) and _is_later(target):
        return True
    try:
        find_target(target)
    except Absent:
        return False
    return True


def _is_later(public: Public) -> bool:
    return _later_module(public) is not None


def _later_module(public: Public) -> str | None:
    for one in (public, *same_thing().get(public, ())):
        if isinstance(one, Public) and one.path in names_later(one.shape):
            return names_later(one.shape)[one.path]
    return None


def module_needed(target: Target) -> str | None:
    """Return the module that must be imported for what an entry of a table stands for.

    None where it is there already, or there is nothing.
    """
    if isinstance(target, Own):
        return target.module
    return None if target.path in _api(target.shape) else _later_module(target)


# ---- the public API


@functools.cache
def namespaces(shape: str) -> frozenset[str]:
    """Return the paths of the namespaces of a shape that hold something; "" is the root."""
    known = _api(shape)
    held = [path + "." * _is_namespace(Public(shape, path)) for path in known]
    held += names_later(shape)
    held += [public.path for public in public_names() if public.shape == shape and is_there(public)]
    return frozenset({"", "compat", *_prefixes(held)})


def _is_namespace(public: Public) -> bool:
    """Whether what has a public name is a module, below which TensorFlow has names, too."""
    if not isinstance(_api(public.shape)[public.path], types.ModuleType):
        return False
    below = f"{public.path}."
    return any(p.shape == public.shape and p.path.startswith(below) for p in public_names())


def _prefixes(paths: Iterable[str]) -> set[str]:
    """Return the paths that stand before others; those of `a.b.c` are `a` and `a.b`."""
    found = set()
    for path in paths:
        parts = path.split(".")
        found |= {".".join(parts[:end]) for end in range(1, len(parts))}
    return found


class Namespace:
    """The names of one namespace of the API.

    Args:
      shape: V1 or V2.
      path: the namespace; "" for the root.
    """

    def __init__(self, shape: str, path: str) -> None:
        self._shape = shape
        self._path = path
        self._module = f"{ROOTS[shape]}.{path}" if path else ROOTS[shape]

    @property
    def doc(self) -> str:
        """What the module says of itself."""
        return f"{self._module}, on tideflow."

    def find(self, name: str) -> Any:
        """Return what a name stands for.  Raises: Absent."""
        return find_public(self._public(name))

    def names(self) -> set[str]:
        """Return the names of what is there."""
        known = _api(self._shape)
        shown = self._right_below(p.path for p in public_names() if p.shape == self._shape)
        shown |= {*getattr(known.get(self._path), "__all__", ())}
        found = self._right_below([*known, *names_later(self._shape)])
        found |= {one for one in shown if is_there(self._public(one))}
        if _FINDER in found:
            found |= set(registered_ops())
        return found - {_FINDER}

    def modules(self) -> set[str]:
        """Return the names of the namespaces right below."""
        below = self._right_below(namespaces(self._shape) - {""})
        shapes = {"v1", "v2"} if self._path == "compat" else set()
        imported = python_modules().get(self._module, set()) if self._path else set()
        return below | shapes | imported | keras.modules_below(self._module)

    def _public(self, name: str) -> Public:
        return Public(self._shape, f"{self._path}.{name}" if self._path else name)

    def _right_below(self, paths: Iterable[str]) -> set[str]:
        parted = (path.rpartition(".") for path in paths)
        return {name for parent, _, name in parted if parent == self._path}


# ---- modules of TensorFlow's own code


@functools.cache
def python_modules() -> dict[str, set[str]]:
    """Return the modules of TensorFlow's own code, packages too, with those right below each."""
    found: dict[str, set[str]] = {}
    defining = (name for name in recorded() if name.startswith("tensorflow.python."))
    for name in {*defining, *of_libraries()}:
        found.setdefault(name, set())
        parent, _, last = name.rpartition(".")
        while parent != ROOTS[V2]:
            found.setdefault(parent, set()).add(last)
            parent, _, last = parent.rpartition(".")
    return found


class PythonNames:
    """The names of one module of TensorFlow's own code.

    Args:
      module: its full name.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        tables = (of_libraries(), recorded())
        self._tables = [table[module] for table in tables if module in table]

    @property
    def doc(self) -> str:
        """What the module says of itself."""
        return f"What libraries import from {self._module}, on tideflow."

    def find(self, name: str) -> Any:
        """Return what a name stands for.  Raises: Absent."""
        for table in self._tables:
            for target in table.names.get(name, ()):
                if is_there(target):
                    return find_target(target)
        for other in self._others():
            try:
                return other.find(name)
            except Absent:
                continue
        raise Absent

    def names(self) -> set[str]:
        """Return the names of what is there."""
        found = {
            name
            for table in self._tables
            for name, targets in table.names.items()
            if any(isinstance(target, Own) or is_there(target) for target in targets)
        }
        return found.union(*(other.names() for other in self._others()))

    def modules(self) -> set[str]:
        """Return the names of the modules right below."""
        return python_modules()[self._module]

    def _others(self) -> list[PythonNames | _OwnModule]:
        return [
            PythonNames(other) if other in python_modules() else _OwnModule(other)
            for table in self._tables
            for other in table.others
        ]


class _OwnModule:
    """All public names of a module of tideflow's."""

    def __init__(self, module: str) -> None:
        self._module = importlib.import_module(module)

    def find(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(self._module, name):
            raise Absent
        return getattr(self._module, name)

    def names(self) -> set[str]:
        return {name for name in dir(self._module) if not name.startswith("_")}
