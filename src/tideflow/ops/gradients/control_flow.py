"""Gradients of v1 control flow.

A branch: the gradients of its ops are built in a branch of the same predicate (BranchGradient).
The gradient of a Merge is switched into both; what each gives for a value from outside is merged,
with zeros from the branch that does not use it.

A loop is one unit of the walk (DifferentiatedLoop).  Its gradient is a loop that runs backwards
(LoopGradient) as often as the forward loop did.  Its variables are the gradients of the forward
loop's variables, the number of iterations left, and sums for what the loop took from outside.  Its
body is a reverse walk of the forward body.  How forward values reach it: gradient_contexts.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from tideflow.graph import roles
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Graph, Operation, Tensor, get_default_graph
from tideflow.graph.shapes import Dims
from tideflow.ops.control_flow import (
    CondContext,
    Context,
    LoopBuilder,
    LoopVariable,
    WhileContext,
    building_in,
    close_variable,
    context_of,
    control_trigger,
    merge,
    next_iteration,
    switch,
)
from tideflow.ops.framework import IndexedSlices, identity, nest
from tideflow.ops.gradients.contexts import BranchGradient, LoopGradient
from tideflow.ops.gradients.walk import Unit, Walk, WalkOptions, is_trainable, zeros_like_output
from tideflow.ops.gradients.zeros import HANDLES, zeros_for

# An Exit is an op of the walk only where its loop is walked in.
_ITERATION_ENDS = frozenset({roles.EXIT, roles.NEXT_ITERATION})


class ControlFlowGradients:
    """Answers the walk about branches and loops (see gradient_walk.ControlFlow).

    Args:
      level: the forward context whose ops are walked one by one; ops of loops in it are taken
        together.
      target: the context in which their gradients are built: the same one, or a loop's gradient.
    """

    def __init__(self, graph: Graph, level: Context | None, target: Context | None) -> None:
        self.graph = graph
        self.target = target
        self._around = {id(c) for c in level.chain()} if level is not None else set()
        self._branches: dict[int, BranchGradient] = {}
        self._loops: dict[int, DifferentiatedLoop] = {}

    @classmethod
    def here(cls, graph: Graph) -> ControlFlowGradients:
        """Build gradients in the context in which they are asked for."""
        context = graph.in_force.control_flow
        assert context is None or isinstance(context, Context)
        return cls(graph, context, context)

    def unit(self, op: Operation) -> Unit:
        """Return the loop that an op belongs to, seen from the walk's level, or the op."""
        context = op.control_flow_context
        is_exit = op.op_def.role is roles.EXIT
        if context is None and not is_exit:
            return op
        if is_exit:
            context = op.inputs[0].op.control_flow_context
            if context is None:
                raise ValueError(
                    f"the loop of {op.name!r} was imported, so its gradient cannot be built; take "
                    "gradients before exporting the graph"
                )
        assert isinstance(context, Context)
        outermost: WhileContext | None = None
        for around in context.chain():
            if isinstance(around, WhileContext) and id(around) not in self._around:
                outermost = around
        return op if outermost is None else self._loop(outermost)

    def _loop(self, context: WhileContext) -> DifferentiatedLoop:
        found = self._loops.get(id(context))
        if found is None:
            found = self._loops[id(context)] = DifferentiatedLoop(self.graph, context)
        return found

    def inputs(self, unit: Unit) -> list[Tensor]:
        """Return a unit's inputs; none for the Merge of a loop that is walked in, so that the
        walk stays in one iteration."""
        if isinstance(unit, Operation) and _is_loop_merge(unit):
            return []
        return unit.inputs

    def outputs(self, unit: Unit) -> list[Tensor]:
        """Return a unit's outputs; none for what leads out of an iteration that is walked in."""
        if isinstance(unit, Operation) and unit.op_def.role in _ITERATION_ENDS:
            return []
        return unit.outputs

    def inside(self, op: Operation) -> contextlib.AbstractContextManager[None]:
        """Build in the context where the gradient of an op belongs."""
        wanted = self.context_for(context_of(op))
        if wanted is self.graph.in_force.control_flow:
            return contextlib.nullcontext()
        return building_in(self.graph, wanted)

    def context_for(self, forward: Context | None) -> Context | None:
        """Return where gradients of a forward context's ops are built."""
        if forward is None or id(forward) in self._around:
            return self.target
        found = self._branches.get(id(forward))
        if found is None:
            assert isinstance(forward, CondContext), forward.name
            found = self._make_branches(forward)
        return found

    def _make_branches(self, forward: CondContext) -> BranchGradient:
        outer = self.context_for(forward.outer)
        pivots = (forward.pivot, forward.sibling.pivot)
        with building_in(self.graph, outer):
            pred = forward.pred if outer is None else outer.resolve(forward.pred)
            if pred is not forward.pred:
                sides = switch(pred, pred)
                pivots = (identity(sides[forward.branch]), identity(sides[1 - forward.branch]))
            made = BranchGradient(self.graph, forward, pred, pivots[0])
            other = BranchGradient(self.graph, forward.sibling, pred, pivots[1])
        made.sibling, other.sibling = other, made
        self._branches[id(forward)] = made
        self._branches[id(forward.sibling)] = other
        return made

    # ---- gradients of the primitives

    def gradient_function(self, op: Operation) -> Callable[..., Any] | None:
        """Return the gradient of Switch, Merge or Enter; None for any other op."""
        role = op.op_def.role
        if role is roles.SWITCH:
            return self._switch_grad
        if role is roles.MERGE:
            return self._merge_grad
        if role is roles.ENTER:
            return _pass
        return None

    def _merge_grad(self, op: Operation, grad: Tensor, _: object) -> list[Any]:
        """Switch the gradient of a cond's result into both branches."""
        results: list[Any] = []
        for index, tensor in enumerate(op.inputs):
            context = context_of(tensor.op)
            if context is context_of(op) or not isinstance(context, CondContext):
                # No cond made this Merge: its gradient goes where the value came from.
                chosen = apply_op("Equal", op.outputs[1], index)
                results.append(_map(functools.partial(_where, chosen), grad))
                continue
            inside = self.context_for(context)
            assert inside is not None
            results.append(_map(inside.resolve, grad))
        return results

    def _switch_grad(self, op: Operation, *grads: Any) -> list[Any]:
        """Merge the gradients of a value taken into a branch, zeros from the other branch."""
        context = context_of(op)
        if context is not None and id(context) in self._around:
            # The gradient is asked for in the branch itself, and used there.
            return [next((g for g in grads if g is not None), None), None]
        if not isinstance(context, CondContext):
            return [self._raw_switch_grad(op, *grads), None]
        grad = grads[context.branch]
        if grad is None:
            return [None, None]
        inside = self.context_for(context)
        assert isinstance(inside, BranchGradient)
        with building_in(self.graph, inside.sibling):
            zero = zeros_for(op.inputs[0], grad)
        if zero is None:
            return [None, None]
        pair = [zero, grad] if context.branch else [grad, zero]
        with building_in(self.graph, inside.outer):
            return [_merged(pair), None]

    def _raw_switch_grad(self, op: Operation, *grads: Any) -> Any:
        if all(g is None for g in grads):
            return None
        data, pred = op.inputs
        pair = list(grads)
        for side, grad in enumerate(grads):
            if grad is None:
                pair[side] = zeros_like_output(switch(data, pred)[side])
        return None if any(g is None for g in pair) else _merged(pair)


