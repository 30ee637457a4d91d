"""Turn v1 while loops into While nodes, whose conditions and bodies are functions.

A loop of Enter, Merge, Switch, NextIteration and Exit is run node by node, as its values arrive; a
While node is one instruction, and what is around it needs no frames any more.

Rule 1: the inputs of the While node are the loop's variables, then its invariants, which the body
        returns as it got them (a `_Retval` of the `_Arg` of the same index).  Exits become outputs.
Rule 2: what only Merges and invariants lead to runs once more than the body: it is the condition's.
        What waits for a true side of a Switch, near or far, is the body's.  Where the body takes
        what the condition computed, it computes it again, if that has no effects.
Rule 3: nodes of a function keep their names and the order in which they wait for each other.
Rule 4: a loop stays as it is where a node in it waits for something else, where it holds branches,
        references, or another loop that stays, where something outside takes a value other than by
        an Exit, and where some of its variables may be dead though its condition lives.
Iterations then follow each other, as those of a loop with parallel_iterations=1 do.
Source: TensorFlow turns such loops into functions for XLA
(tensorflow/compiler/tf2xla/functionalize_while.cc).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from tideflow.compile.branch_conditions import BranchConditions, Conditions
from tideflow.compile.loop_frames import Frame, LoopFrames
from tideflow.compile.plan import is_waiting
from tideflow.graph import roles
from tideflow.graph.node import Edge, FunctionRef, Node, topological_order
from tideflow.graph.op_def import get_op_def
from tideflow.graph.shapes import TensorShape
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType

# They do nothing, so that nobody has to wait for them.
_IDLE = frozenset({roles.CONST, roles.IDENTITY, roles.NO_OP, roles.CONTROL_TRIGGER})
# Whatever their functions wait for, no other iteration of the loop gives it to them.
_CALLS = frozenset({roles.CALL, roles.HIGHER_ORDER})
_NEVER_IN_A_LOOP = frozenset(
    {roles.ARGUMENT, roles.RESULT, roles.SEND, roles.RECEIVE, roles.SWITCH_N, roles.COLLECTIVE}
)
_CARRYING = roles.CONTROL_FLOW - {roles.SWITCH_N}

# Functions of loops are known to their While nodes alone; these tell them apart in messages.
_numbers = itertools.count()


class LoopFunction:
    """The condition or the body of a loop (see tideflow.compile.inline.Definition)."""

    __slots__ = ("__weakref__", "name", "nodes")

    def __init__(self, name: str, nodes: list[Node]) -> None:
        self.name = name
        self.nodes = nodes

    def instantiate(self, attrs: Mapping[str, Any]) -> list[Node]:
        """Return a new copy of the nodes."""
        return _copied(self.nodes)

    def ref(self) -> FunctionRef:
        """Return an attr that names the function, and holds it."""
        return FunctionRef(self.name, definition=self)


def structure_loops(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes of a device with While nodes in the place of loops.

    The nodes given stay as they are.
    Raises: InvalidArgumentError for a cycle.
    """
    if not any(node.op_def.role is roles.ENTER for node in nodes):
        return list(nodes)
    order = topological_order(_copied(nodes))
    made = _Structurer(order)
    if not made.replace_loops():
        return list(nodes)
    try:
        return topological_order(made.left())
    except errors.InvalidArgumentError:
        # A value that left a loop came back into it, which a node cannot do.
        return list(nodes)


def _copied(nodes: Sequence[Node]) -> list[Node]:
    copies = {id(node): node.copy([], []) for node in nodes}
    for node in nodes:
        copy = copies[id(node)]
        copy.edges = [(copies[id(source)], port) for source, port in node.edges]
        copy.controls = [copies[id(source)] for source in node.controls]
    return list(copies.values())


class _UnsuitedError(Exception):
    """A loop stays as it is."""


