"""What the front door of the TF2 shape shows.

It is those of the exported functions and classes (tideflow.ops.export) that the TF2 API has
(`public_names.txt`); where the two shapes of the API differ, what `export_v2` registered comes
first.
"""

from __future__ import annotations

import importlib.resources
import sys
from collections.abc import Iterator
from typing import Any

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
import tideflow.errors
import tideflow.ops
import tideflow.train
import tideflow.train.summaries.values_v2
import tideflow.train.v2.adaptive
import tideflow.train.v2.checkpoint
import tideflow.train.v2.optimizers
import tideflow.train.v2.schedules
import tideflow.v1
from tideflow.eager.eager_graph import enable_eager_execution
from tideflow.ops.export import exports, exports_v2
from tideflow.ops.later import V2
from tideflow.ops.namespaces import fill

VERSION = tideflow.__version__


def public_api() -> dict[str, Any]:
    """Return what is there under each public name, with dots between namespaces.

    What is loaded later (tideflow.ops.later) is not among it.
    """
    known = {**exports(), **exports_v2()}
    shown = {path: known[path] for path in _public_names() if path in known}
    return {"errors": tideflow.errors, **shown, **exports_v2()}


def _public_names() -> Iterator[str]:
    text = importlib.resources.files(__package__).joinpath("public_names.txt").read_text()
    namespace = ""
    for line in text.splitlines():
        if line.startswith("["):
            namespace = "" if line == "[tf]" else line.strip("[]") + "."
        elif not line.startswith("#"):
            yield from (namespace + name for name in line.split())


def open_door(door: str) -> None:
    """Put all names into the module of this name, and make operations eager from now on.

    The shape of TensorFlow 1 is there as compat.v1, and this one as compat.v2.
    """
    both = {"compat.v1": tideflow.v1, "compat.v2": sys.modules[door]}
    fill(door, {**public_api(), **both}, V2, packages="tideflow")
    enable_eager_execution()
