"""One operation bound to its attrs and device, to be called at once.

What a plan does for a whole graph, this does for a single call: an eager client's, or that of an
eager context on a server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.blocking import (
    BLOCKING_POOLS,
    KERNELS,
    Durations,
    StopFlag,
    run_blocking,
    weight_of,
)
from tideflow.graph.kernel import bind
from tideflow.graph.node import Node, arg_sizes, arg_types
from tideflow.graph.op_def import OpDef
from tideflow.ops.state import bind_update
from tideflow.platform import clock
from tideflow.runtime.context import FindFunction, KernelState, NodeContext, Step
from tideflow.runtime.device import Device
from tideflow.runtime.graph_runner import local_step
from tideflow.runtime.input_types import find_wrong_input, have_types
from tideflow.runtime.program import explain
from tideflow.wire import errors

# Kinds of attrs that name functions.
_FUNCTIONS = ("func", "list(func)")


class BoundOp:
    """An operation bound to its attrs and device: what a call needs.

    Args:
      name: of the node, for messages and for the state that the kernel keeps.
      state: where stateful kernels keep theirs.
      functions: finds functions for ops that call them.

    Attributes:
      call: the kernel over flat inputs.
      input_types, output_types: of the flat inputs and outputs.
      single: the type of the only output, where there is exactly one; else None.
      sizes: how many tensors each declared output holds, None for a single one.
      durations: how long the kernel takes.
    """

    __slots__ = (
        "attrs",
        "call",
        "device",
        "durations",
        "input_types",
        "is_async",
        "node",
        "op_def",
        "output_types",
        "single",
        "sizes",
        "takes_step",
    )

    def __init__(
        self,
        name: str,
        op_def: OpDef,
        attrs: dict[str, Any],
        device: Device,
        state: KernelState,
        functions: FindFunction,
    ) -> None:
        self.op_def = op_def
        self.attrs = attrs
        self.device = device
        self.node = Node(name, op_def, [], [], attrs, device.name)
        self.input_types = arg_types(op_def.inputs, attrs)
        self.output_types = arg_types(op_def.outputs, attrs)
        self.sizes = arg_sizes(op_def.outputs, attrs)
        self.single = self.output_types[0] if self.sizes == [None] else None
        self.is_async = op_def.is_async
        self.takes_step = op_def.takes_step
        self.durations = Durations()
        self.call = self._bind(state, functions)

    def _bind(self, state: KernelState, functions: FindFunction) -> Callable[..., Any]:
        if self.op_def.is_pure:
            return bind(self.node, np)
        device = self.device
        ctx = NodeContext(
            self.node,
            device.name,
            device.resources,
            state,
            lambda ref, target: functions(ref, device, target),
        )
        return bind_update(self.node, ctx) if self.op_def.update else bind(self.node, ctx)

    def run(self, values: Sequence[Any], step: Step | None = None) -> Any:
        """Return what the kernel gives for flat inputs; a coroutine where `is_async` holds.

        Args:
          step: of the call; a new one if there is none.
        Raises: OpError that names the operation.
        """
        try:
            with np.errstate(all="ignore"):
                if self.takes_step:
                    return self.call(step or local_step(0), *values)
                return self.call(*values)
        except Exception as error:
            raise explain(error, self.node, values) from error

    def require_types(self, values: Sequence[Any]) -> None:
        """Raise InvalidArgumentError for inputs of other types than the attrs say."""
        if not have_types(values, self.input_types):
            wrong = find_wrong_input(self.node, values)
            count = f"{self.op_def.name} takes {len(self.input_types)} inputs, not {len(values)}"
            raise errors.InvalidArgumentError(wrong or count)

    async def run_async(self, values: Sequence[Any]) -> list[Any]:
        """Return the flat outputs, on the event loop; a kernel that may be long has a thread."""
        try:
            found = await (self.run(values) if self.is_async else self._run_timed(values))
        except Exception as error:
            raise explain(error, self.node, values) from error
        return self.flat(found)

    async def _run_timed(self, values: Sequence[Any]) -> Any:
        weight = weight_of(values)
        step = local_step(0)

        def work(flag: StopFlag) -> Any:
            started = clock.monotonic_s()
            found = self.run(values, step)
            self.durations.took(clock.monotonic_s() - started, weight)
            return found

        blocks = self.op_def.blocks
        if not blocks and self.durations.is_short(weight):
            return work(step)
        return await run_blocking(BLOCKING_POOLS[blocks] if blocks else KERNELS, work, step)

    def flat(self, found: Any) -> list[Any]:
        """Return a kernel's result as the list of its outputs."""
        if len(self.output_types) == 1:
            return [found]
        return list(found or ())


def keeps_nothing(op_def: OpDef) -> bool:
    """Whether calls of an op may share one bound kernel: it has no state of its own, and no
    functions, which are few calls' own."""
    if any(attr.kind in _FUNCTIONS for attr in op_def.attrs.values()):
        return False
    if not op_def.is_stateful:
        return True
    return "shared_name" not in op_def.attrs
