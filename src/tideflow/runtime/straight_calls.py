"""Branches and loops whose functions never wait, as instructions of straight code.

Such a node needs no event loop: its functions run one after the other on the thread of the program
that it is part of.  A loop looks before each turn whether its step was stopped, and lets others
have its place in a pool of threads where they wait for one.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tideflow.blocking import held_place
from tideflow.compile.region_selection import may_compile, may_hold_objects, value_types
from tideflow.graph.node import FunctionRef, Node
from tideflow.graph.op_def import OpDef
from tideflow.graph.op_traits import Runs
from tideflow.ops.control_flow.functional_ops import for_range, truth
from tideflow.platform import clock
from tideflow.runtime.context import Function, Step
from tideflow.runtime.program import Instruction, Program
from tideflow.wire import errors

# A loop that takes longer is not handed to a compiler as a whole: nothing could stop it.
_SLOW_S = 1.0
# Code of more calls, one inside the other, is not compiled as a whole: compilers call themselves
# for each.
_MOST_TRACED_LEVELS = 32
# The clock is looked at once in so many turns.
_TURNS_BETWEEN_LOOKS = 32


@dataclass(frozen=True, slots=True)
class FunctionCode:
    """The straight code of a function.

    Attributes:
      instructions: in order.
      constants: values that slots hold from the beginning.
      arguments: which argument a slot holds.
      results: the slots of the results.
      programs: what runs the instructions.
    """

    instructions: Sequence[Instruction]
    constants: Mapping[int, Any]
    arguments: Mapping[int, int]
    results: Sequence[int]
    programs: Sequence[Program]


class StraightCall(abc.ABC):
    """A node that runs functions of its attrs, called with the step and the node's inputs.

    Args:
      functions: in the order in which the attrs of the op name them; none of them waits.

    Attributes:
      has_loops: whether a call may take any time, whatever past ones took.
      levels: how many calls there are one inside the other, this one among them.
    """

    is_loop = False
    # Which of the node's inputs is the first argument of its functions.
    first_argument = 0

    def __init__(self, functions: Sequence[Function]) -> None:
        self.functions = functions
        self.has_loops = self.is_loop or any(one.blocks for one in functions)
        self.levels = 1 + max((one.levels for one in functions), default=0)
        self._codes: list[FunctionCode] | None = None
        self._is_traceable: bool | None = None
        self._within: list[StraightCall] | None = None
        self.is_slow = False
        self.most_turns = 0

    def codes(self) -> list[FunctionCode]:
        """Return the code of each function."""
        if self._codes is None:
            self._codes = [one.code for one in self.functions]
        return self._codes

    @property
    def is_traceable(self) -> bool:
        """Whether the functions may be part of compiled code, as far as their ops tell."""
        if self._is_traceable is None:
            self._is_traceable = self.levels <= _MOST_TRACED_LEVELS and all(
                traces(one.node, one.call) for code in self.codes() for one in code.instructions
            )
        return self._is_traceable and not self.takes_long

    @property
    def takes_long(self) -> bool:
        """Whether this is a loop that took long, or runs one that did."""
        if self._within is None:
            self._within = _all_within(self)
        return any(call.is_slow for call in self._within)

    def hold(self, holds: bool) -> None:
        """Keep the functions from being compiled by themselves, or let them be.

        Their programs hold those that they call in turn.
        """
        for code in self.codes():
            for program in code.programs:
                program.is_held = holds

    def __call__(self, step: Step, *inputs: Any) -> Any:
        """Return the outputs, alone if it is a single one."""
        found = self.run(step, inputs)
        return found[0] if len(found) == 1 else found

    @abc.abstractmethod
    def run(self, step: Step, inputs: Sequence[Any]) -> Sequence[Any]:
        """Return the list of outputs."""

    def _note(self, turns: int, since: float) -> None:
        """Take note of the turns of a loop that began at a time, and may go on."""
        self.most_turns = max(self.most_turns, turns)
        if not self.is_slow and clock.monotonic_s() - since > _SLOW_S:
            self.is_slow = True
            self.hold(False)


class PlainCall(StraightCall):
    """Runs one function."""

    def run(self, step: Step, inputs: Sequence[Any]) -> Sequence[Any]:
        """Return the function's results."""
        return self.functions[0].run(step, inputs)


class Branches(StraightCall):
    """Runs one of two functions: the first where input 0 holds."""

    first_argument = 1

    def run(self, step: Step, inputs: Sequence[Any]) -> Sequence[Any]:
        """Return the results of the branch taken."""
        return self.functions[0 if truth(inputs[0]) else 1].run(step, inputs[1:])


