"""Branches and loops in compiled code.

A branch whose condition is known while tracing is traced alone; else both are, and the compiler's
conditional runs one.  A loop becomes the compiler's loop over all that it changes: its variables,
the variables of the device that it assigns, and what its arrays and stacks hold.

A loop is traced twice: once only for the shapes and for what it changes, so that rows for all
elements that it will add are there before it begins, and once as it will run.  How often it goes
round must be known for that, or bounded: beyond a bound, straight code runs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from tideflow.graph.op_traits import Runs
from tideflow.graph.tracing import refuse
from tideflow.ops.control_flow.functional_ops import for_range, truth
from tideflow.ops.tensor_arrays.traced import (
    ArrayState,
    Count,
    TracedList,
    TracedObject,
)
from tideflow.runtime.known_turns import KnownTurns, known_turns
from tideflow.runtime.region_plan import Action, Nested, RegionPlan
from tideflow.runtime.trace_state import TraceState

# Up to so many times as many turns as were ever seen, compiled code goes round.
_MARGIN = 4
_LEAST_BOUND = 64


class FunctionTracer(Protocol):
    """Traces functions of a region."""

    trace: TraceState

    def run_function(self, nested: Nested, args: Sequence[Any], cells: list[Any]) -> list[Any]:
        """Return the results of a function.

        cells: the values of the variables of the action, which are replaced where it changes them.
        """


def turns_bound(action: Action) -> int:
    """Return how often a loop may go round in compiled code if that is not known."""
    seen = _MARGIN * max(int(action.call.most_turns), 1)
    return max(_LEAST_BOUND, 1 << (seen - 1).bit_length())


def bounds_of(plan: RegionPlan) -> tuple[int, ...]:
    """Return the bounds of all loops of a region, which are part of its code."""
    found: list[int] = []
    for action in plan.actions:
        if action.nested and action.node.op_def.runs is Runs.WHILE:
            found.append(turns_bound(action))
        for nested in action.nested:
            found.extend(bounds_of(nested.plan))
    return tuple(found)


def trace_functions(
    tracer: FunctionTracer, action: Action, inputs: Sequence[Any], cells: list[Any]
) -> list[Any]:
    """Return the outputs of a node that runs functions; `cells` is changed as they do.

    Raises: UnimplementedError for what is left to straight code; what kernels raise.
    """
    runs = action.node.op_def.runs
    if runs is Runs.FUNCTION:
        return tracer.run_function(action.nested[0], inputs, cells)
    if runs is Runs.BRANCH or runs is Runs.CASE:
        return _trace_branches(tracer, action, inputs, cells)
    if runs is Runs.WHILE:
        condition, body = action.nested
        if condition.plan.changed:
            raise refuse("a condition that changes variables")
        known = known_turns(condition, body, inputs)
        loop = _Loop(tracer, action, body, condition, inputs, cells, known)
        return _traced(loop)
    if any(_is_traced(tracer, value) for value in inputs[:3]):
        raise refuse("a range that is computed")
    numbers = for_range(*inputs[:3])
    known = KnownTurns(len(numbers), {}, {})
    loop = _Loop(tracer, action, action.nested[0], None, inputs[3:], cells, known)
    loop.counts = numbers
    return _traced(loop)


def _traced(loop: _Loop) -> list[Any]:
    try:
        return loop.trace()
    finally:
        loop.__dict__.clear()  # jax keeps the functions that it has traced


def _is_traced(tracer: FunctionTracer, value: Any) -> bool:
    jax = tracer.trace.jax
    return isinstance(value, (jax.core.Tracer, jax.Array))


def _is_number(value: Any) -> bool:
    return not isinstance(value, (TracedList, TracedObject))


# ---- branches


def _trace_branches(
    tracer: FunctionTracer, action: Action, inputs: Sequence[Any], cells: list[Any]
) -> list[Any]:
    chooser, args = inputs[0], inputs[1:]
    is_branch = action.node.op_def.runs is Runs.BRANCH
    branches = action.nested
    if not _is_traced(tracer, chooser):
        if is_branch:
            at = 0 if truth(chooser) else 1
        else:
            at = int(chooser) if 0 <= int(chooser) < len(branches) else len(branches) - 1
        return tracer.run_function(branches[at], args, cells)
    jnp = tracer.trace.jnp
    if chooser.ndim:
        raise refuse("a condition that is no scalar")
    if is_branch:
        index = jnp.where(chooser != 0, np.int32(0), np.int32(1))
    else:
        inside = (chooser >= 0) & (chooser < len(branches))
        index = jnp.where(inside, chooser, np.int32(len(branches) - 1))
    return _choose(tracer, branches, index, args, cells)


def _choose(
    tracer: FunctionTracer,
    branches: Sequence[Nested],
    index: Any,
    args: Sequence[Any],
    cells: list[Any],
) -> list[Any]:
    """Return what the compiler's conditional gives, over branches that change numbers only."""
    choice = _Choice(tracer, args, cells, branches)
    try:
        return choice.trace(index)
    finally:
        choice.__dict__.clear()  # jax keeps the functions that it has traced


