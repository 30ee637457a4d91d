"""Meta graphs: a graph with its collections and its saver, as one message or file.

Exported ones are read by TensorFlow, and its are read here.

Source: tensorflow/python/framework/meta_graph.py; recorded files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf import any_pb2

from tideflow import __version__, logging
from tideflow.graph import roles
from tideflow.graph.attr_value import encode_attr
from tideflow.graph.functions import add_to_library, library_lookup
from tideflow.graph.graph import Graph, Operation, Tensor, get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.importer import import_graph_def
from tideflow.graph.op_def import get_op_def, is_registered, role_of
from tideflow.train.graphs.collection_protos import collection_proto
from tideflow.train.graphs.graph_io import read_message, write_graph
from tideflow.wire import messages as pb

# Readers decide by it how to read; these files are what this version writes.
TENSORFLOW_VERSION = "2.21.0"
UNBOUND_INPUTS = "unbound_inputs"
_UNBOUND_PREFIX = "$unbound_inputs_"


# ---- names and scopes


def with_scope(name: str, scope: str | None) -> str:
    """Return a name of a node, tensor, control input or "loc:@" below a scope."""
    if not scope:
        return name
    return re.sub(r"^(\^|loc:@|)(.*)$", rf"\1{scope.rstrip('/')}/\2", name)


def without_scope(name: str, scope: str | None) -> str:
    """Return a name of a node, tensor, control input or "loc:@" relative to a scope."""
    if not scope:
        return name
    return re.sub(rf"^(\^|loc:@|){re.escape(scope.rstrip('/'))}/", r"\1", name)


def _inside(name: str, scope: str | None) -> bool:
    return not scope or name.startswith(scope)


# ---- exporting


def export_scoped_meta_graph(
    filename: str | None = None,
    graph_def: Any = None,
    graph: Graph | None = None,
    export_scope: str | None = None,
    as_text: bool = False,
    unbound_inputs_col_name: str | None = UNBOUND_INPUTS,
    clear_devices: bool = False,
    saver_def: pb.SaverDef | None = None,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    meta_info_def: Any = None,
    collection_list: Iterable[str] | None = None,
) -> tuple[pb.MetaGraphDef, dict[str, Any]]:
    """Return a graph as a meta graph, and its variables by their names in it.

    Args:
      filename: also write it there, as text or binary.
      export_scope: only what is below a name scope, without that scope's name.  Inputs from
        outside are named in the collection unbound_inputs_col_name.
      clear_devices: leave out where nodes are to be placed.
      clear_extraneous_savers: leave out savers other than saver_def's.
      strip_default_attrs: leave out attrs that have their defaults, for older readers.
      collection_list: the collections to export; all by default.
    """
    graph = graph or get_default_graph()
    _require_graph(graph)
    graph_pb = pb.GraphDef()
    if graph_def is not None:
        graph_pb.CopyFrom(graph_def)
    else:
        graph_pb = graph.as_graph_def(add_shapes=True)
    excluded = _extraneous_savers(graph_pb, saver_def) if clear_extraneous_savers else set()
    if export_scope or excluded or clear_devices:
        unbound = _narrow(graph_pb, export_scope, excluded, clear_devices)
        if unbound_inputs_col_name:
            graph.clear_collection(unbound_inputs_col_name)
            for name in unbound:
                graph.add_to_collection(unbound_inputs_col_name, name)
    meta_pb = pb.MetaGraphDef(graph_def=graph_pb)
    if meta_info_def is not None:
        meta_pb.meta_info_def.MergeFrom(meta_info_def)
    meta_pb.meta_info_def.tensorflow_version = TENSORFLOW_VERSION
    meta_pb.meta_info_def.tensorflow_git_version = f"tideflow-{__version__}"
    if strip_default_attrs:
        _strip_defaults(meta_pb)
    if saver_def is not None:
        meta_pb.saver_def.CopyFrom(saver_def)
    keys = graph.get_all_collection_keys() if collection_list is None else collection_list
    for key in keys:
        members = graph.get_collection(key)
        if clear_extraneous_savers and key == GraphKeys.SAVERS:
            members = [m for m in members if saver_def is not None and m.saver_def == saver_def]
        members = [m for m in members if _is_exported(m, export_scope, excluded)]
        _add_collection(meta_pb, key, members, export_scope)
    if filename:
        write_graph(meta_pb, os.path.dirname(filename), os.path.basename(filename), as_text)
    variables = {
        without_scope(variable.name, export_scope): variable
        for variable in graph.get_collection(GraphKeys.GLOBAL_VARIABLES, export_scope)
        if _is_exported(variable, export_scope, excluded)
    }
    return meta_pb, variables


def _is_exported(member: Any, scope: str | None, excluded: set[str]) -> bool:
    name = member if isinstance(member, str) else getattr(member, "name", None)
    if not isinstance(name, str):
        return True
    if name in excluded:
        return False
    return name.startswith(_UNBOUND_PREFIX) or _inside(name, scope)


def _narrow(
    graph_pb: pb.GraphDef, scope: str | None, excluded: set[str], clear_devices: bool
) -> list[str]:
    """Leave only a scope's nodes in a graph; return the inputs from outside."""
    unbound: list[str] = []
    kept = []
    for node_pb in graph_pb.node:
        if node_pb.name in excluded or not _inside(node_pb.name, scope):
            continue
        if clear_devices:
            node_pb.device = ""
        if scope:
            _rename(node_pb, scope, unbound)
        kept.append(node_pb)
    if len(kept) != len(graph_pb.node):
        narrowed = pb.GraphDef()
        narrowed.node.extend(kept)
        del graph_pb.node[:]
        graph_pb.node.extend(narrowed.node)
    return unbound


