"""The graph-level functions of the v1 API: scopes, collections, import and export."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tideflow import app, flags, logging
from tideflow.graph import importer
from tideflow.graph.building import convert_to_tensor, register_tensor_conversion
from tideflow.graph.dimension import Dimension
from tideflow.graph.functions import add_to_library, library_lookup
from tideflow.graph.graph import (
    Graph,
    Operation,
    Tensor,
    get_default_graph,
    get_default_session,
    reset_default_graph,
)
from tideflow.graph.graph_keys import GraphKeys
from tideflow.graph.op_def import registered_ops
from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec, type_spec_of
from tideflow.ops.export import export, export_v2, export_value, exports
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import DeviceSpec
from tideflow.wire.dtypes import DType, as_dtype
from tideflow.wire.tensor_codec import decode_tensor, make_tensor_proto


@export("device")
def device(device_name_or_function: Any) -> Any:
    """Ask for a device for operations made inside `with`; see Graph.device."""
    return get_default_graph().device(device_name_or_function)


@export("name_scope")
@contextlib.contextmanager
def name_scope(
    name: str | None = None, default_name: str | None = None, values: Any = None
) -> Iterator[str]:
    """Put the names of operations made inside below a scope.

    Args:
      default_name: used when name is None.
      values: tensors whose graph becomes the default one, as TensorFlow has it.
    Raises: ValueError when both names are None and values are given.
    """
    chosen = name if name is not None else default_name
    if chosen is None and values is not None:
        raise ValueError("name_scope needs name or default_name")
    graph = next((v.graph for v in values or () if isinstance(v, Tensor)), get_default_graph())
    with graph.as_default(), graph.name_scope(chosen) as scope:
        yield scope


@export("op_scope")
def op_scope(
    values: Any, name: str | None, default_name: str | None = None
) -> contextlib.AbstractContextManager[str]:
    """Enter a name scope, with the arguments in their old order (see name_scope)."""
    return name_scope(name, default_name, values)


@export("get_current_name_scope")
def get_current_name_scope() -> str:
    """Return the full name of the name scope in force, "" outside of any."""
    return get_default_graph().get_name_scope()


@export("colocate_with")
def colocate_with(op: Operation, ignore_existing: bool = False) -> Any:
    """Place operations made inside where another one is; see Graph.colocate_with."""
    return get_default_graph().colocate_with(op, ignore_existing)


@export("container")
def container(container_name: str) -> contextlib.AbstractContextManager[str]:
    """Put the state of stateful operations made inside into a container."""
    return get_default_graph().container(container_name)


@export("add_to_collection")
def add_to_collection(name: str, value: Any) -> None:
    """Append a value to a collection of the default graph."""
    get_default_graph().add_to_collection(name, value)


@export("add_to_collections")
def add_to_collections(names: Any, value: Any) -> None:
    """Append a value to several collections of the default graph."""
    get_default_graph().add_to_collections(names, value)


@export("get_collection")
def get_collection(key: str, scope: str | None = None) -> list[Any]:
    """Return a copy of a collection of the default graph."""
    return get_default_graph().get_collection(key, scope)


@export("get_collection_ref")
def get_collection_ref(key: str) -> list[Any]:
    """Return a collection of the default graph, to be changed in place."""
    return get_default_graph().get_collection_ref(key)


@export("import_graph_def", "graph_util.import_graph_def")
def import_graph_def(
    graph_def: Any,
    input_map: dict[str, Any] | None = None,
    return_elements: list[str] | None = None,
    name: str | None = None,
    op_dict: Any = None,
    producer_op_list: Any = None,
) -> list[Any] | None:
    """Add a GraphDef's operations to the default graph; see tideflow.graph.importer."""
    graph_def_pb = graph_def
    if not isinstance(graph_def, pb.GraphDef):
        # Another library's message of the same wire format, such as real TensorFlow's.
        serialize = getattr(graph_def, "SerializeToString", None)
        if serialize is None:
            raise TypeError(f"graph_def must be a GraphDef, not {type(graph_def).__name__}")
        graph_def_pb = pb.GraphDef.FromString(serialize())
    functions = get_default_graph().functions
    add_to_library(functions, graph_def_pb.library)
    return importer.import_graph_def(
        graph_def_pb, input_map, return_elements, name, lookup=library_lookup(functions)
    )


