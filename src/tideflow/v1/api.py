"""What the front door of the TF1 shape shows."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import tideflow.client
import tideflow.cluster
import tideflow.ops
import tideflow.train
from tideflow.ops.export import exports
from tideflow.ops.namespaces import fill
from tideflow.v1 import behavior as behavior
from tideflow.v1 import framework as framework

VERSION = tideflow.__version__

# Loaded when they are first asked for: most programs of graphs use none of these.
_LATER = {
    "GradientTape": "tideflow.eager.backprop",
    "function": "tideflow.eager.functions",
    "TensorSpec": "tideflow.graph.tensor_spec",
    "TypeSpec": "tideflow.graph.type_spec",
    "py_function": "tideflow.eager.py_function",
}


def public_api() -> dict[str, Any]:
    """Return what is there under each public name, with dots between namespaces."""
    return {**exports(), **{name: find_later(name) for name in _LATER}}


def open_door(door: str) -> None:
    """Put all names into the module of this name that are not loaded later."""
    fill(door, exports())


def find_later(name: str) -> Any:
    """Return what is loaded when it is first asked for.

    Raises: AttributeError for a name that is not there.
    """
    if name not in _LATER:
        raise AttributeError(f"module 'tideflow.v1' has no attribute {name!r}")
    found = getattr(importlib.import_module(_LATER[name]), name)
    setattr(sys.modules["tideflow.v1"], name, found)
    return found
