"""`tensorflow.keras`, and what else of TensorFlow's API is Keras: the library itself."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import types

# What Keras 3 offers to TensorFlow's users: its API, with names of earlier releases.
_API = "keras._tf_keras.keras"
# Namespaces of the API that are parts of Keras; without Keras they hold what tideflow has.
_PARTS = ("initializers", "losses", "metrics", "optimizers")
_ROOTS = ("tensorflow", "tensorflow.compat.v2")

_NAMES = {
    **{f"{root}.keras": _API for root in (*_ROOTS, "tensorflow.compat.v1")},
    **{f"{root}.{part}": f"{_API}.{part}" for root in _ROOTS for part in _PARTS},
}


@functools.cache
def is_installed() -> bool:
    """Whether there is a Keras to import."""
    return importlib.util.find_spec("keras") is not None


def is_keras(name: str) -> bool:
    """Whether a module's name is one of Keras, installed or not."""
    known = _known(name)
    return known is not None and (known.endswith(".keras") or is_installed())


def is_there(name: str) -> bool:
    """Whether a name is one of Keras, which has a module for it."""
    if not is_keras(name) or not is_installed():
        return False
    return name in _NAMES or importlib.util.find_spec(_path(name)) is not None


def lacking(name: str) -> str | None:
    """Return what to say of a name that is Keras where that is not installed; None for others."""
    if not is_keras(name) or is_installed():
        return None
    return f"{name} is Keras 3, which is not installed: pip install 'tideflow[keras]'"


def load(name: str) -> types.ModuleType:
    """Return the module of Keras that a name stands for.  Raises: ModuleNotFoundError."""
    return importlib.import_module(_path(name))


def modules_below(name: str) -> set[str]:
    """Return which modules right below one of TensorFlow's are Keras, where that is installed."""
    if not is_installed():
        return set()
    below = (known.rpartition(".") for known in _NAMES)
    return {last for parent, _, last in below if parent == name}


def _path(name: str) -> str:
    """Return the name that Keras has for a module."""
    # Keras asks for it once, when it is imported.
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    known = _known(name)
    assert known is not None
    return _NAMES[known] + name.removeprefix(known)


def _known(name: str) -> str | None:
    return next((known for known in _NAMES if f"{name}.".startswith(f"{known}.")), None)