def _pass(op: Operation, grad: Tensor) -> list[Any]:
    return [grad]


def _where(chosen: Tensor, part: Tensor) -> Tensor:
    return switch(part, chosen)[1]


def _is_loop_merge(op: Operation) -> bool:
    return op.op_def.role is roles.MERGE and any(
        source.op_def.role is roles.NEXT_ITERATION for source, _ in op.edges
    )


def _map(function: Callable[[Any], Any], grad: Tensor) -> Any:
    return nest.map_structure(function, grad, expand_composites=True)


def _merged(pair: list[Any]) -> Any:
    """Merge two gradients, as slices where both are."""
    if all(isinstance(g, IndexedSlices) for g in pair):
        return _map_pairs(lambda a, b: merge([a, b])[0], *pair)
    return merge([_dense(grad) for grad in pair])[0]


def _dense(grad: Any) -> Tensor:
    """Return a gradient as a tensor, made dense in the branch that it comes from."""
    if isinstance(grad, Tensor):
        return grad
    with building_in(get_default_graph(), context_of(grad.op)):
        return convert_to_tensor(grad)


def _map_pairs(function: Callable[[Any, Any], Any], a: Any, b: Any) -> IndexedSlices:
    shape = None
    if a.dense_shape is not None and b.dense_shape is not None:
        shape = function(a.dense_shape, b.dense_shape)
    return IndexedSlices(function(a.values, b.values), function(a.indices, b.indices), shape)


