"""tideflow: a distributed dataflow runtime that speaks TensorFlow's protocol.

`import tideflow as tf` has the TF2 shape: operations are called at once.
`import tideflow.v1 as tf` has the TF1 shape: they are put into graphs, which sessions run.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_OWN_MODULES = frozenset({"app", "errors", "flags", "logging"})


def __getattr__(name: str) -> Any:
    """Open the TF2 front door when the first of its names is asked for (v1 does without it)."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _OWN_MODULES:
        # The package's own `from tideflow import logging` must not open the front door.
        return importlib.import_module(f"{__name__}.{name}")
    front_door = importlib.import_module(f"{__name__}.v2")
    try:
        found = getattr(front_door, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    front_door = importlib.import_module(f"{__name__}.v2")
    return sorted({*globals(), *(n for n in vars(front_door) if not n.startswith("_"))})