class _Structurer:
    """Replaces the loops of a graph, inner ones first."""

    def __init__(self, order: list[Node]) -> None:
        self.order = order
        self.frames = LoopFrames(order)
        self.conditions = BranchConditions(order, self.frames)
        # The nodes of each loop, Enters into it among them.
        self.members: dict[int, list[Node]] = {}
        self.loops: dict[int, Frame] = {}
        # What stands for outputs of Exits, and for their having run.
        self.outputs: dict[tuple[int, int], Edge] = {}
        self.done: dict[int, Node] = {}
        self.gone: set[int] = set()
        self.made: list[Node] = []
        self._names = {node.name for node in order}
        self._unsuited: set[int] = set()
        for node in order:
            self._place(node)

    def _place(self, node: Node) -> None:
        frame = self.frames.of_input(node)
        inside = self.frames.of_output(node) if node.op_def.role is roles.ENTER else frame
        if inside is not self.frames.root:
            self.loops[id(inside)] = inside
            self.members.setdefault(id(inside), []).append(node)
        for source in _sources(node):
            origin = self.frames.of_output(source)
            if origin is not frame:
                self._unsuited.update((id(origin), id(frame)))

    def replace_loops(self) -> bool:
        """Replace what can be; return whether anything was."""
        # A loop is met after those around it.
        for frame in reversed(self.loops.values()):
            if id(frame) in self._unsuited:
                self._keep(frame)
                continue
            try:
                self._replace(frame)
            except _UnsuitedError:
                self._keep(frame)
        return bool(self.made)

    def _keep(self, frame: Frame) -> None:
        if frame.parent is not None:
            self._unsuited.add(id(frame.parent))

    def left(self) -> list[Node]:
        """Return the nodes that are left outside of functions."""
        nodes = [node for node in [*self.order, *self.made] if id(node) not in self.gone]
        for node in nodes:
            self.connect(node)
        return nodes

    def connect(self, node: Node) -> None:
        """Have a node take what stands for the Exits that it takes."""
        node.edges = [self.outputs.get((id(source), port), (source, port))
                      for source, port in node.edges]  # fmt: skip
        node.controls = list(dict.fromkeys(self.done.get(id(one), one) for one in node.controls))

    def _replace(self, frame: Frame) -> None:
        members = self.members[id(frame)]
        for node in members:
            self.connect(node)
        loop = _Loop(members, self.conditions)
        node = loop.while_node(self._fresh(frame.name))
        assert frame.parent is not None
        self.made.append(node)
        for one, number in loop.exits:
            self.outputs[id(one), 0] = (node, number)
            self.done[id(one)] = node
        self.gone.update(map(id, members))
        if frame.parent is not self.frames.root:
            self.members[id(frame.parent)].append(node)

    def _fresh(self, name: str) -> str:
        found = name
        for number in itertools.count(1):
            if found not in self._names:
                break
            found = f"{name}_{number}"
        self._names.add(found)
        return found


