"""Nodes bound to a device: kernels with their contexts, as instructions over slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tideflow.compile.forwarding import forwards
from tideflow.compile.plan import Plan
from tideflow.graph import roles
from tideflow.graph.kernel import Resources, bind
from tideflow.graph.node import FunctionRef, Node
from tideflow.ops.state import bind_update
from tideflow.runtime.accelerator import Accelerator
from tideflow.runtime.context import Function, KernelState, NodeContext
from tideflow.runtime.device_kernels import bind_on_device, offer, receive
from tideflow.runtime.drawn_numbers import DrawingCall
from tideflow.runtime.jit_mode import JitMode
from tideflow.runtime.program import Instruction
from tideflow.runtime.references import read_reference, reads_reference
from tideflow.runtime.straight_calls import StraightCall
from tideflow.wire.dtypes import DType, with_field, without_field
from tideflow.wire.rendezvous_key import key_prefix

_WITHOUT_INSTRUCTION = frozenset(
    {roles.ARGUMENT, roles.RESULT, roles.CONST, roles.NO_OP, roles.CONTROL_TRIGGER}
)


@dataclass(slots=True)
class Binder:
    """What it takes to make a node runnable on one device.

    Attributes:
      device: the device's full name.
      resources: its named state, as the session sees it.
      state: the session's kernel state.
      functions: finds functions of the session's library.
      jit: when regions of pure nodes are compiled.
      accelerator: the device, where it is one; there every pure node is compiled.
      straight: the calls of nodes that run functions which never wait, by the nodes' ids.
    """

    device: str
    resources: Resources
    state: KernelState
    functions: Callable[[FunctionRef, str], Function] | None = None
    jit: JitMode = JitMode.NEVER
    accelerator: Accelerator | None = None
    straight: Mapping[int, StraightCall] = field(default_factory=dict)

    def bind(self, node: Node) -> Callable[..., Any]:
        """Return the node's kernel as a callable over flat inputs (after the step, if it takes
        the step: see `takes_step`)."""
        if self.accelerator is None:
            return self._bind_for_host(node)
        return bind_on_device(node, self._bind_for_host, self.accelerator, self.resources)

    def _bind_for_host(self, node: Node) -> Callable[..., Any]:
        op_def = node.op_def
        if op_def.is_pure:
            return bind(node, np)
        if id(node) in self.straight:
            return self.straight[id(node)]
        context = NodeContext(node, self.device, self.resources, self.state, self.functions)
        if op_def.update is not None:
            return bind_update(node, context)
        return bind(node, context) if op_def.draws is None else DrawingCall(node, context)

    def bind_send(self, node: Node) -> Callable[[Any, str, Any], None]:
        """Return the call that puts a Send's live value into a step's rendezvous, under a key."""
        if self.accelerator is None:
            dtype = _quantized_type(node)
            if dtype is not None:
                return lambda step, key, value: step.rendezvous.put(key, with_field(value, dtype))
            return lambda step, key, value: step.rendezvous.put(key, value)
        return lambda step, key, value: offer(step, key, node, value)

    def received(self, value: Any) -> Any:
        """Return a value that came through the rendezvous for use on the device."""
        if type(value) is np.ndarray and value.dtype.names:
            value = without_field(value)
        return value if self.accelerator is None else receive(value, self.accelerator)

    def constant(self, node: Node) -> Any:
        """Return a Const's value; numbers without dimensions as array scalars, on which arithmetic
        is fastest."""
        value = node.attrs["value"]
        if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype != object:
            return value[()]
        return value


def _quantized_type(node: Node) -> DType | None:
    """Return the type of what a Send sends, where that is quantised."""
    dtype: DType | None = node.attrs.get("T")
    return dtype if dtype is not None and dtype.is_quantized else None


def send_prefix(node: Node) -> str:
    """Return the rendezvous key of a Send or Recv, without its frame and iteration."""
    return transfer_prefix(node.attrs)


def transfer_prefix(attrs: Mapping[str, Any]) -> str:
    """Return the rendezvous key that the attrs of a Send or Recv name."""
    return key_prefix(
        attrs["send_device"],
        attrs["send_device_incarnation"],
        attrs["recv_device"],
        attrs["tensor_name"],
    )


def bind_send(node: Node, binder: Binder) -> Callable[[Any, Any], None]:
    """Return the call that offers a Send's value outside loops."""
    key = send_prefix(node) + "0:0"
    if binder.accelerator is not None or _quantized_type(node) is not None:
        put = binder.bind_send(node)
        return lambda step, value: put(step, key, value)

    def send(step: Any, value: Any) -> None:
        step.rendezvous.put(key, value)

    return send


class InstructionMaker:
    """Turns the nodes of a plan into instructions."""

    def __init__(self, plan: Plan, binder: Binder) -> None:
        self.plan = plan
        self.binder = binder
        self.slot_count = plan.slot_count
        # What the slots hold when a run begins: constants.
        self.initial: dict[int, Any] = {}
        for node in plan.order:
            if node.op_def.role is roles.CONST:
                self.initial[plan.slots[id(node), 0]] = binder.constant(node)

    def make(self, nodes: Sequence[Node]) -> list[Instruction]:
        """Return the instructions of nodes that do not wait."""
        made: list[Instruction] = []
        for node in nodes:
            if node.op_def.role in _WITHOUT_INSTRUCTION or forwards(node):
                self._read_retval(node, made)
                continue
            made.extend(self._reads(node))
            made.append(self._call(node))
        return made

    def _read_retval(self, node: Node, made: list[Instruction]) -> None:
        """Let a fetched reference be read at the end of its group."""
        if node.op_def.role is roles.RESULT and any(reads_reference(node)):
            inputs, outputs = (self.slot(node.edges[0]),), (self.slot((node, 0)),)
            made.append(Instruction(read_reference, inputs, outputs, node))

    def slot(self, edge: tuple[Node, int]) -> int:
        """Return the slot of an edge."""
        return self.plan.slots[id(edge[0]), edge[1]]

    def _reads(self, node: Node) -> list[Instruction]:
        """Return the instructions that read references just before the node runs."""
        self._inputs = [self.slot(edge) for edge in node.edges]
        found = []
        for i, reads in enumerate(reads_reference(node)):
            if reads:
                slot = self.slot_count
                self.slot_count += 1
                found.append(Instruction(read_reference, (self._inputs[i],), (slot,), node))
                self._inputs[i] = slot
        return found

    def inputs(self, node: Node) -> tuple[list[Instruction], tuple[int, ...]]:
        """Return the reads that a waiting node needs first, and its input slots."""
        reads = self._reads(node)
        return reads, tuple(self._inputs)

    def outputs(self, node: Node) -> tuple[int, ...]:
        """Return the slots of a node's outputs."""
        return tuple(self.plan.slots[id(node), port] for port in range(len(node.output_types)))

    def _call(self, node: Node) -> Instruction:
        inputs = tuple(self._inputs)
        if node.op_def.role is roles.SEND:
            return Instruction(bind_send(node, self.binder), (0, *inputs), (), node)
        if node.op_def.takes_step:
            inputs = (0, *inputs)
        return Instruction(self.binder.bind(node), inputs, self.outputs(node), node)


def is_receive(node: Node) -> bool:
    """Whether a node takes a tensor from the rendezvous."""
    return node.op_def.role is roles.RECEIVE
