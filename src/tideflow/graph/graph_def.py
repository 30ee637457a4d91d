"""Graphs between Python and the GraphDef message.

`node_to_def` writes one node; `read_nodes` reads a GraphDef into bare Nodes for the master, the
workers and function bodies.  For users, tideflow.graph.importer reads one into a Graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any, NamedTuple

from tideflow.graph import attr_value
from tideflow.graph.node import Node, arg_types, topological_order
from tideflow.graph.op_def import AttrDef, OpDef, get_op_def, is_registered
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType, with_field
from tideflow.wire.fields import Buffer
from tideflow.wire.graph_contents import GraphContents

# What TensorFlow 2.21 writes (tf.version.GRAPH_DEF_VERSION), and the oldest readers that its graphs
# need: any at all, or for those with functions one that knows these.
PRODUCER = 2474
MIN_CONSUMER = 0
MIN_CONSUMER_OF_FUNCTIONS = 12

# With a leading "_" it is a name that a runtime made.
_is_node_name = re.compile(r"[A-Za-z0-9._][A-Za-z0-9_.\\/>-]*").fullmatch

OpDefLookup = Callable[[str], OpDef | None]


# ---- writing


def node_to_def(
    node: Node,
    strip_defaults: bool = False,
    contents: MutableMapping[bytes, Buffer] | None = None,
) -> pb.NodeDef:
    """Return a node as it travels.

    contents: is given the large contents of tensors; None leaves them in the message.
    """
    node_pb = pb.NodeDef(name=node.name, op=node.op, device=node.device)
    inputs = [s.name if port == 0 else f"{s.name}:{port}" for s, port in node.edges]
    inputs.extend(f"^{source.name}" for source in node.controls)
    node_pb.input.extend(inputs)
    declared = node.op_def.attrs
    for name, value in node.attrs.items():
        attr = declared.get(name)
        if attr is None:
            node_pb.attr[name].CopyFrom(attr_value.encode_unknown_attr(value))
        elif not (strip_defaults and _is_default(attr, value)):
            if attr.kind == "tensor" and (dtype := node.attrs.get("dtype")) and dtype.is_quantized:
                # A plain array does not tell the type of quantised numbers.
                value = with_field(value, dtype)
            node_pb.attr[name].CopyFrom(attr_value.encode_attr(attr.kind, value, contents))
    return node_pb


def _is_default(attr: AttrDef, value: Any) -> bool:
    if attr.required or attr.kind in ("tensor", "list(tensor)"):
        return False
    return bool(value == attr.default)


def nodes_to_graph_def(
    nodes: Iterable[Node],
    functions: Iterable[Any] = (),
    strip_defaults: bool = False,
    contents: MutableMapping[bytes, Buffer] | None = None,
) -> pb.GraphDef:
    """Return nodes, and functions that have a `to_proto`, as a GraphDef; contents: as above."""
    graph_pb = pb.GraphDef(versions=pb.VersionDef(producer=PRODUCER, min_consumer=MIN_CONSUMER))
    if functions := list(functions):
        graph_pb.versions.min_consumer = MIN_CONSUMER_OF_FUNCTIONS
    graph_pb.node.extend(node_to_def(node, strip_defaults, contents) for node in nodes)
    for function in functions:
        graph_pb.library.function.append(function.to_proto(contents))
    return graph_pb


# ---- reading


class NodeReader:
    """Reads NodeDefs: definition, attrs, names of inputs."""

    def __init__(self, lookup: OpDefLookup | None, contents: GraphContents | None = None) -> None:
        self.lookup = lookup
        self._contents = contents

    def op_def(self, node_pb: pb.NodeDef) -> OpDef:
        if is_registered(node_pb.op):
            return get_op_def(node_pb.op)
        found = None if self.lookup is None else self.lookup(node_pb.op)
        if found is None:
            raise errors.NotFoundError(
                f"op type {node_pb.op!r} of node {node_pb.name!r} is not registered, and the "
                "graph's library has no function of that name",
                node=node_pb.name,
            )
        return found

    def attrs(self, node_pb: pb.NodeDef, op_def: OpDef) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, attr_pb in node_pb.attr.items():
            if name not in op_def.attrs:
                attr_pb = attr_value.without_symbols(attr_pb)
            try:
                found[name] = attr_value.decode_attr(attr_pb, self._contents)
            except errors.OpError as error:
                raise error.with_message(
                    f"attr {name!r} of node {node_pb.name!r} ({node_pb.op}): {error.message}",
                    node=node_pb.name,
                ) from None
        for name, attr in op_def.attrs.items():
            value = found.get(name)
            if value is None:
                found[name] = _default(attr, node_pb)
            else:
                if not attr_value.holds_kind(node_pb.attr[name], attr.kind):
                    raise _wrong_kind(attr, node_pb)
                _check_attr(attr, value, node_pb)
        return found


def _default(attr: AttrDef, node_pb: pb.NodeDef) -> Any:
    if attr.required:
        raise errors.NotFoundError(
            f"node {node_pb.name!r} lacks attr {attr.name!r} of its op {node_pb.op}",
            node=node_pb.name,
        )
    return attr.default


def _wrong_kind(attr: AttrDef, node_pb: pb.NodeDef) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(
        f"attr {attr.name!r} of node {node_pb.name!r} ({node_pb.op}) must be a {attr.kind}; it "
        f"holds {node_pb.attr[attr.name].WhichOneof('value')!r}",
        node=node_pb.name,
    )


def _check_attr(attr: AttrDef, value: Any, node_pb: pb.NodeDef) -> None:
    is_list = attr.kind.startswith("list(")
    if isinstance(value, attr_value.Placeholder):
        return
    if attr.allowed is not None:
        for item in value if is_list else [value]:
            if item not in attr.allowed:
                raise errors.InvalidArgumentError(
                    f"attr {attr.name!r} of node {node_pb.name!r} ({node_pb.op}) is "
                    f"{getattr(item, 'name', item)}, which the op does not allow",
                    node=node_pb.name,
                )
    if attr.minimum is not None:
        size = len(value) if is_list else value
        if size < attr.minimum:
            raise errors.InvalidArgumentError(
                f"attr {attr.name!r} of node {node_pb.name!r} ({node_pb.op}) is {size}, below its "
                f"minimum {attr.minimum}",
                node=node_pb.name,
            )


def split_input(text: str) -> tuple[str, int]:
    """Return node name and output index of a NodeDef input; index -1 for a control input."""
    if text.startswith("^"):
        return text[1:], -1
    name, colon, port = text.rpartition(":")
    if colon and port.isdigit():
        return name, int(port)
    return text, 0


def read_nodes(
    graph_pb: pb.GraphDef,
    *,
    existing: Mapping[str, Node] | None = None,
    lookup: OpDefLookup | None = None,
    contents: GraphContents | None = None,
) -> dict[str, Node]:
    """Return the nodes of a GraphDef by name, each after those it needs, else in the order given.

    Nodes with equal attrs share one dict of them.

    Args:
      existing: nodes of earlier versions of the graph that the new ones may refer to.
      lookup: finds the OpDef of an op that is not registered (a function of the library).
      contents: to which the graph's tensors may refer; nodes view them.
    Raises: InvalidArgumentError for a bad or repeated name, an unknown input, a type that does
    not match, or a cycle; NotFoundError for an unknown op or a missing attr.
    """
    check_versions(graph_pb.versions)
    earlier = {} if existing is None else existing
    kinds = _NodeKinds(NodeReader(lookup, contents))
    made: dict[str, Node] = {}
    ahead: list[tuple[Node, _NodeKind, pb.NodeDef]] = []
    for node_pb in graph_pb.node:
        name = node_pb.name
        _check_name(name, made, earlier)
        kind = kinds.find(node_pb)
        node = Node(name, kind.op_def, [], [], kind.attrs, node_pb.device)
        made[name] = node
        if _connect(node, node_pb.input, made, earlier):
            _check_types(node, kind)
        else:
            ahead.append((node, kind, node_pb))
    if not ahead:
        return made
    for node, kind, node_pb in ahead:
        node.edges.clear()
        node.controls.clear()
        if not _connect(node, node_pb.input, made, earlier):
            raise _unknown_input(node_pb, made, earlier)
        _check_types(node, kind)
    return {node.name: node for node in topological_order(made.values())}


class _NodeKind(NamedTuple):
    """What nodes with the same op and attrs have in common."""

    op_def: OpDef
    attrs: dict[str, Any]
    input_types: tuple[DType, ...]


class _NodeKinds:
    """Reads what is equal in many nodes of a graph once."""

    def __init__(self, reader: NodeReader) -> None:
        self._reader = reader
        self._kinds: dict[Any, _NodeKind] = {}
        # Ops whose attrs may be large are read each time.
        self._is_small: dict[str, bool] = {}

    def find(self, node_pb: pb.NodeDef) -> _NodeKind:
        """Return the kind of a node.  Raises: as NodeReader does."""
        op = node_pb.op
        is_small = self._is_small.get(op)
        if is_small is None:
            attrs = self._reader.op_def(node_pb).attrs.values()
            is_small = self._is_small[op] = not any("tensor" in attr.kind for attr in attrs)
        if not is_small:
            return self._read(node_pb)
        key = op, *[(n, attr_pb.SerializeToString()) for n, attr_pb in node_pb.attr.items()]
        found = self._kinds.get(key)
        if found is None:
            found = self._kinds[key] = self._read(node_pb)
        return found

    def _read(self, node_pb: pb.NodeDef) -> _NodeKind:
        op_def = self._reader.op_def(node_pb)
        attrs = self._reader.attrs(node_pb, op_def)
        return _NodeKind(op_def, attrs, arg_types(op_def.inputs, attrs))


def check_versions(versions_pb: pb.VersionDef) -> None:
    """Refuse a graph that says it needs a newer reader, or that this one misreads it."""
    if versions_pb.min_consumer > PRODUCER or PRODUCER in versions_pb.bad_consumers:
        raise errors.InvalidArgumentError(
            f"the graph (producer {versions_pb.producer}) cannot be read at graph version "
            f"{PRODUCER}: it asks for at least {versions_pb.min_consumer}"
        )


def _check_name(name: str, made: Mapping[str, Any], earlier: Mapping[str, Any]) -> None:
    if not _is_node_name(name):
        raise errors.InvalidArgumentError(
            f"{name!r} is no valid node name; use letters, digits and . _ / - only", node=name
        )
    if name in made or name in earlier:
        raise errors.InvalidArgumentError(f"the graph has two nodes named {name!r}", node=name)


def _connect(
    node: Node, inputs: Iterable[str], made: Mapping[str, Node], earlier: Mapping[str, Node]
) -> bool:
    """Give a node its edges; False when one comes from a node that is not there yet."""
    edges = node.edges
    for text in inputs:
        source = made.get(text)
        if source is not None:  # no name has a ":" or "^", so this is output 0
            edges.append((source, 0))
            continue
        name, port = split_input(text)
        source = made.get(name) or earlier.get(name)
        if source is None:
            return False
        if port < 0:
            node.controls.append(source)
        else:
            edges.append((source, port))
    return True


def _unknown_input(
    node_pb: pb.NodeDef, made: Mapping[str, Node], earlier: Mapping[str, Node]
) -> errors.OpError:
    names = [(text, split_input(text)[0]) for text in node_pb.input]
    text, name = next((t, n) for t, n in names if n not in made and n not in earlier)
    return errors.InvalidArgumentError(
        f"node {node_pb.name!r} has input {text!r}, but the graph has no node {name!r}",
        node=node_pb.name,
    )


def _check_types(node: Node, kind: _NodeKind) -> None:
    try:
        fits = tuple([s.output_types[port] for s, port in node.edges]) == kind.input_types
    except IndexError:
        fits = False
    if not fits:
        check_input_types(node)


def check_input_types(node: Node) -> None:
    """Raise InvalidArgumentError where a node's inputs do not match its op."""
    wanted = arg_types(node.op_def.inputs, node.attrs)
    if len(wanted) != len(node.edges):
        raise errors.InvalidArgumentError(
            f"node {node.name!r} ({node.op}) has {len(node.edges)} inputs; its op and attrs ask "
            f"for {len(wanted)}",
            node=node.name,
        )
    for i, ((source, port), want) in enumerate(zip(node.edges, wanted)):
        types = source.output_types
        if port >= len(types):
            raise errors.InvalidArgumentError(
                f"input {i} of node {node.name!r} is output {port} of {source.name!r} "
                f"({source.op}), which has {len(types)} outputs",
                node=node.name,
            )
        have = types[port]
        if have is not want and not (have.is_ref_dtype and have.base_dtype is want):
            raise errors.InvalidArgumentError(
                f"input {i} of node {node.name!r} ({node.op}) must be {want.name}; "
                f"{source.name!r} gives {have.name}",
                node=node.name,
            )
