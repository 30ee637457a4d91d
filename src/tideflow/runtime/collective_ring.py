"""Collectives as TensorFlow runs them, so that its workers can be among the members.

A ring passes chunks from each rank to the next; a broadcast goes down a binary tree of tasks and
then within each task.  Who wants a buffer asks for it.  Keys and sizes are those of TensorFlow.
Source: ring_reducer.cc, ring_gatherer.cc, hierarchical_tree_broadcaster.cc and all_to_all.cc of
TensorFlow 2.21; runtime facts on RecvBuf.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Protocol

import numpy as np

from tideflow.ops.collectives import CollectiveCall
from tideflow.runtime.collective_arithmetic import (
    Array,
    aligned_chunk_elements,
    chunk_bounds,
    finish,
    merge_into,
    off_loop,
    ring_offsets,
    ring_order,
)
from tideflow.runtime.collective_direct import together
from tideflow.runtime.collective_groups import Group


class RingPeers(Protocol):
    """The buffers of one call."""

    async def send(self, rank: int, key: str, buffer: Array) -> None:
        """Offer a buffer to a member; wait until it has asked for it."""

    async def receive(self, rank: int, key: str, buffer: Array) -> Array:
        """Ask a member for a buffer of the size and type of the given one; return it."""


async def ring_reduce(call: CollectiveCall, group: Group, peers: RingPeers, value: Array) -> Array:
    """Return the inputs of all members merged."""
    output = await off_loop(value.nbytes, value.flatten)
    if not output.size:
        return output.reshape(call.shape)
    rings = _rings(call, group, output.nbytes)
    chunk = aligned_chunk_elements(output.size, group.size * len(rings), output.itemsize)
    fields = []
    for at in range(group.size):
        for number, ring in enumerate(rings):
            section = at * len(rings) + number
            begin, end = chunk_bounds(output.size, section, chunk)
            if end > begin:
                place = _Place(call, ring, group.rank_of(call.device), section)
                fields.append(_reduce_field(place, at, peers, output[begin:end]))
    await together(fields)
    return output.reshape(call.shape)


class _Place:
    """Where a member stands in one ring, for one section of the buffer."""

    def __init__(self, call: CollectiveCall, ring: list[int], member: int, section: int) -> None:
        self.call = call
        self.size = len(ring)
        self.rank = ring.index(member)
        self.before = ring[self.rank - 1]
        self.next = ring[(self.rank + 1) % self.size]
        self._rank_before = (self.rank - 1) % self.size
        self._section = section

    def key(self, second: int) -> str:
        """Return the key of what goes to the next in a pass."""
        return f"{self.call.exec_key}:{second}:{self._section}:{self.rank}"

    def key_before(self, second: int) -> str:
        """Return the key of what comes from the one before."""
        return f"{self.call.exec_key}:{second}:{self._section}:{self._rank_before}"


async def _reduce_field(place: _Place, chunk: int, peers: RingPeers, buffer: Array) -> None:
    """Merge a chunk on its way round, then hand the result round."""
    last = (chunk - 1) % place.size
    call = place.call
    if place.rank != chunk:
        found = await peers.receive(place.before, place.key_before(0), buffer)
        await off_loop(buffer.nbytes, lambda: merge_into(call.merge_op, buffer, buffer, found))
    if place.rank == last:
        await off_loop(buffer.nbytes, lambda: finish(call, buffer))
    else:
        await peers.send(place.next, place.key(0), buffer)
        result = await peers.receive(place.before, place.key_before(1), buffer)
        await off_loop(buffer.nbytes, lambda: np.copyto(buffer, result))
    if place.rank != (chunk - 2) % place.size:
        await peers.send(place.next, place.key(1), buffer)


async def ring_gather(call: CollectiveCall, group: Group, peers: RingPeers, value: Array) -> Array:
    """Return the inputs of all members, one behind the other."""
    output = np.empty(call.shape, value.dtype)
    flat = output.reshape(-1)
    # One ring: the chunks are the inputs themselves.
    ring = _rings_of(group, [0])[0]
    rank = group.rank_of(call.device)
    elements = flat.size // group.size
    own = flat[rank * elements : (rank + 1) * elements]
    await off_loop(value.nbytes, lambda: np.copyto(own, value.reshape(-1)))
    if elements:
        await together(
            _gather_field(
                _Place(call, ring, rank, at), at, peers, flat[at * elements : (at + 1) * elements]
            )
            for at in range(group.size)
        )
    return output


async def _gather_field(place: _Place, chunk: int, peers: RingPeers, buffer: Array) -> None:
    if place.rank != chunk:
        found = await peers.receive(place.before, place.key_before(0), buffer)
        await off_loop(buffer.nbytes, lambda: np.copyto(buffer, found))
    if place.rank != (chunk - 1) % place.size:
        await peers.send(place.next, place.key(0), buffer)


def _rings(call: CollectiveCall, group: Group, size_bytes: int) -> list[list[int]]:
    return _rings_of(group, ring_offsets(call, size_bytes, len(group.tasks)))


def _rings_of(group: Group, offsets: Iterable[int]) -> list[list[int]]:
    per_task = [len(group.ranks_of(task)) for task in group.tasks]
    return [ring_order(offset, per_task) for offset in offsets]


async def tree_broadcast(
    call: CollectiveCall, group: Group, peers: RingPeers, value: Array | None, source: int
) -> Array:
    """Return the source's input."""
    rank = group.rank_of(call.device)
    output = np.empty(call.shape, call.dtype.as_numpy_dtype) if value is None else value
    flat = output.reshape(-1)
    for number, ranks, root in _trees(group, source):
        if rank not in ranks or not flat.size:
            continue
        own, at_root = ranks.index(rank), ranks.index(root)
        if own != at_root and value is None:
            above = tree_parent(own, at_root, len(ranks))
            key = f"{call.exec_key}:{number}:{above}:{own}"
            found = await peers.receive(ranks[above], key, flat)
            await off_loop(flat.nbytes, functools.partial(np.copyto, flat, found))
            # It comes once: along the tree of tasks, or within the own task.
            value = output
        await together(
            peers.send(ranks[below], f"{call.exec_key}:{number}:{own}:{below}", flat)
            for below in tree_children(own, at_root, len(ranks))
        )
    return output


