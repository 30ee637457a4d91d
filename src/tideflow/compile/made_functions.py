"""Functions that passes make of nodes of a graph, for If and While nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tideflow.compile.plan import is_waiting
from tideflow.graph import roles
from tideflow.graph.node import Edge, FunctionRef, Node
from tideflow.graph.op_def import get_op_def
from tideflow.graph.shapes import TensorShape
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType

# They do nothing, so that nobody has to wait for them.
IDLE = frozenset({roles.CONST, roles.IDENTITY, roles.NO_OP, roles.CONTROL_TRIGGER})
# Whatever their functions wait for, no other part of a loop or branch gives it to them.
_CALLS = frozenset({roles.CALL, roles.HIGHER_ORDER})
_NEVER_IN_A_FUNCTION = frozenset(
    {roles.ARGUMENT, roles.RESULT, roles.SEND, roles.RECEIVE, roles.COLLECTIVE}
)


class MadeFunction:
    """A function that is known to the node that calls it alone (see tideflow.compile.inline)."""

    __slots__ = ("__weakref__", "name", "nodes")

    def __init__(self, name: str, nodes: list[Node]) -> None:
        self.name = name
        self.nodes = nodes

    def instantiate(self, attrs: Mapping[str, Any]) -> list[Node]:
        """Return a new copy of the nodes."""
        return copied(self.nodes)

    def ref(self) -> FunctionRef:
        """Return an attr that names the function, and holds it."""
        return FunctionRef(self.name, definition=self)


class UnsuitedError(Exception):
    """A loop or a branch stays as it is."""


def require(holds: bool) -> None:
    """Raise UnsuitedError where something does not hold."""
    if not holds:
        raise UnsuitedError


def require_suited(node: Node) -> None:
    """Refuse a node that no made function may hold: one that waits for something that comes from
    elsewhere, is an end of the graph, or gives references."""
    op_def = node.op_def
    require(op_def.role not in _NEVER_IN_A_FUNCTION)
    require(op_def.role in _CALLS or not is_waiting(node))
    require(not any(dtype.is_ref_dtype for dtype in node.output_types))


def copied(nodes: Sequence[Node]) -> list[Node]:
    """Return copies of nodes, connected as they are."""
    copies = {id(node): node.copy([], []) for node in nodes}
    for node in nodes:
        copy = copies[id(node)]
        copy.edges = [(copies[id(source)], port) for source, port in node.edges]
        copy.controls = [copies[id(source)] for source in node.controls]
    return list(copies.values())


def sources(node: Node) -> list[Node]:
    """Return all that a node takes from or waits for."""
    return [*(source for source, _ in node.edges), *node.controls]


def scalar_check(name: str, pred: Edge, device: str) -> Node:
    """Return a node that hands on what chooses a branch, if it is a scalar."""
    attrs = {"T": dtypes.bool_, "shape": TensorShape(())}
    return Node(name, get_op_def("EnsureShape"), [pred], [], attrs, device)


class FunctionNodes:
    """The nodes of a function, copied from those of a graph.

    Args:
      name: what its arguments are named after.
      types: of the arguments.
      arguments: which argument stands for an edge of the graph, by (id of the node, port).
      handed_on: what to take in the place of the output of a node, by its id.
      members: the nodes that it holds, in topological order.
    Attributes:
      nodes: those of the function.
      arguments: its `_Arg` nodes.
    """

    def __init__(
        self,
        name: str,
        device: str,
        types: Sequence[DType],
        arguments: Mapping[tuple[int, int], int],
        handed_on: Mapping[int, Edge],
        members: Sequence[Node],
    ) -> None:
        self._device = device
        self._numbers = arguments
        self._handed_on = handed_on
        self.arguments = [
            Node(f"{name}/arg_{number}", get_op_def("_Arg"), [], [],
                 {"T": dtype, "index": number}, device)
            for number, dtype in enumerate(types)
        ]  # fmt: skip
        self.nodes = list(self.arguments)
        self._made: dict[int, Node] = {}
        # Copies that do something, or wait for what does: who waits for others need not wait.
        self._busy: set[int] = set()
        for node in members:
            self._copy(node)

    def _copy(self, node: Node) -> None:
        copy = node.copy([self.edge(edge) for edge in node.edges], [])
        waited = [self._made.get(id(self._behind(source))) for source in node.controls]
        copy.controls = [one for one in waited if one is not None and id(one) in self._busy]
        if node.op_def.role not in IDLE or any(id(one) in self._busy for one in sources(copy)):
            self._busy.add(id(copy))
        self._made[id(node)] = copy
        self.nodes.append(copy)

    def _behind(self, node: Node) -> Node:
        found = self._handed_on.get(id(node))
        return node if found is None else found[0]

    def edge(self, edge: Edge) -> Edge:
        """Return the edge of the function for one of the graph."""
        source, port = self._handed_on.get(id(edge[0]), edge)
        number = self._numbers.get((id(source), port))
        if number is not None:
            return self.arguments[number], 0
        return self._made[id(source)], port

    def carried(self, edge: Edge) -> Edge:
        """Return the edge of the function for one of the graph; the argument itself where it is
        only handed on."""
        made = found = self.edge(edge)
        while found[0].op_def.role is roles.IDENTITY and id(found[0]) not in self._busy:
            found = found[0].edges[0]
        return found if found[0].op_def.role is roles.ARGUMENT else made

    def add(self, node: Node) -> Edge:
        """Add a node of the function's own; return its first output."""
        self.nodes.append(node)
        return node, 0

    def add_result(self, name: str, edge: Edge, dtype: DType, index: int) -> None:
        """Have the function return an edge of its own."""
        attrs = {"T": dtype, "index": index}
        self.add(Node(name, get_op_def("_Retval"), [edge], [], attrs, self._device))

    def add_nothing(self, name: str, dtype: DType) -> Edge:
        """Return an edge that nobody reads."""
        attrs = {"dtype": dtype, "shape": TensorShape(None)}
        return self.add(Node(name, get_op_def("FakeParam"), [], [], attrs, self._device))
