"""Stacks by reference, and joining what an array by name holds: older forms of handles."""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext, StepContext
from tideflow.graph.op_def import op
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import Array
from tideflow.ops.node_resources import HandleRef, declare_by_reference
from tideflow.ops.tensor_arrays.ops import tensor_array_concat
from tideflow.ops.tensor_arrays.stacks import stack
from tideflow.wire import errors
from tideflow.wire.dtypes import DType
from tideflow.wire.handles import ResourceHandle


@op(
    """
    Stack() -> handle: Ref string
    elem_type: type
    stack_name: string = ''
    """,
    shape=lambda c: [(2,)],
    stateful=True,
    any_device=True,
    checked_outputs=0,
)
def stack_by_reference(
    ctx: KernelContext, step: StepContext, *, elem_type: DType, stack_name: str
) -> Any:
    """Make a stack without a limit."""
    return HandleRef(stack(ctx, step, np.array(-1), elem_type=elem_type, stack_name=stack_name))


for _name in ("StackPush", "StackPop", "StackClose"):
    declare_by_reference(_name, f"{_name}V2")


@op(
    """
    TensorArrayConcatV2(handle: string, flow_in: float) -> value: dtype, lengths: int64
    dtype: type
    element_shape_except0: shape = unknown
    """,
    shape=lambda c: [None, (None,)],
)
def tensor_array_concat_by_name(
    ctx: KernelContext,
    step: StepContext,
    handle: Array | bytes,
    flow_in: Array,
    *,
    dtype: DType,
    element_shape_except0: TensorShape,
) -> Any:
    """Return all elements of an array joined, and how long each is.

    handle: the container and the name of the array.
    """
    if np.size(handle) != 2 or isinstance(handle, bytes):
        raise errors.InvalidArgumentError(
            f"a handle of a tensor array is two strings; found {np.size(handle)}"
        )
    name = np.reshape(handle, -1)[1].decode("utf-8", "replace")
    named = ResourceHandle(name=name)
    return tensor_array_concat(
        ctx, step, named, flow_in, dtype=dtype, element_shape_except0=element_shape_except0
    )


not_differentiable("Stack", "StackPush", "StackPop", "StackClose", "TensorArrayConcatV2")
