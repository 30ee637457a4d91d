"""What a region takes and gives, before it is compiled for the shapes of its inputs.

A node that runs functions is an action with a plan for each of these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tideflow.compile.region_selection import (
    VariableKey,
    changes_variables,
    is_gather,
    is_variable_read,
    shape_of_variable,
    variable_key,
    variables_of,
)
from tideflow.graph import roles
from tideflow.graph.node import Node
from tideflow.runtime.drawn_numbers import DrawingCall
from tideflow.runtime.program import Instruction
from tideflow.runtime.references import read_reference
from tideflow.runtime.straight_calls import FunctionCode, StraightCall
from tideflow.wire.dtypes import DType

# In the place of an input of a node that is no value: a handle of a variable.
NO_SLOT = -1
# Attrs by which sequences of random numbers differ, but not the code that draws them.
_SEEDS = ("seed", "seed2")
# Larger constants are handed over, smaller ones become part of the code.
_EMBEDDED_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Cell:
    """A variable of a region: where its handle or reference is found."""

    slot: int
    is_ref: bool
    dtype: DType
    name: str


@dataclass(slots=True)
class Action:
    """One instruction as the tracer sees it.

    Attributes:
      kind: "read", "shape", "gather", "assign", "update", "functions", "objects", "draw" or "pure".
      inputs: slots of plain values.
      cells: positions of the variables read or changed.
      outputs: slots of results that are values.
      nested: the functions that it runs.
      call: what runs it with NumPy.
    """

    kind: str
    node: Node
    inputs: tuple[int, ...]
    cells: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    nested: tuple[Nested, ...] = ()
    call: Any = None


@dataclass(slots=True)
class Result:
    """Where a result of a function comes from: one of the following.

    Attributes:
      argument: which argument it repeats.
      slot: where the function's plan has it.
      value: what it always is.
    """

    argument: int | None = None
    slot: int | None = None
    value: Any = None


@dataclass(slots=True)
class Nested:
    """A function that an action runs.

    Attributes:
      plan: its body.
      takes: which arguments of the function the inputs of the plan are.
      results: what it gives.
      cells: which of the cells of the action those of the plan are.
    """

    plan: RegionPlan
    takes: list[int]
    results: list[Result]
    cells: list[int]


@dataclass(slots=True)
class RegionPlan:
    """A region before it is compiled for the shapes of its inputs.

    Attributes:
      actions: in order.
      cells: its variables, changed ones first.
      changed: how many of the cells are changed.
      inputs: slots whose values are handed over at each run.
      input_names: what these values are called in messages.
      constants: values known already, by slot.
      large: slots of constants that are handed over.
      outputs: slots of values wanted outside.
      forwarded: (slot, slot of the reference that it repeats).
    """

    actions: list[Action]
    cells: list[Cell]
    changed: int
    inputs: list[int]
    input_names: list[str]
    constants: dict[int, Any]
    large: list[int]
    outputs: list[int]
    forwarded: list[tuple[int, int]]
    digest: str = ""

    @property
    def draws(self) -> list[DrawingCall]:
        """The calls that draw random numbers, in the order of their actions."""
        return [action.call for action in self.actions if action.kind == "draw"]

    @property
    def tables(self) -> dict[int, list[Node]]:
        """The nodes that take or change only some rows of a variable, by its cell."""
        found: dict[int, list[Node]] = {}
        for action in self.actions:
            update = action.node.op_def.update
            is_row_wise = action.kind == "gather" or (update is not None and update.indices >= 0)
            cells = set(action.cells if is_row_wise else ())
            for one in action.nested:
                cells.update(action.cells[one.cells[cell]] for cell in one.plan.tables)
            for cell in cells:
                found.setdefault(cell, []).append(action.node)
        return found


class NotCompiledError(Exception):
    """Some nodes do not compile; the others may.

    Attributes:
      nodes: those.
      is_lasting: whether it is so in every process, whatever its settings and its memory.
    """

    def __init__(self, nodes: Sequence[Node], why: str, *, is_lasting: bool = True) -> None:
        super().__init__(why)
        self.nodes = list(nodes)
        self.is_lasting = is_lasting


class _Cells:
    """The variables of a region, while it is planned."""

    def __init__(self) -> None:
        self.found: dict[VariableKey, Cell] = {}
        self.changed: dict[VariableKey, None] = {}

    def add(self, edge: tuple[Node, int], slot: int, dtype: DType, changes: bool) -> VariableKey:
        key = variable_key(*edge)
        source, port = edge
        is_ref = source.output_types[port].is_ref_dtype
        name = str(key[-1]) if isinstance(key[0], str) else source.name
        self.found.setdefault(key, Cell(slot, is_ref, dtype, name))
        if changes:
            self.changed[key] = None
        return key


def plan_region(
    instructions: Sequence[Instruction], wanted: set[int], constants: Mapping[int, Any]
) -> RegionPlan:
    """Describe a region.

    Raises: NotCompiledError that names a node whose functions cannot be part of it.

    Args:
      instructions: those of nodes that may compile, in order.
      wanted: slots whose values are wanted outside.
      constants: values that slots hold from the beginning.
    """
    cells = _Cells()
    keyed = [_read_action(one, cells) for one in instructions]
    order = [*cells.changed, *(key for key in cells.found if key not in cells.changed)]
    position = {key: i for i, key in enumerate(order)}
    forwarded = []
    actions = []
    names: dict[int, str] = {}
    for one, (action, keys) in zip(instructions, keyed):
        action.cells = tuple(position[key] for key in keys)
        actions.append(action)
        if action.kind != "pure" and not action.outputs and one.outputs:
            forwarded.append((one.outputs[0], one.inputs[0]))
        for slot, (source, port) in zip(reversed(one.inputs), reversed(one.node.edges)):
            names.setdefault(slot, _tensor_name(source, port))
    made: set[int] = set()
    taken: dict[int, None] = {}
    for action in actions:
        taken.update((slot, None) for slot in action.inputs if slot not in made)
        taken.pop(NO_SLOT, None)
        made.update(action.outputs)
    known = {slot: constants[slot] for slot in taken if slot in constants}
    large = [slot for slot, value in known.items() if np.size(value) and _is_large(value)]
    inputs = [slot for slot in taken if slot not in known]
    plan = RegionPlan(
        actions, [cells.found[key] for key in order], len(cells.changed), inputs,
        [names.get(slot, "?") for slot in inputs], known, large,
        [slot for slot in dict.fromkeys(s for a in actions for s in a.outputs) if slot in wanted],
        forwarded,
    )  # fmt: skip
    plan.digest = _digest(plan)
    return plan


def _tensor_name(node: Node, port: int) -> str:
    """Return what the user calls a tensor; a fed one has a stand-in named after it."""
    if node.op_def.role is roles.ARGUMENT and node.name.startswith("_arg_"):
        return ":".join(node.name.removeprefix("_arg_").rsplit("_", 1))
    return f"{node.name}:{port}"


def _is_large(value: Any) -> bool:
    return int(value.nbytes) > _EMBEDDED_BYTES


def _read_action(one: Instruction, cells: _Cells) -> tuple[Action, list[VariableKey]]:
    node = one.node
    if one.call is read_reference:
        slot = one.inputs[0]
        at = _reference_input(node, slot, cells)
        source, port = node.edges[at]
        dtype = source.output_types[port].base_dtype
        key = cells.add((source, port), slot, dtype, changes=False)
        return Action("read", node, (), outputs=one.outputs), [key]
    if is_gather(node):
        key = cells.add(node.edges[0], one.inputs[0], node.attrs["dtype"], changes=False)
        return Action("gather", node, one.inputs[1:], outputs=one.outputs), [key]
    shaped = shape_of_variable(node)
    if shaped is not None:
        key = cells.add(node.edges[0], one.inputs[0], shaped, changes=False)
        return Action("shape", node, (), outputs=one.outputs), [key]
    if isinstance(one.call, StraightCall):
        return _functions_action(one, one.call, cells)
    if isinstance(one.call, DrawingCall):
        return Action("draw", node, one.inputs, outputs=one.outputs, call=one.call), []
    if node.op_def.traced is not None and not node.op_def.is_pure:
        taken = zip(one.inputs[int(node.op_def.takes_step) :], node.edges)
        # Strings, as those that tell what failed, are for straight code.
        inputs = tuple(
            NO_SLOT if source.output_types[port].name == "string" else slot
            for slot, (source, port) in taken
        )
        return Action("objects", node, inputs, outputs=one.outputs), []
    if not (is_variable_read(node) or changes_variables(node)):
        return Action("pure", node, one.inputs, outputs=one.outputs, call=one.call), []
    count = variables_of(node)
    dtype = node.attrs.get("T") or node.attrs["dtype"]
    changes = changes_variables(node)
    keys = [
        cells.add(edge, slot, dtype, changes)
        for edge, slot in zip(node.edges[:count], one.inputs[:count])
    ]
    if not changes:
        return Action("read", node, (), outputs=one.outputs), keys
    kind = "update" if node.op_def.update else "assign"
    # A reference op's result is the reference, which is no value.
    return Action(kind, node, one.inputs[count:]), keys


def _functions_action(
    one: Instruction, call: StraightCall, cells: _Cells
) -> tuple[Action, list[VariableKey]]:
    keys: list[VariableKey] = []
    nested = tuple(_nested(one, call, code, cells, keys) for code in call.codes())
    # The step is input 0 of the instruction.
    inputs = tuple(
        slot if _is_value(one.node, at, nested, call) else NO_SLOT
        for at, slot in enumerate(one.inputs[1:])
    )
    return Action(
        "functions", one.node, inputs, outputs=one.outputs, nested=nested, call=call
    ), keys


def _is_value(node: Node, at: int, nested: Sequence[Nested], call: StraightCall) -> bool:
    """Whether an input of a node is more to its functions than the handle of a variable."""
    source, port = node.edges[at]
    if source.output_types[port].name != "resource":
        return True
    return any(at - call.first_argument in one.takes for one in nested)


def _nested(
    one: Instruction, call: StraightCall, code: FunctionCode, cells: _Cells, keys: list[VariableKey]
) -> Nested:
    plan = plan_region(code.instructions, set(code.results), code.constants)
    held = []
    for i, cell in enumerate(plan.cells):
        at = _argument(code, cell.slot, one.node) + call.first_argument
        edge, slot = one.node.edges[at], one.inputs[1 + at]
        key = cells.add(edge, slot, cell.dtype, changes=i < plan.changed)
        if key not in keys:
            keys.append(key)
        held.append(keys.index(key))
    if plan.changed and len(set(held)) < len(held):
        raise NotCompiledError([one.node], "a function of it has two handles of one variable")
    takes = [_argument(code, slot, one.node) for slot in plan.inputs]
    made = {slot for action in plan.actions for slot in action.outputs}
    results = []
    for slot in code.results:
        if slot in made:
            results.append(Result(slot=slot))
        elif slot in code.constants:
            results.append(Result(value=code.constants[slot]))
        else:
            results.append(Result(argument=_argument(code, slot, one.node)))
    return Nested(plan, takes, results, held)


def _argument(code: FunctionCode, slot: int, node: Node) -> int:
    found = code.arguments.get(slot)
    if found is None:
        raise NotCompiledError([node], "a function of it takes more than its arguments")
    return found


def _reference_input(node: Node, slot: int, cells: _Cells) -> int:
    """Return which input of a node a reading instruction reads: the one whose cell is at slot."""
    held = [
        at for at, (source, port) in enumerate(node.edges) if source.output_types[port].is_ref_dtype
    ]
    for at in held:
        known = cells.found.get(variable_key(*node.edges[at]))
        if known is not None and known.slot == slot:
            return at
    return held[0] if len(held) == 1 else _unseen_reference(node, held, cells)


def _unseen_reference(node: Node, held: Sequence[int], cells: _Cells) -> int:
    """Reads come in the order of the inputs, so it is the first one not met before."""
    for at in held:
        if variable_key(*node.edges[at]) not in cells.found:
            return at
    return held[0]


# ---- content


def _digest(plan: RegionPlan) -> str:
    """Return a name for what the region computes, the same in all sessions and graphs."""
    local: dict[int, int] = {}

    def number(slots: Sequence[int]) -> list[int]:
        return [local.setdefault(slot, len(local)) for slot in slots]

    text = hashlib.sha256()
    text.update(repr((number(plan.inputs), number(plan.large))).encode())
    for slot, value in plan.constants.items():
        if slot not in plan.large:
            text.update(repr((number([slot]), value.dtype.name, value.shape)).encode())
            text.update(np.asarray(value).tobytes())
    for action in plan.actions:
        node = action.node
        attrs = [(name, _attr_text(v)) for name, v in sorted(node.attrs.items()) if name[0] != "_"]
        row = (action.kind, node.op, number(action.inputs), action.cells, number(action.outputs))
        if action.kind == "draw":
            attrs = [(name, value) for name, value in attrs if name not in _SEEDS]
        if action.nested:
            attrs = []  # names of functions, and what is said of them, tell nothing more
        text.update(repr((row, attrs)).encode())
        for one in action.nested:
            _add_nested(text, one)
    text.update(repr((plan.changed, number(plan.outputs))).encode())
    text.update(repr([cell.dtype.name for cell in plan.cells]).encode())
    return text.hexdigest()


def _add_nested(text: Any, one: Nested) -> None:
    text.update(repr((one.plan.digest, one.takes, one.cells)).encode())
    outputs = {slot: i for i, slot in enumerate(one.plan.outputs)}
    for result in one.results:
        if result.argument is None and result.slot is None:
            value = np.asarray(result.value)
            text.update(repr((value.dtype.name, value.shape)).encode() + value.tobytes())
        else:
            place = None if result.slot is None else outputs[result.slot]
            text.update(repr((result.argument, place)).encode())
    for slot in one.plan.large:
        text.update(np.asarray(one.plan.constants[slot]).tobytes())


def _attr_text(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return (value.dtype.name, value.shape, value.tobytes())
    return repr(value)
