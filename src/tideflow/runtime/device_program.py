"""Programs on an accelerator: compiled regions, and between them what a host must help with.

A region that turns out not to compile as a whole is cut at the nodes that are the reason; the
others stay as they are, so what has run of a step has run.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tideflow.blocking import StopFlag
from tideflow.compile.device_types import compile_together, compiles
from tideflow.compile.region_selection import number_nodes
from tideflow.graph import roles
from tideflow.graph.kernel import Resources
from tideflow.graph.node import Node
from tideflow.ops.state import ANONYMOUS_NAME
from tideflow.runtime.accelerator import Accelerator
from tideflow.runtime.device_kernels import compiled_alone
from tideflow.runtime.device_region import DeviceRegion, TwiceError
from tideflow.runtime.program import Instruction, Observer, Program
from tideflow.runtime.references import read_reference
from tideflow.runtime.region_plan import NotCompiledError, plan_region

# A part, and the slots that nobody needs after it.
_Part: TypeAlias = "tuple[Program | DeviceRegion, tuple[int, ...]]"


class DeviceProgram(Program):
    """A program of an accelerator.

    Args:
      instructions, kept: as for Program; what is not pure is bound for the accelerator.
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
        accelerator: Accelerator,
        resources: Resources,
    ) -> None:
        super().__init__(instructions, kept)
        self._nodes = nodes
        self._constants = constants
        self._accelerator = accelerator
        self._resources = resources
        self._lock = threading.Lock()
        self._excluded: set[int] = set()
        self._taken = compile_together(nodes)
        # Handles stay what they are: by name, whether or not there is a variable.
        named = [one for one in instructions if _names_variable(one.node)]
        self._named = [(one.outputs[0], one.call) for one in named]
        self._handles: list[tuple[int, Any]] | None = None
        self.parts = self._cut([one for one in instructions if not _names_variable(one.node)])

    @property
    def regions(self) -> list[DeviceRegion]:
        """The compiled regions, in order."""
        return [part for part, _ in self.parts if isinstance(part, DeviceRegion)]

    def run(self, slots: list[Any]) -> None:
        """Run all parts.

        Raises: OpError that names the failing node.
        """
        self._name_variables(slots)
        self._run_parts(self.parts, slots, None)

    def run_observed(self, slots: list[Any], observer: Observer) -> None:
        """Run all parts and report to the observer: a region as its last node."""
        self._name_variables(slots)
        self._run_parts(self.parts, slots, observer)

    def _name_variables(self, slots: list[Any]) -> None:
        if self._handles is None:
            self._handles = [(slot, call()) for slot, call in self._named]
        for slot, handle in self._handles:
            slots[slot] = handle

    def _run_parts(
        self,
        parts: Sequence[_Part],
        slots: list[Any],
        observer: Observer | None,
    ) -> None:
        step: StopFlag = slots[0]
        for part, frees in parts:
            step.check()
            try:
                if observer is None:
                    part.run(slots)
                else:
                    part.run_observed(slots, observer)
            except NotCompiledError as error:
                assert isinstance(part, DeviceRegion)
                self._run_parts(self._without(part, error.nodes), slots, observer)
            except TwiceError:
                assert isinstance(part, DeviceRegion)
                nodes = [action.node for action in part.plan.actions if action.cells]
                self._run_parts(self._without(part, nodes), slots, observer)
            for slot in frees:
                slots[slot] = None

    def _without(self, region: DeviceRegion, nodes: Sequence[Node]) -> Sequence[_Part]:
        """Cut a region at some of its nodes, for good; return the parts it then has."""
        with self._lock:
            self._excluded.update(id(node) for node in nodes)
            cut = self._cut(region.instructions)
            parts = list(self.parts)
            # Another thread may have cut it meanwhile.
            at = next((i for i, (part, _) in enumerate(parts) if part is region), None)
            if at is not None:
                parts[at : at + 1] = cut
                self.parts = parts
            return cut

    def _cut(self, instructions: Sequence[Instruction]) -> list[_Part]:
        numbers = number_nodes(self._nodes, self._excluded, lambda node: id(node) in self._taken)
        runs: dict[int, list[Instruction]] = {}
        for one in instructions:
            runs.setdefault(numbers[id(one.node)], []).append(one)
        users: dict[int, set[int]] = {}
        for one in self.instructions:
            number = numbers[id(one.node)]
            for slot in one.inputs:
                users.setdefault(slot, set()).add(number)
        made_here = {slot for one in self.instructions for slot in one.outputs}
        parts: list[_Part] = []
        for number in sorted(runs):
            run = runs[number]
            made = {slot for one in run for slot in one.outputs}
            wanted = {s for s in made if s in self.kept or users.get(s, set()) - {number}}
            part: Program | DeviceRegion
            if number & 1:
                part = self._region(run, wanted)
            else:
                copies = [
                    Instruction(self._call(one), one.inputs, one.outputs, one.node) for one in run
                ]
                part = Program(copies, wanted)
            touched = {slot for one in run for slot in one.inputs if slot not in made} & made_here
            touched |= wanted
            # What is not held here any more may be donated, and its memory is free.
            frees = tuple(s for s in touched - self.kept if max(users.get(s, {0})) <= number)
            parts.append((part, frees))
        return parts

    def _region(self, run: list[Instruction], wanted: set[int]) -> DeviceRegion:
        plan = plan_region(run, wanted, self._constants)
        return DeviceRegion(plan, self._accelerator, self._resources, run)

    def _call(self, one: Instruction) -> Any:
        """Return what runs a node between regions: alone if it was cut out of one."""
        is_cut_out = id(one.node) in self._excluded and one.call is not read_reference
        if is_cut_out and compiles(one.node):
            return compiled_alone(one.node, self._accelerator, self._resources)
        return one.call


def _names_variable(node: Node) -> bool:
    """Whether a node gives the same handle in each step."""
    return node.op_def.role is roles.VARIABLE_HANDLE and node.attrs["shared_name"] not in (
        "",
        ANONYMOUS_NAME,
    )
