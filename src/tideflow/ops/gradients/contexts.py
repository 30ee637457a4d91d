"""Where gradients of branches and loops are built, and how forward values get there.

A forward value that a backward loop uses is pushed on a stack in each forward iteration and popped
in each backward one.  The stack is made just outside the forward loop; in nested loops its handle
is saved on a stack in turn.  Values that are the same in all iterations are taken from outside.

Pushes and pops keep the order of iterations though several may run at once: a push waits for the
forward count of its iteration, and the next count waits for all pushes.  Backwards the same holds
for pops and the number of iterations left.
"""

from __future__ import annotations

from tideflow.graph.building import apply_op, constant_tensor
from tideflow.graph.graph import Graph, Operation, Tensor
from tideflow.graph.static_value import static_value
from tideflow.ops.control_flow import (
    CondContext,
    Context,
    LoopBuilder,
    WhileContext,
    building_in,
    close_variable,
    context_of,
    control_trigger,
    is_invariant,
    loop_of,
    next_iteration,
)
from tideflow.wire import dtypes


class BranchGradient(CondContext):
    """The branch in which gradients of a forward branch are built.  It runs when that one ran."""

    sibling: BranchGradient

    def __init__(self, graph: Graph, forward: CondContext, pred: Tensor, pivot: Tensor) -> None:
        super().__init__(graph, f"{forward.name}_grad", pred, pivot, forward.branch)
        self.forward = forward

    @property
    def root(self) -> CondContext:
        """The user's branch."""
        return self.forward.root

    def resolve(self, tensor: Tensor) -> Tensor:
        """Return a tensor as seen from inside; values of the forward branch are saved for it."""
        if self.holds(tensor.op) or not self._is_of_this_branch(tensor.op):
            return super().resolve(tensor)
        if loop_of(tensor.op) is self.loop:
            return tensor
        found = self.inside.get(id(tensor))
        if found is None:
            loop = self.loop
            assert isinstance(loop, LoopGradient), tensor
            found = self.inside[id(tensor)] = loop.saved(tensor, self)
        return found

    def _is_of_this_branch(self, op: Operation) -> bool:
        context = context_of(op)
        return context is not None and any(
            isinstance(c, CondContext) and c.root is self.root for c in context.chain()
        )


class LoopGradient(WhileContext):
    """The backward loop of a forward loop.

    Attributes:
      forward: the forward loop.
      counter: how often the forward loop ran.
      pops_done: waits for all pops of an iteration.
    """

    def __init__(self, graph: Graph, name: str, forward: WhileContext) -> None:
        super().__init__(graph, name, forward.parallel_iterations, back_prop=False)
        self.forward = forward
        self.counter = ForwardCounter(graph, forward)
        self.pops_done: Operation

    def resolve(self, tensor: Tensor) -> Tensor:
        """Return a tensor as seen from inside; values of the forward loop are saved for it."""
        if self.holds(tensor.op) or not self.forward.holds(tensor.op):
            return super().resolve(tensor)
        found = self.inside.get(id(tensor))
        if found is None:
            found = self.inside[id(tensor)] = self.saved(tensor, self)
        return found

    def control_from_outside(self, op: Operation) -> Operation:
        """The forward loop has ended before this one begins, so its ops need no waiting for."""
        return self.pivot.op if self.forward.holds(op) else super().control_from_outside(op)

    def saved(self, tensor: Tensor, user: Context) -> Tensor:
        """Return what a forward tensor was in the iteration that is run backwards.

        Args:
          user: this loop, or the branch in it where the value is used.
        """
        op = tensor.op
        if is_invariant(op):
            return user.resolve(op.inputs[0])
        known = static_value(op, tensor.value_index)
        if known is not None and not isinstance(known, tuple):
            with building_in(self.graph, user):
                return constant_tensor(known, tensor.dtype.base_dtype)
        if loop_of(op) is not self.forward:
            raise ValueError(f"tensor {tensor.name!r} of an inner loop is used outside of it")
        return self._through_stack(tensor, user)

    def _through_stack(self, tensor: Tensor, user: Context) -> Tensor:
        graph, op = self.graph, tensor.op
        made_in = context_of(op)
        assert made_in is not None
        dtype = tensor.dtype.base_dtype
        beside = graph.colocate_with(op, ignore_existing=True)
        with building_in(graph, self.forward.outer), beside:
            handle = apply_op("StackV2", -1, elem_type=dtype, stack_name="saved")
        with building_in(graph, made_in), graph.control_dependencies([self.counter.started]):
            with graph.colocate_with(handle.op, ignore_existing=True):
                push = apply_op("StackPushV2", handle, tensor)
        self.counter.pushes_done.add_control_input(push.op)
        with building_in(graph, user), graph.colocate_with(handle.op, ignore_existing=True):
            pop: Tensor = apply_op("StackPopV2", handle, elem_type=dtype)
        pop.set_shape(tensor.dims)
        self.pops_done.add_control_input(pop.op)
        return pop


class ForwardCounter:
    """Counts the iterations of a loop that has been built, for one gradient of it.

    Attributes:
      started: runs in each iteration, after the pushes of the one before.
      pushes_done: waits for all pushes of an iteration.
      total: the number of iterations, outside of the loop.
    """

    def __init__(self, graph: Graph, loop: WhileContext) -> None:
        with building_in(graph, loop.outer):
            builder = LoopBuilder(graph, loop)
            zero = constant_tensor(0, dtypes.int32, name="f_count")
            kept = list(loop.variables)
            variable = builder.add_variable(zero, ())
            loop.variables[:] = kept
        with building_in(graph, loop):
            self.started = variable.body.op
            self.pushes_done = control_trigger(name="pushes_done")
            self.pushes_done.add_control_input(self.started)
            with graph.control_dependencies([self.pushes_done]):
                count = apply_op("AddV2", variable.body, 1)
            close_variable(variable, next_iteration(count))
        self.total = builder.leave(variable)
