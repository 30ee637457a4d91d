"""Lay out the nodes of one device for running: order, slots and groups.

A plan gives each tensor a slot in a flat list.  Nodes that wait (receives, queue operations) cut
the plan into groups: nodes that depend on the same set of waiting nodes form one group, which runs
in one go as soon as they are done.  So what others need before a wait runs before it, and a send
leaves as early as it can; what only those need who wait runs with them (see `late_nodes`).
Receives with a level (see `receive_levels`) count as one with all receives of that and earlier
levels.  A plan without waiting nodes is one group and needs no event loop.

Graphs with v1 control flow (Switch, Merge, Enter, ...) have no such static order; they are run by
tideflow.runtime.frames.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tideflow.compile.forwarding import forwards
from tideflow.compile.late_nodes import move_to_users
from tideflow.graph import roles
from tideflow.graph.node import Node, topological_order

# Receives with equal values of this attribute come together (see tideflow.compile.receive_levels).
RECEIVE_LEVEL = "_tideflow_receive_level"
# Marks a `_Recv` whose value no branch leaves out, which the device that takes it cannot see.
ALWAYS_LIVES = "_tideflow_always_lives"


@dataclass(slots=True)
class Group:
    """Nodes that run in one go.

    Attributes:
      nodes: in order; waiting ones are started where they stand.
      waits_for: how many groups and waiting nodes must be done first.
      then: groups that wait for this one.
    """

    nodes: list[Node] = field(default_factory=list)
    waits_for: int = 0
    then: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Plan:
    """The layout of one device's nodes.

    Attributes:
      groups: the first one that has waits_for 0 starts.
      slots: slot of each output, by (id(node), port).  Slot 0 is the step itself.  A result that
        reads a reference has one of its own as port 0: others may still change what it refers to.
      slot_count: how many slots there are.
      waiters: for each waiting node, by id, the groups that wait for it.
      args: (slot, argument index) of the `_Arg` nodes.
      retvals: (slot, result index) of the `_Retval` nodes.
    """

    order: list[Node]
    groups: list[Group]
    slots: dict[tuple[int, int], int]
    slot_count: int
    waiters: dict[int, list[int]]
    args: list[tuple[int, int]]
    retvals: list[tuple[int, int]]

    @property
    def is_synchronous(self) -> bool:
        """Whether it runs without waiting, on the caller's thread."""
        return not self.waiters


def has_control_flow(nodes: Iterable[Node]) -> bool:
    """Whether v1 control flow decides what runs."""
    return any(node.op_def.role in roles.CONTROL_FLOW for node in nodes)


def is_waiting(node: Node) -> bool:
    """Whether the node waits for something outside the plan."""
    return node.op_def.is_async or node.op_def.role is roles.RECEIVE


def make_plan(nodes: Sequence[Node]) -> Plan:
    """Return the plan of nodes without v1 control flow.

    Raises: InvalidArgumentError for a cycle.
    """
    order = topological_order(nodes)
    slots, count = _assign_slots(order)
    groups, waiters = _group(order)
    args = [(slots[id(n), 0], n.attrs["index"]) for n in order if n.op_def.role is roles.ARGUMENT]
    retvals = []
    for node in order:
        if node.op_def.role is roles.RESULT:
            source, port = node.edges[0]
            slot = slots.get((id(node), 0), slots[id(source), port])
            retvals.append((slot, node.attrs["index"]))
    return Plan(order, groups, slots, count, waiters, args, retvals)


def _assign_slots(order: Sequence[Node]) -> tuple[dict[tuple[int, int], int], int]:
    slots: dict[tuple[int, int], int] = {}
    count = 1
    for node in order:
        if forwards(node):
            source, port = node.edges[0]
            slots[id(node), 0] = slots[id(source), port]
            continue
        for port in range(1 if _reads_result(node) else len(node.output_types)):
            slots[id(node), port] = count
            count += 1
    return slots, count


