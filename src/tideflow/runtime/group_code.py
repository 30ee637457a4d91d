"""The code of a plan's groups: stretches of straight code, and nodes that wait."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tideflow.blocking import KERNELS, Durations, weight_of
from tideflow.compile.plan import is_waiting
from tideflow.graph.node import Node
from tideflow.runtime.binding import InstructionMaker, is_receive, send_prefix
from tideflow.runtime.inner_sizes import has_inner_sizes
from tideflow.runtime.program import Instruction, Program
from tideflow.runtime.straight_calls import StraightCall


@dataclass(slots=True)
class Launch:
    """A waiting node, ready to be started."""

    instruction: Instruction
    reads: list[Instruction]
    key: str = ""
    send_device: str = ""


@dataclass(slots=True)
class Straight:
    """Nodes without waiting ones between them, before they become a program.

    Attributes:
      blocks: what may keep its one node for any time (see OpDef.blocks).
    """

    instructions: list[Instruction]
    nodes: list[Node]
    blocks: str = ""


class GroupCode:
    """The code of one group.

    Args:
      parts: programs and launches, in order.
      constants: slots whose values are the same in each run.

    Attributes:
      blocks: whether anything in it may take any time.
    """

    __slots__ = (
        "_durations", "_has_inner_sizes", "_is_trivial", "_outside", "_programs", "blocks", "parts"
    )  # fmt: skip

    def __init__(self, parts: list[Program | Launch], constants: Collection[int]) -> None:
        self.parts = parts
        programs = [part for part in parts if isinstance(part, Program)]
        self.blocks = any(
            program.pool is not KERNELS or _has_loops(program) for program in programs
        )
        # To start what waits is short.
        self._is_trivial = not programs
        self._programs = programs
        self._durations = Durations()
        self._has_inner_sizes = has_inner_sizes(one for p in programs for one in p.instructions)
        self._outside = _slots_read(programs) - {0, *constants}

    @property
    def seconds(self) -> float:
        """How long a run takes, as far as past ones tell."""
        return 0.0 if self._is_trivial else self._durations.seconds

    def weight(self, slots: Sequence[Any]) -> int:
        """Return how large the inputs of a run are."""
        return weight_of([slots[slot] for slot in self._outside])

    def is_short(self, weight: int) -> bool:
        """Whether a run on inputs of this weight may have the loop."""
        if self._is_trivial:
            return True
        if self.blocks or self._has_inner_sizes or not self._durations.is_short(weight):
            return False
        return not any(program.is_untried for program in self._programs)

    def took(self, seconds: float, weight: int) -> None:
        """Take note of a run."""
        self._durations.took(seconds, weight)


def _has_loops(program: Program) -> bool:
    return any(
        isinstance(one.call, StraightCall) and one.call.has_loops for one in program.instructions
    )


def _slots_read(programs: Sequence[Program]) -> set[int]:
    """Return the slots that programs read before they write them."""
    read: set[int] = set()
    written: set[int] = set()
    for program in programs:
        for one in program.instructions:
            read.update(slot for slot in one.inputs if slot not in written)
            written.update(one.outputs)
    return read


def instructions_of(part: Straight | Program | Launch) -> Sequence[Instruction]:
    """Return all instructions of a part."""
    if isinstance(part, Launch):
        return [*part.reads, part.instruction]
    return part.instructions


def parts_of(nodes: Sequence[Node], maker: InstructionMaker) -> list[Straight | Launch]:
    """Return the nodes of a group as stretches of straight code, and those that wait, in order."""
    parts: list[Straight | Launch] = []
    straight: list[Node] = []

    def flush() -> None:
        if straight:
            made = maker.make(straight)
            if made:
                parts.append(Straight(made, list(straight)))
            straight.clear()

    for node in nodes:
        if is_waiting(node):
            flush()
            parts.append(_launch(node, maker))
        elif node.op_def.blocks:
            flush()
            parts.append(Straight(maker.make([node]), [node], node.op_def.blocks))
        else:
            straight.append(node)
    flush()
    return parts


def _launch(node: Node, maker: InstructionMaker) -> Launch:
    reads, inputs = maker.inputs(node)
    outputs = maker.outputs(node)
    if is_receive(node):
        key = send_prefix(node) + "0:0"
        one = Instruction(_never, inputs, outputs, node)
        return Launch(one, reads, key, node.attrs["send_device"])
    if node.op_def.takes_step:
        inputs = (0, *inputs)
    return Launch(Instruction(maker.binder.bind(node), inputs, outputs, node), reads)


def _never() -> None:
    raise AssertionError("a receive has no kernel to call")
