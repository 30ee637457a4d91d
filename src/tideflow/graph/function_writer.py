"""Nodes written as a function, to be sent to who runs them.

Source: tensorflow/core/framework/graph_to_functiondef.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, MutableMapping, Sequence

from tideflow.graph import roles
from tideflow.graph.graph_def import node_to_def, split_input
from tideflow.graph.node import Edge, Node, arg_sizes
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.fields import Buffer

_NOT_IN_ARG_NAMES = re.compile(r"[^a-z0-9_]")


def function_of_nodes(
    name: str, nodes: Sequence[Node], contents: MutableMapping[bytes, Buffer] | None = None
) -> pb.FunctionDef:
    """Return a function whose arguments and results are the `_Arg` and `_Retval` nodes, in the
    order of their indices; all nodes with effects are among its control outputs.

    contents: is given the large contents of constants; None leaves them in the message.
    """
    args = sorted((n for n in nodes if n.op_def.role is roles.ARGUMENT), key=_index)
    retvals = sorted((n for n in nodes if n.op_def.role is roles.RESULT), key=_index)
    ends = {id(node) for node in (*args, *retvals)}
    bodies = [node for node in nodes if id(node) not in ends]
    function_pb = function_of_body(
        name,
        bodies,
        [(node, node.attrs["T"]) for node in args],
        [(node.name, node.edges[0], node.attrs["T"]) for node in retvals],
        contents,
    )
    for node in bodies:
        if node.op_def.is_stateful:
            function_pb.signature.control_output.append(node.name)
            function_pb.control_ret[node.name] = node.name
    return function_pb


def function_of_body(
    name: str,
    bodies: Sequence[Node],
    args: Iterable[tuple[Node, DType]],
    results: Iterable[tuple[str, Edge, DType]],
    contents: MutableMapping[bytes, Buffer] | None = None,
) -> pb.FunctionDef:
    """Return a function whose body are some nodes.

    Args:
      args: the nodes that stand for its arguments, which are named after them, and their types.
      results: what its results are to be called, where they come from, and their types.
      contents: as in `function_of_nodes`.
    """
    is_stateful = any(node.op_def.is_stateful for node in bodies)
    function_pb = pb.FunctionDef(signature=pb.OpDef(name=name, is_stateful=is_stateful))
    names = _ArgNames({node.name for node in bodies})
    arg_names: dict[int, str] = {}
    by_name = {node.name: node for node in bodies}
    for node, dtype in args:
        by_name[node.name] = node
        arg_names[id(node)] = names.unique(node.name)
        function_pb.signature.input_arg.add(name=arg_names[id(node)], type=dtype.number)

    def read(text: str) -> str:
        source, port = split_input(text)
        return text if port < 0 else _source(by_name[source], port, arg_names)

    for node in bodies:
        node_pb = node_to_def(node, contents=contents)
        node_pb.input[:] = [read(text) for text in node_pb.input]
        function_pb.node_def.append(node_pb)
    for wanted, (node, port), dtype in results:
        result = names.unique(wanted)
        function_pb.signature.output_arg.add(name=result, type=dtype.number)
        function_pb.ret[result] = _source(node, port, arg_names)
    return function_pb


class _ArgNames:
    """Names of arguments and results, none of which is taken."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken

    def unique(self, wanted: str) -> str:
        """Return a name like the one that is wanted, and take it."""
        base = _NOT_IN_ARG_NAMES.sub("_", wanted.lower()).strip("_") or "arg"
        base = base if base[0].isalpha() else f"arg_{base}"
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name


def _source(node: Node, port: int, arg_names: dict[int, str]) -> str:
    """Return how the body of a function reads an output of a node."""
    if id(node) in arg_names:
        return arg_names[id(node)]
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