@export("make_ndarray")
def make_ndarray(tensor: pb.TensorProto) -> np.ndarray[Any, Any]:
    """Return the value of a TensorProto."""
    found: np.ndarray[Any, Any] = decode_tensor(tensor)
    return found


@export("register_tensor_conversion_function")
def register_tensor_conversion_function(
    base_type: type | tuple[type, ...], conversion_func: Callable[..., Any], priority: int = 100
) -> None:
    """Teach convert_to_tensor a Python class.

    Args:
      conversion_func: called with (value, dtype, name, as_ref); gives a tensor or NotImplemented.
      priority: accepted; of several functions for a class the latest is asked first.
    """

    def convert(value: Any, dtype: Any, name: str | None) -> Any:
        return conversion_func(value, dtype, name, False)

    register_tensor_conversion(base_type, convert)


@export("raw_ops.list", "test.registered_ops")
def list_ops() -> list[str]:
    """Return the names of all ops that can be used in a graph."""
    return registered_ops()


@export("dimension_value", "compat.dimension_value")
def dimension_value(dimension: Dimension | int | None) -> int | None:
    """Return a size, given as a Dimension, a number or None, as a number or None."""
    return dimension.value if isinstance(dimension, Dimension) else dimension


@export("dimension_at_index", "compat.dimension_at_index")
def dimension_at_index(shape: TensorShape, index: int) -> Dimension:
    """Return one size of a shape as a Dimension, whatever the shape itself would give."""
    return Dimension(None) if shape.rank is None else Dimension(shape.as_list()[index])


@export_v2("type_spec_from_value")
def type_spec_from_value(value: Any) -> TypeSpec:
    """Return the spec of a tensor, of what is made of tensors, or of what converts to a tensor.

    Raises: TypeError for what has none.
    """
    found = type_spec_of(value)
    if found is not None:
        return found
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        try:
            value = convert_to_tensor(value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{type(value).__name__} has no type spec: {error}") from None
    return TensorSpec.from_tensor(value)


def _export_values() -> None:
    for name, thing in {
        "app": app,
        "flags": flags,
        "logging": logging,
        "Graph": Graph,
        "Operation": Operation,
        "Tensor": Tensor,
        "GraphKeys": GraphKeys,
        "TensorShape": TensorShape,
        "Dimension": Dimension,
        "DType": DType,
        "DeviceSpec": DeviceSpec,
        "as_dtype": as_dtype,
        "dtypes.as_dtype": as_dtype,
        "errors": errors,
        "OpError": errors.OpError,
        "get_default_graph": get_default_graph,
        "get_default_session": get_default_session,
        "reset_default_graph": reset_default_graph,
        "convert_to_tensor": convert_to_tensor,
        "make_tensor_proto": make_tensor_proto,
        "GraphDef": pb.GraphDef,
        "NodeDef": pb.NodeDef,
        "NameAttrList": pb.NameAttrList,
        "TensorInfo": pb.TensorInfo,
        "LogMessage": pb.LogMessage,
        "SummaryMetadata": pb.SummaryMetadata,
        "AttrValue": pb.AttrValue,
        "MetaGraphDef": pb.MetaGraphDef,
        "ConfigProto": pb.ConfigProto,
        "GPUOptions": pb.GPUOptions,
        "GraphOptions": pb.GraphOptions,
        "OptimizerOptions": pb.OptimizerOptions,
        "RunOptions": pb.RunOptions,
        "RunMetadata": pb.RunMetadata,
        "Event": pb.Event,
        "Summary": pb.Summary,
        "HistogramProto": pb.HistogramProto,
        "train.ClusterDef": pb.ClusterDef,
        "train.JobDef": pb.JobDef,
        "train.ServerDef": pb.ServerDef,
    }.items():
        if exports().get(name) is None:
            export_value(name, thing)
    for dtype in dtypes.all_dtypes():
        export_value(dtype.name, dtype)
        export_value(f"dtypes.{dtype.name}", dtype)
    for alias in ("half", "double"):
        export_value(alias, as_dtype(alias))


_export_values()
