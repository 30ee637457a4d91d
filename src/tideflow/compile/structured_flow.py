"""Turn v1 control flow into If and While nodes, whose branches and bodies are functions.

Switch, Merge, Enter, Exit and NextIteration are run node by node, as values arrive; an If or a
While is one instruction, and what is around it needs no frames.  Inner branches and loops come
first, so that functions of outer ones hold nodes for them.  What does not qualify stays (see
structured_branches, structured_loops), and so does all that is around it.

Branches outside of loops stay where the nodes receive something: another device may need what one
branch gives for what another takes, which cannot be seen here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from tideflow.compile.branch_conditions import BranchConditions, Conditions
from tideflow.compile.loop_frames import Frame, LoopFrames
from tideflow.compile.made_functions import UnsuitedError, copied, require, sources
from tideflow.compile.structured_branches import Branches
from tideflow.compile.structured_loops import Loop
from tideflow.graph import roles
from tideflow.graph.node import Edge, Node, topological_order
from tideflow.graph.op_def import get_op_def
from tideflow.wire import errors

_BEGINS = frozenset({roles.ENTER, roles.SWITCH})

# Functions run each other on one stack, which ends: what is around so many levels stays.
_MOST_LEVELS = 32


def structure_control_flow(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes of a device with If and While nodes in the place of branches and loops.

    The nodes given stay as they are.
    Raises: InvalidArgumentError for a cycle.
    """
    if not any(node.op_def.role in _BEGINS for node in nodes):
        return list(nodes)
    made = _Structurer(topological_order(copied(nodes)))
    try:
        made.replace()
        left = topological_order(made.left())
    except errors.InvalidArgumentError:
        # A value that left a loop came back into it, which a node cannot do.
        return list(nodes)
    return left if made.made else list(nodes)


class _Structurer:
    """Replaces the branches and loops of a graph, inner ones first."""

    def __init__(self, order: list[Node]) -> None:
        self.order = order
        self.frames = LoopFrames(order)
        self.conditions = BranchConditions(order, self.frames)
        # The nodes of each loop, Enters into it among them.
        self.members: dict[int, list[Node]] = {}
        self.loops: dict[int, Frame] = {}
        # What stands for outputs of nodes, and for their having run.
        self.outputs: dict[tuple[int, int], Edge] = {}
        self.done: dict[int, Node] = {}
        self.gone: set[int] = set()
        self.made: list[Node] = []
        # How many levels of functions the nodes made here have, by id.
        self._levels: dict[int, int] = {}
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
        for source in sources(node):
            origin = self.frames.of_output(source)
            if origin is not frame:
                self._unsuited.update((id(origin), id(frame)))

    def replace(self) -> None:
        """Replace what can be."""
        # A loop is met after those around it.
        for frame in reversed(self.loops.values()):
            try:
                self._replace_loop(frame)
            except (UnsuitedError, errors.InvalidArgumentError):
                assert frame.parent is not None
                self._unsuited.add(id(frame.parent))
        root = self.frames.root
        if id(root) not in self._unsuited and not any(
            node.op_def.role is roles.RECEIVE for node in self.order
        ):
            self._replace_branches(topological_order(self._remaining([*self.order, *self.made])))

    def left(self) -> list[Node]:
        """Return the nodes that are left outside of functions."""
        return self._remaining([*self.order, *self.made])

    def _remaining(self, nodes: Iterable[Node]) -> list[Node]:
        left = [node for node in nodes if id(node) not in self.gone]
        for node in left:
            self._connect(node)
        return left

    def _connect(self, node: Node) -> None:
        """Have a node take what stands for others."""
        outputs, done = self.outputs, self.done
        for i, (source, port) in enumerate(node.edges):
            found = outputs.get((id(source), port))
            if found is not None:
                node.edges[i] = found
        if node.controls:
            node.controls = list(dict.fromkeys(done.get(id(one), one) for one in node.controls))

    def _replace_loop(self, frame: Frame) -> None:
        if id(frame) in self._unsuited:
            raise UnsuitedError
        members = topological_order(self._remaining(self.members[id(frame)]))
        members = self._replace_branches(members)
        levels = self._levels_with(map(id, members))
        loop = Loop(members, self.conditions)
        node = loop.while_node(self._fresh(frame.name))
        self.made.append(node)
        self._levels[id(node)] = levels
        for one, number in loop.exits:
            self.outputs[id(one), 0] = (node, number)
            self.done[id(one)] = node
        self.gone.update(map(id, members))
        if frame.parent is not None and frame.parent is not self.frames.root:
            self.members[id(frame.parent)].append(node)

    def _levels_with(self, nodes: Iterable[int]) -> int:
        """Return how many levels a function with nodes has.  Raises: UnsuitedError for many."""
        levels = 1 + max((self._levels.get(one, 0) for one in nodes), default=0)
        require(levels <= _MOST_LEVELS)
        return levels

    # ---- branches

    def _replace_branches(self, nodes: list[Node]) -> list[Node]:
        """Replace branches among nodes; return the nodes that are left."""
        nodes = self._without_idle_switches(nodes)
        for key, base in self._branches(nodes):
            try:
                found = Branches(key, base, topological_order(nodes), self.conditions)
                levels = self._levels_with(found.gone)
            except (UnsuitedError, errors.InvalidArgumentError):
                continue
            made = found.if_nodes(self._fresh)
            self._levels.update((id(one), levels) for one in made)
            self.outputs.update(found.outputs)
            self.done.update(found.done)
            self.gone.update(found.gone)
            self.made.extend(made)
            nodes = self._remaining([*nodes, *made])
        return nodes

    def _without_idle_switches(self, nodes: list[Node]) -> list[Node]:
        """Have Identity nodes hand on what Switches do that run only where one side is taken."""
        taken = {(id(source), port) for node in nodes for source, port in node.edges}
        made = []
        for node in nodes:
            port = self._known_port(node)
            if port is None or (id(node), 1 - port) in taken:
                continue
            self._connect(node)
            attrs = {"T": node.output_types[0]}
            same = Node(
                node.name, get_op_def("Identity"), node.edges[:1], node.controls, attrs, node.device
            )
            self.conditions.add(same, self.conditions.of(node))
            self.outputs[id(node), port] = (same, 0)
            self.done[id(node)] = same
            self.gone.add(id(node))
            made.append(same)
        self.made.extend(made)
        return self._remaining([*nodes, *made]) if made else nodes

    def _known_port(self, node: Node) -> int | None:
        """Return the output of a Switch that always lives where the Switch runs, if one does."""
        if node.op_def.role is not roles.SWITCH or node.output_types[0].is_ref_dtype:
            return None
        if self.conditions.choice(node) is None:
            return None
        runs = self.conditions.of(node)
        return next(
            (port for port in (0, 1) if self.conditions.of_edge((node, port)) <= runs), None
        )

    def _branches(self, nodes: Sequence[Node]) -> list[tuple[tuple[int, int], Conditions]]:
        """Return what decides, and under which conditions, inner branches first."""
        found: dict[tuple[tuple[int, int], Conditions], None] = {}
        for node in nodes:
            if node.op_def.role is roles.SWITCH:
                choice = self.conditions.choice(node)
                if choice is not None:
                    found[choice[:2], self.conditions.of(node)] = None
        return sorted(found, key=lambda one: -len(one[1]))

    def _fresh(self, name: str) -> str:
        found = name
        for number in itertools.count(1):
            if found not in self._names:
                break
            found = f"{name}_{number}"
        self._names.add(found)
        return found
