"""Nodes written as a function, to be sent to who runs them.

Source: tensorflow/core/framework/graph_to_functiondef.cc.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tideflow.graph import roles
from tideflow.graph.graph_def import node_to_def, split_input
from tideflow.graph.node import Node, arg_sizes
from tideflow.wire import messages as pb

_NOT_IN_ARG_NAMES = re.compile(r"[^a-z0-9_]")


def function_of_nodes(name: str, nodes: Sequence[Node]) -> pb.FunctionDef:
    """Return a function whose arguments and results are the `_Arg` and `_Retval` nodes, in the
    order of their indices; all nodes with effects are among its control outputs."""
    return _NodesWriter(name, nodes).write()


class _NodesWriter:
    """Writes one list of nodes."""

    def __init__(self, name: str, nodes: Sequence[Node]) -> None:
        self.name = name
        self.args = sorted((n for n in nodes if n.op_def.role is roles.ARGUMENT), key=_index)
        self.retvals = sorted((n for n in nodes if n.op_def.role is roles.RESULT), key=_index)
        ends = {id(node) for node in (*self.args, *self.retvals)}
        self.bodies = [node for node in nodes if id(node) not in ends]
        self.by_name = {node.name: node for node in nodes}
        self.taken = {node.name for node in self.bodies}
        self.arg_names: dict[int, str] = {}

    def write(self) -> pb.FunctionDef:
        effects = [node for node in self.bodies if node.op_def.is_stateful]
        function_pb = pb.FunctionDef(signature=pb.OpDef(name=self.name, is_stateful=bool(effects)))
        for node in self.args:
            name = self.arg_names[id(node)] = self._unique(node.name)
            function_pb.signature.input_arg.add(name=name, type=node.attrs["T"].number)
        for node in self.bodies:
            node_pb = node_to_def(node)
            node_pb.input[:] = [self._input(text) for text in node_pb.input]
            function_pb.node_def.append(node_pb)
        for node in self.retvals:
            name = self._unique(node.name)
            function_pb.signature.output_arg.add(name=name, type=node.attrs["T"].number)
            function_pb.ret[name] = self._source(*node.edges[0])
        for node in effects:
            function_pb.signature.control_output.append(node.name)
            function_pb.control_ret[node.name] = node.name
        return function_pb

    def _unique(self, wanted: str) -> str:
        base = _NOT_IN_ARG_NAMES.sub("_", wanted.lower()).strip("_") or "arg"
        base = base if base[0].isalpha() else f"arg_{base}"
        name, count = base, 0
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        return name

    def _input(self, text: str) -> str:
        name, port = split_input(text)
        return text if port < 0 else self._source(self.by_name[name], port)

    def _source(self, node: Node, port: int) -> str:
        if id(node) in self.arg_names:
            return self.arg_names[id(node)]
        at = 0
        for arg, size in zip(node.op_def.outputs, arg_sizes(node.op_def.outputs, node.attrs)):
            width = 1 if size is None else size
            if port < at + width:
                return f"{node.name}:{arg.name}:{port - at}"
            at += width
        raise ValueError(f"{node.name!r} has no output {port}")


def _index(node: Node) -> int:
    index: int = node.attrs["index"]
    return index
