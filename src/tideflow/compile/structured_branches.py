"""v1 branches as If nodes, whose branches are functions.

Rule 1: what one predicate decides, where the same other conditions hold, is taken together:
        Switches on it, what runs on either side, and the Merges in which the sides end.
Rule 2: it becomes a chain of If nodes, one for each stage: what depends on a Merge of one stage, or
        waits for what ran in it, is of a later one.  So no If depends on itself.
Rule 3: a value of one stage that a side of a later stage takes, as gradients do, is one more output
        of the earlier If; its other branch has nothing there, and nobody reads that.
        Constants and what is only handed on are there in each stage.
Rule 4: branches stay as they are where something in them waits for something else, holds
        references, or control flow of its own that stays, and where a value leaves them other than
        by a Merge.
Source: TensorFlow turns such branches into functions for XLA
(tensorflow/compiler/tf2xla/functionalize_cond.cc).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tideflow.compile.branch_conditions import BranchConditions, Conditions
from tideflow.compile.made_functions import (
    IDLE,
    FunctionNodes,
    MadeFunction,
    require,
    require_suited,
    scalar_check,
    sources,
)
from tideflow.graph import roles
from tideflow.graph.node import Edge, Node
from tideflow.graph.op_def import get_op_def
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType

_numbers = itertools.count()


@dataclass(slots=True)
class _Stage:
    """What becomes one If node.

    Attributes:
      members: what runs on a side, in order.
      merges: where the sides end.
      held: those members, and those of earlier stages, that its functions hold, by id.
      crossing: values of members that later stages take.
    """

    members: list[Node] = field(default_factory=list)
    merges: list[Node] = field(default_factory=list)
    held: dict[int, Node] = field(default_factory=dict)
    crossing: dict[tuple[int, int], Edge] = field(default_factory=dict)


class Branches:
    """All that a predicate decides where the same other conditions hold.

    Args:
      key: the predicate, as conditions name it.
      base: the other conditions.
      nodes: those in the same frame, and what takes from them, in topological order.
    Attributes:
      outputs: what stands for outputs of Merges.
      done: what stands for nodes' having run.
      gone: the nodes that the If nodes stand for, by id.
    Raises: UnsuitedError for branches that stay.
    """

    def __init__(
        self,
        key: tuple[int, int],
        base: Conditions,
        nodes: Sequence[Node],
        conditions: BranchConditions,
    ) -> None:
        self.conditions = conditions
        self.base = base
        self.key = key
        self.when = [base | {(*self.key, 0)}, base | {(*self.key, 1)}]
        self.switches: dict[int, Node] = {}
        self.sides: dict[int, int] = {}
        self.merges: dict[int, list[Edge]] = {}
        for node in nodes:
            self._sort(node)
        self._check(nodes)
        self.stage_of = self._find_stages(nodes)
        self.stages: dict[int, _Stage] = {}
        # What only hands something on, or is a constant, in order.
        self.handing: dict[int, Node] = {}
        for node in nodes:
            self._place(node)
        for number in sorted(self.stages, reverse=True):
            self._hold(number)
        self.outputs: dict[tuple[int, int], Edge] = {}
        self.done: dict[int, Node] = {}
        self.gone = {*self.switches, *self.sides, *self.merges}
        self._crossed: dict[tuple[int, int], Edge] = {}

    # ---- what belongs to the branches

    def _sort(self, node: Node) -> None:
        found = self.conditions.of(node)
        role = node.op_def.role
        if role is roles.SWITCH and self._decides(node) and found <= self.base:
            require(not _takes_or_gives_references(node))
            self.switches[id(node)] = node
        elif found in self.when:
            self.sides[id(node)] = self.when.index(found)
        elif role is roles.MERGE and len(node.edges) == 2:
            lives = [self.conditions.of_edge(edge) for edge in node.edges]
            ends = [self._side_of(edge, live) for edge, live in zip(node.edges, lives)]
            if sorted(ends) == [0, 1]:
                self.merges[id(node)] = [node.edges[ends.index(side)] for side in (0, 1)]

    def _decides(self, switch: Node) -> bool:
        choice = self.conditions.choice(switch)
        return choice is not None and choice[:2] == self.key

    def _true_side(self, switch: Node) -> int:
        choice = self.conditions.choice(switch)
        return 1 if choice is None else choice[2]

    @property
    def _first(self) -> Node:
        """The Switch whose predicate decides for all."""
        return next(iter(self.switches.values()))

    def _side_of(self, edge: Edge, lives: Conditions) -> int:
        """Return the side that a value comes from, -1 for none."""
        if edge[0].op_def.role is roles.NEXT_ITERATION:
            return -1
        for side in (0, 1):
            if (*self.key, side) in lives and lives <= self.when[side]:
                return side
        return -1

    def _is_inside(self, node: Node) -> bool:
        return id(node) in self.sides or id(node) in self.switches

    # ---- whether it can be If nodes

    def _check(self, nodes: Sequence[Node]) -> None:
        require(bool(self.sides or self.merges))
        for node in nodes:
            if id(node) in self.sides:
                require_suited(node)
                require(node.op_def.role not in roles.CONTROL_FLOW)
                require(not _takes_or_gives_references(node))
                side = self.sides[id(node)]
                require(all(self._may_take(edge, side) for edge in node.edges))
                require(all(self._may_wait_for(one, side) for one in node.controls))
            elif id(node) in self.merges:
                require(not node.controls)
                ends = self.merges[id(node)]
                require(all(self._may_take(edge, side) for side, edge in enumerate(ends)))
            else:
                self._check_outside(node)

    def _check_outside(self, node: Node) -> None:
        for source, port in node.edges:
            require(not self._is_inside(source))
            require(id(source) not in self.merges or port == 0)
        may_wait = node.op_def.role is roles.CONTROL_TRIGGER
        require(may_wait or not any(self._is_inside(source) for source in node.controls))

    def _may_take(self, edge: Edge, side: int) -> bool:
        source, port = edge
        if source.op_def.role is roles.MERGE and port:
            return False
        if id(source) in self.sides or id(source) in self.switches:
            return self.conditions.of_edge(edge) <= self.when[side]
        return self.conditions.of_edge(edge) <= self.base

    def _may_wait_for(self, source: Node, side: int) -> bool:
        if id(source) in self.switches:
            return False
        return self.conditions.of(source) <= self.when[side]

    # ---- stages

    def _find_stages(self, nodes: Sequence[Node]) -> dict[int, int]:
        found: dict[int, int] = {}
        for node in nodes:
            leaves = not self._is_inside(node) and id(node) not in self.merges
            stage = 0
            for source in sources(node):
                before = found.get(id(source), 0)
                if id(source) in self.merges or (leaves and self._is_inside(source)):
                    before += 1
                stage = max(stage, before)
            found[id(node)] = stage
        return found

    def _place(self, node: Node) -> None:
        if id(node) in self.sides:
            inner = [one for one in sources(node) if id(one) in self.sides]
            if node.op_def.role in IDLE and all(id(one) in self.handing for one in inner):
                self.handing[id(node)] = node
            else:
                self._stage(node).members.append(node)
        elif id(node) in self.merges:
            self._stage(node).merges.append(node)

    def _stage(self, node: Node) -> _Stage:
        return self.stages.setdefault(self.stage_of[id(node)], _Stage())

    def _hold(self, number: int) -> None:
        """Find what the functions of a stage hold, and what they take from earlier ones."""
        stage = self.stages[number]
        wanted = {id(source) for node in stage.merges for source, _ in node.edges}
        wanted.update(source for source, _ in stage.crossing)
        found = []
        for node in [*reversed(stage.members), *reversed(self.handing.values())]:
            if id(node) in wanted or node.op_def.role not in IDLE:
                wanted.update(id(source) for source, _ in node.edges)
                found.append(node)
        stage.held = {id(node): node for node in reversed(found)}
        for node in [*found, *stage.merges]:
            for source, port in node.edges:
                if id(source) in self.sides and id(source) not in stage.held:
                    self._stage(source).crossing[id(source), port] = (source, port)

    # ---- making the nodes

    def if_nodes(self, fresh: Callable[[str], str]) -> list[Node]:
        """Return the nodes that stand for the branches.

        fresh: gives a name that no node has.
        """
        switch = self._first
        check = scalar_check(switch.name, switch.edges[1], switch.device)
        self.conditions.add(check, self.base)
        made = [check]
        for number, stage in sorted(self.stages.items()):
            if stage.held or stage.merges:
                node = self._if_node(number, (check, 0), fresh(f"{switch.edges[1][0].name}/If"))
                self.done.update((id(one), node) for one in [*stage.members, *stage.merges])
                made.append(node)
        return made

    def _if_node(self, number: int, pred: Edge, name: str) -> Node:
        stage = self.stages[number]
        inputs = _Inputs()
        for node in [*stage.held.values(), *stage.merges]:
            for edge in node.edges:
                if id(edge[0]) not in stage.held:
                    inputs.add(edge, self._outside(edge))
        results = [*((node, 0) for node in stage.merges), *stage.crossing.values()]
        functions = [self._function(stage, inputs, name, side) for side in (0, 1)]
        then = self._true_side(self._first)
        attrs = {
            "Tcond": dtypes.bool_,
            "Tin": inputs.types,
            "Tout": [node.output_types[port].base_dtype for node, port in results],
            "then_branch": functions[then].ref(),
            "else_branch": functions[1 - then].ref(),
            "output_shapes": [],
        }
        controls = self._controls(stage)
        made = Node(name, get_op_def("If"), [pred, *inputs.edges], controls, attrs, pred[0].device)
        self.conditions.add(made, self.base)
        for index, (node, port) in enumerate(results):
            given = self.outputs if id(node) in self.merges else self._crossed
            given[id(node), port] = (made, index)
        return made

    def _controls(self, stage: _Stage) -> list[Node]:
        """Return what an If node waits for, since what it stands for did."""
        waiting = [*stage.members, *stage.held.values(), *self._switches_of(stage)]
        found = [self.done.get(id(one), one) for node in waiting for one in node.controls]
        return list(dict.fromkeys(one for one in found if id(one) not in self.sides))

    def _switches_of(self, stage: _Stage) -> list[Node]:
        takers = [*stage.held.values(), *stage.merges]
        taken = (source for node in takers for source, _ in node.edges)
        return [source for source in taken if id(source) in self.switches]

    def _outside(self, edge: Edge) -> Edge:
        """Return what an If node takes for an edge into its branches."""
        source, port = edge
        if id(source) in self.switches:
            return source.edges[0]
        if id(source) in self.sides:
            return self._crossed[id(source), port]
        return edge

    def _function(self, stage: _Stage, inputs: _Inputs, name: str, side: int) -> MadeFunction:
        of_side = [node for node in stage.held.values() if self.sides[id(node)] == side]
        device = [*stage.held.values(), *stage.merges][0].device
        made = FunctionNodes(name, device, inputs.types, inputs.numbers, {}, of_side)
        index = 0
        for node in stage.merges:
            edge = made.carried(self.merges[id(node)][side])
            made.add_result(node.name, edge, node.output_types[0].base_dtype, index)
            index += 1
        for source, port in stage.crossing.values():
            dtype = source.output_types[port].base_dtype
            if self.sides[id(source)] == side:
                edge = made.edge((source, port))
            else:
                edge = made.add_nothing(f"{source.name}/nothing_{port}", dtype)
            made.add_result(f"{source.name}/crossing_{port}", edge, dtype, index)
            index += 1
        return MadeFunction(f"__branch_{side}_{next(_numbers)}", made.nodes)


def _takes_or_gives_references(node: Node) -> bool:
    taken = [source.output_types[port] for source, port in node.edges]
    return any(dtype.is_ref_dtype for dtype in [*taken, *node.output_types])


class _Inputs:
    """The inputs of an If node, and which of them each edge into its branches is."""

    def __init__(self) -> None:
        self.edges: list[Edge] = []
        self.types: list[DType] = []
        self.numbers: dict[tuple[int, int], int] = {}
        self._known: dict[tuple[int, int], int] = {}

    def add(self, edge: Edge, outside: Edge) -> None:
        """Note what stands outside for an edge into the branches."""
        node, port = outside
        number = self._known.get((id(node), port))
        if number is None:
            number = self._known[id(node), port] = len(self.edges)
            self.edges.append(outside)
            self.types.append(node.output_types[port])
        self.numbers[id(edge[0]), edge[1]] = number
