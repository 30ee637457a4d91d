"""What a graph states of the values of its tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.graph import Tensor
from tideflow.graph.static_value import static_value
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export


@export("get_static_value")
def get_static_value(tensor: TensorLike, partial: bool = False) -> Any:
    """Return a tensor's value where the graph states it, else None.

    Constants and sizes are stated, and what is only put together of them; results of arithmetic
    are not, though shapes may follow from them.

    Args:
      partial: whether a vector of sizes may be given with None for unknown ones.
    Source: tensorflow/python/framework/tensor_util.py (constant_value).
    """
    if not isinstance(tensor, Tensor):
        return tensor
    if not _is_stated(tensor, {}):
        return None
    found = static_value(*tensor.edge)
    if isinstance(found, tuple):
        return np.array(found, object) if partial else None
    return found


def _is_stated(tensor: Tensor, known: dict[int, bool]) -> bool:
    """Whether the graph states a value.  known: what is known of operations, by identity."""
    op = tensor.op
    if not op.op_def.is_stated or op.attrs.get("axis"):
        return False
    if op.op_def.static_value is not None:
        return True
    found = known.get(id(op))
    if found is None:
        found = known[id(op)] = all(_is_stated(x, known) for x in op.inputs)
    return found
