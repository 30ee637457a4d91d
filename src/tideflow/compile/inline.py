"""Put the bodies of called functions in the place of their calls.

What asks for a device inside a function is then placed like any other node, and the body is
planned and compiled together with what is around it.  Everything in a body waits for what the call
waited for, and who waited for the call waits for all that has effects in the body.
Source: tensorflow/core/common_runtime/inline_function_utils.cc
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tideflow.graph import roles
from tideflow.graph.node import Edge, FunctionRef, Node, topological_order
from tideflow.graph.op_def import get_op_def


class Definition(Protocol):
    """A function of a library."""

    def instantiate(self, attrs: Mapping[str, Any]) -> list[Node]:
        """Return a new copy of the body's nodes."""


def inline_calls(nodes: Sequence[Node], find: Callable[[str], Definition | None]) -> list[Node]:
    """Return the nodes with calls replaced, in topological order.

    Args:
      find: gives a function by name; calls of functions that it does not know stay, and so do
        those of a function within itself.
    The nodes given are changed.
    """
    if not any(node.op_def.role is roles.CALL for node in nodes):
        return list(nodes)
    return topological_order(_Inliner(find).inline(topological_order(nodes), ()))


class _Inliner:
    """Replaces calls, those in the bodies of functions, too."""

    def __init__(self, find: Callable[[str], Definition | None]) -> None:
        self._find = find
        # What stands for the outputs of a replaced call, and for its having run.
        self._outputs: dict[int, list[Edge]] = {}
        self._done: dict[int, Node] = {}
        # What was replaced, held so that no other node gets its id.
        self._replaced: list[Node] = []

    def inline(self, nodes: Sequence[Node], chain: tuple[str, ...]) -> list[Node]:
        """Return nodes without calls; `chain` names the functions around them."""
        left: list[Node] = []
        for node in nodes:
            node.edges = [self._edge(edge) for edge in node.edges]
            node.controls = [
                self._done.get(id(c), c)
                for c in node.controls
                if c.op_def.role is not roles.ARGUMENT
            ]
            ref = _called(node)
            found = None if ref is None or ref.name in chain else self._find(ref.name)
            if ref is None or found is None:
                left.append(node)
            else:
                left.extend(self._body(node, ref, found, chain))
        return left

    def _edge(self, edge: Edge) -> Edge:
        outputs = self._outputs.get(id(edge[0]))
        return edge if outputs is None else outputs[edge[1]]

    def _body(
        self, call: Node, ref: FunctionRef, found: Definition, chain: tuple[str, ...]
    ) -> list[Node]:
        body = topological_order(found.instantiate(ref.attrs))
        for node in body:
            node.name = f"{call.name}/{node.name}"
            node.device = node.device or call.device
            if node.op_def.role is roles.ARGUMENT:
                self._outputs[id(node)] = [call.edges[node.attrs["index"]]]
        inside = [node for node in body if node.op_def.role is not roles.ARGUMENT]
        made = self.inline(
            [n for n in inside if n.op_def.role is not roles.RESULT], (*chain, ref.name)
        )
        results = sorted(
            (n for n in inside if n.op_def.role is roles.RESULT), key=lambda n: n.attrs["index"]
        )
        self._outputs[id(call)] = [self._edge(node.edges[0]) for node in results]
        if call.controls:
            inside_ids = {id(node) for node in made}
            for node in made:
                if not node.controls and all(id(s) not in inside_ids for s, _ in node.edges):
                    node.controls = list(call.controls)
        done = self._done[id(call)] = Node(
            f"{call.name}/done", get_op_def("NoOp"), [], [], {}, call.device
        )
        sources = {id(edge[0]): edge[0] for edge in self._outputs[id(call)]}
        done.controls = [n for n in made if n.op_def.is_stateful or id(n) in sources]
        self._replaced += [call, *body]
        return [*made, done]


def _called(node: Node) -> FunctionRef | None:
    """Return the function that a node calls, if that is all that it does."""
    if node.op_def.role is roles.CALL:
        ref: FunctionRef = node.attrs["f"]
        return ref
    return None
