"""Answers imports of `tensorflow` and of all that is below it, and questions about the package."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.metadata
import inspect
import os
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import tideflow.v1
from tideflow.as_tensorflow import keras
from tideflow.as_tensorflow.class_names import name_classes
from tideflow.as_tensorflow.modules import Source, StandIn, absence
from tideflow.as_tensorflow.names import ROOTS, V1, V2
from tideflow.as_tensorflow.sources import Namespace, PythonNames, namespaces, python_modules
from tideflow.as_tensorflow.version import VERSION

_NAME = ROOTS[V2]


def install() -> None:
    """Let `import tensorflow` give tideflow, from now on, in this process.

    Raises: RuntimeError where TensorFlow itself is imported already.
    Example:
      import tideflow.as_tensorflow
      tideflow.as_tensorflow.install()
      import tensorflow as tf
    """
    loaded = sys.modules.get(_NAME)
    if loaded is not None and not isinstance(loaded, StandIn):
        where = getattr(loaded, "__file__", None) or "an unknown file"
        raise RuntimeError(
            f"TensorFlow itself is imported already, from {where}: tideflow cannot stand in for it "
            "in this process. Call tideflow.as_tensorflow.install() before anything imports "
            "tensorflow, or start the script by `python -m tideflow.as_tensorflow SCRIPT`."
        )
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _source(name: str) -> Source | None:
    """Return where a module finds what it holds; None if there is no such module."""
    shape, path = V2, name.removeprefix(_NAME).removeprefix(".")
    if path.startswith("_api"):
        path = path.removeprefix("_api").removeprefix(".v2").removeprefix(".")
    # Each shape shows both again: tensorflow.compat.v1.compat.v2 is tensorflow.compat.v2.
    while path.startswith(("compat.v1", "compat.v2")):
        shape = V1 if path.startswith("compat.v1") else V2
        path = path[len("compat.v1") :].removeprefix(".")
    if path in namespaces(shape):
        return Namespace(shape, path)
    return PythonNames(name) if name in python_modules() else None


def _loader(name: str) -> importlib.abc.Loader | None:
    """Return what loads a module; None if there is no such module."""
    if keras.is_keras(name):
        return _KerasLoader() if keras.is_there(name) else None
    source = _source(name)
    return None if source is None else _Loader(source)


# What Python calls its functions that import a module, and modules for `from x import y`.
_IMPORTS, _IMPORTS_FROM = "_find_and_load", "_handle_fromlist"


def _import_functions() -> set[str]:
    """Return which of Python's functions have asked the finder.

    They tell an import, whose error is to say more, from the question whether a module is there.
    """
    frame = inspect.currentframe()
    # This function, and the finder.
    frame = frame and frame.f_back and frame.f_back.f_back
    found = set()
    while frame is not None and frame.f_code.co_filename == "<frozen importlib._bootstrap>":
        found.add(frame.f_code.co_name)
        frame = frame.f_back
    return found


class _Finder(importlib.metadata.DistributionFinder):
    """Finds modules under TensorFlow's names before anything else does."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Return what says how to load a module; None for what is not there, or not TensorFlow's.

        Raises: ModuleNotFoundError where something imports a module that is not there: it says more
        than Python would.
        """
        if fullname.partition(".")[0] != _NAME:
            return None
        loader = _loader(fullname)
        if loader is None:
            importing = _import_functions()
            if _IMPORTS not in importing:
                return None
            text = absence(fullname, dir(sys.modules[fullname.rpartition(".")[0]]))
            # By its name Python would drop the text in `from tensorflow import x`.
            name = None if _IMPORTS_FROM in importing else fullname
            raise ModuleNotFoundError(text, name=name)
        # Each may hold modules, whose names only this finder knows.
        return importlib.machinery.ModuleSpec(
            fullname, loader, origin="tideflow.as_tensorflow", is_package=True
        )

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context | None = None
    ) -> Iterable[importlib.metadata.Distribution]:
        """Return the package, where it is asked for or all packages are."""
        if context is None or context.name is None or context.name.lower() == _NAME:
            return [_Distribution()]
        return []


class _Loader(importlib.abc.Loader):
    """Makes a module whose contents are found when they are asked for."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return the module."""
        return StandIn(spec.name, self._source)

    def exec_module(self, module: types.ModuleType) -> None:
        """Begin as TensorFlow 2 does, when its root is imported."""
        if module.__name__ == _NAME:
            tideflow.v1.enable_control_flow_v2()
            name_classes()


class _KerasLoader(importlib.abc.Loader):
    """Puts a module of Keras under a second name."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Have the import give the module of Keras itself."""
        sys.modules[module.__name__] = keras.load(module.__name__)


class _Distribution(importlib.metadata.Distribution):
    """What `importlib.metadata` says of the package."""

    _FILES: ClassVar[dict[str, str]] = {
        "METADATA": f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {VERSION}\n"
        "Summary: tideflow, under TensorFlow's name\n",
        "top_level.txt": f"{_NAME}\n",
    }

    def read_text(self, filename: str) -> str | None:
        """Return a file of the package's description; None for others."""
        return self._FILES.get(filename)

    def locate_file(self, path: Any) -> Any:
        """Return where a file of the package would be: there are none."""
        return os.fspath(path)
