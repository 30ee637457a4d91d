"""Making the ops that carry the variables of a loop round.

Used by while_loop and by the gradient of loops.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph import shapes
from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Graph, Tensor
from tideflow.graph.shapes import Dims
from tideflow.ops.control_flow.contexts import LoopVariable, WhileContext, building_in
from tideflow.ops.control_flow.primitives import exit_loop, loop_cond, merge, next_iteration, switch
from tideflow.ops.framework import identity
from tideflow.wire import dtypes


class LoopBuilder:
    """Makes the ops of one loop, step by step: start, set_condition, close, finish.

    Between these calls the caller makes the condition and the body, `with inside():`.
    """

    def __init__(self, graph: Graph, context: WhileContext) -> None:
        self.graph = graph
        self.context = context
        self.outer = graph.in_force.control_flow

    def inside(self) -> Any:
        """Make ops in the loop."""
        return _Inside(self.graph, self.context)

    def start(self, first: list[Tensor], invariants: list[Dims] | None = None) -> None:
        """Enter the first values, and set the pivot for the condition."""
        for i, value in enumerate(first):
            dims = value.dims if invariants is None else invariants[i]
            if not _fits(value.dims, dims):
                raise ValueError(
                    f"loop variable {value.shown_name!r} has shape {value.shape}, which its shape "
                    f"invariant {shapes.format_dims(dims)} does not allow"
                )
            self.context.variables.append(self._carry(value, dims))
        self.context.pivot = self.context.variables[0].merge

    def _carry(self, value: Tensor, dims: Dims) -> LoopVariable:
        entered = self.context.entered(value, is_constant=False)
        entered.set_shape(dims)
        with building_in(self.graph, None):
            # The second input is a stand-in until the body's result is known.
            merged = merge([entered, entered])[0]
        merged.op.control_flow_context = self.context
        return LoopVariable(entered.op.inputs[0], entered, merged)

    def add_variable(self, value: Tensor, dims: Dims) -> LoopVariable:
        """Add a variable after the condition is set; the caller closes it.  To be called outside,
        where the loop stands."""
        variable = self._carry(value, dims)
        with building_in(self.graph, self.context):
            self._switch(variable)
        self.context.variables.append(variable)
        return variable

    def _switch(self, variable: LoopVariable) -> None:
        assert self.context.pred is not None
        variable.switch = switch(variable.merge, self.context.pred)[0].op
        variable.body = identity(variable.switch.outputs[1])

    def set_condition(self, holds: object) -> None:
        """Take the condition, and set the pivot for the body.  To be called inside."""
        pred = convert_to_tensor(holds)
        if pred.dtype.base_dtype is not dtypes.bool_:
            raise TypeError(f"the condition of while_loop gives {pred.dtype.name}, not bool")
        self.context.pred = loop_cond(pred)
        for variable in self.context.variables:
            self._switch(variable)
        self.context.pivot = self.context.variables[0].body

    def close(self, results: list[Tensor]) -> None:
        """Take the body's results to the next iteration.  To be called inside."""
        following = [next_iteration(self._value(result)) for result in results]
        for variable, result in zip(self.context.variables, following, strict=True):
            close_variable(variable, result)

    def _value(self, result: Tensor) -> Tensor:
        return identity(result) if result.dtype.is_ref_dtype else result

    def finish(self) -> list[Tensor]:
        """Return the values after the loop, outside of it."""
        return [self.leave(variable) for variable in self.context.variables]

    def leave(self, variable: LoopVariable) -> Tensor:
        """Make the Exit of one variable."""
        with building_in(self.graph, None):
            variable.exit = exit_loop(variable.switch.outputs[0])
        variable.exit.op.control_flow_context = self.context.outer
        return variable.exit


class _Inside:
    """`with` a loop being the graph's context."""

    def __init__(self, graph: Graph, context: WhileContext) -> None:
        self.graph = graph
        self.context = context
        self.outer = graph.in_force.control_flow

    def __enter__(self) -> None:
        self.graph.in_force.control_flow = self.context

    def __exit__(self, *exc_info: object) -> None:
        self.graph.in_force.control_flow = self.outer


def close_variable(variable: LoopVariable, following: Tensor) -> None:
    """Let a NextIteration come round to a variable's Merge.

    Raises: TypeError or ValueError where the body's result has another type or shape.
    """
    merged = variable.merge
    if following.dtype is not merged.dtype:
        raise TypeError(
            f"loop variable {variable.source.name!r} is {merged.dtype.name}, but the body gives "
            f"{following.dtype.name}"
        )
    if not _fits(following.dims, merged.dims):
        raise ValueError(
            f"loop variable {variable.source.name!r} has shape {merged.shape} before an iteration "
            f"and {following.shape} after it; give shape_invariants to while_loop, or set_shape "
            "the body's result"
        )
    variable.next = following
    merged.op.update_input(1, following)


def _fits(dims: Dims, invariant: Dims) -> bool:
    """Whether all values of a shape have what an invariant says."""
    if invariant is None:
        return True
    if dims is None or len(dims) != len(invariant):
        return False
    return all(want is None or want == have for have, want in zip(dims, invariant))
