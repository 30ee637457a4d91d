"""The inside of a branch or a loop: what ops made there see.

While a context is the graph's current one, each op made has its inputs brought in: through a
Switch on the branch's predicate, or through an Enter into the loop's frame.  Contexts nest; a
value is brought in step by step from the context where it was made.

Ops that would otherwise not know in which branch or iteration they run (those without inputs, or
with loop invariants only) wait for the context's pivot, an op that runs once for each execution.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tideflow.graph import roles
from tideflow.graph.building import constant_tensor
from tideflow.graph.graph import Graph, Operation, Tensor
from tideflow.graph.op_def import OpDef
from tideflow.ops.control_flow.primitives import enter, switch
from tideflow.ops.framework import identity
from tideflow.wire import dtypes


def context_of(op: Operation) -> Context | None:
    """Return the context in which an op was made."""
    found = op.control_flow_context
    assert found is None or isinstance(found, Context)
    return found


def loop_of(op: Operation) -> WhileContext | None:
    """Return the innermost loop in whose frame an op runs."""
    context = context_of(op)
    return None if context is None else context.loop


@contextlib.contextmanager
def building_in(graph: Graph, context: Context | None) -> Iterator[None]:
    """Make ops in a context (None: outside of all), free of the control inputs in force."""
    with graph.control_dependencies(None):
        graph.in_force.control_flow = context
        yield


class Context:
    """A branch or loop, and how values from outside come into it.

    Attributes:
      outer: the context around it, or None.
      pivot: a tensor whose op runs exactly when, and as often as, the context's ops should.
      inside: what stands inside for a tensor from outside, by the outer tensor's id.
    """

    pivot: Tensor

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name
        outer = graph.in_force.control_flow
        assert outer is None or isinstance(outer, Context)
        self.outer: Context | None = outer
        self.inside: dict[int, Tensor] = {}
        # Control inputs in force at the start hold for the whole: its predicate waits for them.
        self.inherited = {id(op) for op in graph.in_force.run_before()}

    @property
    def loop(self) -> WhileContext | None:
        """The innermost loop: the context itself or one around it."""
        return None if self.outer is None else self.outer.loop

    def chain(self) -> Iterator[Context]:
        """Walk from this context to the outermost."""
        context: Context | None = self
        while context is not None:
            yield context
            context = context.outer

    def holds(self, op: Operation) -> bool:
        """Whether an op was made in this context or in one inside it."""
        context = context_of(op)
        return context is not None and any(c is self for c in context.chain())

    def resolve(self, tensor: Tensor) -> Tensor:
        """Return a tensor as it is seen from inside, brought in if need be.

        Raises: ValueError for a tensor of a loop that this context is not part of.
        """
        if self.holds(tensor.op):
            self._require_same_loop(tensor)
            return tensor
        found = self.inside.get(id(tensor))
        if found is None:
            found = self.inside[id(tensor)] = self.bring_in(tensor)
        return found

    def _require_same_loop(self, tensor: Tensor) -> None:
        loop = loop_of(tensor.op)
        if loop is not self.loop and loop is not None:
            raise ValueError(
                f"tensor {tensor.name!r} is made inside the loop {loop.name!r} and cannot be used "
                "outside of it; make it a loop variable and use the loop's result"
            )

    def outside(self, tensor: Tensor) -> Tensor:
        """Return a tensor as it is seen from just outside the context."""
        if self.outer is not None:
            return self.outer.resolve(tensor)
        self._require_no_loop(tensor.op)
        return tensor

    def _require_no_loop(self, op: Operation) -> None:
        loop = loop_of(op)
        if loop is not None:
            raise ValueError(
                f"operation {op.name!r} is made inside the loop {loop.name!r} and cannot be used "
                f"in {self.name!r}; use the loop's result"
            )

    def bring_in(self, tensor: Tensor) -> Tensor:
        """Make the op that stands inside for a tensor from outside."""
        raise TypeError(f"{type(self).__name__} brings nothing in")

    def adopt(
        self, name: str, op_def: OpDef, inputs: list[Tensor], controls: list[Operation]
    ) -> tuple[list[Tensor], list[Operation]]:
        """Return inputs and controls of an op about to be made inside (see Graph.create_op)."""
        # What brings a value in is named below the op that wanted it: cond/add/Switch.
        with self.graph.name_scope(f"{name}/"):
            tensors = [self.resolve(tensor) for tensor in inputs]
            kept = self._inner_controls(controls)
        if not kept and self.needs_pivot(tensors):
            kept = [self.pivot.op]
        return tensors, kept

    def needs_pivot(self, inputs: list[Tensor]) -> bool:
        """Whether an op with these inputs and no control inputs runs at the right times only if
        it waits for the pivot."""
        return not inputs

    def added(self, op: Operation) -> None:
        """Nothing is kept of the ops made inside."""

    def _inner_controls(self, controls: list[Operation]) -> list[Operation]:
        kept: dict[int, Operation] = {}
        loop = self.loop
        for op in controls:
            if id(op) in self.inherited:
                continue
            if loop_of(op) is not loop:
                if loop is None:
                    self._require_no_loop(op)
                else:
                    op = loop.control_from_outside(op)
            kept[id(op)] = op
        return list(kept.values())


class CondContext(Context):
    """One branch of a cond.

    Attributes:
      pred: the predicate, a bool scalar made just outside.
      branch: 1 where pred is true, 0 where it is false.
      sibling: the other branch of the same cond.
    """

    sibling: CondContext

    def __init__(self, graph: Graph, name: str, pred: Tensor, pivot: Tensor, branch: int) -> None:
        super().__init__(graph, name)
        self.pred = pred
        self.pivot = pivot
        self.branch = branch

    @property
    def root(self) -> CondContext:
        """The branch of the user's that decides whether this one runs."""
        return self

    def bring_in(self, tensor: Tensor) -> Tensor:
        """Pass a tensor through a Switch."""
        return self.switched(self.outside(tensor))

    def switched(self, tensor: Tensor) -> Tensor:
        """Return this branch's side of a Switch of a tensor from just outside."""
        with building_in(self.graph, self.outer):
            # The Switch stays where the value is, so that only what is needed travels.
            with self.graph.colocate_with(tensor.op, ignore_existing=True):
                found = switch(tensor, self.pred)[self.branch]
        found.op.control_flow_context = self
        return found


