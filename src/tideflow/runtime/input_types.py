"""Whether the values that a node is given are of the types that its inputs have.

A graph's edges agree in type, so what a plan passes on needs no look before it is used.  Where
values and types come apart (a fed reference, what an eager client names as an input, what a peer
sends) the error is the same for every op.
Source: ValidateInputTypeAndPlacement in tensorflow/core/common_runtime/eager/execute.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.node import Node, arg_types
from tideflow.ops.state import VariableState
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType
from tideflow.wire.errors import InvalidArgumentError
from tideflow.wire.handles import ResourceHandle, SupportsVariant
from tideflow.wire.tensor_codec import value_dtype


def find_wrong_input(node: Node, values: Sequence[Any]) -> str | None:
    """Return what is wrong with the first input that is of another type than the op's, or None.

    Args:
      values: of the flat inputs, after the step where the op takes one; None for one that is not
        known any more.
    """
    wanted = arg_types(node.op_def.inputs, node.attrs)
    given = values[-len(wanted) :] if wanted else ()
    if len(given) != len(wanted):
        return None
    for i, (dtype, value) in enumerate(zip(wanted, given)):
        if value is not None and not _has_type(value, dtype):
            return (
                f"cannot compute {node.op} as input #{i} (zero-based) was expected to be a "
                f"{dtype.name} tensor but is {_describe(value)}"
            )
    return None


def have_types(values: Sequence[Any], types: Sequence[DType]) -> bool:
    """Tell whether values are of the types of the inputs that they are for."""
    return len(values) == len(types) and all(map(_has_type, values, types))


def _has_type(value: Any, dtype: DType) -> bool:
    if dtype.is_ref_dtype:
        return isinstance(value, VariableState)
    if dtype is dtypes.resource or dtype is dtypes.variant or dtype is dtypes.string:
        return _holds(value, dtype)
    found = getattr(value, "dtype", None)
    # Quantised types are stored as plain ones.
    return found is not None and found == dtype.as_numpy_dtype


def _holds(value: Any, dtype: DType) -> bool:
    if isinstance(value, np.ndarray):
        if value.dtype != object:
            return dtype is dtypes.string and value.dtype.kind in "SU"
        if not value.size:
            return True
        value = value.flat[0]
    if dtype is dtypes.string:
        return isinstance(value, (bytes, str))
    if dtype is dtypes.resource:
        return isinstance(value, ResourceHandle)
    return isinstance(value, SupportsVariant)


def _describe(value: Any) -> str:
    if isinstance(value, VariableState):
        return f"a reference to a {value.dtype.name} tensor"
    try:
        return f"a {value_dtype(value).name} tensor"
    except InvalidArgumentError:
        return f"a {type(value).__name__}"