# ---- loops


class DifferentiatedLoop:
    """A loop as one unit of the walk: results out, first values and invariants in."""

    def __init__(self, graph: Graph, context: WhileContext) -> None:
        self.graph = graph
        self.context = context
        self.name = context.frame
        self.variables = list(context.variables)
        self.invariants = list(context.invariants)
        self.outputs = [v.exit for v in self.variables]
        self.inputs = [v.source for v in self.variables]
        self.inputs.extend(source for source, _ in self.invariants)

    def differentiate(self, grads: list[Any], options: WalkOptions) -> list[Any]:
        """Build the backward loop where the graph's context stands.

        Args:
          grads: one for each result, or None.
        Returns: one for each input, or None.
        Raises: TypeError for a loop that is itself the gradient of one.
        """
        forward = self.context
        if isinstance(forward, LoopGradient):
            raise TypeError(
                f"the loop {forward.name!r} is the gradient of a loop; second derivatives of "
                "while_loop are not supported (unroll the loop, or use tf.scan's result twice)"
            )
        if not forward.back_prop:
            return [None] * len(self.inputs)
        active = self._active(grads)
        backward = _BackwardLoop(self.graph, forward, self.variables, active, grads)
        backward.run_body(self.invariants, options)
        found = backward.finish()
        results: list[Any] = [found.get(id(v)) for v in self.variables]
        results.extend(backward.totals.get(id(inside)) for _, inside in self.invariants)
        return results

    def _active(self, grads: list[Any]) -> list[LoopVariable]:
        """Return the variables through which the gradients given may flow, in order."""
        by_switch = {id(v.switch): v for v in self.variables}
        active = {id(v): v for v, g in zip(self.variables, grads) if g is not None}
        queue = [v.next for v in active.values()]
        seen = {id(t) for t in queue}
        for tensor in queue:  # grows while it is walked
            if not is_trainable(tensor):
                continue
            variable = by_switch.get(id(tensor.op))
            if variable is not None and id(variable) not in active:
                active[id(variable)] = variable
                queue.append(variable.next)
            for source in tensor.op.inputs:
                if id(source) not in seen and self.context.holds(source.op):
                    seen.add(id(source))
                    queue.append(source)
        return [
            v
            for v in self.variables
            if id(v) in active and is_trainable(v.merge) and v.merge.dtype.base_dtype not in HANDLES
        ]


