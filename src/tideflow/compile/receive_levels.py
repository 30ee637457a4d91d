"""Find which receives of a step bring their values at about the same time.

A receive's level is one more than the latest level that its value depends on: weights that are read
for a worker come with level 1, the gradients that it sends back with level 2.  A plan waits for all
receives of a level in one go, so that what follows is one region and not one for each receive.

Nothing waits for what depends on itself: what a value of level n depends on waits for earlier
levels only.  That holds as long as all that can keep a value back is known, so values behind
queues and the like get no level, nor does anything in a partial run (whose feeds come when they
come).  In a graph with v1 control flow what may be dead gets none, as that would spread, nor does
what a loop receives in each turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tideflow.compile.plan import ALWAYS_LIVES, RECEIVE_LEVEL, has_control_flow
from tideflow.graph import roles
from tideflow.graph.node import Node

_PAIR = ("tensor_name", "send_device", "recv_device")


def mark_receive_levels(parts: Mapping[str, Sequence[Node]]) -> None:
    """Write into the receives of a split graph which level they belong to, where that is known."""
    nodes = [node for part in parts.values() for node in part]
    receives = [node for node in nodes if node.op_def.role is roles.RECEIVE]
    if len(receives) < 2:
        return
    sends = {_pair(node): node for node in nodes if node.op_def.role is roles.SEND}
    levels = _Levels(sends, may_be_dead=has_control_flow(nodes))
    for node in receives:
        found = levels.of(node)
        if found is not None:
            node.attrs[RECEIVE_LEVEL] = found


def _pair(node: Node) -> tuple[str, ...]:
    return tuple(node.attrs[name] for name in _PAIR)


class _Levels:
    """The level of each node: the latest one that it depends on, None for one that may be late.

    Nodes that depend on each other, as those of a v1 loop do, have one level.

    may_be_dead: whether only what is marked as living gets a level.
    """

    def __init__(self, sends: Mapping[tuple[str, ...], Node], *, may_be_dead: bool) -> None:
        self._sends = sends
        self._may_be_dead = may_be_dead
        self._found: dict[int, int | None] = {}
        # By node: when it was met, and the earliest node on the way that it leads back to
        # (Tarjan 1972, "Depth-first search and linear graph algorithms").
        self._met: dict[int, int] = {}
        self._back: dict[int, int] = {}
        self._open: list[Node] = []

    def of(self, node: Node) -> int | None:
        """Return a node's level."""
        # Chains are longer than Python's stack.
        way = [] if id(node) in self._found else [self._enter(node)]
        while way:
            at, sources = way[-1]
            source = next(sources, None)
            if source is None:
                way.pop()
                self._leave(at)
                if way:
                    self._lead_back(way[-1][0], self._back[id(at)])
            elif id(source) not in self._met:
                way.append(self._enter(source))
            elif id(source) not in self._found:
                self._lead_back(at, self._met[id(source)])
        return self._found[id(node)]

    def _enter(self, node: Node) -> tuple[Node, Iterator[Node]]:
        self._met[id(node)] = self._back[id(node)] = len(self._met)
        self._open.append(node)
        return node, iter(self._sources(node))

    def _lead_back(self, node: Node, number: int) -> None:
        self._back[id(node)] = min(self._back[id(node)], number)

    def _leave(self, node: Node) -> None:
        """Give a level to a node, and to those that depend on it as it does on them."""
        if self._back[id(node)] != self._met[id(node)]:
            return
        first = next(i for i in range(len(self._open) - 1, -1, -1) if self._open[i] is node)
        together = self._open[first:]
        del self._open[first:]
        level = self._level(together)
        self._found.update((id(one), level) for one in together)

    def _sources(self, node: Node) -> Iterator[Node]:
        for source, _ in node.edges:
            yield source
        yield from node.controls
        if node.op_def.role is roles.RECEIVE and not node.attrs.get("client_terminated"):
            send = self._sends.get(_pair(node))
            if send is not None:
                yield send

    def _level(self, together: Sequence[Node]) -> int | None:
        members = set(map(id, together))
        latest = 0
        for node in together:
            for source in self._sources(node):
                if id(source) in members:
                    continue
                level = self._found[id(source)]
                if level is None:
                    return None
                latest = max(latest, level)
        if any(self._may_be_late(node, is_in_cycle=len(together) > 1) for node in together):
            return None
        return latest + (together[0].op_def.role is roles.RECEIVE)

    def _may_be_late(self, node: Node, *, is_in_cycle: bool) -> bool:
        if node.op_def.role is not roles.RECEIVE:
            return node.op_def.is_async
        may_be_dead = self._may_be_dead and not node.attrs.get(ALWAYS_LIVES)
        return may_be_dead or is_in_cycle
