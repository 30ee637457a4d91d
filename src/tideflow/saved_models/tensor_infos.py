"""Tensors of graphs as signatures name them.

Source: tensorflow/python/saved_model/utils_impl.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Graph, Operation, Tensor, get_default_graph
from tideflow.graph.type_spec import type_spec_of
from tideflow.ops.data.spec_files import structured_value, value_of
from tideflow.ops.export import export
from tideflow.ops.framework import nest
from tideflow.ops.sparse import SparseTensor
from tideflow.train.graphs import with_scope
from tideflow.wire import messages as pb
from tideflow.wire.shapes import encode_shape


def tensor_info(tensor: Tensor) -> pb.TensorInfo:
    """Return the message of a tensor, a sparse one, or one of several parts."""
    if isinstance(tensor, SparseTensor):
        made = pb.TensorInfo(
            dtype=tensor.dtype.number, tensor_shape=encode_shape(tensor.shape.sizes)
        )
        made.coo_sparse.values_tensor_name = tensor.values.name
        made.coo_sparse.indices_tensor_name = tensor.indices.name
        made.coo_sparse.dense_shape_tensor_name = tensor.dense_shape.name
        return made
    if nest.is_composite(tensor):
        made = pb.TensorInfo()
        spec = structured_value(type_spec_of(tensor)).type_spec_value
        made.composite_tensor.type_spec.CopyFrom(spec)
        for part in nest.flatten(tensor, expand_composites=True):
            made.composite_tensor.components.append(tensor_info(part))
        return made
    known = convert_to_tensor(tensor)
    return pb.TensorInfo(
        name=known.name, dtype=known.dtype.number, tensor_shape=encode_shape(known.dims)
    )


@export("saved_model.build_tensor_info", "saved_model.utils.build_tensor_info")
def build_tensor_info(tensor: Tensor) -> pb.TensorInfo:
    """Return the message by which a signature names a tensor of a graph.

    Raises: RuntimeError where there is no graph.
    """
    if get_default_graph().is_eager:
        raise RuntimeError("`build_tensor_info` is not supported in eager execution.")
    return tensor_info(tensor)


def operation_info(operation: Operation) -> pb.TensorInfo:
    """Return the message by which a signature names an operation."""
    made = pb.TensorInfo(name=operation.name)
    made.tensor_shape.unknown_rank = True
    return made


@export("saved_model.get_tensor_from_tensor_info", "saved_model.utils.get_tensor_from_tensor_info")
def get_tensor_from_tensor_info(
    tensor_info: Any, graph: Graph | None = None, import_scope: str | None = None
) -> Any:
    """Return the tensor of a graph that a message names.

    import_scope: where the graph has what the message names.
    Raises: KeyError for a tensor that is not there; ValueError for a message that names none.
    """
    found = graph or get_default_graph()

    def named(name: str) -> Tensor:
        tensor: Tensor = found.get_tensor_by_name(with_scope(name, import_scope))
        return tensor

    encoding = tensor_info.WhichOneof("encoding")
    if encoding == "name":
        return named(tensor_info.name)
    if encoding == "coo_sparse":
        parts = tensor_info.coo_sparse
        return SparseTensor(
            named(parts.indices_tensor_name),
            named(parts.values_tensor_name),
            named(parts.dense_shape_tensor_name),
        )
    if encoding == "composite_tensor":
        told = pb.TypeSpecProto.FromString(
            tensor_info.composite_tensor.type_spec.SerializeToString()
        )
        spec = value_of(pb.StructuredValue(type_spec_value=told))
        components = tensor_info.composite_tensor.components
        return spec.from_parts(
            [get_tensor_from_tensor_info(each, found, import_scope) for each in components]
        )
    raise ValueError(
        f"Invalid TensorInfo.encoding: {encoding}. Expected `coo_sparse`, "
        "`composite_tensor`, or `name` for a dense tensor."
    )