class _Loop:
    """A loop that can be a While node, taken apart.

    Args:
      members: its nodes, Enters and Exits among them.
      conditions: under which values live.
    Attributes:
      exits: each with the number of the variable that leaves.
    Raises: _UnsuitedError for one that cannot.
    """

    def __init__(self, members: Sequence[Node], conditions: BranchConditions) -> None:
        self.conditions = conditions
        try:
            self.nodes = topological_order(members)
        except errors.InvalidArgumentError as error:
            raise _UnsuitedError from error
        self.by_role: dict[roles.Role, list[Node]] = {}
        for node in self.nodes:
            self.by_role.setdefault(node.op_def.role, []).append(node)
        for node in self.nodes:
            _require_suited(node)
        self.condition = self._find_condition()
        # What each edge into the frame, and each that stands for a variable, is as an argument.
        self.arguments: dict[tuple[int, int], int] = {}
        self.inputs: list[Edge] = []
        self.types: list[DType] = []
        self.following: list[Node] = []
        self._find_variables()
        self._find_invariants()
        self._find_switches()
        self.exits = [(one, self._switched(one)) for one in self._of(roles.EXIT)]
        self.in_body = self._find_body()
        self._check_uses()
        self._check_conditions()

    def _of(self, role: roles.Role) -> list[Node]:
        return self.by_role.get(role, [])

    def _find_condition(self) -> Node:
        found = self._of(roles.LOOP_COND)
        _require(len(found) == 1)
        return found[0]

    def _find_variables(self) -> None:
        entered = {id(node) for node in self._of(roles.ENTER) if not node.attrs["is_constant"]}
        ends = {id(node) for node in self._of(roles.NEXT_ITERATION)}
        for merge in self._of(roles.MERGE):
            _require(len(merge.edges) == 2 and not merge.controls)
            (enter, _), (following, _) = merge.edges
            _require(id(enter) in entered and id(following) in ends)
            entered.remove(id(enter))
            self.arguments[id(merge), 0] = self._add(enter)
            self.following.append(following)
        _require(not entered and bool(self.inputs))

    def _find_invariants(self) -> None:
        known: dict[tuple[int, int], int] = {}
        for enter in self._of(roles.ENTER):
            if enter.attrs["is_constant"]:
                source, port = enter.edges[0]
                number = known.get((id(source), port))
                if number is None:
                    number = known[id(source), port] = self._add(enter)
                self.arguments[id(enter), 0] = number

    def _add(self, enter: Node) -> int:
        self.inputs.append(enter.edges[0])
        self.types.append(enter.output_types[0])
        return len(self.inputs) - 1

    def _find_switches(self) -> None:
        for switch in self._of(roles.SWITCH):
            (source, port), (decider, _) = switch.edges
            _require(source.op_def.role is roles.MERGE and decider is self.condition)
            self.arguments[id(switch), 1] = self.arguments[id(source), port]

    def _switched(self, exit_node: Node) -> int:
        """Return the variable that leaves by an Exit."""
        source, port = exit_node.edges[0]
        _require(source.op_def.role is roles.SWITCH and port == 0)
        return self.arguments[id(source), 1]

    def _find_body(self) -> set[int]:
        """Return the nodes that run only where the condition held."""
        held = {(id(switch), 1) for switch in self._of(roles.SWITCH)}
        found: set[int] = set()
        for node in self.nodes:
            if any((id(source), port) in held for source, port in node.edges) or any(
                id(source) in found for source in _sources(node)
            ):
                found.add(id(node))
        return found

    def _check_uses(self) -> None:
        """Refuse what takes values that live in some iterations only, or that no function has."""
        for node in self.nodes:
            role = node.op_def.role
            is_of_body = id(node) in self.in_body
            if role is roles.NEXT_ITERATION:
                _require(is_of_body)
            elif role in _CARRYING and role is not roles.MERGE and role is not roles.ENTER:
                _require(not is_of_body)
            if role is roles.ENTER or role is roles.MERGE or role is roles.EXIT:
                continue
            for source, port in node.edges:
                # Of Merges, Switches and Enters only what is an argument.
                _require(
                    source.op_def.role not in _CARRYING
                    or source is self.condition
                    or (id(source), port) in self.arguments
                )
            for source in node.controls:
                _require(self._may_be_waited_for(source, is_of_body))

    def _may_be_waited_for(self, source: Node, by_body: bool) -> bool:
        role = source.op_def.role
        if role is roles.ENTER:
            return bool(source.attrs["is_constant"])
        return role is not roles.NEXT_ITERATION and (by_body or role is not roles.SWITCH)

    def _check_conditions(self) -> None:
        """Refuse a loop of which a part may be dead though its condition lives."""
        needed = self._needed_by([self.condition])
        lives: set[Any] = set()
        for node in self.nodes:
            if node.op_def.role is roles.ENTER and id(node) in needed:
                lives |= self.conditions.of(node)
        self.lives: Conditions = frozenset(lives)
        _require(all(self.conditions.of(enter) <= self.lives for enter in self._of(roles.ENTER)))

    def _needed_by(self, wanted: Sequence[Node]) -> set[int]:
        """Return the nodes of one iteration that others need, those others among them."""
        found = set(map(id, wanted))
        for node in reversed(self.nodes):
            if id(node) in found:
                found.update(map(id, _sources(node)))
        return found

    # ---- making functions

    def while_node(self, name: str) -> Node:
        """Return the While node, on which everything waits that waited for an Enter's inputs."""
        number = next(_numbers)
        enters = self._of(roles.ENTER)
        attrs = {
            "T": self.types,
            "cond": LoopFunction(f"__loop_cond_{number}", self._condition_nodes()).ref(),
            "body": LoopFunction(f"__loop_body_{number}", self._body_nodes()).ref(),
            "output_shapes": [],
            "parallel_iterations": enters[0].attrs["parallel_iterations"],
        }
        controls = list(dict.fromkeys(one for enter in enters for one in enter.controls))
        made = Node(name, get_op_def("While"), self.inputs, controls, attrs, self.condition.device)
        self.conditions.add(made, self.lives)
        return made

    def _condition_nodes(self) -> list[Node]:
        nodes = [n for n in self.nodes if id(n) not in self.in_body and _computes(n)]
        # What has effects runs in each iteration, whether or not the condition depends on it.
        needed = self._needed_by([self.condition, *(n for n in nodes if not n.op_def.is_pure)])
        made = _Function(self, [node for node in nodes if id(node) in needed])
        scalar = {"T": dtypes.bool_, "shape": TensorShape(())}
        switches = self._of(roles.SWITCH)
        # It was the Switches that complained of a condition which is no scalar.
        name = switches[0].name if switches else self.condition.name
        checked = made.add(name, "EnsureShape", made.edge((self.condition, 0)), scalar)
        made.add(self.condition.name, "_Retval", (checked, 0), {"T": dtypes.bool_, "index": 0})
        return made.nodes

    def _body_nodes(self) -> list[Node]:
        own = [node for node in self.nodes if id(node) in self.in_body and _computes(node)]
        wanted = {id(source) for node in [*own, *self.following] for source, _ in node.edges}
        for node in reversed(self.nodes):
            if id(node) in wanted and id(node) not in self.in_body and _computes(node):
                _require(node.op_def.is_pure)
                wanted.update(id(source) for source, _ in node.edges)
            elif node is self.condition and id(node) in wanted:
                wanted.add(id(node.edges[0][0]))
        made = _Function(
            self,
            [n for n in self.nodes if _computes(n) and (id(n) in self.in_body or id(n) in wanted)],
        )
        for number, dtype in enumerate(self.types):
            if number < len(self.following):
                end = self.following[number]
                name, edge = end.name, made.carried(end.edges[0])
            else:
                name, edge = f"{self.condition.name}/kept_{number}", (made.arguments[number], 0)
            made.add(name, "_Retval", edge, {"T": dtype, "index": number})
        return made.nodes


