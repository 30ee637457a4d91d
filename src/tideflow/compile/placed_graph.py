"""The devices of a graph that grows, for sessions with several kinds of devices.

Where a node goes depends on all its neighbours, so the whole graph is placed, and what was placed
stays: a variable is in one place for all steps, whichever part of the graph they run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence

from tideflow.compile.place import place
from tideflow.graph import roles
from tideflow.graph.node import Node


class PlacedGraph:
    """The places of a graph's nodes.

    Args: devices and allow_soft_placement as those of `place`.
    """

    def __init__(self, devices: Sequence[str], allow_soft_placement: bool) -> None:
        self._devices = devices
        self._soft = allow_soft_placement
        self._placed: dict[str, Node] = {}
        self._copies: dict[int, Node] = {}

    def extend(self, nodes: Mapping[str, Node]) -> dict[str, Node]:
        """Place the nodes that are new; return those just placed, copies by name.

        Args:
          nodes: the whole graph, in the order in which it was built.
        Raises: as `place`; then nothing has changed.
        """
        new = [node for name, node in nodes.items() if name not in self._placed]
        copies = {id(node): node.copy([], list[Node]()) for node in new}
        both = {**self._copies, **copies}
        for node in new:
            made = copies[id(node)]
            made.edges = [(both[id(source)], port) for source, port in node.edges]
            made.controls = [both[id(source)] for source in node.controls]
        place(list(copies.values()), self._devices, self._soft, self._placed)
        self._copies = both
        made_by_name = {node.name: node for node in copies.values()}
        self._placed.update(made_by_name)
        return made_by_name

    def assign(self, nodes: Sequence[Node]) -> None:
        """Give nodes of a pruned graph their devices.

        Feeds go to their consumers if these are together, and fetches stay where they are made;
        so a step whose tensors are on one device is one plan.
        """
        consumers: dict[int, set[str]] = {}
        for node in nodes:
            found = self._placed.get(node.name)
            if found is not None:
                node.device = found.device
            elif node.edges:
                node.device = node.edges[0][0].device
            for source, _ in node.edges:
                consumers.setdefault(id(source), set()).add(node.device)
        for node in nodes:
            if node.op_def.role is roles.ARGUMENT:
                wanted = consumers.get(id(node), set())
                node.device = wanted.pop() if len(wanted) == 1 else self._devices[0]
        for node in nodes:
            if not node.device and node.edges:
                node.device = node.edges[0][0].device
            node.device = node.device or self._devices[0]


def tell_placement(nodes: Iterable[Node]) -> None:
    """Write where nodes were placed to standard error, for log_device_placement."""
    lines = [f"{node.name}: ({node.op}): {node.device}\n" for node in nodes]
    sys.stderr.write("".join(lines))
