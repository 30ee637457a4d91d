"""Split a graph by where its nodes run, and join the parts by sends and receives.

An edge between two places becomes a `_Send` on the producer's device and a `_Recv` on the
consumer's; one pair serves all consumers of an output on one device.  A control edge carries an
empty tensor.  Inside a loop, a receive waits for its device's control loop (see loop_frames).
Source: runtime facts on partition graphs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tideflow.compile.branch_conditions import BranchConditions
from tideflow.compile.loop_frames import Frame, LoopFrames, move_control_flow
from tideflow.compile.plan import ALWAYS_LIVES, has_control_flow
from tideflow.graph.node import Edge, Node
from tideflow.graph.op_def import get_op_def
from tideflow.wire import dtypes
from tideflow.wire.ids import signed64


def partition(
    nodes: Sequence[Node],
    location: Callable[[Node], str],
    incarnation: Callable[[str], int],
    suffix: str = "S",
    numbers: Iterator[int] | None = None,
) -> dict[str, list[Node]]:
    """Return the nodes by place, with sends and receives added.

    Args:
      nodes: in topological order, with full device names; edges and devices of control-flow nodes
        are rewritten in place.
      location: the place of a node (a task, or a device), by its device.
      incarnation: of a device, by its full name.
      suffix: letter in the names of added nodes: "S" for the master, "G" within a worker.
      numbers: gives the numbers in those names; kept by a session, so that names stay unique.
    Raises: InvalidArgumentError for a loop over several places that has no condition.
    """
    parts: dict[str, list[Node]] = {}
    for node in nodes:
        parts.setdefault(location(node), []).append(node)
    if len(parts) == 1:
        return parts
    loops = lives = None
    if has_control_flow(nodes):
        move_control_flow(nodes)
        loops = LoopFrames(nodes)
        # No device could tell that it must run such a loop node by node.
        lives = None if loops.lead_back(nodes) else BranchConditions(nodes, loops)
        parts = {}
        for node in nodes:
            parts.setdefault(location(node), []).append(node)
    numbers = numbers or itertools.count()
    _Splitter(parts, location, incarnation, suffix, numbers, loops, lives).split()
    return parts


class _Splitter:
    """Replaces the edges that leave a part."""

    def __init__(
        self,
        parts: dict[str, list[Node]],
        location: Callable[[Node], str],
        incarnation: Callable[[str], int],
        suffix: str,
        numbers: Iterator[int],
        loops: LoopFrames | None,
        conditions: BranchConditions | None,
    ) -> None:
        self.parts = parts
        self.location = location
        self.incarnation = incarnation
        self.suffix = suffix
        self.numbers = numbers
        self.loops = loops
        self.conditions = conditions
        self.edge_numbers = itertools.count()
        self.received: dict[tuple[int, int, str, int], Node] = {}
        self.control_loops: dict[tuple[int, str], Node] = {}

    def split(self) -> None:
        """Rewrite every edge between two places."""
        for place, nodes in list(self.parts.items()):
            for node in list(nodes):
                frame = None if self.loops is None else self.loops.of_input(node)
                for i, edge in enumerate(node.edges):
                    if self.location(edge[0]) != place:
                        node.edges[i] = (self._receive(edge, node.device, place, frame), 0)
                if node.controls:
                    node.controls = [
                        s if self.location(s) == place else self._control(s, node, place, frame)
                        for s in node.controls
                    ]

    def _receive(self, edge: Edge, device: str, place: str, frame: Frame | None) -> Node:
        source, port = edge
        # A value of an outer frame is received there; only what is made inside comes each time.
        if self.loops is not None:
            frame = self.loops.of_output(source)
        key = (id(source), port, device, 0)
        if key not in self.received:
            # Entered by _pair before the control loop is made, since that may need it again.
            self._pair(edge, source.name, device, place, frame, key)
        return self.received[key]

    def _control(self, source: Node, node: Node, place: str, frame: Frame | None) -> Node:
        key = (id(source), -1, node.device, 1)
        if key not in self.received:
            name = f"{source.name}/ctrl_{self.suffix}{next(self.numbers)}"
            attrs = {"dtype": dtypes.float32, "value": np.zeros([0], np.float32)}
            signal = self._add("Const", name, [], [source], attrs, source.device)
            if self.loops is not None:
                frame = self.loops.of_output(source)
                self.loops.add(signal, frame)
            if self.conditions is not None:
                self.conditions.add(signal, self.conditions.of(source))
            received = self._receive((signal, 0), node.device, place, frame)
            name = f"{source.name}_{self.suffix}{next(self.numbers)}"
            attrs = {"T": dtypes.float32}
            self.received[key] = self._add(
                "Identity", name, [(received, 0)], [], attrs, node.device
            )
        return self.received[key]

    def _pair(
        self,
        edge: Edge,
        name: str,
        device: str,
        place: str,
        frame: Frame | None,
        key: tuple[int, int, str, int],
    ) -> None:
        source, port = edge
        dtype = source.output_types[port].base_dtype
        address = {
            "tensor_name": f"edge_{next(self.edge_numbers)}_{name}",
            "send_device": source.device,
            "send_device_incarnation": signed64(self.incarnation(source.device)),
            "recv_device": device,
            "client_terminated": False,
        }
        self._add("_Send", self._name(name), [edge], [], {"T": dtype, **address}, source.device)
        receive = self._add(
            "_Recv", self._name(name), [], [], {"tensor_type": dtype, **address}, device
        )
        self.received[key] = receive
        is_inside = frame is not None and frame.parent is not None
        if self.conditions is not None and not is_inside and not self.conditions.of_edge(edge):
            receive.attrs[ALWAYS_LIVES] = True
        if frame is not None and frame.parent is not None:
            assert self.loops is not None
            self.loops.add(receive, frame)
            receive.controls.append(self._control_loop(frame, device, place))

    def _control_loop(self, frame: Frame, device: str, place: str) -> Node:
        """Return the Merge of a frame's control loop on a device, made on first use."""
        key = (id(frame), device)
        found = self.control_loops.get(key)
        if found is not None:
            return found
        assert frame.parent is not None
        assert self.loops is not None
        float_type = {"T": dtypes.float32}
        if frame.parent.parent is None:
            attrs = {"dtype": dtypes.float32, "value": np.zeros([0], np.float32)}
            start = self._add("Const", self._loop_name(), [], [], attrs, device)
        else:
            start = self._control_loop(frame.parent, device, place)
        enter = self._add(
            "Enter", self._loop_name(), [(start, 0)], [],
            {
                **float_type,
                "frame_name": frame.name,
                "is_constant": False,
                "parallel_iterations": frame.parallel_iterations,
            },
            device,
        )  # fmt: skip
        merge = self._add(
            "Merge", self._loop_name(), [(enter, 0), (enter, 0)], [],
            {**float_type, "N": 2}, device,
        )  # fmt: skip
        self.control_loops[key] = merge
        condition = self.loops.condition_of(frame)
        switch = self._add(
            "Switch", self._loop_name(), [(merge, 0), condition], [], float_type, device
        )
        following = self._add(
            "NextIteration", self._loop_name(), [(switch, 1)], [], float_type, device
        )
        merge.edges[1] = (following, 0)
        for node in (enter, merge, switch, following):
            self.loops.add(node, frame)
        if self.location(condition[0]) != place:
            switch.edges[1] = (self._receive(condition, device, place, frame), 0)
        return merge

    def _name(self, source: str) -> str:
        return f"{source}_{self.suffix}{next(self.numbers)}"

    def _loop_name(self) -> str:
        return f"_cloop_{self.suffix}{next(self.numbers)}"

    def _add(
        self,
        op: str,
        name: str,
        inputs: list[Edge],
        controls: list[Node],
        attrs: dict[str, Any],
        device: str,
    ) -> Node:
        node = Node(name, get_op_def(op), inputs, controls, attrs, device)
        self.parts.setdefault(self.location(node), []).append(node)
        return node
