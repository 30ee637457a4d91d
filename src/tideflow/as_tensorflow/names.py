"""The tables of names: what TensorFlow calls its things, and where tideflow has them."""

from __future__ import annotations

import functools
import importlib.resources
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tideflow.ops.later import V1 as V1
from tideflow.ops.later import V2 as V2

# Where TensorFlow has each shape.
ROOTS = {V2: "tensorflow", V1: "tensorflow.compat.v1"}


class Public(NamedTuple):
    """A public name of TensorFlow.

    Attributes:
      shape: V1 for a name below tf.compat.v1, V2 for one below tf.
      path: the name below that, with dots.
    """

    shape: str
    path: str

    def __str__(self) -> str:
        return f"{'tf' if self.shape == V2 else 'tf.compat.v1'}.{self.path}"


class Own(NamedTuple):
    """Something of tideflow's: a module, or what one holds.

    Attributes:
      module: its full name.
      attr: what the module calls it; "" for the module itself.
    """

    module: str
    attr: str


Target = Public | Own


@dataclass(frozen=True)
class PythonModule:
    """A module below `tensorflow.python` and the like.

    Attributes:
      names: what it holds, by its own names.  Of several public names the first one counts.
      others: modules whose names it shows, too; ours or TensorFlow's.
    """

    names: dict[str, tuple[Target, ...]] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)


def read_recorded(lines: Iterable[str]) -> dict[str, PythonModule]:
    """Read a table of TensorFlow's public names.

    `[module]` begins a module; each line after it has what the module calls a thing, and its public
    names: after `1:` below tf.compat.v1, after `2:` below tf, otherwise below both.
    """
    found: dict[str, PythonModule] = {}
    for module, words in _entries(lines):
        known = found.setdefault(module, PythonModule()).names
        if words:
            known[words[0]] = tuple(public for word in words[1:] for public in _publics(word))
    return found


def _publics(word: str) -> list[Public]:
    if word[:2] in ("1:", "2:"):
        return [Public(word[0], word[2:])]
    return [Public(V2, word), Public(V1, word)]


def write_recorded(modules: Mapping[str, Mapping[str, Iterable[Public]]]) -> list[str]:
    """Return the lines that `read_recorded` reads, in order."""
    lines = []
    for module, names in sorted(modules.items()):
        lines.append(f"[{module}]")
        for attr, publics in sorted(names.items()):
            shapes: dict[str, str] = defaultdict(str)
            for public in publics:
                shapes[public.path] += public.shape
            words = [
                path if len(shape) > 1 else f"{shape}:{path}"
                for path, shape in sorted(shapes.items())
            ]
            lines.append(" ".join([attr, *words]))
    return lines


def read_library(lines: Iterable[str]) -> dict[str, PythonModule]:
    """Read a table of what libraries import beside the public API.

    `[module]` begins a module.  A line `name target` says what stands for a name: `tf.x` or
    `tf.compat.v1.x` a public one, `module:attr` something of tideflow's, `module:` the module.
    A line `* module` shows all names of another module, too.
    """
    found: dict[str, PythonModule] = {}
    for module, words in _entries(lines):
        one = found.setdefault(module, PythonModule())
        if not words:
            continue
        name, target = words
        if name == "*":
            one.others.append(target)
        else:
            one.names[name] = (_target(target),)
    return found


def _target(text: str) -> Target:
    if text.startswith("tf.compat.v1."):
        return Public(V1, text.removeprefix("tf.compat.v1."))
    if text.startswith("tf."):
        return Public(V2, text.removeprefix("tf."))
    module, _, attr = text.partition(":")
    return Own(module, attr)


def _entries(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    module = ""
    for line in lines:
        text = line.partition("#")[0].strip()
        if text.startswith("["):
            module = text.strip("[]")
            yield module, []
        elif text:
            yield module, text.split()


# ---- the tables of this package


@functools.cache
def recorded() -> dict[str, PythonModule]:
    """Return the modules that define TensorFlow's public names."""
    return read_recorded(_lines("tensorflow_names.txt"))


@functools.cache
def of_libraries() -> dict[str, PythonModule]:
    """Return what libraries import beside the public API."""
    return read_library(_lines("library_names.txt"))


@functools.cache
def public_names() -> frozenset[Public]:
    """Return all public names of TensorFlow."""
    return frozenset(
        public
        for module in recorded().values()
        for targets in module.names.values()
        for public in targets
        if isinstance(public, Public)
    )


def _lines(file: str) -> list[str]:
    return importlib.resources.files(__package__).joinpath(file).read_text().splitlines()


def is_tensorflows(path: str) -> bool:
    """Whether a full name, such as `tensorflow.nn.relu`, is one that TensorFlow has."""
    return path in _paths()


@functools.cache
def _paths() -> frozenset[str]:
    """Return the full names of all that TensorFlow has: of things and of the modules above them."""
    found: set[str] = set()
    named = {f"{ROOTS[public.shape]}.{public.path}" for public in public_names()}
    for path in named:
        while path not in found and path not in ROOTS.values():
            found.add(path)
            path = path.rpartition(".")[0]
    defined = (f"{module}.{name}" for module, known in recorded().items() for name in known.names)
    return frozenset(found.union(defined))


@functools.cache
def own_for_public() -> dict[Public, Own]:
    """Return the public names that stand for what the table of libraries says of a definition."""
    return {
        public: own
        for module, known in of_libraries().items()
        for attr, targets in known.names.items()
        for own in targets
        if isinstance(own, Own) and module in recorded()
        for public in recorded()[module].names.get(attr, ())
        if isinstance(public, Public)
    }


@functools.cache
def same_thing() -> dict[Public, tuple[Target, ...]]:
    """Return, for each public name of TensorFlow, all public names of what it stands for."""
    return {
        name: targets
        for module in recorded().values()
        for targets in module.names.values()
        for name in targets
        if isinstance(name, Public)
    }
