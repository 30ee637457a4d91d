"""How members of a graph's collections become messages in a meta graph, and come back.

A class whose objects are collected registers the collection here; variables do below, savers and
queue runners where they are defined.

Source: tensorflow/python/framework/ops.py (register_proto_function).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tideflow.graph.graph_keys import GraphKeys
from tideflow.ops.export import export
from tideflow.ops.state import Variable
from tideflow.wire import messages as pb


class CollectionProto(NamedTuple):
    """The message type of a collection's members, and the ways there (with export_scope) and back
    (with import_scope)."""

    proto_type: Any
    to_proto: Callable[..., Any]
    from_proto: Callable[..., Any]


_registered: dict[str, CollectionProto] = {}


@export("register_proto_function")
def register_proto_function(
    collection_name: str,
    proto_type: Any = None,
    to_proto: Callable[..., Any] | None = None,
    from_proto: Callable[..., Any] | None = None,
) -> None:
    """Say how the members of a collection are exported and imported.

    Args:
      to_proto: called with (member, export_scope=...); None leaves the member out.
      from_proto: called with (message, import_scope=...).
    Raises: TypeError for functions that cannot be called; ValueError for a collection that has
    them already.
    """
    if to_proto is None or from_proto is None or not callable(to_proto) or not callable(from_proto):
        raise TypeError(f"to_proto and from_proto of {collection_name!r} must be functions")
    if collection_name in _registered:
        raise ValueError(f"the functions of collection {collection_name!r} are registered twice")
    _registered[collection_name] = CollectionProto(proto_type, to_proto, from_proto)


def collection_proto(collection_name: str) -> CollectionProto | None:
    """Return how a collection's members are exported, None where they are not messages."""
    return _registered.get(collection_name)


def _variable_from_proto(variable_def: Any, import_scope: str | None = None) -> Any:
    return Variable.from_proto(variable_def, import_scope=import_scope)


def _variable_to_proto(variable: Any, export_scope: str | None = None) -> Any:
    return variable.to_proto(export_scope=export_scope)


for _key in (
    GraphKeys.GLOBAL_VARIABLES,
    GraphKeys.TRAINABLE_VARIABLES,
    GraphKeys.MOVING_AVERAGE_VARIABLES,
    GraphKeys.LOCAL_VARIABLES,
    GraphKeys.MODEL_VARIABLES,
    GraphKeys.METRIC_VARIABLES,
    GraphKeys.GLOBAL_STEP,
):
    register_proto_function(_key, pb.VariableDef, _variable_to_proto, _variable_from_proto)
