"""The TF2-shaped front door, behind `import tideflow as tf`: eager by default.

It shows those of the exported functions and classes (tideflow.ops.export) that the TF2 API has
(`public_names.txt`); where the two shapes of the API differ, what `export_v2` registered comes
first.  Importing it makes operations eager in every thread that builds no graph.
"""

from __future__ import annotations

import importlib.resources
import sys
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import tideflow.client
import tideflow.cluster
import tideflow.distribute.cluster_resolver
import tideflow.distribute.coordinator
import tideflow.distribute.losses
import tideflow.distribute.mirrored
import tideflow.distribute.multi_worker
import tideflow.eager.api
import tideflow.eager.recompute
import tideflow.eager.scopes
import tideflow.ops
import tideflow.train
import tideflow.train.summaries.values_v2
import tideflow.train.v2.checkpoint
import tideflow.train.v2.optimizers
import tideflow.train.v2.schedules
import tideflow.v1
from tideflow.eager.eager_graph import enable_eager_execution
from tideflow.ops.export import exports, exports_v2
from tideflow.v1 import framework as framework

__version__ = tideflow.__version__


def _public_names() -> Iterator[str]:
    text = importlib.resources.files(__name__).joinpath("public_names.txt").read_text()
    namespace = ""
    for line in text.splitlines():
        if line.startswith("["):
            namespace = "" if line == "[tf]" else line.strip("[]") + "."
        elif not line.startswith("#"):
            yield from (namespace + name for name in line.split())


def _namespace(path: str) -> types.ModuleType:
    """Return the module `tf.<path>`: a package of that name here, or one made on first use."""
    full = f"{__name__}.{path}"
    own = sys.modules.get(f"tideflow.{path}")
    if own is not None:
        setattr(sys.modules[__name__], path, own)
        return own
    found = sys.modules.get(full)
    if found is None:
        found = sys.modules[full] = types.ModuleType(full, f"tf.{path}")
        parent, _, name = path.rpartition(".")
        setattr(_namespace(parent) if parent else sys.modules[__name__], name, found)
    return found


def _open() -> None:
    known = {**exports(), **exports_v2()}
    for path in _public_names():
        if path in known:
            namespace, _, name = path.rpartition(".")
            target = _namespace(namespace) if namespace else sys.modules[__name__]
            setattr(target, name, known[path])
    for path, thing in exports_v2().items():
        namespace, _, name = path.rpartition(".")
        setattr(_namespace(namespace) if namespace else sys.modules[__name__], name, thing)


def _open_compat() -> None:
    """Show the shape of TensorFlow 1 as tf.compat.v1, and this one as tf.compat.v2."""
    compat: Any = _namespace("compat")
    compat.v1 = tideflow.v1
    compat.v2 = sys.modules[__name__]


_open()
_open_compat()
enable_eager_execution()

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