def _rename(node_pb: pb.NodeDef, scope: str, unbound: list[str]) -> None:
    for i, text in enumerate(node_pb.input):
        if _inside(text.lstrip("^"), scope):
            node_pb.input[i] = without_scope(text, scope)
        else:
            control = "^" if text.startswith("^") else ""
            node_pb.input[i] = f"{control}{_UNBOUND_PREFIX}{text.lstrip('^')}"
            unbound.append(node_pb.input[i])
    node_pb.name = without_scope(node_pb.name, scope)
    if "_class" in node_pb.attr:
        groups = [item.decode() for item in node_pb.attr["_class"].list.s]
        inside = [without_scope(g, scope) for g in groups if _inside(g.partition("@")[2], scope)]
        node_pb.attr["_class"].list.s[:] = [group.encode() for group in inside]
    if role_of(node_pb.op) is roles.ENTER:
        frame = node_pb.attr["frame_name"].s.decode()
        node_pb.attr["frame_name"].s = without_scope(frame, scope).encode()


def _extraneous_savers(graph_pb: pb.GraphDef, saver_def: pb.SaverDef | None) -> set[str]:
    """Return the names of the nodes below the scopes of savers other than the one given."""
    savers = (roles.SAVE, roles.RESTORE)
    names = {node_pb.name for node_pb in graph_pb.node if role_of(node_pb.op) in savers}
    scopes = {_scope_of(name) for name in names} - names
    if saver_def is not None:
        kept = {_scope_of(saver_def.save_tensor_name), _scope_of(saver_def.restore_op_name)}
        scopes -= kept
    prefixes = tuple(f"{scope}/" for scope in scopes)
    return {node_pb.name for node_pb in graph_pb.node if node_pb.name.startswith(prefixes)}


def _scope_of(name: str) -> str:
    return name.rpartition("/")[0]


def _strip_defaults(meta_pb: pb.MetaGraphDef) -> None:
    for node_pb in meta_pb.graph_def.node:
        strip_default_attrs(node_pb)
    meta_pb.meta_info_def.stripped_default_attrs = True


def strip_default_attrs(node_pb: pb.NodeDef) -> None:
    """Leave the attrs of a node out that have their defaults, for readers that do not know them."""
    if not is_registered(node_pb.op):
        return
    for name, attr in get_op_def(node_pb.op).attrs.items():
        plain = not attr.required and "tensor" not in attr.kind and name in node_pb.attr
        if plain and node_pb.attr[name] == encode_attr(attr.kind, attr.default):
            del node_pb.attr[name]


def _add_collection(
    meta_pb: pb.MetaGraphDef, key: Any, members: list[Any], scope: str | None
) -> None:
    if not isinstance(key, str):
        logging.warning("collection %r is not exported: its name is no string", key)
        return
    if not members:
        return
    collection_pb = pb.CollectionDef()
    try:
        _fill_collection(collection_pb, key, members, scope)
    except (TypeError, ValueError, AttributeError) as error:
        logging.warning(
            "collection %r is not exported: its members have no form in a meta graph (%s)",
            key,
            error,
        )
        return
    meta_pb.collection_def[key].CopyFrom(collection_pb)


def _fill_collection(
    collection_pb: pb.CollectionDef, key: str, members: list[Any], scope: str | None
) -> None:
    way = collection_proto(key)
    first = members[0]
    if way is not None and not isinstance(first, (Tensor, Operation)):
        collection_pb.bytes_list.SetInParent()
        for member in members:
            message = way.to_proto(member, export_scope=scope)
            if message is not None:
                collection_pb.bytes_list.value.append(message.SerializeToString())
    elif isinstance(first, (str, bytes)):
        items = [item.encode() if isinstance(item, str) else item for item in members]
        collection_pb.bytes_list.value.extend(items)
    elif isinstance(first, int):
        collection_pb.int64_list.value.extend(members)
    elif isinstance(first, float):
        collection_pb.float_list.value.extend(members)
    elif isinstance(first, any_pb2.Any):
        collection_pb.any_list.value.extend(members)
    else:
        names = [str(member.name) for member in members]
        collection_pb.node_list.value.extend(without_scope(name, scope) for name in names)


