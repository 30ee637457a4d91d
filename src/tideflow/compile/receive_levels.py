"""Find which receives of a step bring their values at about the same time.

A receive's level is one more than the latest level that its value depends on: weights that are read
for a worker come with level 1, the gradients that it sends back with level 2.  A plan waits for all
receives of a level in one go, so that what follows is one region and not one for each receive.

Nothing waits for what depends on itself: what a value of level n depends on waits for earlier
levels only.  That holds as long as all that can keep a value back is known, so values behind
queues and the like get no level, nor does anything in a graph with v1 control flow (whose dead
values would spread), nor in a partial run (whose feeds come when they come).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tideflow.compile.plan import RECEIVE_LEVEL, has_control_flow
from tideflow.graph import roles
from tideflow.graph.node import Node

_PAIR = ("tensor_name", "send_device", "recv_device")


def mark_receive_levels(parts: Mapping[str, Sequence[Node]]) -> None:
    """Write into the receives of a split graph which level they belong to, where that is known."""
    nodes = [node for part in parts.values() for node in part]
    receives = [node for node in nodes if node.op_def.role is roles.RECEIVE]
    if len(receives) < 2 or has_control_flow(nodes):
        return
    sends = {_pair(node): node for node in nodes if node.op_def.role is roles.SEND}
    levels = _Levels(sends)
    for node in receives:
        found = levels.of(node)
        if found is not None:
            node.attrs[RECEIVE_LEVEL] = found


def _pair(node: Node) -> tuple[str, ...]:
    return tuple(node.attrs[name] for name in _PAIR)


class _Levels:
    """The level of each node: the latest one that it depends on, None for one that may be late."""

    def __init__(self, sends: Mapping[tuple[str, ...], Node]) -> None:
        self._sends = sends
        self._found: dict[int, int | None] = {}

    def of(self, node: Node) -> int | None:
        """Return a node's level."""
        found = self._found
        # Chains are longer than Python's stack.
        stack = [node]
        while stack:
            at = stack[-1]
            if id(at) in found:
                stack.pop()
                continue
            sources = list(self._sources(at))
            missing = [source for source in sources if id(source) not in found]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            found[id(at)] = self._level(at, [found[id(source)] for source in sources])
        return found[id(node)]

    def _sources(self, node: Node) -> Iterable[Node]:
        for source, _ in node.edges:
            yield source
        yield from node.controls
        if node.op_def.role is roles.RECEIVE and not node.attrs.get("client_terminated"):
            send = self._sends.get(_pair(node))
            if send is not None:
                yield send

    def _level(self, node: Node, before: Sequence[int | None]) -> int | None:
        latest = 0
        for level in before:
            if level is None:
                return None
            latest = max(latest, level)
        if node.op_def.role is roles.RECEIVE:
            return latest + 1
        return None if node.op_def.is_async else latest
