"""Programs that turn into compiled regions and the straight code between them.

A program runs with NumPy until what it has cost in all would pay for compiling it.  Then it is cut
into regions and the straight code between them, on the compiler's thread while steps go on.  A node
that turns out not to compile is left to straight code, and the program cut again.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tideflow.blocking import StopFlag
from tideflow.compile.region_selection import (
    draws_numbers,
    is_one_pass,
    number_nodes,
    sized_by_values,
)
from tideflow.graph.kernel import Resources
from tideflow.graph.node import Node
from tideflow.platform import clock
from tideflow.runtime import jit_thread
from tideflow.runtime.jit_mode import JitMode
from tideflow.runtime.jit_region import Region
from tideflow.runtime.jit_trials import LONG_RUN_S
from tideflow.runtime.program import Instruction, Program
from tideflow.runtime.region_plan import NotCompiledError, plan_region
from tideflow.runtime.straight_calls import StraightCall, traces

_LOGGER = logging.getLogger(__name__)

# What a program must have cost before a compiler is asked: about half of what compiling costs,
# which another core does.
_LEAST_TOTAL_S = 0.02
_TOTAL_PER_INSTRUCTION_S = 0.05e-3
# At least so many runs, but for long ones.
_LEAST_RUNS = 5
# Shorter programs are over before compiled code has been called.
_LEAST_RUN_S = 50e-6
# XLA takes minutes for larger ones.
_MOST_INSTRUCTIONS = 5000
_MOST_ATTEMPTS = 20


class JitProgram(Program):
    """A program that may be compiled in part.

    Args:
      instructions, kept: as for Program.
      nodes: all nodes of the straight code, in order, also those without an instruction.
      constants: values that slots hold from the beginning.
      resources: where variables are found.
    """

    def __init__(
        self,
        instructions: list[Instruction],
        kept: set[int],
        nodes: Sequence[Node],
        constants: Mapping[int, Any],
        resources: Resources,
        mode: JitMode,
    ) -> None:
        super().__init__(instructions, kept)
        self._nodes = nodes
        self._constants = constants
        self._resources = resources
        self._is_forced = mode is JitMode.ALWAYS
        self._excluded: set[int] = set()
        self._attempts = 0
        self._lock = threading.Lock()
        self._first = threading.Lock()
        self._tried_lock = threading.Lock()
        self._total_s = 0.0
        self._timed_runs = 0
        # Of the last run that was timed; the first one is longer than others.
        self._last_s = 0.0
        self._is_new = False
        self._parts: list[Program | Region] | None = None
        self._must_form = self._is_forced
        self._is_asked = self._is_forced
        self._is_plain = len(instructions) > _MOST_INSTRUCTIONS
        self._cost_s = _LEAST_TOTAL_S + _TOTAL_PER_INSTRUCTION_S * len(instructions)
        # Functions are compiled as a part of this program, if they can be.
        self._calls = {
            id(one.node): one.call for one in instructions if isinstance(one.call, StraightCall)
        }
        for call in self._calls.values():
            if call.is_traceable and not self._is_plain:
                call.hold(True)

    def run(self, slots: list[Any]) -> None:
        """Run all instructions, in whatever form is best known.

        Raises: OpError that names the failing node.
        """
        if self._is_plain or self.is_held:
            super().run(slots)
            return
        if self._must_form:
            self._form_first()
        parts = self._parts
        if parts is None:
            started = clock.monotonic_s()
            super().run(slots)
            self._note(clock.monotonic_s() - started)
            return
        if self._is_new:
            self._is_new = False
            started = clock.monotonic_s()
            self._run_parts(parts, slots)
            self._last_s = clock.monotonic_s() - started
        else:
            self._run_parts(parts, slots)

    def _run_parts(self, parts: Sequence[Program | Region], slots: list[Any]) -> None:
        step: StopFlag = slots[0]
        for part in parts:
            if step.is_stopped:
                step.check()
            part.run(slots)

    def _takes_long(self) -> bool:
        """Whether steps may wait for what is compiled of the program."""
        return self._last_s >= LONG_RUN_S

    def _settle(self) -> None:
        """Run as one program again once NumPy is better everywhere; called from any thread."""
        parts = self._parts
        if parts is not None and not any(isinstance(p, Region) and not p.is_off for p in parts):
            self._is_plain = True
            self._parts = None
            self.is_untried = False
            self._let_go(self._calls)

    def _note_tried(self) -> None:
        """See whether compiled code waits for its first call; called from any thread."""
        with self._tried_lock:  # else what was seen first might be stored last
            parts = self._parts or ()
            self.is_untried = any(isinstance(p, Region) and p.is_untried for p in parts)

    @property
    def compiled_regions(self) -> int:
        """How many regions may run compiled at present."""
        parts = self._parts or ()
        return sum(isinstance(p, Region) and not p.is_off for p in parts)

    def _note(self, seconds: float) -> None:
        """Take note of a run; have the program formed in the background once it is hot."""
        if self._is_asked:
            return
        self._total_s += seconds
        self._timed_runs += 1
        is_long = seconds >= LONG_RUN_S
        if (is_long or self._timed_runs >= _LEAST_RUNS) and self._total_s >= self._cost_s:
            is_short = self._total_s < _LEAST_RUN_S * self._timed_runs
            if is_short or not any(self._may_pay(one) for one in self.instructions):
                self._is_plain = True
                self._let_go(self._calls)
                return
            self._is_asked = True
            if is_long:
                # The next run does so before it begins: the earlier, the fewer long ones there
                # are, and who runs but once pays nothing.
                self._must_form = True
                return
            itself = weakref.ref(self)
            jit_thread.submit(lambda: _form_if_alive(itself))

    def _form_first(self) -> None:
        """Form the program before it runs, on whichever thread comes first."""
        with self._first:
            if self._must_form:
                self._form()

    def _form(self) -> None:
        """Cut the program into regions and straight code."""
        with self._lock:
            self._must_form = False
            self.is_untried = False
            excluded = self._excluded | sized_by_values(self._nodes, self._excluded)
            numbers = number_nodes(self._nodes, excluded, self._takes)
            runs: dict[int, list[Instruction]] = {}
            for one in self.instructions:
                number = numbers[id(one.node)]
                runs.setdefault(number, []).append(one)
            if any(self._pays(number, run) for number, run in runs.items()):
                self._parts = self._make_parts(runs)
                self._is_new = True
            else:
                self._let_go(self._calls)
                self._parts = None
                self._is_plain = True

    def _pays(self, number: int, run: Sequence[Instruction]) -> bool:
        """Whether instructions of a number may be better compiled."""
        return bool(number & 1) and (self._is_forced or any(self._may_pay(one) for one in run))

    def _may_pay(self, one: Instruction) -> bool:
        return self._takes(one.node) and not is_one_pass(one.node)

    def _takes(self, node: Node) -> bool:
        return draws_numbers(node) or traces(node, self._calls.get(id(node)))

    def _let_go(self, nodes: Iterable[int]) -> None:
        """Let functions that nodes run be compiled by themselves."""
        for node in nodes:
            if node in self._calls:
                self._calls[node].hold(False)

    def _make_parts(self, runs: dict[int, list[Instruction]]) -> list[Program | Region]:
        users: dict[int, set[int]] = {}
        for number, instructions in runs.items():
            for one in instructions:
                for slot in one.inputs:
                    users.setdefault(slot, set()).add(number)
        parts: list[Program | Region] = []
        for number in sorted(runs):
            # A copy each: the slots that an instruction frees depend on its program.
            run = [Instruction(i.call, i.inputs, i.outputs, i.node) for i in runs[number]]
            made = {slot for one in run for slot in one.outputs}
            wanted = {s for s in made if s in self.kept or users.get(s, set()) - {number}}
            program = Program(run, wanted)
            if self._timed_runs >= _LEAST_RUNS:
                program.make_code(self if len(runs) == 1 else None)
            if self._pays(number, run):
                parts.append(
                    Region(
                        plan_region(run, wanted, self._constants), program, self._resources,
                        self._is_forced, self._takes_long, self._exclude, self._settle,
                        self._note_tried,
                    )
                )  # fmt: skip
            else:
                parts.append(program)
        return parts

    def _exclude(self, error: NotCompiledError) -> None:
        """Form the program again without nodes that do not compile; called from any thread."""
        with self._lock:
            self._attempts += 1
            if self._attempts > _MOST_ATTEMPTS:
                self._parts = None
                self._is_plain = True
                self._let_go(self._calls)
                return
            _LOGGER.debug("left to NumPy: %s", str(error))
            left_out = {id(node) for node in error.nodes}
            self._excluded |= left_out
            self._let_go(left_out)
            self._must_form = self._is_forced
        if not self._is_forced:
            self._form()  # this is the compiler's thread


def _form_if_alive(program: weakref.ref[JitProgram]) -> None:
    found = program()
    if found is not None:
        found._form()
