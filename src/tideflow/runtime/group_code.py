"""The code of a plan's groups: stretches of straight code, and nodes that wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tideflow.compile.plan import is_waiting
from tideflow.graph.node import Node
from tideflow.runtime.binding import InstructionMaker, is_receive, send_prefix
from tideflow.runtime.device_program import DeviceProgram
from tideflow.runtime.program import Instruction, Program

# Until its own runs tell, a program is guessed from its length.
_GUESS_PER_INSTRUCTION_S = 20e-6
# What an accelerator runs is compiled first.
_COMPILING_S = 1.0


@dataclass(slots=True)
class Launch:
    """A waiting node, ready to be started."""

    instruction: Instruction
    reads: list[Instruction]
    key: str = ""
    send_device: str = ""


@dataclass(slots=True)
class Straight:
    """Nodes without waiting ones between them, before they become a program."""

    instructions: list[Instruction]
    nodes: list[Node]


class GroupCode:
    """The code of one group: programs and launches in order."""

    __slots__ = ("parts", "seconds")

    def __init__(self, parts: list[Program | Launch]) -> None:
        self.parts = parts
        count = sum(len(p.instructions) for p in parts if isinstance(p, Program))
        self.seconds = count * _GUESS_PER_INSTRUCTION_S
        if any(isinstance(p, DeviceProgram) for p in parts):
            self.seconds = max(self.seconds, _COMPILING_S)

    def took(self, seconds: float) -> None:
        """Take note of a run."""
        # One quick run shows what the code takes; slow ones may have waited for a thread or a core.
        self.seconds = min(seconds, self.seconds + 0.3 * (seconds - self.seconds))


def instructions_of(part: Straight | Launch) -> list[Instruction]:
    """Return all instructions of a part."""
    if isinstance(part, Straight):
        return part.instructions
    return [*part.reads, part.instruction]


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
