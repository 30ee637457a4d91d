"""Cut a graph down to what a step needs.

`prune` gives a graph of its own for one signature: fed tensors are replaced by `_Arg` nodes,
fetched ones gain `_Retval` nodes, and only what these and the targets need is copied.

Who waits for a fed placeholder waits for its feed.  Any other op that is fed still runs when
somebody waits for it: only the tensor is replaced.
Source: tensorflow/core/graph/subgraph.cc (feeds of placeholders).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tideflow.graph import roles
from tideflow.graph.graph_def import split_input
from tideflow.graph.node import Edge, Node
from tideflow.graph.op_def import get_op_def
from tideflow.wire import errors


@dataclass(frozen=True, slots=True)
class Signature:
    """What a step feeds (`node:port`), fetches (`node:port`) and runs (`node`), in order."""

    feeds: tuple[str, ...] = ()
    fetches: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


@dataclass(slots=True)
class ClientGraph:
    """The pruned copy of a graph for one signature.

    Attributes:
      nodes: all nodes, each after those it needs (back edges of loops apart).
      args: the `_Arg` node of each feed, in the signature's order; None for one that is not needed.
      retvals: the `_Retval` node of each fetch.
      targets: the nodes to run for their effect.
    """

    signature: Signature
    nodes: list[Node]
    args: list[Node | None]
    retvals: list[Node]
    targets: list[Node]


def find_edge(nodes: Mapping[str, Node], name: str, role: str) -> Edge:
    """Return the edge that `node:port` names.

    Raises: NotFoundError for an unknown node; InvalidArgumentError for a port it lacks.
    """
    node_name, port = split_input(name)
    node = nodes.get(node_name)
    if node is None:
        raise errors.NotFoundError(
            f"{role} {name!r}: the graph has no node {node_name!r}", node=node_name
        )
    if not 0 <= port < len(node.output_types):
        raise errors.InvalidArgumentError(
            f"{role} {name!r}: {node.op} {node_name!r} has {len(node.output_types)} outputs",
            node=node_name,
        )
    return node, port


def check_signature(signature: Signature) -> None:
    """Raise InvalidArgumentError for a signature that makes no sense by itself."""
    if not signature.fetches and not signature.targets:
        raise errors.InvalidArgumentError("the step fetches nothing and runs nothing")
    if len(set(signature.feeds)) != len(signature.feeds):
        twice = sorted({f for f in signature.feeds if signature.feeds.count(f) > 1})
        raise errors.InvalidArgumentError(f"fed more than once: {', '.join(twice)}")
    both = sorted(set(signature.feeds) & set(signature.fetches))
    if both:
        raise errors.InvalidArgumentError(f"both fed and fetched: {', '.join(both)}")


def prune(nodes: Mapping[str, Node], signature: Signature) -> ClientGraph:
    """Return the part of a graph that a signature needs, copied and connected to its ends.

    Raises: NotFoundError for an unknown feed, fetch or target; InvalidArgumentError for a bad
    port or a signature that makes no sense.
    """
    check_signature(signature)
    feeds = [find_edge(nodes, name, "feed") for name in signature.feeds]
    fetches = [find_edge(nodes, name, "fetch") for name in signature.fetches]
    targets = [_find_target(nodes, name) for name in signature.targets]
    fed = {(id(node), port): i for i, (node, port) in enumerate(feeds)}
    copier = _Copier(fed, feeds)
    for node, port in fetches:
        if (id(node), port) not in fed:
            copier.copy(node)
    for node in targets:
        copier.copy(node)
    retvals = [
        _retval(i, name, copier.edge(edge))
        for i, (name, edge) in enumerate(zip(signature.fetches, fetches))
    ]
    args = [copier.args.get(i) for i in range(len(feeds))]
    made = [*(a for a in args if a is not None), *copier.order, *retvals]
    return ClientGraph(signature, made, args, retvals, [copier.made[id(t)] for t in targets])


def _find_target(nodes: Mapping[str, Node], name: str) -> Node:
    node_name, _ = split_input(name)
    if node_name not in nodes:
        raise errors.NotFoundError(
            f"target {name!r}: the graph has no node {node_name!r}", node=node_name
        )
    return nodes[node_name]


def _retval(index: int, name: str, edge: Edge) -> Node:
    node, port = edge
    dtype = node.output_types[port].base_dtype
    made = f"_retval_{name.replace(':', '_')}_{index}"
    return Node(made, get_op_def("_Retval"), [edge], [], {"T": dtype, "index": index}, "")


class _Copier:
    """Copies what is reached, depth first, without recursion."""

    def __init__(self, fed: dict[tuple[int, int], int], feeds: Sequence[Edge]) -> None:
        self.fed = fed
        self.feeds = feeds
        self.fed_nodes = {node for node, _ in fed}
        # One with a default value runs all the same for those that only wait for it.
        self.fed_placeholders = {
            id(node)
            for node, _ in feeds
            if node.op_def.role is roles.PLACEHOLDER and not node.edges
        }
        self.made: dict[int, Node] = {}
        self.args: dict[int, Node] = {}
        self.order: list[Node] = []
        self._open: list[tuple[Node, int, Edge]] = []

    def copy(self, root: Node) -> None:
        """Copy a node and all that it needs."""
        if id(root) in self.made:
            return
        stack = [root]
        entered: set[int] = set()
        while stack:
            node = stack[-1]
            if id(node) in self.made:
                stack.pop()
                continue
            if id(node) not in entered:
                entered.add(id(node))
                stack.extend(self._needed(node))
                continue
            stack.pop()
            self._make(node)
        self._close_loops()

    def _needed(self, node: Node) -> list[Node]:
        """Return the sources still to be copied before a node, first one last."""
        found = []
        is_merge = node.op_def.role is roles.MERGE
        for source, port in node.edges:
            if id(source) in self.fed_nodes and (id(source), port) in self.fed:
                continue
            if is_merge and source.op_def.role is roles.NEXT_ITERATION:
                continue
            if id(source) not in self.made:
                found.append(source)
        found.extend(
            source
            for source in node.controls
            if id(source) not in self.made and id(source) not in self.fed_placeholders
        )
        found.reverse()
        return found

    def _make(self, node: Node) -> None:
        inputs: list[Edge] = []
        copied = node.copy(inputs, [])
        self.made[id(node)] = copied
        for edge in node.edges:
            source = edge[0]
            if id(source) in self.fed_nodes or id(source) not in self.made:
                inputs.append(self._late_edge(copied, len(inputs), edge))
            else:
                inputs.append((self.made[id(source)], edge[1]))
        copied.controls = [self._control(source) for source in node.controls]
        self.order.append(copied)

    def _control(self, source: Node) -> Node:
        if id(source) in self.fed_placeholders:
            return self._arg((source, 0))[0]
        return self.made[id(source)]

    def _late_edge(self, copied: Node, index: int, edge: Edge) -> Edge:
        if (id(edge[0]), edge[1]) in self.fed:
            return self._arg(edge)
        if id(edge[0]) in self.made:
            return self.made[id(edge[0])], edge[1]
        # The back edge of a loop: its NextIteration is copied once the Merge is there.
        self._open.append((copied, index, edge))
        return edge

    def _close_loops(self) -> None:
        while self._open:
            copied, index, (source, port) = self._open.pop()
            if id(source) not in self.made:
                self._copy_back_edge(source)
            copied.edges[index] = (self.made[id(source)], port)

    def _copy_back_edge(self, source: Node) -> None:
        pending, self._open = self._open, []
        self.copy(source)
        self._open = pending

    def edge(self, edge: Edge) -> Edge:
        """Return the copy of an edge."""
        if (id(edge[0]), edge[1]) in self.fed:
            return self._arg(edge)
        return self.made[id(edge[0])], edge[1]

    def _arg(self, edge: Edge) -> Edge:
        node, port = edge
        index = self.fed[id(node), port]
        if index not in self.args:
            attrs = {"T": node.output_types[port].base_dtype, "index": index}
            # What a handle of a variable, captured by a function, stands for.
            attrs |= {key: node.attrs[key] for key in node.attrs if key.startswith("_handle_")}
            name = f"_arg_{node.name}_{port}"
            self.args[index] = Node(name, get_op_def("_Arg"), [], [], attrs, "")
        return self.args[index], 0
