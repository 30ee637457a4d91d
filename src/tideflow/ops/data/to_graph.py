"""Datasets written as the graph that makes them, with its functions, to be made elsewhere.

The graph's only `_Retval` node gives the dataset.  What the dataset was given as tensors is written
as constants.  Variables and tables are written as nodes that make others of the same content;
other resources cannot be, but for those of which each task has its own.
Source: graphs that TensorFlow 2.21's DatasetToGraphV2 gives.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tideflow.blocking import GRAPHS, run_blocking, run_sized
from tideflow.graph.functions import functions_needed
from tideflow.graph.graph_def import node_to_def, nodes_to_graph_def
from tideflow.graph.kernel import KernelContext
from tideflow.graph.node import FunctionRef, Node, arg_types
from tideflow.graph.op_def import get_op_def, op
from tideflow.graph.shape_rules import scalar as scalar_shape
from tideflow.ops.data.functions import has_state
from tideflow.ops.data.values import Dataset, Origin, as_dataset
from tideflow.ops.node_resources import Movable, Recipe
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.handles import ResourceHandle
from tideflow.wire.tensor_codec import encode_tensor
from tideflow.wire.work import sending_work

_LOG = logging.getLogger(__name__)

# What is done about functions with state, which is not written; by any other number it is told.
_IGNORE, _FAIL = 1, 2

# Resources for which a task that does not have them takes new ones.
_OF_EACH_TASK = ("SeedGenerator", "IterationCounter", "MemoryCache")


async def graph_of(dataset: Dataset) -> pb.GraphDef:
    """Return the graph that makes a dataset.

    It holds no Python functions: whoever is to run it when the dataset is gone does
    (`python_functions_of`).
    Raises: UnimplementedError for a dataset that uses a resource other than variables and tables,
    or that an op made which does not tell what it was made of.
    """
    writer = _Writer()
    result = await writer.write(dataset)
    retval = pb.NodeDef(name="dataset", op="_Retval", input=[result])
    retval.attr["T"].type = dtypes.variant.number
    retval.attr["index"].i = 0

    def put_together(_: object) -> pb.GraphDef:
        graph_pb = nodes_to_graph_def([], writer.functions.values())
        graph_pb.node.extend([*writer.nodes, retval])
        return graph_pb

    return await run_blocking(GRAPHS, put_together)


def _digest(nodes: Iterable[pb.NodeDef]) -> str:
    """Return what tells apart constants of other content."""
    digest = hashlib.sha256()
    for node_pb in nodes:
        digest.update(node_pb.attr["value"].SerializeToString(deterministic=True))
    return digest.hexdigest()


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[pb.NodeDef] = []
        self.functions: dict[str, Any] = {}
        # By identity: the dataset, which is kept, and its node's name.
        self._written: dict[int, tuple[Dataset, str]] = {}
        self._resources: dict[tuple[str, str], str] = {}

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
            await self._input(origin.ctx, value, dtype)
            for value, dtype in zip(origin.inputs, types)
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

    async def _input(self, ctx: KernelContext, value: Any, dtype: DType) -> str:
        bare = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
        if isinstance(bare, Dataset):
            return await self.write(bare)
        if isinstance(value, ResourceHandle) and not any(
            kind in value.maybe_type_name for kind in _OF_EACH_TASK
        ):
            return await self._resource(ctx, value)
        return await self._constant(value, dtype)

    async def _constant(self, value: Any, dtype: DType) -> str:
        made = Node(self._name("Const"), get_op_def("Const"), [], [], {"dtype": dtype})
        node_pb = node_to_def(made)
        tensor_pb = node_pb.attr["value"].tensor
        work = sending_work(value)
        await run_sized(GRAPHS, work, lambda: tensor_pb.CopyFrom(encode_tensor(value, dtype)))
        self.nodes.append(node_pb)
        return node_pb.name

    async def _resource(self, ctx: KernelContext, handle: ResourceHandle) -> str:
        """Write what makes a resource of the same content; return what gives its handle."""
        key = handle.container, handle.name
        if key not in self._resources:
            found = ctx.resources.lookup(handle, object)
            recipe = found.recipe() if isinstance(found, Movable) else None
            if recipe is None:
                raise errors.UnimplementedError(
                    "a dataset that uses a resource "
                    f"({handle.maybe_type_name or handle.name!r}, in {ctx.node.op}) cannot be made "
                    "in another process; let its functions capture values"
                )
            self._resources[key] = await self._made_by(recipe)
        return self._resources[key]

    async def _made_by(self, recipe: Recipe) -> str:
        values = [await self._constant(value, dtype) for value, dtype in recipe.values]
        written = self.nodes[-len(values) :]
        digest = await run_blocking(GRAPHS, lambda _: _digest(written))
        # Tables of a task share a name, so it is that of the content; but one dataset may have two.
        name = f"{recipe.op}_{len(self._resources)}_{digest[:32]}"
        handle = self._add(recipe.op, [], {"shared_name": name, **recipe.attrs})
        filled = self._add(recipe.fill_op, [handle, *values], recipe.fill_attrs)
        return self._add("Identity", [handle, f"^{filled}"], {"T": dtypes.resource})

    def _add(self, op: str, inputs: list[str], attrs: Mapping[str, Any]) -> str:
        op_def = get_op_def(op)
        known = {one.name: one.default for one in op_def.attrs.values() if one.default is not None}
        node_pb = node_to_def(Node(self._name(op), op_def, [], [], {**known, **attrs}))
        node_pb.input.extend(inputs)
        self.nodes.append(node_pb)
        return node_pb.name

    async def _add_function(self, ctx: KernelContext, ref: FunctionRef) -> None:
        library = (await ctx.ready(ref)).library
        for definition in functions_needed([ref.name], library):
            self.functions[definition.name] = definition


# ---- as ops


async def _serialized(dataset: Dataset, policy: int, strip_devices: bool) -> bytes:
    """Return the serialized graph of a dataset."""
    graph_pb = await graph_of(dataset)
    called = {node.op for function in graph_pb.library.function for node in function.node_def}
    for name in sorted(filter(has_state, called)) if policy != _IGNORE else ():
        what = f"Failed to serialize the input pipeline graph: {name} is stateful."
        if policy == _FAIL:
            raise errors.FailedPreconditionError(what)
        _LOG.warning("a dataset is written without its state: %s is stateful", name)
    if strip_devices:
        for function in graph_pb.library.function:
            for node in function.node_def:
                node.device = ""
    return await run_blocking(GRAPHS, lambda _: graph_pb.SerializeToString())


@op(
    """
    DatasetToGraph(input_dataset: variant) -> graph: string
    stateful_whitelist: list(string) >= 0 = []
    allow_stateful: bool = false
    strip_device_assignment: bool = false
    """,
    shape=scalar_shape,
)
async def dataset_to_graph(
    ctx: KernelContext,
    input_dataset: object,
    *,
    allow_stateful: bool,
    strip_device_assignment: bool,
) -> bytes:
    """Return the serialized graph that makes a dataset.

    allow_stateful: whether its functions may have state, which is not written.
    strip_device_assignment: whether its functions are written without devices.
    Raises: FailedPreconditionError for functions with state.
    """
    policy = _IGNORE if allow_stateful else _FAIL
    return await _serialized(as_dataset(input_dataset), policy, strip_device_assignment)


@op(
    """
    DatasetToGraphV2(input_dataset: variant) -> graph: string
    external_state_policy: int = 0
    strip_device_assignment: bool = false
    """,
    shape=scalar_shape,
)
async def dataset_to_graph_v2(
    ctx: KernelContext,
    input_dataset: object,
    *,
    external_state_policy: int,
    strip_device_assignment: bool,
) -> bytes:
    """Return the serialized graph that makes a dataset.

    external_state_policy: what is done about functions with state, which is not written: 0 warns,
      1 ignores it, 2 refuses them.
    strip_device_assignment: whether its functions are written without devices.
    Raises: FailedPreconditionError for functions with state that are refused.
    """
    return await _serialized(
        as_dataset(input_dataset), external_state_policy, strip_device_assignment
    )
