"""Under which conditions the values of a graph with v1 control flow live.

A value is dead where a Switch passed its data to the other side.  Here each node has a set of
conditions, and what it gives lives only where all of them hold.  Two nodes with equal sets live and
die together.

Rule 1: a node has the conditions of all that it takes and waits for; an output of a Switch also the
        side that it is, of the predicate.
Rule 2: a Merge of two sides of one predicate has what both have apart from that side.  Any other
        Merge has a condition of its own.  So has what is received, as nobody can tell here, unless
        who split the graph knew that it always lives.
Rule 3: what is decided within a loop is no condition for what leaves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from tideflow.compile.loop_frames import LoopFrames
from tideflow.compile.plan import ALWAYS_LIVES
from tideflow.graph import roles
from tideflow.graph.node import Edge, Node

# The node that decides, which of its outputs, and which side it has to choose.  Whatever constant
# decides, it is one node: that the side is the one which it chooses.
Condition: TypeAlias = "tuple[int, int, int]"
Conditions: TypeAlias = "frozenset[Condition]"

_NONE: Conditions = frozenset()
_CONSTANT = 0
# Conditions that no predicate tells of.
_UNKNOWN = -1


class BranchConditions:
    """The conditions of all nodes of a graph.

    Those of a node stay the same when others take the place of what it takes.

    Args:
      nodes: in topological order (back edges of loops apart).
      frames: the loops that they are in.
    """

    def __init__(self, nodes: Sequence[Node], frames: LoopFrames) -> None:
        self._frames = frames
        self._by_id = {id(node): node for node in nodes}
        self._of: dict[int, Conditions] = {}
        # By Switch: the condition of its true side.
        self._choices: dict[int, Condition] = {}
        for node in nodes:
            self._of[id(node)] = self._find(node)

    def of(self, node: Node) -> Conditions:
        """Return when a node runs.  For a Switch: when one side of it lives."""
        return self._of.get(id(node), _NONE)

    def of_edge(self, edge: Edge) -> Conditions:
        """Return when a value lives."""
        source, port = edge
        found = self.of(source)
        if source.op_def.role is roles.SWITCH:
            decider, output, side = self._choices[id(source)]
            return found | {(decider, output, side if port == 1 else 1 - side)}
        if source.op_def.role is roles.SWITCH_N:
            return found | {(id(source), _UNKNOWN, port)}
        return found

    def choice(self, switch: Node) -> Condition | None:
        """Return the condition of the true side of a Switch; None where a loop decides."""
        found = self._choices[id(switch)]
        decider = self._by_id.get(found[0])
        return None if decider and decider.op_def.role is roles.LOOP_COND else found

    def add(self, node: Node, conditions: Conditions) -> None:
        """Note when a further node runs."""
        self._of[id(node)] = conditions

    def _find(self, node: Node) -> Conditions:
        role = node.op_def.role
        if role is roles.CONTROL_TRIGGER:
            return _NONE
        if role is roles.RECEIVE and not node.attrs.get(ALWAYS_LIVES):
            return frozenset({(id(node), _UNKNOWN, 0)})
        if role is roles.MERGE:
            return self._of_merge(node)
        if role is roles.SWITCH:
            self._choices[id(node)] = _choice(node)
        found = _union([*map(self.of_edge, node.edges), *map(self.of, node.controls)])
        if role is roles.EXIT:
            return frozenset(one for one in found if not self._is_beside(one, node))
        return found

    def _is_beside(self, condition: Condition, node: Node) -> bool:
        """Whether what decides is in the loop that a node is in."""
        decider = self._by_id.get(condition[0])
        frames = self._frames
        return decider is not None and frames.of_output(decider) is frames.of_input(node)

    def _of_merge(self, node: Node) -> Conditions:
        # What comes round in a loop lives.
        sides = [
            self.of_edge(edge)
            for edge in node.edges
            if edge[0].op_def.role is not roles.NEXT_ITERATION
        ]
        common = frozenset.intersection(*sides) if sides else _NONE
        if len(sides) != 1 and not _are_opposite(sides, common):
            common |= {(id(node), _UNKNOWN, 0)}
        return _union([common, *map(self.of, node.controls)])


def _choice(switch: Node) -> Condition:
    decider, output = switch.edges[1]
    while _hands_on(decider):
        decider, output = decider.edges[0]
    if decider.op_def.role is roles.CONST and np.ndim(decider.attrs["value"]) == 0:
        return _CONSTANT, 0, int(bool(decider.attrs["value"]))
    return id(decider), output, 1


def _hands_on(node: Node) -> bool:
    """Whether a node gives what it takes, each time that it runs."""
    if node.op_def.role is roles.ENTER:
        return bool(node.attrs["is_constant"])
    return node.op_def.role is roles.IDENTITY


def _union(several: Sequence[Conditions]) -> Conditions:
    found = _NONE
    for one in several:
        if one is not found and not one <= found:
            found = found | one if found else one
    return found


def _are_opposite(sides: Sequence[Conditions], common: Conditions) -> bool:
    """Whether one of two sets holds where what is common to them holds, whatever is decided."""
    if len(sides) != 2:
        return False
    first, second = (side - common for side in sides)
    if len(first) != 1 or len(second) != 1:
        return False
    (one,), (other,) = first, second
    return one[:2] == other[:2] and one[1] != _UNKNOWN and {one[2], other[2]} == {0, 1}
