"""What the ops of v1 control flow that choose give: Switch, _SwitchN and Merge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.shapes import format_dims
from tideflow.runtime.frame_state import DEAD
from tideflow.runtime.references import read_reference
from tideflow.wire import errors


def switch(value: Any, predicate: Any) -> list[Any]:
    """Return the outputs of a Switch.  Raises: as switch_n."""
    return [DEAD, value] if bool(_scalar(predicate)) else [value, DEAD]


def switch_n(value: Any, index: Any, count: int) -> list[Any]:
    """Return the outputs of a _SwitchN: the last one lives for an index that none has.

    Raises: InvalidArgumentError if what chooses is no scalar.
    """
    number = int(_scalar(index))
    taken = number if 0 <= number < count else count - 1
    return [value if i == taken else DEAD for i in range(count)]


def merge(values: list[Any], reads: Sequence[int]) -> list[Any]:
    """Return the outputs of a Merge.

    Args:
      values: what lives of its inputs, with its number; empty where none does.
      reads: the numbers of inputs that are references.
    """
    if not values:
        return [DEAD, DEAD]
    value, index = values[0]
    return [read_reference(value) if index in reads else value, np.int32(index)]


def _scalar(value: Any) -> Any:
    if getattr(value, "ndim", 0):
        dims = format_dims(value.shape)
        raise errors.InvalidArgumentError(
            f"what chooses a branch must be a scalar; its shape is {dims}"
        )
    return value