def _reads_result(node: Node) -> bool:
    """Whether a node returns the value of a reference."""
    if node.op_def.role is not roles.RESULT:
        return False
    source, port = node.edges[0]
    return source.output_types[port].is_ref_dtype


def _group(order: Sequence[Node]) -> tuple[list[Group], dict[int, list[int]]]:
    """Put each node into the group of the waiting nodes that it depends on, near and far."""
    levels = _levels(order)
    masks, bit = _masks(order, levels)
    group_of_mask: dict[int, int] = {}
    groups: list[Group] = []
    group_of: dict[int, int] = {}
    after: list[set[int]] = []
    waits: list[set[int]] = []
    levels_of: list[set[int]] = []
    for node in order:
        mask = masks[id(node)]
        index = group_of_mask.get(mask)
        if index is None:
            index = group_of_mask[mask] = len(groups)
            groups.append(Group())
            after.append(set())
            waits.append(set())
            levels_of.append(set())
        groups[index].nodes.append(node)
        group_of[id(node)] = index
        for source in _sources(node):
            if id(source) in bit:
                level = levels.get(source.attrs.get(RECEIVE_LEVEL))
                if level is None:
                    waits[index].add(id(source))
                elif level.mask not in levels_of[index]:
                    levels_of[index].add(level.mask)
                    waits[index].update(level.receives)
            elif group_of[id(source)] != index:
                after[index].add(group_of[id(source)])
    return groups, _link(groups, after, waits, bit)


def _masks(
    order: Sequence[Node], levels: dict[Any, _ReceiveLevel]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return, by id, the bits of the waiting nodes that each node depends on, and these bits."""
    masks: dict[int, int] = {}
    bit: dict[int, int] = {}
    received = 0
    for node in order:
        mask = 0
        for source in _sources(node):
            mask |= masks[id(source)]
            if id(source) in bit:
                mask |= bit[id(source)]
        masks[id(node)] = mask
        if is_waiting(node):
            level = levels.get(node.attrs.get(RECEIVE_LEVEL))
            bit[id(node)] = 1 << (len(levels) + len(bit)) if level is None else level.mask
            if node.op_def.role is roles.RECEIVE:
                received |= bit[id(node)]
    if bit:
        move_to_users(order, masks, received)
    return masks, bit


class _ReceiveLevel(NamedTuple):
    """The receives, by id, of a level and of all earlier ones, and their bits."""

    receives: set[int]
    mask: int


def _levels(order: Sequence[Node]) -> dict[Any, _ReceiveLevel]:
    found: dict[int, set[int]] = {}
    for node in order:
        level = node.attrs.get(RECEIVE_LEVEL)
        if level is not None and node.op_def.role is roles.RECEIVE:
            found.setdefault(level, set()).add(id(node))
    levels = {}
    receives: set[int] = set()
    for rank, level in enumerate(sorted(found)):
        receives = receives | found[level]
        levels[level] = _ReceiveLevel(receives, (2 << rank) - 1)
    return levels


def _sources(node: Node) -> Iterable[Node]:
    for source, _ in node.edges:
        yield source
    yield from node.controls


def _link(
    groups: list[Group], after: list[set[int]], waits: list[set[int]], waiting: Iterable[int]
) -> dict[int, list[int]]:
    waiters: dict[int, list[int]] = {node: [] for node in waiting}
    for index, group in enumerate(groups):
        group.waits_for = len(after[index]) + len(waits[index])
        for source in sorted(after[index]):
            groups[source].then.append(index)
        for node in waits[index]:
            waiters[node].append(index)
        # What waits is started first, so that its answer travels while the rest computes.
        group.nodes = _starts_first(group.nodes)
    return waiters


def _starts_first(nodes: list[Node]) -> list[Node]:
    early = [n for n in nodes if n.op_def.role is roles.RECEIVE and not n.controls]
    if not early:
        return nodes
    chosen = {id(n) for n in early}
    return early + [n for n in nodes if id(n) not in chosen]
