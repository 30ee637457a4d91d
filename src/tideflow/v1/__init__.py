"""The TF1-shaped front door: `import tideflow.v1 as tf`.

Graph by default, as TensorFlow's `compat.v1`.  The names below `tf` are those under which
functions and classes were exported (tideflow.ops.export); each namespace is a module: `tf.nn`,
`tf.train` and so on.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import tideflow.client
import tideflow.cluster
import tideflow.ops
import tideflow.train
from tideflow.ops.export import exports
from tideflow.v1 import behavior as behavior
from tideflow.v1 import framework as framework

__version__ = tideflow.__version__


def _namespace(path: str) -> types.ModuleType:
    """Return the module `tf.<path>`, made on first use."""
    full = f"{__name__}.{path}"
    found = sys.modules.get(full)
    if found is None:
        found = sys.modules[full] = types.ModuleType(full, f"tf.{path}")
        parent, _, name = path.rpartition(".")
        setattr(_namespace(parent) if parent else sys.modules[__name__], name, found)
    return found


def _open() -> None:
    for path, thing in exports().items():
        namespace, _, name = path.rpartition(".")
        setattr(_namespace(namespace) if namespace else sys.modules[__name__], name, thing)


_open()

# Loaded when they are first asked for: most programs of graphs use none of these.
_LATER = {
    "GradientTape": "tideflow.eager.backprop",
    "function": "tideflow.eager.functions",
    "TensorSpec": "tideflow.graph.tensor_spec",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(_LATER[name]), name)
    setattr(sys.modules[__name__], name, found)
    return found
