"""Give each place its own copies of the small constants that it uses, so that none is sent there.

A learning rate is a constant that front ends place with the gradients, away from the variable.
Sent, it would be one tensor, often one message, in each step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from tideflow.graph import roles
from tideflow.graph.node import Node

# A larger constant is sent: it would lie in memory once more for each place.
MAX_COPIED_BYTES = 1024


def spread_constants(nodes: Sequence[Node], location: Callable[[Node], str]) -> list[Node]:
    """Return the nodes with small constants copied to the places where they are used.

    Args:
      nodes: in topological order, with devices; edges between them are rewritten.
      location: the place of a node (a task, or a device), by its device.
    A constant that waits for something is left.
    """
    made: dict[tuple[int, str], Node] = {}
    spread: list[Node] = []
    names: set[str] = set()
    for node in nodes:
        for i, (source, port) in enumerate(node.edges):
            if source.op_def.role is not roles.CONST or source.controls or not _is_small(source):
                continue
            place = location(node)
            if location(source) == place:
                continue
            copy = made.get((id(source), place))
            if copy is None:
                names = names or {one.name for one in nodes}
                copy = made[id(source), place] = source.copy([], [])
                copy.name = _new_name(source.name, names)
                copy.device = node.device
                spread.append(copy)
            node.edges[i] = (copy, port)
        spread.append(node)
    return _without_unused(spread, {source for source, _ in made})


def _without_unused(nodes: list[Node], copied: set[int]) -> list[Node]:
    """Drop the originals that nobody uses any more."""
    if not copied:
        return nodes
    used = {id(source) for node in nodes for source, _ in node.edges}
    used.update(id(source) for node in nodes for source in node.controls)
    return [node for node in nodes if id(node) not in copied or id(node) in used]


def _is_small(node: Node) -> bool:
    return np.asarray(node.attrs["value"]).nbytes <= MAX_COPIED_BYTES


def _new_name(name: str, names: set[str]) -> str:
    candidates = (f"{name}/_copy_{number}" for number in itertools.count())
    made = next(candidate for candidate in candidates if candidate not in names)
    names.add(made)
    return made
