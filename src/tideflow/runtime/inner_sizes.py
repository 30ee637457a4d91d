"""Finds programs in which sizes of tensors come from what no input of the program tells.

How long a run takes is foretold from past ones and the inputs (tideflow.blocking.durations).  A
variable that says how large a tensor is to be, or a number that was drawn or looked up, is no
input: such a program may take long at any run.
"""

from __future__ import annotations

from collections.abc import Iterable

from tideflow.graph import roles
from tideflow.graph.node import arg_sizes
from tideflow.runtime.program import Instruction
from tideflow.runtime.references import read_reference


def has_inner_sizes(instructions: Iterable[Instruction]) -> bool:
    """Whether a size of a tensor follows from what instructions read, rather than compute.

    Calls of functions are not looked into.
    """
    untold: set[int] = set()
    for one in instructions:
        if one.call is read_reference:
            untold.update(one.outputs)
        elif one.node.op_def.is_pure:
            given = untold.intersection(one.inputs)
            if not given:
                continue
            if given.intersection(_size_slots(one)):
                return True
            # What shapes tell was made before, and has had its time.
            if one.node.op_def.static_value is None:
                untold.update(one.outputs)
        else:
            if untold.intersection(_size_slots(one)):
                return True
            if one.node.op_def.runs is None:
                untold.update(one.outputs)
    return False


def _size_slots(one: Instruction) -> list[int]:
    """Return the slots of inputs that say how large the results are."""
    if one.node.op_def.role is roles.RESHAPE:
        return []
    op_def = one.node.op_def
    found: list[int] = []
    at = 1 if op_def.takes_step else 0  # the step comes before the arguments
    for arg, size in zip(op_def.inputs, arg_sizes(op_def.inputs, one.node.attrs)):
        width = 1 if size is None else size
        if arg.name == "shape" or arg.name in op_def.static_inputs:
            found.extend(one.inputs[at : at + width])
        at += width
    return found