class _BackwardLoop:
    """The loop that runs a forward loop backwards, while it is built.

    Attributes:
      active: forward variables that have gradients; each has one variable here.
      totals: gradients of invariants summed over the iterations, by the id of their inside.
    """

    def __init__(
        self,
        graph: Graph,
        forward: WhileContext,
        variables: list[LoopVariable],
        active: list[LoopVariable],
        grads: list[Any],
    ) -> None:
        self.graph = graph
        self.forward = forward
        self.variables = variables
        self.active = active
        self.totals: dict[int, Any] = {}
        # For each sum: the id of the invariant's inside, its variables, and the dense shape.
        self._sums: list[tuple[int, list[LoopVariable], Any]] = []
        self.context = LoopGradient(graph, graph.unique_name("while_context"), forward)
        self.builder = LoopBuilder(graph, self.context)
        total = self.context.counter.total
        arrived = {id(v): g for v, g in zip(variables, grads)}
        first = [identity(total, name="b_count")]
        first.extend(self._first(v, arrived[id(v)]) for v in active)
        invariants: list[Dims] = [(), *(v.merge.dims for v in active)]
        self.builder.start(first, invariants)
        with self.builder.inside():
            self.builder.set_condition(apply_op("Greater", self.context.variables[0].merge, 0))
            self.context.pops_done = control_trigger(name="pops_done")
            self.context.pops_done.add_control_input(self.context.pivot.op)

    def _first(self, variable: LoopVariable, grad: Tensor) -> Tensor:
        found = zeros_like_output(variable.exit) if grad is None else convert_to_tensor(grad)
        assert found is not None
        found.set_shape(variable.merge.dims)
        return found

    def run_body(self, invariants: list[tuple[Tensor, Tensor]], options: WalkOptions) -> None:
        """Walk the forward body in reverse, and carry the gradients to the next iteration."""
        count, *carried = list(self.context.variables)
        with self.builder.inside():
            xs = [v.body for v in self.variables if is_trainable(v.body)]
            xs.extend(inside for _, inside in invariants if is_trainable(inside))
            ys = [v.next.op.inputs[0] for v in self.active]
            flow = ControlFlowGradients(self.graph, self.forward, self.context)
            walk = Walk(self.graph, ys, xs, xs, options, flow)
            walk.seed([v.body for v in carried])
            walk.run()
            following = [
                self._following(walk.gradient_of(forward.body), variable)
                for forward, variable in zip(self.active, carried)
            ]
            summands = {id(t): walk.gradient_of(t) for _, t in invariants if is_trainable(t)}
            for variable, value in zip(carried, following):
                close_variable(variable, next_iteration(value))
        for source, inside in invariants:
            summand = summands.get(id(inside))
            if summand is not None:
                self._sum_up(source, inside, summand)
        with self.builder.inside():
            with self.graph.control_dependencies([self.context.pops_done]):
                left = apply_op("Sub", count.body, 1)
            close_variable(count, next_iteration(left))

    def _following(self, grad: Any, variable: LoopVariable) -> Tensor:
        if grad is None:
            grad = zeros_like_output(variable.body)
        value = convert_to_tensor(grad)
        value.set_shape(variable.merge.dims)
        return value

    def _sum_up(self, source: Tensor, inside: Tensor, summand: Any) -> None:
        """Add a variable that sums the gradients of an invariant; slices are joined."""
        start = zeros_for(source, summand)
        if start is None:
            return
        if not isinstance(summand, IndexedSlices):
            self._sums.append((id(inside), [self._add_sum(start, summand)], None))
            return
        parts = [
            self._add_sum(start.values, summand.values, joined=True),
            self._add_sum(start.indices, summand.indices, joined=True),
        ]
        self._sums.append((id(inside), parts, start.dense_shape))

    def _add_sum(self, start: Tensor, summand: Tensor, joined: bool = False) -> LoopVariable:
        dims = None if start.dims is None else (None, *start.dims[1:])
        if not joined:
            start.set_shape(summand.dims)
            dims = start.dims
        variable = self.builder.add_variable(start, dims)
        with self.builder.inside():
            if joined:
                value = apply_op("ConcatV2", [variable.body, summand], 0)
            else:
                value = apply_op("AddV2", variable.body, summand)
            value.set_shape(dims)
            close_variable(variable, next_iteration(value))
        return variable

    def finish(self) -> dict[int, Tensor]:
        """Return the gradients of the first values, by the id of the forward variable; the
        totals are set."""
        exits = {id(v): self.builder.leave(v) for v in self.context.variables}
        for inside, parts, dense_shape in self._sums:
            values = [exits[id(part)] for part in parts]
            single = len(values) == 1
            self.totals[inside] = (
                values[0] if single else IndexedSlices(values[0], values[1], dense_shape)
            )
        _, *carried = self.context.variables[: len(self.active) + 1]
        return {id(v): exits[id(own)] for v, own in zip(self.active, carried)}
