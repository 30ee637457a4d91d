"""Which loop each node is in, and the control loops that carry a loop to further devices.

A loop whose nodes are on several devices runs on all of them: each device that receives tensors
inside the loop gets a control loop of its own, which goes round as often as the real one, because
the loop's condition is sent to it; receives wait for its Merge, so that they happen once in each
iteration.
Source: runtime facts on partition graphs (loops over several partitions).
"""

from __future__ import annotations

import graphlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tideflow.graph import roles
from tideflow.graph.node import Edge, Node
from tideflow.wire import errors


@dataclass(eq=False, slots=True)
class Frame:
    """A loop.  The root, outside all loops, has no parent.

    Attributes:
      condition: the edge that says whether to go on: its LoopCond, or what stands for it.
    """

    name: str
    parent: Frame | None
    parallel_iterations: int = 10
    condition: Edge | None = None


class LoopFrames:
    """The frames of a graph's nodes.

    Args:
      nodes: in topological order (back edges apart).
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.root = Frame("", None)
        self._inside: dict[int, Frame] = {}
        self._outside: dict[int, Frame] = {}
        self._children: dict[tuple[int, str], Frame] = {}
        for node in nodes:
            self._enter(node)
        for node in nodes:
            self._find_condition(node)

    def _enter(self, node: Node) -> None:
        frame = self.root
        for source, _ in node.edges:
            if (
                source.op_def.role is not roles.NEXT_ITERATION
                or node.op_def.role is not roles.MERGE
            ):
                frame = self._deeper(frame, self.of_output(source))
        for source in node.controls:
            frame = self._deeper(frame, self.of_output(source))
        if node.op_def.role is roles.ENTER:
            name = node.attrs["frame_name"]
            child = self._children.get((id(frame), name))
            if child is None:
                child = Frame(name, frame, node.attrs["parallel_iterations"])
                self._children[id(frame), name] = child
            self._outside[id(node)] = frame
            frame = child
        elif node.op_def.role is roles.EXIT:
            # One outside of all loops leads nowhere, and says so when it runs.
            self._outside[id(node)] = frame.parent or frame
        self._inside[id(node)] = frame

    def _deeper(self, a: Frame, b: Frame) -> Frame:
        """Return the frame of a node that has inputs of both (constants may be of the root)."""
        return b if a is self.root else a

    def _find_condition(self, node: Node) -> None:
        frame = self._inside[id(node)]
        if node.op_def.role is roles.LOOP_COND:
            frame.condition = (node, 0)
        elif node.op_def.role is roles.SWITCH and frame.condition is None:
            data, _ = node.edges[0]
            if data.op_def.role is roles.MERGE and any(
                s.op_def.role is roles.NEXT_ITERATION for s, _ in data.edges
            ):
                frame.condition = node.edges[1]

    def of_input(self, node: Node) -> Frame:
        """Return the frame in which a node's inputs arrive."""
        if node.op_def.role is roles.ENTER:
            return self._outside[id(node)]
        return self._inside.get(id(node), self.root)

    def of_output(self, node: Node) -> Frame:
        """Return the frame in which a node's outputs are."""
        if node.op_def.role is roles.EXIT:
            return self._outside[id(node)]
        return self._inside.get(id(node), self.root)

    def lead_back(self, nodes: Sequence[Node]) -> bool:
        """Whether what leaves one of the outermost loops is needed to enter the same one again."""
        needed: dict[int, set[int]] = {}
        for node in nodes:
            itself = self._loop_or_node(node)
            sources = needed.setdefault(itself, set())
            for source in itertools.chain((s for s, _ in node.edges), node.controls):
                sources.add(self._loop_or_node(source))
            sources.discard(itself)
        try:
            graphlib.TopologicalSorter(needed).prepare()
        except graphlib.CycleError:
            return True
        return False

    def _loop_or_node(self, node: Node) -> int:
        frame = self._inside.get(id(node), self.root)
        if frame is self.root:
            return id(node)
        while frame.parent is not None and frame.parent is not self.root:
            frame = frame.parent
        return id(frame)

    def add(self, node: Node, frame: Frame) -> None:
        """Note a node that splitting added."""
        self._inside[id(node)] = frame

    def condition_of(self, frame: Frame) -> Edge:
        """Return a loop's condition.  Raises: InvalidArgumentError for a loop without one."""
        if frame.condition is None:
            raise errors.InvalidArgumentError(
                f"loop {frame.name!r} spans devices but has no LoopCond"
            )
        return frame.condition


def move_control_flow(nodes: Sequence[Node]) -> None:
    """Put control-flow nodes beside what they carry, in place, so that fewer edges cross.

    Switch goes to its data, Exit to its input, Enter and NextIteration to their first consumer.
    """
    consumer: dict[int, Node] = {}
    for node in nodes:
        for source, _ in node.edges:
            if source.op_def.role is roles.ENTER or source.op_def.role is roles.NEXT_ITERATION:
                consumer.setdefault(id(source), node)
    for node in nodes:
        if node.op_def.role is roles.SWITCH or node.op_def.role is roles.EXIT:
            node.device = node.edges[0][0].device
    for node in reversed(nodes):
        if id(node) in consumer and not node.output_types[0].is_ref_dtype:
            node.device = consumer[id(node)].device
