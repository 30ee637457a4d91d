"""What a region takes and gives, and its translation into one traced function.

A region's instructions are traced in their order.  A kernel whose inputs are all known runs with
NumPy while tracing, so that arithmetic on shapes stays concrete; any other runs with jax.numpy.
The values of variables are carried along: a read gives what the last update before it stored.

This module does not import jax: who traces passes jax.numpy in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tideflow.compile.region_selection import (
    VariableKey,
    changes_variables,
    divides,
    is_gather,
    is_variable_read,
    label_guard,
    needs_known_inputs,
    shape_of_variable,
    variable_key,
    variables_of,
)
from tideflow.graph import roles
from tideflow.graph.kernel import bind
from tideflow.graph.node import Node
from tideflow.runtime.program import Instruction
from tideflow.runtime.references import read_reference
from tideflow.wire import errors
from tideflow.wire.dtypes import DType

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
      kind: "read", "shape", "gather", "assign", "update" or "pure".
      inputs: slots of plain values.
      cells: positions of the variables read or changed.
      outputs: slots of results that are values.
    """

    kind: str
    node: Node
    inputs: tuple[int, ...]
    cells: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()


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


class NotCompiledError(Exception):
    """Some nodes do not compile; the others may.  `nodes` are their ids."""

    def __init__(self, nodes: Sequence[Node], why: str) -> None:
        super().__init__(why)
        self.nodes = list(nodes)


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
    if not (is_variable_read(node) or changes_variables(node)):
        return Action("pure", node, one.inputs, outputs=one.outputs), []
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


# ---- tracing


@dataclass(slots=True)
class Traced:
    """What tracing finds out besides the code.

    Attributes:
      constants: outputs that are known, by slot.
      outputs: slots of the computed outputs, in order.
      guards: (position among the inputs, bound): labels that must lie in [0, bound).
    """

    constants: dict[int, Any] = field(default_factory=dict)
    outputs: list[int] = field(default_factory=list)
    guards: list[tuple[int, int]] = field(default_factory=list)


def make_traceable(
    plan: RegionPlan, jax: Any, found: Traced, must_end: Callable[[], bool]
) -> Callable[..., list[Any]]:
    """Return the region as a function to trace.

    It takes the values of the cells, of the inputs and of the large constants; it gives the new
    values of the changed cells, then the outputs.  Tracing it fills `found`.
    Raises (when traced): NotCompiledError that names the nodes to leave out; CancelledError once
    `must_end` says so.
    """

    def region(*args: Any) -> list[Any]:
        tracer = Tracer(plan, jax, args)
        for action in plan.actions:
            if must_end():
                raise errors.CancelledError("the program ends; nothing is compiled any more")
            tracer.run(action)
        if tracer.failed:
            node, error = next(iter(tracer.failed.values()))
            raise NotCompiledError(
                [node for node, _ in tracer.failed.values()],
                f"{node.op} {node.name!r}: {type(error).__name__}: {error}",
            )
        return tracer.finish(found)

    return region


class MissingError(Exception):
    """An input comes from a node that failed."""


