"""Whether functions of datasets are called eagerly, for programs that look for a mistake.

Source: tensorflow/python/data/ops/debug_mode.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph.graph import get_default_graph
from tideflow.ops.export import export


class _DebugMode:
    """How functions of datasets that are made from now on are called.

    Attributes:
      is_on: whether they are called eagerly, and nothing is done in parallel or ahead.
      call: adds the op that calls a function of eager tensors, given it, its inputs and the types
        of what it gives; the eager side says which.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.call: Callable[..., Any] | None = None


debug_mode = _DebugMode()


@export("data.experimental.enable_debug_mode")
def enable_debug_mode() -> None:
    """Have functions of datasets that are made from now on called eagerly, one call at a time.

    A function is traced once, too, to know the types of what it gives.  Transformations do nothing
    in parallel or ahead, and keep their order.  Nothing turns it off again.

    Raises: ValueError where a graph is built.
    Example:
      >>> import tideflow.v1 as v1
      >>> with v1.Graph().as_default():
      ...     tf.data.experimental.enable_debug_mode()
      Traceback (most recent call last):
      ValueError: ...
    """
    if not get_default_graph().is_eager:
        raise ValueError("`enable_debug_mode()` is only supported in eager mode.")
    debug_mode.is_on = True