class _Choice:
    """One conditional of the compiler while it is traced."""

    def __init__(
        self,
        tracer: FunctionTracer,
        args: Sequence[Any],
        cells: list[Any],
        branches: Sequence[Nested],
    ) -> None:
        self.tracer = tracer
        self.trace_state = tracer.trace
        self.args = args
        self.cells = cells
        self.branches = branches
        self.before = tracer.trace.states
        self.changed = sorted({i for one in branches for i in one.cells[: one.plan.changed]})
        self.results: list[list[Any]] = []

    def trace(self, index: Any) -> list[Any]:
        """Return the results of the branch with an index that is computed."""
        trace = self.trace_state
        calls = [functools.partial(self._take, at) for at in range(len(self.branches))]
        try:
            made = trace.lax.switch(index, calls)
        finally:
            trace.states = self.before
        objects = [[one for one in found if not _is_number(one)] for found in self.results]
        for some in objects[1:]:
            if len(some) != len(objects[0]) or any(x is not y for x, y in zip(some, objects[0])):
                raise refuse("branches that give different lists")
        trace.checks.append(made[-1])
        count = len(self.results[0]) - len(objects[0])
        for i, value in zip(self.changed, made[count:]):
            self.cells[i] = value
        values = iter(made[:count])
        return [next(values) if _is_number(one) else one for one in self.results[0]]

    def _take(self, at: int) -> list[Any]:
        trace = self.trace_state
        mine = list(self.cells)
        first = len(trace.checks)
        trace.states = dict(self.before)
        found = self.tracer.run_function(self.branches[at], self.args, mine)
        self.results.append(found)
        if trace.states != self.before:
            raise refuse("a branch that changes arrays of the step")
        holds = trace.all_checks(first)
        values = [trace.jnp.asarray(value) for value in found if _is_number(value)]
        values += [mine[i] for i in self.changed]
        return [*values, trace.jnp.asarray(True if holds is None else holds)]


# ---- loops


@dataclass(slots=True)
class _ListSlot:
    """A list that a loop may change.

    Attributes:
      first: as it is before the loop.
      entry: as it is when a turn begins.
      step: how many elements a turn adds.
      room: how many rows the first turn needs, which may add elements that it takes away again.
      element: the shape of the elements, once it is known.
    """

    first: TracedList
    entry: TracedList | None = None
    step: int = 0
    room: int = 0
    element: tuple[int, ...] | None = None


