"""Datasets written as the graph that makes them, with its functions, to be made elsewhere.

The graph's only `_Retval` node gives the dataset.  What the dataset was given as tensors is written
as constants; resources cannot be, but for those of which each task has its own.
Source: graphs that TensorFlow 2.21's DatasetToGraphV2 gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.functions import functions_needed
from tideflow.graph.graph_def import node_to_def, nodes_to_graph_def
from tideflow.graph.kernel import KernelContext
from tideflow.graph.node import FunctionRef, Node, arg_types
from tideflow.graph.op_def import get_op_def
from tideflow.ops.data.values import Dataset, Origin
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.handles import ResourceHandle
from tideflow.wire.tensor_codec import encode_tensor

# Resources for which a task that does not have them takes new ones.
_OF_EACH_TASK = ("SeedGenerator", "IterationCounter", "MemoryCache")


async def graph_of(dataset: Dataset) -> pb.GraphDef:
    """Return the graph that makes a dataset.

    Raises: UnimplementedError for a dataset that uses a resource, such as a variable or a table,
    or that an op made which does not tell what it was made of.
    """
    writer = _Writer()
    result = await writer.write(dataset)
    retval = pb.NodeDef(name="dataset", op="_Retval", input=[result])
    retval.attr["T"].type = dtypes.variant.number
    retval.attr["index"].i = 0
    graph_pb = nodes_to_graph_def([], writer.functions.values())
    graph_pb.node.extend([*writer.nodes, retval])
    return graph_pb


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[pb.NodeDef] = []
        self.functions: dict[str, Any] = {}
        # By identity: the dataset, which is kept, and its node's name.
        self._written: dict[int, tuple[Dataset, str]] = {}

    async def write(self, dataset: Dataset) -> str:
        """Write a dataset and its inputs; return the name of its node."""
        found = self._written.get(id(dataset))
        if found is not None:
            return found[1]
        if dataset.origin is None:
            raise errors.UnimplementedError(
                f"a {dataset.kind}Dataset cannot be written as a graph: it does not tell what it "
                "was made of"
            )
        name = await self._write_node(dataset.origin)
        self._written[id(dataset)] = dataset, name
        return name

    async def _write_node(self, origin: Origin) -> str:
        node = origin.ctx.node
        types = arg_types(node.op_def.inputs, node.attrs)
        inputs = [
            await self._input(node, value, dtype) for value, dtype in zip(origin.inputs, types)
        ]
        for attr in node.op_def.attrs.values():
            value = node.attrs.get(attr.name)
            for ref in value if isinstance(value, list) else [value]:
                if isinstance(ref, FunctionRef):
                    await self._add_function(origin.ctx, ref)
        bare = Node(self._name(node.op), node.op_def, [], [], node.attrs)
        node_pb = node_to_def(bare)
        node_pb.input.extend(inputs)
        self.nodes.append(node_pb)
        return node_pb.name

    def _name(self, op: str) -> str:
        return f"{op}/_{len(self.nodes)}"

    async def _input(self, node: Node, value: Any, dtype: DType) -> str:
        bare = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
        if isinstance(bare, Dataset):
            return await self.write(bare)
        if isinstance(value, ResourceHandle) and not any(
            kind in value.maybe_type_name for kind in _OF_EACH_TASK
        ):
            raise errors.UnimplementedError(
                f"a dataset that uses a resource ({value.maybe_type_name or value.name!r}, in "
                f"{node.op}) cannot be made in another process; let its functions capture values"
            )
        made = Node(self._name("Const"), get_op_def("Const"), [], [], {"dtype": dtype})
        node_pb = node_to_def(made)
        node_pb.attr["value"].tensor.CopyFrom(encode_tensor(value, dtype))
        self.nodes.append(node_pb)
        return node_pb.name

    async def _add_function(self, ctx: KernelContext, ref: FunctionRef) -> None:
        library = (await ctx.ready(ref)).library
        for definition in functions_needed([ref.name], library):
            self.functions[definition.name] = definition