class Cases(StraightCall):
    """Runs the function that input 0 is the number of; the last for a number that none has."""

    first_argument = 1

    def run(self, step: Step, inputs: Sequence[Any]) -> Sequence[Any]:
        """Return the results of the function chosen."""
        index = int(inputs[0])
        known = 0 <= index < len(self.functions)
        return self.functions[index if known else -1].run(step, inputs[1:])


class While(StraightCall):
    """Runs a body on its own results while a condition of them holds."""

    is_loop = True

    def run(self, step: Step, inputs: Sequence[Any]) -> Sequence[Any]:
        """Return what the last turn gave."""
        holds, advance = self.functions[0].run, self.functions[1].run
        values = inputs
        place = held_place()
        turns = 0
        since = clock.monotonic_s()
        while truth(holds(step, values)[0]):
            if place is not None:
                place.offer()
            if step.is_stopped:
                step.check()
            values = advance(step, values)
            turns += 1
            if not turns % _TURNS_BETWEEN_LOOKS:
                self._note(turns, since)
        self._note(turns, since)
        return values


class For(StraightCall):
    """Runs a body on a counter and its own results."""

    is_loop = True
    first_argument = 2  # argument 0, the counter, is none of the inputs

    def run(self, step: Step, inputs: Sequence[Any]) -> Sequence[Any]:
        """Return what the last turn gave."""
        values = inputs[3:]
        place = held_place()
        turns = 0
        since = clock.monotonic_s()
        for turns, index in enumerate(for_range(*inputs[:3])):
            if place is not None:
                place.offer()
            if step.is_stopped:
                step.check()
            values = self.functions[0].run(step, [np.int32(index), *values])
            if not turns % _TURNS_BETWEEN_LOOKS:
                self._note(turns, since)
        self._note(turns, since)
        return values


def _all_within(call: StraightCall) -> list[StraightCall]:
    """Return a call and all that its functions make, each once."""
    found = {id(call): call}
    left = [call]
    while left:
        for code in left.pop().codes():
            for one in code.instructions:
                if isinstance(one.call, StraightCall) and id(one.call) not in found:
                    found[id(one.call)] = one.call
                    left.append(one.call)
    return list(found.values())


def traces(node: Node, call: Any) -> bool:
    """Whether an instruction may be part of compiled code, as far as its op and types tell."""
    if isinstance(call, StraightCall):
        return call.is_traceable and not any(t.name == "string" for t in value_types(node))
    return may_compile(node) or may_hold_objects(node)


# What runs the functions, and the attrs that name them.
_KINDS: Mapping[Runs, tuple[type[StraightCall], tuple[str, ...]]] = {
    Runs.FUNCTION: (PlainCall, ("f",)),
    Runs.BRANCH: (Branches, ("then_branch", "else_branch")),
    Runs.CASE: (Cases, ("branches",)),
    Runs.WHILE: (While, ("cond", "body")),
    Runs.RANGE: (For, ("body",)),
}


def straighten(
    nodes: Sequence[Node], find: Callable[[FunctionRef, str], Function]
) -> dict[int, StraightCall]:
    """Have nodes that call functions which never wait be straight code; return their calls, by id.

    find: gives a function of the library.
    The definitions of the nodes' ops are replaced by those of ops that do not wait.
    """
    made: dict[int, StraightCall] = {}
    for node in nodes:
        runs = node.op_def.runs
        call = None if runs is None else _call(node, *_KINDS[runs], find)
        if call is not None:
            made[id(node)] = call
            node.op_def = _synchronous(node.op_def)
    return made


def _call(
    node: Node,
    kind: type[StraightCall],
    attrs: Sequence[str],
    find: Callable[[FunctionRef, str], Function],
) -> StraightCall | None:
    refs: list[FunctionRef] = []
    for name in attrs:
        given = node.attrs[name]
        refs.extend(given if isinstance(given, list) else [given])
    try:
        functions = [find(ref, "") for ref in refs]
    except errors.OpError:
        return None  # one that is not there, or calls itself: it matters only if it is called
    if not all(one.is_straight for one in functions):
        return None
    return kind(functions)


_made: dict[str, OpDef] = {}


def _synchronous(op_def: OpDef) -> OpDef:
    """Return the op as one that does not wait."""
    found = _made.get(op_def.name)
    if found is None:
        found = _made[op_def.name] = dataclasses.replace(op_def, is_async=False)
    return found