class _Loop:
    """One loop while it is traced.

    Args:
      condition: None for a range, whose numbers are `counts`.
      inputs: the first values of the loop's variables.
      cells: the values of the variables of the device, which the loop replaces.
      known: how often it goes round, if that is known.
    """

    def __init__(
        self,
        tracer: FunctionTracer,
        action: Action,
        body: Nested,
        condition: Nested | None,
        inputs: Sequence[Any],
        cells: list[Any],
        known: KnownTurns | None,
    ) -> None:
        self.tracer = tracer
        self.trace_state = tracer.trace
        self.action = action
        self.body = body
        self.condition = condition
        self.inputs = list(inputs)
        self.cells = cells
        self.known = known
        self.counts: range | None = None
        self.bound = turns_bound(action) if known is None else known.turns
        shift = 1 if condition is None else 0
        # What a turn gives as it was given it stays as it is, and known where it is known.
        changed = [i for i, result in enumerate(body.results) if result.argument != i + shift]
        self.numbers = [i for i in changed if _is_number(self.inputs[i])]
        self.lists = {
            i: _ListSlot(self.inputs[i]) for i in changed if isinstance(self.inputs[i], TracedList)
        }
        if len(self.numbers) + len(self.lists) < len(changed):
            raise refuse("a loop that changes handles")
        self.changed_cells = sorted(set(body.cells[: body.plan.changed]))
        self.states: dict[TracedObject, _ListSlot] = {}
        self.has_checks = False
        # What there was before the loop.
        self.before: dict[TracedObject, ArrayState] = {}
        self.known_gradients: set[tuple[TracedObject, str]] = set()

    # ---- the two tracings

    def trace(self) -> list[Any]:
        """Return the variables after the loop."""
        if self.known is not None and not self.known.turns:
            return self.inputs
        jnp = self.trace_state.jnp
        for i in self.numbers:
            self.inputs[i] = jnp.asarray(self.inputs[i])
        self._try()
        self._make_room()
        final = self.trace_state.lax.while_loop(self._goes_on, self._turn, self._start())
        return self._after(final)

    def _try(self) -> None:
        """Trace a turn for what it changes, and for the shapes of that."""
        trace = self.trace_state
        self.before = dict(trace.states)
        self.known_gradients = set(trace.gradients)
        numbers = [self.inputs[i] for i in self.numbers]
        self.states = {thing: _ListSlot(state.items) for thing, state in self.before.items()}
        changed = [self.cells[i] for i in self.changed_cells]
        try:
            shapes = trace.jax.eval_shape(self._try_turn, trace.jnp.int32(0), numbers, changed)
        finally:
            trace.states = self.before
        for i, old, new in zip(self.numbers, numbers, shapes):
            if old.shape != new.shape or old.dtype != new.dtype:
                raise refuse(f"variable {i} of a loop changes its shape or type")

    def _try_turn(self, t: Any, numbers: list[Any], changed: list[Any]) -> list[Any]:
        trace = self.trace_state
        states = [(state.items.rows, state.marks) for state in self.before.values()]
        rows = [slot.first.rows for slot in self.lists.values()]
        given = self._begin((t, None, numbers, changed, rows, states))
        first = len(trace.checks)
        found = self._run_body(t, given)
        self._learn(found)
        self._learn_gradients()
        self.has_checks = trace.all_checks(first) is not None
        return [trace.jnp.asarray(found[i]) for i in self.numbers]

    def _run_body(self, t: Any, given: _Given) -> list[Any]:
        args = given.args
        if self.counts is not None:
            args = [self.counts.start + t * np.int32(self.counts.step), *args]
        return self.tracer.run_function(self.body, args, given.cells)

    def _begin(self, carry: tuple[Any, ...]) -> _Given:
        """Return what a turn is given, and have the trace hold what arrays and stacks then do."""
        t, _, numbers, changed, rows, states = carry
        args = list(self.inputs)
        for i, value in zip(self.numbers, numbers):
            args[i] = value
            if self.known is not None and i in self.known.ranges:
                self.trace_state.note_range(value, *self.known.ranges[i])
        for (i, slot), held in zip(self.lists.items(), rows):
            slot.entry = args[i] = self._entry(slot, held, t)
        within = dict(self.trace_state.states)
        for (thing, slot), (held, marks) in zip(self.states.items(), states):
            slot.entry = self._entry(slot, held, t)
            within[thing] = ArrayState(slot.entry, marks)
        self.trace_state.states = within
        cells = list(self.cells)
        for i, value in zip(self.changed_cells, changed):
            cells[i] = value
        return _Given(args, cells)

    def _entry(self, slot: _ListSlot, rows: Any, t: Any) -> TracedList:
        """Return a list as it is when a turn begins."""
        count = slot.first.count
        if slot.step:
            last = slot.step * max(self.bound - 1, 0)
            low, high = min(0, last) + count.least, max(0, last) + count.most
            count = Count(count.value + np.int32(slot.step) * t, 0, low, high)
        return replace(slot.first, rows=rows, count=count)

    def _learn(self, found: Sequence[Any]) -> None:
        """Note what a turn did to lists, arrays and stacks."""
        for i, slot in self.lists.items():
            if not isinstance(found[i], TracedList):
                raise refuse("a variable of a loop that is a list in some turns")
            _learn_list(slot, found[i])
        for thing, slot in list(self.states.items()):
            state = self.trace_state.states[thing]
            if state.items is slot.entry and state.marks is self.before[thing].marks:
                del self.states[thing]
            else:
                _learn_list(slot, state.items)

    def _learn_gradients(self) -> None:
        """Have the arrays for gradients that a turn made be there before the loop, empty: they
        belong to the step."""
        trace = self.trace_state
        for key in [key for key in trace.gradients if key not in self.known_gradients]:
            made = trace.gradients[key]
            state = trace.states[made]
            empty = replace(state.items, rows=None)
            self.before[made] = ArrayState(empty, np.zeros(empty.known_count(), np.int8))
            slot = self.states[made] = _ListSlot(empty)
            _learn_list(slot, state.items)

    def _make_room(self) -> None:
        """Give lists rows for all elements that the loop adds, before it begins."""
        trace = self.trace_state
        for slot in self.lists.values():
            slot.first = self._roomy(slot, slot.first)
        for thing, slot in self.states.items():
            slot.first = self._roomy(slot, slot.first)
            trace.states[thing] = ArrayState(slot.first, trace.states[thing].marks)

    def _roomy(self, slot: _ListSlot, source: TracedList) -> TracedList:
        if slot.element is None or (source.rows is not None and source.count.base is not None):
            return source  # of a computed length: the loop around this one has seen to it
        capacity = source.count.most + max(slot.step, 0) * self.bound
        capacity = max(capacity, slot.room + max(slot.step, 0) * (self.bound - 1))
        return source.with_rows(self.trace_state.jnp, slot.element, max(capacity, 1))

    # ---- the compiler's loop

    def _start(self) -> tuple[Any, ...]:
        jnp = self.trace_state.jnp
        states = self.trace_state.states
        return (
            jnp.int32(0),
            jnp.asarray(True),
            [self.inputs[i] for i in self.numbers],
            [self.cells[i] for i in self.changed_cells],
            [slot.first.rows for slot in self.lists.values()],
            [(slot.first.rows, states[thing].marks) for thing, slot in self.states.items()],
        )

    def _goes_on(self, carry: tuple[Any, ...]) -> Any:
        if self.known is not None:
            return carry[0] < np.int32(self.known.turns)
        return self._holds(carry) & (carry[0] < np.int32(self.bound))

    def _holds(self, carry: tuple[Any, ...]) -> Any:
        trace = self.trace_state
        before = trace.states
        first = len(trace.checks)
        assert self.condition is not None
        try:
            given = self._begin(carry)
            within = dict(trace.states)
            (found,) = self.tracer.run_function(self.condition, given.args, given.cells)
            if trace.states != within:
                raise refuse("a condition that changes arrays of the step")
        finally:
            trace.states = before
        if trace.all_checks(first) is not None:
            raise refuse("a condition of a loop that may fail")
        if np.ndim(found):
            raise refuse("a condition that is no scalar")
        return trace.jnp.asarray(found) != 0

    def _turn(self, carry: tuple[Any, ...]) -> tuple[Any, ...]:
        trace = self.trace_state
        before = trace.states
        first = len(trace.checks)
        try:
            given = self._begin(carry)
            found = self._run_body(carry[0], given)
            lists = [_same(slot, found[i]).rows for i, slot in self.lists.items()]
            ends = [(slot, trace.states[thing]) for thing, slot in self.states.items()]
            states = [(_same(slot, state.items).rows, state.marks) for slot, state in ends]
            holds = trace.all_checks(first)
            # Counts of lists are not as well known as when the turn was tried.
            self.has_checks |= holds is not None
        finally:
            trace.states = before
        return (
            carry[0] + np.int32(1),
            carry[1] if holds is None else carry[1] & holds,
            [trace.jnp.asarray(found[i]) for i in self.numbers],
            [given.cells[i] for i in self.changed_cells],
            lists,
            states,
        )

    def _after(self, final: tuple[Any, ...]) -> list[Any]:
        """Return the variables after the loop, and have the trace hold what it left."""
        t, holds, numbers, changed, rows, states = final
        trace = self.trace_state
        if self.known is None:
            trace.checks.append(trace.jnp.logical_not(self._holds(final)))
        if self.has_checks:
            trace.checks.append(holds)
        found = list(self.inputs)
        for i, value in zip(self.numbers, numbers):
            found[i] = value
        if self.known is not None:
            found = [self.known.last.get(i, value) for i, value in enumerate(found)]
        for (i, slot), one in zip(self.lists.items(), rows):
            found[i] = replace(slot.first, rows=one, count=self._last_count(slot, t))
        for (thing, slot), (held, marks) in zip(self.states.items(), states):
            count = self._last_count(slot, t)
            trace.states[thing] = ArrayState(replace(slot.first, rows=held, count=count), marks)
        for i, value in zip(self.changed_cells, changed):
            self.cells[i] = value
        return found

    def _last_count(self, slot: _ListSlot, t: Any) -> Count:
        count = slot.first.count
        if not slot.step:
            return count
        if self.known is not None:
            return count.plus(slot.step * self.known.turns)
        last = slot.step * self.bound
        low, high = min(0, last) + count.least, max(0, last) + count.most
        return Count(count.value + np.int32(slot.step) * t, 0, low, high)


def _learn_list(slot: _ListSlot, after: TracedList) -> None:
    if after.count.base is not slot.first.count.base:
        raise refuse("a loop that puts another list in the place of one")
    slot.step = after.count.offset - slot.first.count.offset
    if after.rows is not None:
        slot.element = tuple(after.rows.shape[1:])
        slot.room = after.rows.shape[0]


def _same(slot: _ListSlot, after: TracedList) -> TracedList:
    """Return a list at the end of a turn, which must have as many more elements as it was to."""
    assert slot.entry is not None
    if not after.count.is_same(slot.entry.count.plus(slot.step)):
        raise refuse("a loop that puts another list in the place of one")
    return after


@dataclass(slots=True)
class _Given:
    """What a turn is given.

    Attributes:
      args: of the body.
      cells: the values of the action's variables of the device.
    """

    args: list[Any]
    cells: list[Any]