class WhileContext(Context):
    """A while loop.

    Attributes:
      frame: name of the loop's frame at run time.
      pivot: inside the condition the first Merge; inside the body, what only runs when the
        condition held.
      variables: the loop's variables, in order.
    """

    def __init__(self, graph: Graph, name: str, parallel_iterations: int, back_prop: bool) -> None:
        super().__init__(graph, name)
        self.frame = name
        self.parallel_iterations = parallel_iterations
        self.back_prop = back_prop
        self.pred: Tensor | None = None
        self.variables: list[LoopVariable] = []
        # Enters of loop invariants: (what enters, inside).
        self.invariants: list[tuple[Tensor, Tensor]] = []
        self._outside_controls: dict[int, Operation] = {}

    @property
    def loop(self) -> WhileContext:
        """The loop itself."""
        return self

    def bring_in(self, tensor: Tensor) -> Tensor:
        """Pass a tensor through an Enter that is visible in all iterations."""
        return self.entered(self.outside(tensor), is_constant=True)

    def entered(self, tensor: Tensor, is_constant: bool) -> Tensor:
        """Return a tensor from just outside as the frame sees it.

        A constant is entered free of the control inputs in force; a variable's first value waits
        for them, and so does all that happens in the loop.
        """
        graph = self.graph
        with contextlib.ExitStack() as scopes:
            if is_constant:
                scopes.enter_context(building_in(graph, self.outer))
            if tensor.dtype.is_ref_dtype or tensor.dtype is dtypes.resource:
                scopes.enter_context(graph.colocate_with(tensor.op, ignore_existing=True))
            found = enter(tensor, self.frame, is_constant, self.parallel_iterations)
        found.op.control_flow_context = self
        if is_constant:
            self.invariants.append((found.op.inputs[0], found))
        return found

    def needs_pivot(self, inputs: list[Tensor]) -> bool:
        """An op of loop invariants alone would run in the first iteration only."""
        return all(is_invariant(tensor.op) for tensor in inputs)

    def control_from_outside(self, op: Operation) -> Operation:
        """Return an op of this loop that runs after one outside of it."""
        found = self._outside_controls.get(id(op))
        if found is None:
            found = self._outside_controls[id(op)] = self._bring_in_control(op)
        return found

    def _bring_in_control(self, op: Operation) -> Operation:
        inner = loop_of(op)
        if inner is not None and any(c is self for c in inner.chain()):
            raise ValueError(
                f"operation {op.name!r} of the loop {inner.name!r} cannot be a control input "
                f"outside of it; use the loop's results"
            )
        graph = self.graph
        with building_in(graph, context_of(op)), graph.control_dependencies([op]):
            signal = constant_tensor(True, dtypes.bool_, name="control")
        with building_in(graph, self):
            return identity(self.resolve(signal)).op


class LoopVariable:
    """One variable of a loop, as the ops that carry it round.

    Attributes:
      source: the first value, from just outside.
      enter, merge, switch: Enter's output, Merge's value, and the Switch's operation.
      body: the variable as the body sees it (the Switch's true side).
      next: the body's result that goes to the next iteration.
      exit: the value after the loop, outside.
    """

    __slots__ = ("body", "enter", "exit", "merge", "next", "source", "switch")

    def __init__(self, source: Tensor, enter: Tensor, merge: Tensor) -> None:
        self.source = source
        self.enter = enter
        self.merge = merge
        self.switch: Operation
        self.body: Tensor
        self.next: Tensor
        self.exit: Tensor


def is_invariant(op: Operation) -> bool:
    """Whether an op is an Enter of a loop invariant."""
    return op.op_def.role is roles.ENTER and bool(op.attrs["is_constant"])
