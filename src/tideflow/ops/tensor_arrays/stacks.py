"""Stacks: values saved by a loop for its gradient, last in first out.

A stack lives as long as the step that made it.
Source: tensorflow/core/kernels/stack.cc, stack_ops.cc.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext, StepContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import no_outputs, scalar, unknown
from tideflow.graph.types import Array, TensorLike
from tideflow.ops.tensor_arrays import traced
from tideflow.ops.tensor_arrays.step_objects import close, find, keep
from tideflow.wire import errors
from tideflow.wire.dtypes import DType
from tideflow.wire.handles import ResourceHandle

_numbers = itertools.count()


class Stack:
    """Values of one element type.  Any thread may push and pop."""

    __slots__ = ("_lock", "_values", "dtype", "max_size", "name")

    def __init__(self, name: str, dtype: DType, max_size: int) -> None:
        self.name = name
        self.dtype = dtype
        self.max_size = max_size
        self._values: list[Any] = []
        self._lock = threading.Lock()

    def push(self, value: TensorLike) -> None:
        """Put a value on top.  Raises: InvalidArgumentError where the stack is full."""
        with self._lock:
            if 0 <= self.max_size <= len(self._values):
                raise errors.InvalidArgumentError(
                    f"stack {self.name!r} holds {len(self._values)} values, its max_size"
                )
            self._values.append(value)

    def pop(self) -> Any:
        """Take the value on top.  Raises: InvalidArgumentError where there is none."""
        with self._lock:
            if not self._values:
                raise errors.InvalidArgumentError(f"stack {self.name!r} is empty; nothing to pop")
            return self._values.pop()


@op(
    """
    StackV2(max_size: int32) -> handle: resource
    elem_type: type
    stack_name: string = ''
    """,
    shape=scalar,
    stateful=True,
    traced=traced.new_stack,
    any_device=True,
)
def stack(
    ctx: KernelContext, step: StepContext, max_size: Array, *, elem_type: DType, stack_name: str
) -> Any:
    """Make a stack; a max_size below 0 means no limit."""
    name = f"{stack_name or ctx.node.name}_{next(_numbers)}"
    return keep(ctx, step, name, Stack(name, elem_type, int(max_size)))


@op(
    """
    StackPushV2(handle: resource, elem: T) -> output: T
    T: type
    swap_memory: bool = false
    """,
    shape=lambda c: [c.shape(1)],
    stateful=True,
    traced=traced.stack_push,
    any_device=True,
    host_inputs=0,
)
def stack_push(
    ctx: KernelContext, step: StepContext, handle: ResourceHandle, elem: Array, *, T: DType
) -> Any:
    """Put a value on top and pass it on."""
    found = find(step, handle, Stack)
    if found.dtype is not T:
        raise errors.InvalidArgumentError(
            f"stack {found.name!r} holds {found.dtype.name}; {T.name} cannot be pushed"
        )
    found.push(elem)
    return elem


@op(
    """
    StackPopV2(handle: resource) -> elem: elem_type
    elem_type: type
    """,
    shape=unknown,
    stateful=True,
    traced=traced.stack_pop,
    any_device=True,
    host_inputs=0,
)
def stack_pop(
    ctx: KernelContext, step: StepContext, handle: ResourceHandle, *, elem_type: DType
) -> Any:
    """Take the value on top."""
    found = find(step, handle, Stack)
    if found.dtype is not elem_type:
        raise errors.InvalidArgumentError(
            f"stack {found.name!r} holds {found.dtype.name}; {elem_type.name} is asked for"
        )
    return found.pop()


@op(
    "StackCloseV2(handle: resource)",
    shape=no_outputs,
    stateful=True,
    traced=traced.closed,
    any_device=True,
)
def stack_close(ctx: KernelContext, step: StepContext, handle: ResourceHandle) -> None:
    """Drop a stack before the step ends."""
    close(step, handle, Stack)


not_differentiable("StackV2", "StackPushV2", "StackPopV2", "StackCloseV2")
