"""Running single state ops against a resource manager, without a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op
from tideflow.graph.graph import Graph, Tensor
from tideflow.graph.kernel import bind
from tideflow.graph.node import Node, topological_order
from tideflow.ops.state import VariableState, bind_update
from tideflow.runtime.resources import ResourceManager


class Context:
    """What a host kernel sees of the runtime."""

    device = ""

    def __init__(self, node: Node, device: Device) -> None:
        self.node = node
        self.resources = device.resources
        self._memos = device.memos

    def memo(self, make: Callable[[], Any], is_random: bool = False) -> Any:
        if self.node.name not in self._memos:
            self._memos[self.node.name] = make()
        return self._memos[self.node.name]


class Step:
    """What belongs to one run."""

    step_id = 1
    rendezvous = None

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}


class Device:
    """Named state, and a small executor that runs what a fetch needs."""

    def __init__(self) -> None:
        self.resources = ResourceManager(default_container="localhost")
        self.memos: dict[str, Any] = {}

    def run(self, fetch: Any, feeds: dict[Tensor, Any] | None = None) -> Any:
        """Return the value of a tensor, or run an operation.  References are read."""
        target = fetch.op if isinstance(fetch, Tensor) else fetch
        values: dict[Any, Any] = {t.edge: v for t, v in (feeds or {}).items()}
        step = Step()
        for node in topological_order(_needed(target, values)):
            count = len(node.output_types)
            if count and all((node, i) in values for i in range(count)):
                continue
            self._run_node(node, values, step)
        if not isinstance(fetch, Tensor):
            return None
        return _read(values[fetch.edge])

    def _run_node(self, node: Node, values: dict[Any, Any], step: Step) -> None:
        flags = [arg.is_ref for arg in node.op_def.inputs]
        flags += [False] * (len(node.edges) - len(flags))
        args = [
            values[edge] if is_ref else _read(values[edge])
            for edge, is_ref in zip(node.edges, flags)
        ]
        if node.op_def.update:
            call = bind_update(node, Context(node, self))
        else:
            call = bind(node, np if node.op_def.is_pure else Context(node, self))
        if node.op_def.takes_step:
            args.insert(0, step)
        with np.errstate(all="ignore"):
            result = call(*args)
        count = len(node.output_types)
        for i, value in enumerate([result] if count == 1 else result or []):
            values[node, i] = value


def _read(value: Any) -> Any:
    return value.read() if isinstance(value, VariableState) else value


def _needed(target: Node, fed: dict[Any, Any]) -> list[Node]:
    found: dict[int, Node] = {}
    waiting = [target]
    while waiting:
        node = waiting.pop()
        if id(node) in found:
            continue
        found[id(node)] = node
        waiting += [source for source, port in node.edges if (source, port) not in fed]
        waiting += node.controls
    return list(found.values())


def run_op(device: Device, op_name: str, *args: Any, **attrs: Any) -> Any:
    """Run one op in a graph of its own; a handle or cell among the inputs is fed."""
    with Graph().as_default():
        return device.run(apply_op(op_name, *args, **attrs))