class Tracer:
    """One tracing of a region."""

    def __init__(self, plan: RegionPlan, jax: Any, args: Sequence[Any]) -> None:
        self.plan = plan
        self.jax = jax
        self.jnp = jax.numpy
        count = len(plan.cells)
        self.cells = list(args[:count])
        self.values: dict[int, Any] = dict(plan.constants)
        self.values.update(zip([*plan.inputs, *plan.large], args[count:]))
        self.position = {slot: i for i, slot in enumerate(plan.inputs)}
        self.guards: dict[tuple[int, int], None] = {}
        self.failed: dict[int, tuple[Node, Exception]] = {}
        self.arguments = {id(arg) for arg in args}

    def run(self, action: Action) -> None:
        """Trace one action."""
        try:
            self._run(action)
        except MissingError:
            self.forget(action)
        except Exception as error:  # whatever a kernel raises: it then runs with NumPy
            self.failed[id(action.node)] = (action.node, error)
            self.forget(action)

    def forget(self, action: Action) -> None:
        """Note that an action gave nothing."""
        for slot in action.outputs:
            self.values[slot] = MissingError
        if action.kind in ("assign", "update"):
            for cell in action.cells:
                self.cells[cell] = MissingError

    def _run(self, action: Action) -> None:
        inputs = [self.values[slot] for slot in action.inputs]
        olds = [self.cells[cell] for cell in action.cells]
        if any(value is MissingError for value in (*inputs, *olds)):
            raise MissingError
        if action.kind == "read":
            self.values[action.outputs[0]] = olds[0]
        elif action.kind == "shape":
            wanted = action.node.attrs["out_type"].as_numpy_dtype
            self.values[action.outputs[0]] = np.array(olds[0].shape, wanted)
        elif action.kind == "assign":
            self._store(action, [inputs[0]])
        elif action.kind == "update":
            self._update(action, olds, inputs)
        else:
            self._compute(action, inputs)

    def _store(self, action: Action, news: Sequence[Any]) -> None:
        for cell, new in zip(action.cells, news):
            wanted = self.plan.cells[cell].dtype.as_numpy_dtype
            _require(new.dtype == wanted, f"a new value of type {new.dtype}, not {wanted}")
            # Memory of another size could not be given back, and the next step would be compiled
            # anew.
            _require(new.shape == self.cells[cell].shape, "another shape than the variable's")
        for cell, new in zip(action.cells, news):
            self.cells[cell] = new

    def _update(self, action: Action, olds: list[Any], others: list[Any]) -> None:
        update = action.node.op_def.update
        assert update is not None
        node = action.node
        update.require_shapes(olds, others)
        attrs = {name: node.attrs[name] for name in node.op_def.kernel_attrs}
        self._store(action, update.rule(self.jnp, *olds, *others, **attrs))

    def _compute(self, action: Action, inputs: list[Any]) -> None:
        node = action.node
        is_traced = any(self._is_traced(value) for value in inputs)
        self._require_safe(action, inputs, is_traced)
        if is_traced and divides(node) and not self._is_traced(inputs[1]):
            # XLA multiplies by the inverse of a known divisor: x / x is then not always 1.
            inputs[1] = self.jax.lax.optimization_barrier(self.jnp.asarray(inputs[1]))
        result = bind(node, self.jnp if is_traced else np)(*inputs)
        outputs = [result] if len(action.outputs) == 1 else list(result)
        for slot, value, dtype in zip(action.outputs, outputs, node.output_types, strict=True):
            _require(value.dtype == dtype.as_numpy_dtype, f"a result of type {value.dtype}")
            self.values[slot] = value

    def _require_safe(self, action: Action, inputs: list[Any], is_traced: bool) -> None:
        """Raise for what could fail on values that are not known yet; note what to check then."""
        if label_guard(action.node):
            self._guard(action, inputs)
        known = not is_traced or not needs_known_inputs(action.node)
        _require(known, "its values would go unchecked")

    def _is_traced(self, value: Any) -> bool:
        return isinstance(value, (self.jax.core.Tracer, self.jax.Array))

    def _guard(self, action: Action, inputs: list[Any]) -> None:
        features, labels = inputs
        bound = features.shape[-1]
        if not self._is_traced(labels):
            _require(bool(((labels >= 0) & (labels < bound)).all()), "labels out of range")
            return
        at = self.position.get(action.inputs[1])
        _require(at is not None, "labels that are computed")
        assert at is not None
        self.guards[at, bound] = None

    def finish(self, found: Traced) -> list[Any]:
        """Return the results; no two of them, and no argument, share memory."""
        given = set(self.arguments)
        results = [self._own(value, given) for value in self.cells[: self.plan.changed]]
        for slot in self.plan.outputs:
            value = self.values[slot]
            if self._is_traced(value):
                found.outputs.append(slot)
                results.append(self._own(value, given))
            else:
                found.constants[slot] = value
        found.guards.extend(self.guards)
        return results

    def _own(self, value: Any, given: set[int]) -> Any:
        if id(value) in given or not self._is_traced(value):
            value = self.jnp.array(value, copy=True)
        given.add(id(value))
        return value


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise errors.InvalidArgumentError(what)


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
        text.update(repr((row, attrs)).encode())
    text.update(repr((plan.changed, number(plan.outputs))).encode())
    text.update(repr([cell.dtype.name for cell in plan.cells]).encode())
    return text.hexdigest()


def _attr_text(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return (value.dtype.name, value.shape, value.tobytes())
    return repr(value)
