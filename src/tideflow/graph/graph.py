"""The front end's graph: operations under names, and the scopes under which new ones are made.

A Graph only grows.  Building in one graph from several threads at once needs the caller's lock.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any, ClassVar

from tideflow.graph.attr_value import encode_attr
from tideflow.graph.behavior import behavior
from tideflow.graph.build_scopes import BuildScopes
from tideflow.graph.collection import collection_paused
from tideflow.graph.defaults import default_sessions as default_sessions
from tideflow.graph.defaults import eager_graph, local
from tideflow.graph.defaults import get_default_session as get_default_session
from tideflow.graph.graph_def import nodes_to_graph_def
from tideflow.graph.named_collections import NamedCollections
from tideflow.graph.op_def import OpDef, get_op_def
from tideflow.graph.operation import ControlFlowContext as ControlFlowContext
from tideflow.graph.operation import Operation as Operation
from tideflow.graph.operation import Tensor as Tensor
from tideflow.graph.operation import TensorReference as TensorReference
from tideflow.graph.shape_inference import infer_shapes


class Graph(BuildScopes, NamedCollections):
    """Operations and tensors that a program builds.

    What it holds is in `elements`, which names are taken in `names`, the scopes under which
    operations are made in `in_force`; here is how they are made.

    Public functions ask the default graph alone, in both shapes.  So what depends on its kind is
    decided here, and otherwise in the graphs of functions (`capture`, `origin`) and in the eager
    one (`call_op`, `next_op_seed`, `program_task`), which nobody has to tell apart.
    """

    # Whether operations are called at once, and nothing is built.
    is_eager: ClassVar[bool] = False
    # Whether == compares what tensors hold, as in the TF2 shape, rather than which they are.
    compares_elementwise = False
    # The class of the graphs of functions traced inside; where it is set, branches and loops are
    # functions (If, While) rather than Switch and Merge.
    body_class: ClassVar[type[Any] | None] = None

    def __init__(self) -> None:
        BuildScopes.__init__(self)
        NamedCollections.__init__(self)
        self.seed: int | None = None
        self.functions: MutableMapping[str, Any] = {}
        self.lock = threading.RLock()
        self.building_function = False
        # What operations name that is no part of the graph, such as Python functions.
        self.kept_alive: list[object] = []

    def create_op(
        self,
        op_type: str | OpDef,
        inputs: Sequence[Tensor],
        attrs: dict[str, Any],
        name: str | None = None,
        *,
        apply_scopes: bool = True,
    ) -> Operation:
        """Make an operation under the scopes in force.

        Args:
          op_type: the op's name or definition.
          inputs: flat list of tensors; captured first when they come from an outer graph.
          attrs: all attrs, defaults included, as Python values.
          name: wish for the name, relative to the name scope; made unique.  A wish that ends in
            "/" is taken as it is (without the slash).
        Raises: ValueError for a bad name or shapes that cannot fit; RuntimeError when finalized.
        """
        if self._finalized:
            raise RuntimeError("the graph is finalized and cannot be changed")
        op_def = get_op_def(op_type) if isinstance(op_type, str) else op_type
        name = name or op_def.name
        full = name[:-1] if name.endswith("/") else self.unique_name(name)
        tensors = self._brought_in(inputs, op_def, attrs, full)
        scopes = self.in_force
        controls = scopes.run_before(tensors) if apply_scopes else []
        context = scopes.control_flow
        if context is not None:
            tensors, controls = context.adopt(full, op_def, tensors, controls)
        attrs = scopes.attrs_of(op_def, attrs)
        made = Operation(self, full, op_def, [t.edge for t in tensors], list(controls), attrs, "")
        if apply_scopes:
            scopes.colocate(made)
        self._add(made, tensors)
        if apply_scopes:
            scopes.device_for(made)
            scopes.note(made)
        if context is not None:
            made.control_flow_context = context
            context.added(made)
        if local.tapes:
            noted = [self.origin(tensor) for tensor in inputs]
            for tape in local.tapes:
                tape.record(made, noted)
        return made

    def _brought_in(
        self, inputs: Sequence[Tensor], op_def: OpDef, attrs: dict[str, Any], name: str
    ) -> list[Tensor]:
        """Return the inputs of an operation as tensors of this graph."""
        return [t if t.graph is self else self.capture(t) for t in inputs]

    def origin(self, tensor: Tensor) -> Tensor:
        """Return what a tensor stands for, by which tapes know it: itself, or what was captured."""
        return tensor

    def call_op(
        self, op_name: str, args: Sequence[Any], attrs: dict[str, Any], name: str | None
    ) -> Any:
        """Call an op at once and return its results as apply_op does; an eager graph can."""
        raise RuntimeError("operations of a graph run in a session; none is called while it grows")

    def next_op_seed(self) -> int:
        """Return the seed of the next random operation without its own; an eager graph can."""
        raise RuntimeError("random operations of a graph are numbered")

    def _add(self, made: Operation, tensors: Sequence[Tensor]) -> None:
        """Enter an operation whose edges are set: shapes, consumers, the table of names."""
        found = infer_shapes(made, [t.dims for t in tensors])
        made.outputs = [Tensor(made, i, dims) for i, dims in enumerate(found)]
        for tensor in tensors:
            tensor.consumers_list.append(made)
        self.operations_by_name[made.name] = made
        self.version += 1

    @property
    def program_task(self) -> str:
        """The task that the program is of a cluster, where other tasks may run what is built;
        "" elsewhere.  Python functions are known there alone."""
        return ""

    def _discard(self, ops: Iterable[Operation]) -> None:
        """Take out operations that were entered last; their names stay taken."""
        for op in ops:
            del self.operations_by_name[op.name]
            for tensor in op.inputs:
                while op in tensor.consumers_list:
                    tensor.consumers_list.remove(op)
        self.version += 1

    def capture(self, tensor: Tensor) -> Tensor:
        """Bring in a tensor of another graph.  A plain graph refuses; a function's graph takes it.

        Raises: ValueError.
        """
        raise ValueError(
            f"tensor {tensor.shown_name!r} belongs to another graph; build all inputs of an "
            "operation under the same `with graph.as_default():`"
        )

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """Return the graph as a GraphDef.

        Args:
          from_version: only operations with at least this index.
          add_shapes: give each node its static shapes as attr `_output_shapes`.
        """
        operations = self.get_operations()[from_version or 0 :]
        with collection_paused():
            graph_pb = nodes_to_graph_def(operations, self.functions.values())
        if add_shapes:
            for op, node_pb in zip(operations, graph_pb.node):
                found = [tensor.shape for tensor in op.outputs]
                node_pb.attr["_output_shapes"].CopyFrom(encode_attr("list(shape)", found))
        return graph_pb

    @property
    def graph_def_versions(self) -> Any:
        """The versions that as_graph_def writes."""
        return self.as_graph_def(len(self.operations_by_name)).versions

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Make this the graph in which the calling thread builds."""
        stack = local.graphs
        stack.append(self)
        try:
            yield self
        finally:
            # The last entry: the graph may be the default one further out, too.
            del stack[len(stack) - 1 - stack[::-1].index(self)]


_global_graph: Graph | None = None
_global_lock = threading.Lock()


def get_default_graph() -> Graph:
    """Return the graph in which the calling thread builds."""
    if local.graphs:
        innermost: Graph = local.graphs[-1]
        return innermost
    eager: Graph | None = eager_graph()
    if eager is not None:
        return eager
    global _global_graph
    if _global_graph is None:
        with _global_lock:
            if _global_graph is None:
                _global_graph = Graph()
    return _global_graph


def builds_functional_flow() -> bool:
    """Whether branches and loops become functions in the default graph: If, Case and While."""
    return behavior.control_flow or get_default_graph().body_class is not None


def reset_default_graph() -> None:
    """Replace the process's default graph by an empty one.

    Raises: AssertionError inside `with graph.as_default()`.
    """
    if local.graphs:
        raise AssertionError("reset_default_graph() inside `with graph.as_default():`")
    global _global_graph
    _global_graph = Graph()