def _trees(group: Group, source: int) -> list[tuple[int, list[int], int]]:
    """Return the trees of a broadcast, each as its number, its ranks and its root.

    With several tasks the first joins a device of each, the source for its own; then each task has
    one among its devices.
    """
    ranks_of = [group.ranks_of(task) for task in group.tasks]
    heads = [source if source in ranks else ranks[0] for ranks in ranks_of]
    found = [(0, heads, source)] if len(heads) > 1 else []
    first = len(found)
    found += [(first + at, *tree) for at, tree in enumerate(zip(ranks_of, heads))]
    return found


def tree_parent(rank: int, source: int, size: int) -> int:
    """Return who sends to a rank that is not the source."""
    if source == 0:
        return (rank - 1) // 2
    above = rank // 2 - 1
    return source if above < 0 else above


def tree_children(rank: int, source: int, size: int) -> list[int]:
    """Return to whom a rank sends."""
    if source == 0:
        found = [2 * rank + 1, 2 * rank + 2]
    else:
        found = [2 * rank + 2, 2 * rank + 3]
        if rank == source:
            found = [0, 1, *found]
    return [below for below in found if below < size and below != source]


async def all_to_all(call: CollectiveCall, group: Group, peers: RingPeers, value: Array) -> Array:
    """Return the rows that all members give to this one."""
    rank = group.rank_of(call.device)
    output = np.empty_like(value)

    async def take(source: int) -> None:
        # The ranks stand right behind the key, as TensorFlow writes them.
        found = await peers.receive(source, f"{call.exec_key}{source}{rank}", output[source])
        await off_loop(found.nbytes, lambda: np.copyto(output[source, ...], found))

    async def give(to: int) -> None:
        rows = await off_loop(value[to].nbytes, lambda: np.ascontiguousarray(value[to]))
        await peers.send(to, f"{call.exec_key}{rank}{to}", rows)

    members = range(group.size)
    await together([*(take(at) for at in members), *(give(at) for at in members)])
    return output
