"""tf.graph_util: parts of graphs, and graphs whose variables became constants.

Source: tensorflow/python/framework/graph_util_impl.py, convert_to_constants.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.client.session import Session
from tideflow.graph import roles
from tideflow.graph.graph import Graph, Operation
from tideflow.graph.op_def import find_op_def, get_op_def, role_of
from tideflow.graph.op_traits import OnValue
from tideflow.graph.shapes import TensorShape
from tideflow.ops.export import export
from tideflow.wire import dtypes
from tideflow.wire import messages as pb
from tideflow.wire.tensor_codec import encode_tensor

# What a handle passes through on its way to where it is read.
_PASSES = frozenset({roles.IDENTITY, roles.ENTER, roles.SWITCH})


def _node_name(name: str) -> str:
    return name.lstrip("^").partition(":")[0]


def _as_graph_def(graph_def: Any) -> Any:
    serialize = getattr(graph_def, "SerializeToString", None)
    if serialize is None or type(graph_def).__name__ != "GraphDef":
        raise TypeError(f"graph_def must be a GraphDef, not {type(graph_def).__name__}")
    return graph_def if isinstance(graph_def, pb.GraphDef) else pb.GraphDef.FromString(serialize())


@export("graph_util.extract_sub_graph")
def extract_sub_graph(graph_def: Any, dest_nodes: Sequence[str]) -> Any:
    """Return the nodes that given ones need, in their order, with the library.

    Raises: TypeError for no GraphDef, or a name in place of names; AssertionError for a name that
    the graph lacks.
    """
    given = _as_graph_def(graph_def)
    if isinstance(dest_nodes, str):
        raise TypeError(f"dest_nodes must be an iterable of strings, not {dest_nodes!r}")
    nodes = {node.name: node for node in given.node}
    for name in dest_nodes:
        if name not in nodes:
            raise AssertionError(f"{name} is not in graph")
    wanted: set[str] = set()
    waiting = list(dest_nodes)
    while waiting:
        name = _node_name(waiting.pop())
        if name not in wanted:
            wanted.add(name)
            waiting.extend(nodes[name].input)
    made = pb.GraphDef()
    made.node.extend(node for node in given.node if node.name in wanted)
    made.library.CopyFrom(given.library)
    made.versions.CopyFrom(given.versions)
    return made


@export("graph_util.convert_variables_to_constants")
def convert_variables_to_constants(
    sess: Session,
    input_graph_def: Any,
    output_node_names: Sequence[str],
    variable_names_whitelist: Sequence[str] | None = None,
    variable_names_blacklist: Sequence[str] | None = None,
) -> Any:
    """Return what outputs need of a graph, with constants for variables.

    Args:
      sess: has the values of the variables.
      variable_names_whitelist: convert only these; None for all.
      variable_names_blacklist: do not convert these.
    Raises: AssertionError for an output that the graph lacks.
    """
    made = extract_sub_graph(input_graph_def, output_node_names)
    nodes = {node.name: node for node in made.node}
    names = [
        node.name
        for node in made.node
        if _is_variable(node)
        and (variable_names_whitelist is None or node.name in variable_names_whitelist)
        and node.name not in (variable_names_blacklist or ())
    ]
    fetches = []
    for name in names:
        is_handle = _role(nodes[name]) is roles.VARIABLE_HANDLE
        fetches.append(_reader(sess.graph, name) if is_handle else f"{name}:0")
    values = dict(zip(names, sess.run(fetches) if fetches else []))
    resources = {name for name in names if _role(nodes[name]) is roles.VARIABLE_HANDLE}
    for node in made.node:
        if node.name in values:
            _make_constant(node, values[node.name])
            continue
        source = _source(nodes, node.input[0]) if node.input else None
        if source not in resources:
            continue
        on_value = get_op_def(node.op).on_value
        if _role(node) in _PASSES:
            node.attr["T"].type = int(_dtype_of(values[source]))
        elif on_value is not None:
            _read_value(made, node, on_value)
    return made


def _role(node: Any) -> roles.Role:
    return get_op_def(node.op).role


def _is_variable(node: Any) -> bool:
    return _role(node) in (roles.VARIABLE, roles.VARIABLE_HANDLE)


def _reader(graph: Graph, name: str) -> Any:
    """Return a tensor of the graph that reads a variable; one is made where none is there."""
    handle = graph.get_operation_by_name(name).outputs[0]
    for op in handle.consumers():
        if op.op_def.role is roles.READ_VARIABLE:
            return op.outputs[0]
    dtype = handle.op.attrs["dtype"]
    with graph.as_default():
        return graph.create_op("ReadVariableOp", [handle], {"dtype": dtype}, "read").outputs[0]


def _source(nodes: dict[str, Any], name: str) -> str:
    """Return the node at which what an input gives begins."""
    node = nodes[_node_name(name)]
    while _role(node) in _PASSES and node.input:
        node = nodes[_node_name(node.input[0])]
    found: str = node.name
    return found


def _dtype_of(value: Any) -> int:
    return int(encode_tensor(value).dtype)


def _make_constant(node: Any, value: Any) -> None:
    tensor_pb = encode_tensor(np.asarray(value))
    node.op = "Const"
    del node.input[:]
    node.attr.clear()
    node.attr["dtype"].type = tensor_pb.dtype
    node.attr["value"].tensor.CopyFrom(tensor_pb)


def _read_value(graph_def: Any, node: Any, on_value: OnValue) -> None:
    """Have a node take the value of a variable that it took the handle of."""
    taken = {
        name: pb.AttrValue.FromString(node.attr[source].SerializeToString())
        for name, source in on_value.attrs.items()
    }
    if on_value.axis_from:
        axis = graph_def.node.add(name=f"{node.name}/axis")
        _make_constant(axis, np.int32(node.attr[on_value.axis_from].i))
        node.input.append(axis.name)
    node.op = on_value.op
    node.attr.clear()
    for name, attr in taken.items():
        node.attr[name].CopyFrom(attr)
    if on_value.axis_from:
        node.attr["Taxis"].type = dtypes.int32.number


@export("graph_util.remove_training_nodes")
def remove_training_nodes(input_graph: Any, protected_nodes: Sequence[str] | None = None) -> Any:
    """Return a graph without nodes that only training needs: checks of numbers, and identities.

    protected_nodes: stay in any case; so do identities that have control inputs or are the source
    of some.
    """
    given = _as_graph_def(input_graph)
    protected = set(protected_nodes or ())
    nodes = _without_checks(given.node, protected)
    made = pb.GraphDef()
    made.node.extend(_without_identities(nodes, protected))
    made.library.CopyFrom(given.library)
    made.versions.CopyFrom(given.versions)
    return made


def _copies(nodes: Any, dropped: dict[str, str]) -> list[Any]:
    """Return copies of nodes without some of them, which what read them reads past."""
    made = []
    for node in nodes:
        if node.name in dropped:
            continue
        copy = pb.NodeDef.FromString(node.SerializeToString())
        del copy.input[:]
        for name in node.input:
            source = name
            while _node_name(source) in dropped:
                is_control = source.startswith("^")
                source = dropped[_node_name(source)]
                source = f"^{_node_name(source)}" if is_control else source
            copy.input.append(source)
        made.append(copy)
    return made


def _only_checks(node: Any) -> bool:
    op_def = find_op_def(node.op)
    return op_def is not None and op_def.only_checks


def _without_checks(nodes: Any, protected: set[str]) -> list[Any]:
    dropped = {
        node.name: node.input[0]
        for node in nodes
        if _only_checks(node) and node.name not in protected and len(node.input) == 1
    }
    return _copies(nodes, dropped)


def _without_identities(nodes: list[Any], protected: set[str]) -> list[Any]:
    waited_for = {_node_name(name) for node in nodes for name in node.input if name.startswith("^")}
    dropped = {
        node.name: node.input[0]
        for node in nodes
        if role_of(node.op) is roles.IDENTITY
        and node.name not in protected
        and node.name not in waited_for
        and len(node.input) == 1
    }
    return _copies(nodes, dropped)


@export("graph_util.must_run_on_cpu")
def must_run_on_cpu(node: Any, pin_variables_on_cpu: bool = False) -> bool:
    """Whether a node cannot be on another device, as for strings and some uses of int32.

    Args:
      node: an Operation or a NodeDef.
      pin_variables_on_cpu: whether variables count as such.
    """
    if isinstance(node, Operation):
        node = node.node_def
    op_def = find_op_def(node.op)
    if op_def is None:
        return False
    if pin_variables_on_cpu and op_def.role is roles.VARIABLE:
        return True
    host_types = (op_def.host_types or {}).items()
    return any(node.attr[name].type in {one.number for one in found} for name, found in host_types)


@export("graph_util.tensor_shape_from_node_def_name")
def tensor_shape_from_node_def_name(graph: Graph, input_name: str) -> TensorShape:
    """Return the shape of the tensor that an input of a node names ("name", "name:1")."""
    name = input_name if ":" in input_name else f"{input_name}:0"
    return graph.get_tensor_by_name(name).shape
