"""A v1 while loop as a While node, whose condition and body are functions.

Rule 1: the inputs of the While node are the loop's variables, then its invariants, which the body
        returns as it got them (a `_Retval` of the `_Arg` of the same index).  Exits become outputs.
Rule 2: what only Merges and invariants lead to runs once more than the body: it is the condition's.
        What waits for a true side of a Switch, near or far, is the body's.  Where the body takes
        what the condition computed, it computes it again, if that has no effects.
Rule 3: nodes of a function keep their names and the order in which they wait for each other.
Rule 4: a loop stays as it is where a node in it waits for something else, where it holds references
        or control flow of its own that stays, where something outside takes a value other than by
        an Exit, and where some of its variables may be dead though its condition lives.
Iterations then follow each other, as those of a loop with parallel_iterations=1 do.
Source: TensorFlow turns such loops into functions for XLA
(tensorflow/compiler/tf2xla/functionalize_while.cc).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tideflow.compile.branch_conditions import BranchConditions, Condition
from tideflow.compile.made_functions import (
    FunctionNodes,
    MadeFunction,
    UnsuitedError,
    require,
    require_suited,
    scalar_check,
    sources,
)
from tideflow.graph import roles
from tideflow.graph.node import Edge, Node, topological_order
from tideflow.graph.op_def import get_op_def
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType

_CARRYING = roles.CONTROL_FLOW - {roles.SWITCH_N}

# Functions of loops are known to their While nodes alone; these tell them apart in messages.
_numbers = itertools.count()


class Loop:
    """A loop that can be a While node, taken apart.

    Args:
      members: its nodes, Enters and Exits among them.
      conditions: under which values live.
    Attributes:
      exits: each with the number of the variable that leaves.
    Raises: UnsuitedError for one that cannot.
    """

    def __init__(self, members: Sequence[Node], conditions: BranchConditions) -> None:
        self.conditions = conditions
        try:
            self.nodes = topological_order(members)
        except errors.InvalidArgumentError as error:
            raise UnsuitedError from error
        self.by_role: dict[roles.Role, list[Node]] = {}
        for node in self.nodes:
            self.by_role.setdefault(node.op_def.role, []).append(node)
        for node in self.nodes:
            require_suited(node)
            require(node.op_def.role is not roles.SWITCH_N)
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
        require(len(found) == 1)
        return found[0]

    def _find_variables(self) -> None:
        entered = {id(node) for node in self._of(roles.ENTER) if not node.attrs["is_constant"]}
        ends = {id(node) for node in self._of(roles.NEXT_ITERATION)}
        for merge in self._of(roles.MERGE):
            require(len(merge.edges) == 2 and not merge.controls)
            (enter, _), (following, _) = merge.edges
            require(id(enter) in entered and id(following) in ends)
            entered.remove(id(enter))
            self.arguments[id(merge), 0] = self._add(enter)
            self.following.append(following)
        require(not entered and bool(self.inputs))

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
            require(source.op_def.role is roles.MERGE and decider is self.condition)
            self.arguments[id(switch), 1] = self.arguments[id(source), port]

    def _switched(self, exit_node: Node) -> int:
        """Return the variable that leaves by an Exit."""
        source, port = exit_node.edges[0]
        require(source.op_def.role is roles.SWITCH and port == 0)
        return self.arguments[id(source), 1]

    def _find_body(self) -> set[int]:
        """Return the nodes that run only where the condition held."""
        held = {(id(switch), 1) for switch in self._of(roles.SWITCH)}
        found: set[int] = set()
        for node in self.nodes:
            if any((id(source), port) in held for source, port in node.edges) or any(
                id(source) in found for source in sources(node)
            ):
                found.add(id(node))
        return found

    def _check_uses(self) -> None:
        """Refuse what takes values that live in some iterations only, or that no function has."""
        for node in self.nodes:
            role = node.op_def.role
            is_of_body = id(node) in self.in_body
            if role is roles.NEXT_ITERATION:
                require(is_of_body)
            elif role in _CARRYING and role is not roles.MERGE and role is not roles.ENTER:
                require(not is_of_body)
            if role is roles.ENTER or role is roles.MERGE or role is roles.EXIT:
                continue
            for source, port in node.edges:
                # Of Merges, Switches and Enters only what is an argument.
                require(
                    source.op_def.role not in _CARRYING
                    or source is self.condition
                    or (id(source), port) in self.arguments
                )
            for source in node.controls:
                require(self._may_be_waited_for(source, is_of_body))

    def _may_be_waited_for(self, source: Node, by_body: bool) -> bool:
        role = source.op_def.role
        if role is roles.ENTER:
            return bool(source.attrs["is_constant"])
        return role is not roles.NEXT_ITERATION and (by_body or role is not roles.SWITCH)

    def _check_conditions(self) -> None:
        """Refuse a loop of which a part may be dead though its condition lives."""
        needed = self._needed_by([self.condition])
        lives: set[Condition] = set()
        for node in self.nodes:
            if node.op_def.role is roles.ENTER and id(node) in needed:
                lives |= self.conditions.of(node)
        self.lives = frozenset(lives)
        require(all(self.conditions.of(enter) <= self.lives for enter in self._of(roles.ENTER)))

    def _needed_by(self, wanted: Sequence[Node]) -> set[int]:
        """Return the nodes of one iteration that others need, those others among them."""
        found = set(map(id, wanted))
        for node in reversed(self.nodes):
            if id(node) in found:
                found.update(map(id, sources(node)))
        return found

    # ---- making functions

    def while_node(self, name: str) -> Node:
        """Return the While node, on which everything waits that waited for an Enter's inputs."""
        number = next(_numbers)
        enters = self._of(roles.ENTER)
        attrs = {
            "T": self.types,
            "cond": MadeFunction(f"__loop_cond_{number}", self._condition_nodes()).ref(),
            "body": MadeFunction(f"__loop_body_{number}", self._body_nodes()).ref(),
            "output_shapes": [],
            "parallel_iterations": enters[0].attrs["parallel_iterations"],
        }
        controls = list(dict.fromkeys(one for enter in enters for one in enter.controls))
        made = Node(name, get_op_def("While"), self.inputs, controls, attrs, self.condition.device)
        self.conditions.add(made, self.lives)
        return made

    def _function(self, members: Sequence[Node]) -> FunctionNodes:
        condition = self.condition
        handed_on = {id(condition): condition.edges[0]}
        return FunctionNodes(
            condition.name, condition.device, self.types, self.arguments, handed_on, members
        )

    def _condition_nodes(self) -> list[Node]:
        nodes = [n for n in self.nodes if id(n) not in self.in_body and _computes(n)]
        # What has effects runs in each iteration, whether or not the condition depends on it.
        needed = self._needed_by([self.condition, *(n for n in nodes if not n.op_def.is_pure)])
        made = self._function([node for node in nodes if id(node) in needed])
        # It was the Switches that complained of a condition which is no scalar.
        name = next((one.name for one in self._of(roles.SWITCH)), self.condition.name)
        pred = made.edge((self.condition, 0))
        checked = made.add(scalar_check(name, pred, self.condition.device))
        made.add_result(self.condition.name, checked, dtypes.bool_, 0)
        return made.nodes

    def _body_nodes(self) -> list[Node]:
        own = [node for node in self.nodes if id(node) in self.in_body and _computes(node)]
        wanted = {id(source) for node in [*own, *self.following] for source, _ in node.edges}
        for node in reversed(self.nodes):
            if id(node) in wanted and id(node) not in self.in_body and _computes(node):
                require(node.op_def.is_pure)
                wanted.update(id(source) for source, _ in node.edges)
            elif node is self.condition and id(node) in wanted:
                wanted.add(id(node.edges[0][0]))
        made = self._function(
            [n for n in self.nodes if _computes(n) and (id(n) in self.in_body or id(n) in wanted)]
        )
        for number, dtype in enumerate(self.types):
            if number < len(self.following):
                end = self.following[number]
                made.add_result(end.name, made.carried(end.edges[0]), dtype, number)
            else:
                kept = (made.arguments[number], 0)
                made.add_result(f"{self.condition.name}/kept_{number}", kept, dtype, number)
        return made.nodes


def _computes(node: Node) -> bool:
    """Whether a node is more than a way of values into, round and out of the loop."""
    return node.op_def.role not in _CARRYING
