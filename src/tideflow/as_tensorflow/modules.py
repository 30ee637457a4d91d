"""Modules under TensorFlow's names, which find what they hold when they are asked for it."""

from __future__ import annotations

import difflib
import importlib
import types
from collections.abc import Iterable
from typing import Any, Protocol

from tideflow.as_tensorflow import keras
from tideflow.as_tensorflow.names import is_tensorflows
from tideflow.as_tensorflow.version import VERSION


class Absent(Exception):
    """There is nothing under a name."""


class Source(Protocol):
    """Where a module finds what it holds."""

    @property
    def doc(self) -> str:
        """What the module says of itself."""

    def find(self, name: str) -> Any:
        """Return what a name stands for.  Raises: Absent."""

    def names(self) -> set[str]:
        """Return the names of what `find` finds."""

    def modules(self) -> set[str]:
        """Return the names of the modules right below."""


class StandIn(types.ModuleType):
    """A module under one of TensorFlow's names.

    Args:
      name: its full name.
      source: where it finds what it holds.
    """

    _source: Source

    def __init__(self, name: str, source: Source) -> None:
        super().__init__(name, source.doc)
        self._source = source

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [shown for shown in dir(self) if not shown.startswith("_")]
        if name in self._source.modules():
            return importlib.import_module(f"{self.__name__}.{name}")
        try:
            found = self._source.find(name)
        except Absent:
            path = f"{self.__name__}.{name}"
            # Python and its tools ask every module for names such as __wrapped__.
            is_special = name.startswith("__") and name.endswith("__")
            text = _no_attribute(path) if is_special else absence(path, dir(self))
            raise AttributeError(text, name=name, obj=self) from None
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        given = {name for name in vars(self) if name != "_source"}
        return sorted(given | self._source.names() | self._source.modules())


def absence(path: str, there: Iterable[str]) -> str:
    """Return what an error says of a name that is not there: whose it is, and which are like it.

    Args:
      path: the full name.
      there: the names beside it.
    """
    lacking = keras.lacking(path)
    if lacking is not None:
        return lacking
    name = path.rpartition(".")[2]
    said = (
        f"tideflow has nothing for {path}, which TensorFlow {VERSION} has"
        if is_tensorflows(path)
        else _no_attribute(path)
    )
    shown = [] if name.startswith("_") else [n for n in there if not n.startswith("_")]
    like = difflib.get_close_matches(name, shown, n=3)
    return f"{said}; nearest: {', '.join(like)}" if like else said


def _no_attribute(path: str) -> str:
    module, _, name = path.rpartition(".")
    return f"module {module!r} has no attribute {name!r}"
