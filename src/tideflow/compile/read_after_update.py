"""Read a reference variable again for who runs after an update of it.

Rule: an Identity that reads a reference variable, or another such read, gives a read of its own to
      each consumer that also depends, near or far, on an update of the variable; it comes after
      all else that the consumer waits for.
In TensorFlow such a read gives the variable's own memory, not a copy, so whoever runs after an
update sees the update.  SyncReplicasOptimizer, for one, takes the global step for its tokens that
way.  Here values do not change once they have been read.
Source: the ref kernels of tensorflow/core/kernels/assign_op.h and identity_op.h.
"""

from __future__ import annotations

from collections.abc import Sequence

from tideflow.graph import roles
from tideflow.graph.node import Edge, Node, topological_order

_REFERENCES = frozenset({roles.VARIABLE, roles.TEMPORARY_VARIABLE})

# By Identity: the variable that it reads, as a bit.
_Reads = dict[int, int]


def read_after_updates(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes, or copies of them where one has to read again."""
    variables = [node for node in nodes if node.op_def.role in _REFERENCES]
    bits = {id(node): 1 << i for i, node in enumerate(variables)}
    if not bits:
        return list(nodes)
    order = topological_order(nodes)
    reads: _Reads = {}
    updates: dict[int, int] = {}
    for node in order:
        for source, _ in node.edges:
            bit = bits.get(id(source))
            if node.op_def.role is roles.IDENTITY and (bit or id(source) in reads):
                reads[id(node)] = bit or reads[id(source)]
            elif bit:
                updates[id(node)] = updates.get(id(node), 0) | bit
    late = _late(order, reads, updates) if reads and updates else set()
    return _copied(order, reads, late) if late else list(nodes)


def _late(nodes: Sequence[Node], reads: _Reads, updates: dict[int, int]) -> set[tuple[int, int]]:
    """Return the pairs (consumer, read) of which the consumer runs after an update."""
    after: dict[int, int] = {}
    late = set()
    for node in nodes:
        sources = [id(source) for source, _ in node.edges]
        waits = [*sources, *map(id, node.controls)]
        mask = 0
        for source in waits:
            mask |= after.get(source, 0)
        for source in sources:
            # What the read itself comes after, it has seen.
            if reads.get(source, 0) & mask & ~after.get(source, 0):
                late.add((id(node), source))
        after[id(node)] = mask | updates.get(id(node), 0)
    return late


def _copied(nodes: Sequence[Node], reads: _Reads, late: set[tuple[int, int]]) -> list[Node]:
    copies = {id(node): node.copy([], []) for node in nodes}

    def now(node: Node) -> Node:
        return copies.get(id(node), node)

    made: list[Node] = []
    for node in nodes:
        copy = now(node)
        copy.controls = [now(one) for one in node.controls]
        edges: list[Edge] = [(now(source), port) for source, port in node.edges]
        others = [now(source) for source, _ in node.edges if id(source) not in reads]
        for i, (source, port) in enumerate(node.edges):
            if (id(node), id(source)) in late:
                variable = source
                while id(variable) in reads:
                    variable = variable.edges[0][0]
                first = [*map(now, source.controls), *copy.controls, *others]
                read = source.copy([(now(variable), 0)], list(dict.fromkeys(first)))
                read.name = f"{source.name}/again/{node.name}/{i}"
                made.append(read)
                edges[i] = read, port
        copy.edges = edges
        made.append(copy)
    return made
