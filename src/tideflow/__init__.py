"""tideflow: a distributed dataflow runtime that speaks TensorFlow's protocol.

`import tideflow as tf` has the TF2 shape: operations are called at once.
`import tideflow.v1 as tf` has the TF1 shape: they are put into graphs, which sessions run.
"""

# What is imported here has an underscore: everything else in this module is a name of the API.
import importlib as _importlib
from typing import Any as _Any

__version__ = "0.1.0"

_OWN_MODULES = frozenset({"app", "errors", "flags", "logging"})


def __getattr__(name: str) -> _Any:
    """Open the TF2 front door when the first of its names is asked for (v1 does without it)."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _OWN_MODULES:
        # The package's own `from tideflow import logging` must not open the front door.
        return _importlib.import_module(f"{__name__}.{name}")
    front_door = _importlib.import_module(f"{__name__}.v2")
    try:
        found = getattr(front_door, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    front_door = _importlib.import_module(f"{__name__}.v2")
    own = (name for name in globals() if name.startswith("__"))
    return sorted({*own, *(name for name in dir(front_door) if not name.startswith("_"))})
