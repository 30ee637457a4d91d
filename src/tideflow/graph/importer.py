"""Read a GraphDef into a Graph, for users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tideflow.graph import roles
from tideflow.graph.graph import Graph, Operation, Tensor, get_default_graph
from tideflow.graph.graph_def import (
    NodeReader,
    OpDefLookup,
    check_input_types,
    check_versions,
    split_input,
)
from tideflow.graph.node import Edge, Node
from tideflow.graph.op_def import OpDef, role_of
from tideflow.wire import errors
from tideflow.wire import messages as pb


def import_graph_def(
    graph_def: pb.GraphDef,
    input_map: dict[str, Any] | None = None,
    return_elements: list[str] | None = None,
    name: str | None = None,
    producer_op_list: Any = None,
    *,
    graph: Graph | None = None,
    lookup: OpDefLookup | None = None,
) -> list[Any] | None:
    """Add the operations of a GraphDef to a graph.

    Args:
      input_map: replaces tensors of the message, by name ("x" or "x:0"), by tensors here.
      return_elements: names of operations or tensors (of the message) to return.
      name: scope under which they are put; "import" by default, "" for none.
      producer_op_list: accepted as TensorFlow does; not needed, since defaults are filled in.
    Raises: ValueError for names that are not there or stand twice, inputs or attrs that do not fit,
    or a cycle; NotFoundError for an unknown op, naming it and its node.  The graph is then as it
    was, but for names in input_map that nothing uses.
    """
    graph = graph or get_default_graph()
    check_versions(graph_def.versions)
    mapped = {_canonical(k): v for k, v in (input_map or {}).items()}
    reader = NodeReader(lookup)
    scope = "import" if name is None else name
    prefix = graph.unique_name(scope) + "/" if scope else ""
    op_defs = _op_defs(graph_def, reader)
    importer = _Importer(graph, prefix, mapped)
    try:
        for node_pb in _in_order(graph_def, mapped):
            op_def = op_defs[node_pb.name]
            importer.add(node_pb, op_def, _attrs(node_pb, op_def, reader))
        importer.close_loops()
        for element in return_elements or ():
            if not isinstance(element, str):
                raise TypeError(f"return_elements must hold strings; found {element!r}")
        found = [importer.element(element) for element in return_elements or ()]
    except Exception:
        graph._discard(importer.made.values())
        raise
    unused = sorted(set(mapped) - importer.used)
    if unused:
        # As in TensorFlow, the nodes stay.
        raise ValueError(f"input_map names tensors that the graph does not use: {unused}")
    return None if return_elements is None else found


def _canonical(name: str) -> str:
    if name.startswith("^"):
        return name
    source, port = split_input(name)
    return f"{source}:{port}"


def _op_defs(graph_pb: pb.GraphDef, reader: NodeReader) -> dict[str, OpDef]:
    found: dict[str, OpDef] = {}
    for node_pb in graph_pb.node:
        if node_pb.name in found:
            raise ValueError(f"the graph to import has two nodes named {node_pb.name!r}")
        found[node_pb.name] = reader.op_def(node_pb)
    return found


def _attrs(node_pb: pb.NodeDef, op_def: OpDef, reader: NodeReader) -> dict[str, Any]:
    try:
        return reader.attrs(node_pb, op_def)
    except errors.OpError as error:
        raise ValueError(error.message) from None


def _in_order(graph_pb: pb.GraphDef, mapped: Mapping[str, Any]) -> list[pb.NodeDef]:
    """Return the NodeDefs so that each comes after its inputs, save for loops' back edges.

    Raises: ValueError for an input that is not there, or a cycle that is no loop.
    """
    by_name = {node_pb.name: node_pb for node_pb in graph_pb.node}
    order: list[pb.NodeDef] = []
    # 1 while the nodes before it are looked at, 2 once it stands in the order.
    state: dict[str, int] = {}
    for root in graph_pb.node:
        stack = [(root, iter(_input_names(root, by_name, mapped)))]
        if state.get(root.name):
            continue
        state[root.name] = 1
        while stack:
            node_pb, sources = stack[-1]
            for source in sources:
                if source not in by_name:
                    raise ValueError(
                        f"node {node_pb.name!r} has input {source!r}, which the graph lacks"
                    )
                if state.get(source) == 1:
                    path = [before.name for before, _ in stack]
                    _refuse_cycle([*path[path.index(source) :], source])
                if not state.get(source):
                    state[source] = 1
                    found = by_name[source]
                    stack.append((found, iter(_input_names(found, by_name, mapped))))
                    break
            else:
                order.append(node_pb)
                state[node_pb.name] = 2
                stack.pop()
    return order


def _refuse_cycle(path: list[str]) -> None:
    raise ValueError(
        f"the graph to import has a cycle: {' -> '.join(reversed(path))}; only NextIteration may "
        "lead back, to a Merge"
    )


def _input_names(
    node_pb: pb.NodeDef, by_name: Mapping[str, pb.NodeDef], mapped: Mapping[str, Any]
) -> list[str]:
    sources = [(text, split_input(text)[0]) for text in node_pb.input]
    names = [n for text, n in sources if _canonical(text) not in mapped]
    if role_of(node_pb.op) is roles.MERGE:
        return [
            name
            for name in names
            if name not in by_name or role_of(by_name[name].op) is not roles.NEXT_ITERATION
        ]
    return names


class _Importer:
    """Adds NodeDefs to a Graph one by one."""

    def __init__(self, graph: Graph, prefix: str, mapped: dict[str, Any]) -> None:
        self.graph = graph
        self.prefix = prefix
        self.mapped = mapped
        self.used: set[str] = set()
        self.made: dict[str, Operation] = {}
        self.open: list[tuple[Operation, int, str, int]] = []

    def add(self, node_pb: pb.NodeDef, op_def: OpDef, attrs: dict[str, Any]) -> None:
        inputs: list[Edge] = []
        controls: list[Node] = []
        pending: list[tuple[int, str, int]] = []
        for text in node_pb.input:
            name, port = split_input(text)
            if port < 0:
                controls.append(self._control(text, name))
                continue
            tensor = self._tensor(name, port)
            if tensor is None:
                pending.append((len(inputs), name, port))
                tensor = self._stand_in(inputs)
            inputs.append(tensor.edge)
        name = self._free_name(self.prefix + node_pb.name)
        if "_class" in attrs:
            attrs["_class"] = [self._colocation(entry) for entry in attrs["_class"]]
        op = Operation(self.graph, name, op_def, inputs, controls, attrs, node_pb.device)
        if not pending:
            try:
                check_input_types(op)
            except errors.InvalidArgumentError as error:
                raise ValueError(error.message) from None
        self.graph._add(op, [_tensor_of(edge) for edge in inputs])
        self.made[node_pb.name] = op
        self.graph.in_force.device_for(op)
        self.open.extend((op, index, source, port) for index, source, port in pending)

    def _free_name(self, name: str) -> str:
        """Return the name for an operation, numbered where another one has it, as TensorFlow."""
        taken, free, number = self.graph.operations_by_name, name, 0
        while free in taken:
            number += 1
            free = f"{name}_{number}"
        self.graph.names.take(free)
        return free

    def _tensor(self, name: str, port: int) -> Tensor | None:
        key = f"{name}:{port}"
        if key in self.mapped:
            self.used.add(key)
            value = self.mapped[key]
            found = self.graph.as_graph_element(value, allow_operation=False)
            assert isinstance(found, Tensor)
            return found
        source = self.made.get(name)
        if source is None:
            return None
        if port >= len(source.outputs):
            raise ValueError(f"{name!r} has {len(source.outputs)} outputs; {key!r} is none of them")
        return source.outputs[port]

    def _stand_in(self, inputs: list[Edge]) -> Tensor:
        """Let a Merge wait for its back edge with its first input in its place."""
        if not inputs:
            raise ValueError("the first input of a Merge leads back; its second one may")
        return _tensor_of(inputs[0])

    def _control(self, text: str, name: str) -> Operation:
        if text in self.mapped:
            self.used.add(text)
            found = self.graph.as_graph_element(self.mapped[text])
            return found if isinstance(found, Operation) else found.op
        if name not in self.made:
            raise ValueError(f"control input {text!r} leads round in a cycle")
        return self.made[name]

    def _colocation(self, entry: object) -> str:
        if not isinstance(entry, str):
            raise ValueError(f"the attr _class holds names as text; found {entry!r}")
        if not entry.startswith("loc:@"):
            return entry
        made = self.made.get(entry[5:])
        return f"loc:@{self.prefix + entry[5:] if made is None else made.name}"

    def close_loops(self) -> None:
        for op, index, name, port in self.open:
            tensor = self._tensor(name, port)
            if tensor is None:
                raise ValueError(f"input {name!r} of {op.name!r} is not in the graph")
            op.update_input(index, tensor)

    def element(self, name: str) -> Any:
        source, colon, port = name.rpartition(":")
        if colon and port.isdigit():
            tensor = self._tensor(source, int(port))
            if tensor is not None:
                return tensor
        elif name in self.made:
            return self.made[name]
        raise ValueError(f"return_elements names {name!r}, which the graph lacks")


def _tensor_of(edge: Edge) -> Tensor:
    node, port = edge
    assert isinstance(node, Operation)
    return node.outputs[port]
