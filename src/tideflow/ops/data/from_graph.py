"""Datasets that come as the graph that makes them, with its functions.

A coordinator's client sends a dataset that it has made to each worker in this way.
Source: tensorflow/core/ops/dataset_ops.cc; graphs that TensorFlow 2.21's DatasetToGraphV2 gives.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from tideflow.graph import roles
from tideflow.graph.function_writer import function_of_nodes
from tideflow.graph.functions import FunctionDefinition, add_to_library, library_lookup
from tideflow.graph.graph_def import read_nodes
from tideflow.graph.kernel import KernelContext, StepContext
from tideflow.graph.node import OwnFunctionRef
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import scalar as scalar_shape
from tideflow.graph.types import Array
from tideflow.ops.data.values import Dataset, as_dataset, fail
from tideflow.ops.data.values import scalar as as_scalar
from tideflow.wire import errors
from tideflow.wire import messages as pb

_NAME = "__dataset_from_graph"


def function_of_graph(graph_pb: pb.GraphDef) -> OwnFunctionRef:
    """Return a function of the graph: it gives what the graph's result node reads.

    Raises: NotFoundError for a graph without a result, or with an op or a function that is not
    known.
    """
    library: dict[str, FunctionDefinition] = {}
    add_to_library(library, graph_pb.library)
    nodes = list(read_nodes(graph_pb, lookup=library_lookup(library)).values())
    results = [node for node in nodes if node.op_def.role is roles.RESULT]
    if len(results) != 1:
        found = len(results)
        raise errors.NotFoundError(f"a dataset's graph has one _Retval node; this one has {found}")
    library[_NAME] = FunctionDefinition(function_of_nodes(_NAME, nodes), library_lookup(library))
    return OwnFunctionRef(_NAME, {}, library)


@op("DatasetFromGraph(graph_def: string) -> handle: variant", shape=scalar_shape, any_device=True)
async def dataset_from_graph(
    ctx: KernelContext, step: StepContext, graph_def: Array | bytes
) -> Dataset:
    """Return the dataset that a serialized GraphDef makes.

    Raises: InvalidArgumentError for bytes that are no graph; NotFoundError for a graph without a
    result, and for an op or a function that is not known.
    """
    try:
        graph_pb = pb.GraphDef.FromString(as_scalar(graph_def, "graph_def"))
    except DecodeError:
        raise fail("graph_def is no serialized GraphDef") from None
    make = await ctx.ready(function_of_graph(graph_pb))
    [found] = await make(step)
    return as_dataset(found)
