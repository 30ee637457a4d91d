"""What the front door of the TF1 shape shows."""

from __future__ import annotations

from typing import Any

import tideflow.client
import tideflow.cluster
import tideflow.ops
import tideflow.train
from tideflow.ops.export import exports
from tideflow.ops.later import V1
from tideflow.ops.namespaces import fill
from tideflow.v1 import behavior as behavior
from tideflow.v1 import framework as framework

VERSION = tideflow.__version__


def public_api() -> dict[str, Any]:
    """Return what is there under each public name, with dots between namespaces.

    What is loaded later (tideflow.ops.later) is not among it.
    """
    return exports()


def open_door(door: str) -> None:
    """Put all names into the module of this name."""
    fill(door, exports(), V1)
