"""The graph into which a Python function is traced.

Operations with effects keep the order in which the function called them, and all of them run,
whether or not a result depends on them: each waits for the last one that used the same state, and
reads of a variable wait only for its last change.

Source: tensorflow/python/framework/auto_control_deps.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.eager.eager_graph import EagerGraph
from tideflow.eager.tensor import EagerTensor
from tideflow.eager.variable import EagerVariable, variable_of
from tideflow.graph import roles
from tideflow.graph.defaults import local
from tideflow.graph.functions import FuncGraph
from tideflow.graph.graph import Graph, Operation, Tensor
from tideflow.graph.node import FunctionRef
from tideflow.graph.op_def import OpDef
from tideflow.graph.op_traits import Effects
from tideflow.graph.trace_library import TraceLibrary
from tideflow.wire import dtypes

# What they do beside using their handles cannot be seen from outside.
_CALLS = frozenset({roles.CALL, roles.HIGHER_ORDER})


class FunctionGraph(FuncGraph):
    """The graph of a traced function.

    Attributes:
      variables: those that it uses, in order of first use.
      effects: operations that must run.
      structured_outputs: the function's results, once it is traced.
    """

    structured_outputs: Any = None

    def __init__(self, name: str, outer_graph: Graph | None = None) -> None:
        super().__init__(name, outer_graph)
        around = self.outer_graph
        if isinstance(around, EagerGraph):
            self.functions = TraceLibrary(around.context.library)
        self._collections = outer_graph._collections if isinstance(outer_graph, FuncGraph) else {}
        self.effects: list[Operation] = []
        # By the id of a handle: the operation that last changed it, and the reads since then.
        self._changed: dict[int, Operation] = {}
        self._read: dict[int, list[Operation]] = {}
        self._last_effect: Operation | None = None

    @property
    def variables(self) -> list[EagerVariable]:
        """The variables that the function uses."""
        found = (variable_of(self.origin(inner)) for _, inner in self.captures)
        return [variable for variable in found if variable is not None]

    def create_op(
        self,
        op_type: str | OpDef,
        inputs: Sequence[Tensor],
        attrs: dict[str, Any],
        name: str | None = None,
        *,
        apply_scopes: bool = True,
    ) -> Operation:
        """Make an operation, ordered behind those whose effects it must see."""
        made = super().create_op(op_type, inputs, attrs, name, apply_scopes=apply_scopes)
        if made.op_def.holds_functions:
            self._keep_functions(made)
        effects = made.op_def.effects
        if effects is Effects.UNORDERED:
            self.effects.append(made)
        elif made.op_def.is_stateful and effects is not Effects.UNSEEN:
            self._order(made)
        if local.check is not None:
            local.check(made)
        return made

    def control_dependencies(self, control_inputs: Any) -> Any:
        """Let new operations run only after others; a variable stands for its last change here."""
        if control_inputs is not None:
            control_inputs = [op for item in control_inputs for op in self._ops_here(item)]
        return super().control_dependencies(control_inputs)

    def _ops_here(self, item: Any) -> list[Any]:
        if isinstance(item, EagerVariable):
            inner = self._captured.get(id(item._node))
            changed = None if inner is None else self._changed.get(id(inner))
            return [] if changed is None else [changed]
        return [item]

    def _keep_functions(self, made: Operation) -> None:
        """A dataset may outlive the trace that it was made in, and calls its functions by name."""
        if isinstance(self.functions, TraceLibrary):
            for ref in made.attrs.values():
                if isinstance(ref, FunctionRef):
                    self.functions.keep(ref.name)

    def _order(self, made: Operation) -> None:
        handles = [t for t in made.inputs if t.dtype.base_dtype is dtypes.resource]
        if not handles or made.op_def.role in _CALLS:
            self._follow(made, self._last_effect)
            self._last_effect = made
        reads = made.op_def.only_reads
        for handle in handles:
            key = id(handle)
            self._follow(made, self._changed.get(key))
            if reads:
                self._read.setdefault(key, []).append(made)
            else:
                for reader in self._read.pop(key, ()):
                    self._follow(made, reader)
                self._changed[key] = made
        if not reads:
            self.effects.append(made)

    def _follow(self, made: Operation, earlier: Operation | None) -> None:
        if earlier is None or earlier is made:
            return
        if all(tensor.op is not earlier for tensor in made.inputs):
            made.add_control_input(earlier)

    def _bring_in(self, tensor: Tensor, name: str) -> Tensor:
        made = super()._bring_in(tensor, name)
        if isinstance(tensor, EagerTensor) and tensor.dtype is dtypes.resource:
            # What uses a resource runs where the resource is.
            made.op.device = tensor.held.device if tensor.is_here else tensor.device
        return made


# Functions, branches and loops inside keep the order of effects, too.
FunctionGraph.body_class = EagerGraph.body_class = FunctionGraph