class _Function:
    """The nodes of a function of a loop, copied from those of an iteration.

    Args:
      members: those that it holds, in topological order.
    """

    def __init__(self, loop: _Loop, members: Sequence[Node]) -> None:
        self._loop = loop
        device = loop.condition.device
        self.arguments = [
            Node(f"{loop.condition.name}/arg_{number}", get_op_def("_Arg"), [], [],
                 {"T": dtype, "index": number}, device)
            for number, dtype in enumerate(loop.types)
        ]  # fmt: skip
        self.nodes = list(self.arguments)
        self._made: dict[int, Node] = {}
        # Copies that do something, or wait for what does: who waits for others need not wait.
        self._busy: set[int] = set()
        for node in members:
            self._copy(node)

    def _copy(self, node: Node) -> None:
        copy = node.copy([self.edge(edge) for edge in node.edges], [])
        waited = (self._made.get(id(self._behind(source))) for source in node.controls)
        copy.controls = [one for one in waited if one is not None and id(one) in self._busy]
        if node.op_def.role not in _IDLE or any(id(one) in self._busy for one in _sources(copy)):
            self._busy.add(id(copy))
        self._made[id(node)] = copy
        self.nodes.append(copy)

    def _behind(self, node: Node) -> Node:
        """Return what a node hands on, if it is the loop's condition."""
        return node.edges[0][0] if node is self._loop.condition else node

    def edge(self, edge: Edge) -> Edge:
        """Return the edge of the function for one of the loop."""
        source, port = edge
        if source is self._loop.condition:
            source, port = source.edges[0]
        number = self._loop.arguments.get((id(source), port))
        if number is not None:
            return self.arguments[number], 0
        return self._made[id(source)], port

    def carried(self, edge: Edge) -> Edge:
        """Return the edge of the function for one of the loop; the argument itself where it is only
        handed on."""
        made = found = self.edge(edge)
        while found[0].op_def.role is roles.IDENTITY and id(found[0]) not in self._busy:
            found = found[0].edges[0]
        return found if found[0].op_def.role is roles.ARGUMENT else made

    def add(self, name: str, op: str, edge: Edge, attrs: dict[str, Any]) -> Node:
        """Add a node of one input, an edge of the function."""
        made = Node(name, get_op_def(op), [edge], [], attrs, self._loop.condition.device)
        self.nodes.append(made)
        return made


def _sources(node: Node) -> list[Node]:
    return [*(source for source, _ in node.edges), *node.controls]


def _computes(node: Node) -> bool:
    """Whether a node is more than a way of values into, round and out of the loop."""
    return node.op_def.role not in _CARRYING


def _require(holds: bool) -> None:
    if not holds:
        raise _UnsuitedError


def _require_suited(node: Node) -> None:
    op_def = node.op_def
    _require(op_def.role not in _NEVER_IN_A_LOOP)
    _require(op_def.role in _CALLS or not is_waiting(node))
    _require(not any(dtype.is_ref_dtype for dtype in node.output_types))