# ---- importing


def _require_graph(graph: Graph) -> None:
    if graph.is_eager:
        raise RuntimeError(
            "Exporting/importing meta graphs is not supported when eager execution is enabled. No "
            "graph exists when eager execution is enabled."
        )


def as_meta_graph_def(meta_graph_or_file: Any) -> pb.MetaGraphDef:
    """Return a meta graph: a message of this library or another's, or the name of a file.

    Raises: OSError for a file that is not there or holds no meta graph.
    """
    given = meta_graph_or_file
    if isinstance(given, pb.MetaGraphDef):
        return given
    serialize = getattr(given, "SerializeToString", None)
    if serialize is not None:
        return pb.MetaGraphDef.FromString(serialize())
    found: pb.MetaGraphDef = read_message(os.fspath(given), pb.MetaGraphDef())
    return found


def import_scoped_meta_graph(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    graph: Graph | None = None,
    import_scope: str | None = None,
    input_map: dict[str, Any] | None = None,
    unbound_inputs_col_name: str | None = UNBOUND_INPUTS,
    restore_collections_predicate: Callable[[str], bool] = lambda key: True,
    return_elements: list[str] | None = None,
) -> tuple[dict[str, Any], list[Any] | None]:
    """Add a meta graph to a graph: its nodes and its collections.

    Args:
      import_scope: put all names below it.
      input_map: as import_graph_def's; must give the inputs that the export left unbound.
      restore_collections_predicate: says of a collection's name whether to restore it.
    Returns: the variables by their names in the meta graph, and the return_elements.
    Raises: ValueError where unbound inputs are not given.
    """
    meta_pb = as_meta_graph_def(meta_graph_or_file)
    _check_bound(meta_pb, input_map, unbound_inputs_col_name)
    graph = graph or get_default_graph()
    _require_graph(graph)
    graph_pb = meta_pb.graph_def
    if clear_devices:
        graph_pb = pb.GraphDef()
        graph_pb.CopyFrom(meta_pb.graph_def)
        for node_pb in graph_pb.node:
            node_pb.device = ""
    with graph.as_default():
        scope = graph.unique_name(import_scope, mark_as_used=False) if import_scope else ""
        add_to_library(graph.functions, graph_pb.library)
        elements = import_graph_def(
            graph_pb,
            input_map,
            return_elements,
            import_scope or "",
            graph=graph,
            lookup=library_lookup(graph.functions),
        )
        variables: dict[bytes, Any] = {}
        # Trainable variables first: each variable is made once, for all its collections.
        keys = sorted(meta_pb.collection_def, key=lambda k: (k != GraphKeys.TRAINABLE_VARIABLES, k))
        for key in keys:
            if key != unbound_inputs_col_name and restore_collections_predicate(key):
                _restore_collection(graph, key, meta_pb.collection_def[key], scope, variables)
        found = graph.get_collection(GraphKeys.GLOBAL_VARIABLES, scope or None)
    return {without_scope(variable.name, scope): variable for variable in found}, elements


def _check_bound(
    meta_pb: pb.MetaGraphDef, input_map: dict[str, Any] | None, collection: str | None
) -> None:
    if not collection or collection not in meta_pb.collection_def:
        return
    names = [name.decode() for name in meta_pb.collection_def[collection].bytes_list.value]
    missing = sorted(set(names) - set(input_map or ()))
    if missing:
        raise ValueError(
            f"the meta graph has inputs from outside of what was exported: {missing}; give each "
            "in input_map"
        )


def _restore_collection(
    graph: Graph, key: str, collection_pb: pb.CollectionDef, scope: str, variables: dict[bytes, Any]
) -> None:
    kind = collection_pb.WhichOneof("kind")
    if kind is None:
        logging.error("collection %r of the meta graph is skipped: its kind is not set", key)
        return
    way = collection_proto(key)
    values = getattr(collection_pb, kind).value
    if way is not None and kind == "bytes_list":
        for value in values:
            member = variables.get(value) if way.proto_type is pb.VariableDef else None
            if member is None:
                message = way.proto_type.FromString(value)
                member = way.from_proto(message, import_scope=scope or None)
            if way.proto_type is pb.VariableDef:
                variables[value] = member
            graph.add_to_collection(key, member)
        return
    for value in values:
        if kind == "node_list":
            value = graph.as_graph_element(with_scope(value, scope))
        elif isinstance(value, bytes) and scope:
            value = with_scope(value.decode("utf-8", "surrogateescape"), scope)
        graph.add_to_collection(key, value)
