"""Collectives among tideflow servers: members of one task meet first, then each task gives each
other task what it needs of it, without being asked.

A small reduction is one exchange of whole buffers, which every task merges in the same order.  Of a
large one each task merges its part and gives the result to the others: two exchanges however many
tasks there are, in pieces, so that the parts of the work overlap.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from tideflow.ops.collectives import CollectiveCall, Kind
from tideflow.runtime.collective_arithmetic import Array, finish, merge_into, off_loop
from tideflow.runtime.collective_groups import Group
from tideflow.wire import errors

# Up to this size whole buffers are exchanged.
_WHOLE_BYTES = 64 * 1024
_PIECE_BYTES = 2 << 20

Values = Mapping[int, Array]


class DirectPeers(Protocol):
    """The other tasks of a group, for one call."""

    def push(self, task: str, part: str, buffer: Array) -> None:
        """Give a task a buffer under a name that it knows."""

    async def take(self, task: str, part: str) -> Array:
        """Wait for a buffer that a task gives."""

    def lend(self, size_bytes: int) -> memoryview:
        """Return memory for a result."""


async def exchange(
    call: CollectiveCall,
    group: Group,
    own_task: str,
    peers: DirectPeers,
    values: Values,
    source: int,
) -> dict[int, Any]:
    """Return the results of a task's members, given all their inputs, by rank.

    values: an input for each member of the task that has one.
    """
    work = _Exchange(call, group, own_task, peers)
    if call.kind is Kind.REDUCE:
        return work.for_all(await work.reduce(values))
    if call.kind is Kind.GATHER:
        return work.for_all(await work.gather(values))
    if call.kind is Kind.BROADCAST:
        return work.for_all(await work.broadcast(values, source))
    if call.kind is Kind.REDUCE_SCATTER:
        return await work.reduce_scatter(values)
    return await work.all_to_all(values)


class _Exchange:
    """One call at one task."""

    def __init__(
        self, call: CollectiveCall, group: Group, own_task: str, peers: DirectPeers
    ) -> None:
        self.call = call
        self.tasks = group.tasks
        self.own_task = own_task
        self.others = [task for task in group.tasks if task != own_task]
        self.ranks = {task: group.ranks_of(task) for task in group.tasks}
        self.size = group.size
        self.peers = peers

    def for_all(self, result: Array) -> dict[int, Any]:
        """Return one result as that of each member."""
        return dict.fromkeys(self.ranks[self.own_task], result)

    def _empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        size_bytes = int(np.prod(shape)) * dtype.itemsize
        if not size_bytes:
            return np.empty(shape, dtype)
        return np.frombuffer(self.peers.lend(size_bytes), dtype).reshape(shape)

    async def _merge_local(self, values: Values) -> Array:
        """Return the task's inputs merged, in the order of their ranks."""
        first, *rest = [values[rank] for rank in self.ranks[self.own_task]]
        if not rest:
            return first
        merged = self._empty(first.shape, first.dtype)
        merge_op = self.call.merge_op

        def merge() -> None:
            merge_into(merge_op, merged, first, rest[0])
            for value in rest[1:]:
                merge_into(merge_op, merged, merged, value)

        await off_loop(merged.nbytes * len(rest), merge)
        return merged

    # ---- reductions

    async def reduce(self, values: Values) -> Array:
        """Return all inputs merged."""
        merged = await self._merge_local(values)
        if not self.others:
            is_input = len(self.ranks[self.own_task]) == 1
            return await off_loop(merged.nbytes, lambda: self._finished(merged, is_input))
        if merged.nbytes <= _WHOLE_BYTES:
            for task in self.others:
                self.peers.push(task, "0", merged)
            return await self._fold("0", merged)
        return await self._reduce_in_parts(merged)

    def _finished(self, merged: Array, is_input: bool) -> Array:
        """Return merged inputs with the final op applied, in place unless they are an input."""
        result = merged.copy() if is_input else merged
        finish(self.call, result)
        return result

    async def _fold(self, part: str, own: Array) -> Array:
        """Return what all tasks give under a name merged, in the order of the tasks."""
        found = {task: await self.peers.take(task, part) for task in self.others}
        found[self.own_task] = own
        first, second, *rest = [found[task] for task in self.tasks]
        out = np.empty_like(own)
        await off_loop(out.nbytes, lambda: self._merge(out, [first, second, *rest]))
        return out

    def _merge(self, out: Array, parts: list[Array]) -> None:
        merge_op = self.call.merge_op
        merge_into(merge_op, out, parts[0], parts[1])
        for part in parts[2:]:
            merge_into(merge_op, out, out, part)
        finish(self.call, out)

    async def _reduce_in_parts(self, merged: Array) -> Array:
        flat = merged.reshape(-1)
        out = self._empty(merged.shape, merged.dtype)
        into = out.reshape(-1)
        pieces = {task: self._pieces(at, flat) for at, task in enumerate(self.tasks)}
        await together(
            [
                self._merge_own(pieces, flat, into),
                *(self._take_results(task, pieces[task], into) for task in self.others),
            ]
        )
        return out

    def _pieces(self, at: int, flat: Array) -> list[slice]:
        """Return the pieces of the part that a task merges."""
        count = len(self.tasks)
        # Parts begin at multiples of 64 bytes.
        step = 64 // flat.itemsize
        size = -(-flat.size // (count * step)) * step
        begin, end = min(at * size, flat.size), min((at + 1) * size, flat.size)
        length = _PIECE_BYTES // flat.itemsize
        return [slice(i, min(i + length, end)) for i in range(begin, end, length)]

    async def _merge_own(self, pieces: Mapping[str, list[slice]], flat: Array, into: Array) -> None:
        """Give the others their pieces of the input; merge the own ones and give them away."""
        own = pieces[self.own_task]
        for at in range(max(map(len, pieces.values()))):
            for task in self.others:
                if at < len(pieces[task]):
                    self.peers.push(task, f"0:{at}", flat[pieces[task][at]])
            if at < len(own):
                await self._merge_piece(at, flat[own[at]], into[own[at]])

    async def _merge_piece(self, at: int, own: Array, into: Array) -> None:
        found = {task: await self.peers.take(task, f"0:{at}") for task in self.others}
        found[self.own_task] = own
        parts = [found[task] for task in self.tasks]
        await off_loop(into.nbytes, lambda: self._merge(into, parts))
        for task in self.others:
            self.peers.push(task, f"1:{at}", into)

    async def _take_results(self, task: str, pieces: list[slice], into: Array) -> None:
        for at, piece in enumerate(pieces):
            found = await self.peers.take(task, f"1:{at}")
            await off_loop(found.nbytes, functools.partial(np.copyto, into[piece], found))

    async def reduce_scatter(self, values: Values) -> dict[int, Any]:
        """Return each member's rows of all inputs merged."""
        merged = await self._merge_local(values)
        rows = merged.shape[0] // self.size
        by_rank = merged.reshape(self.size, rows, *merged.shape[1:])
        for task in self.others:
            self.peers.push(task, "0", await _taken(by_rank, self.ranks[task]))
        own = self.ranks[self.own_task]
        mine = await _taken(by_rank, own)
        if self.others:
            mine = await self._fold("0", mine)
        else:
            await off_loop(mine.nbytes, lambda: finish(self.call, mine))
        return {rank: mine[at] for at, rank in enumerate(own)}

    # ---- the others

    async def gather(self, values: Values) -> Array:
        """Return all inputs, one behind the other by rank."""
        own = self.ranks[self.own_task]
        for task in self.others:
            for rank in own:
                self.peers.push(task, str(rank), values[rank])
        any_value = values[own[0]]
        out = self._empty(self.call.shape, any_value.dtype)
        by_rank = out.reshape(self.size, *any_value.shape)

        async def take(task: str) -> None:
            for rank in self.ranks[task]:
                found = values[rank] if task == self.own_task else None
                part = found if found is not None else await self.peers.take(task, str(rank))
                await off_loop(part.nbytes, functools.partial(np.copyto, by_rank[rank], part))

        await together([take(task) for task in self.tasks])
        return out

    async def broadcast(self, values: Values, source: int) -> Array:
        """Return the source's input."""
        for task, ranks in self.ranks.items():
            if source in ranks and task != self.own_task:
                return await self.peers.take(task, "0")
        for task in self.others:
            self.peers.push(task, "0", values[source])
        return values[source]

    async def all_to_all(self, values: Values) -> dict[int, Any]:
        """Return for each member the rows that all members give to it."""
        own = self.ranks[self.own_task]
        size_bytes = sum(values[rank].nbytes for rank in own)
        given = await off_loop(size_bytes, lambda: np.stack([values[rank] for rank in own]))
        for task in self.others:
            self.peers.push(task, "0", await _taken(given, self.ranks[task], axis=1))
        out = np.empty_like(given)
        for task in self.tasks:
            if task == self.own_task:
                found = await _taken(given, own, axis=1)
            else:
                found = await self.peers.take(task, "0")
            await off_loop(found.nbytes, functools.partial(_place, out, self.ranks[task], found))
        return {rank: out[at] for at, rank in enumerate(own)}


async def _taken(array: Array, ranks: list[int], axis: int = 0) -> Array:
    """Return what belongs to members, of an array with a place for each along one axis."""
    size_bytes = array.nbytes // array.shape[axis] * len(ranks)
    return await off_loop(size_bytes, lambda: np.take(array, ranks, axis))


def _place(out: Array, ranks: list[int], found: Array) -> None:
    """Write what members gave, a row for each of them, behind each other in each row of `out`."""
    out[:, ranks] = np.swapaxes(found, 0, 1)


class Gathering:
    """The members of one task in one collective, until the last of them has come.

    Attributes:
      values: their inputs by rank.
      results: what they get, once all have come and the work is done.
    """

    def __init__(self, call: CollectiveCall) -> None:
        self.call = call
        self.came: set[int] = set()
        self.values: dict[int, Array] = {}
        self.results: asyncio.Future[dict[int, Any]] = asyncio.get_running_loop().create_future()

    def add(self, rank: int, call: CollectiveCall, value: Array | None) -> None:
        """Add a member.  Raises: InvalidArgumentError for one that does something else."""
        if call.description != self.call.description:
            raise different(call, f"{self.call.device} ({self.call.name})", self.call.description)
        self.came.add(rank)
        if value is not None:
            self.values[rank] = value

    def fail(self, error: errors.OpError) -> None:
        """Let all who wait here hear of an error."""
        if not self.results.done():
            self.results.set_exception(error)
            self.results.exception()  # there may be nobody else


class Gatherings:
    """What is open at one task, by the key of the collective; calls that overtake open another."""

    def __init__(self) -> None:
        self._open: dict[str, deque[Gathering]] = {}

    def join(self, key: str, rank: int, call: CollectiveCall, value: Array | None) -> Gathering:
        """Add a member to the first that it is not in."""
        waiting = self._open.setdefault(key, deque())
        for found in waiting:
            if rank not in found.came:
                break
        else:
            found = Gathering(call)
            waiting.append(found)
        found.add(rank, call, value)
        return found

    def close(self, key: str, gathering: Gathering) -> None:
        """Note that all members have come."""
        waiting = self._open[key]
        waiting.remove(gathering)
        if not waiting:
            del self._open[key]

    def fail(self, has_failed: Callable[[str], bool], error: errors.OpError) -> None:
        """Fail what is open under the keys that have failed."""
        for key in [key for key in self._open if has_failed(key)]:
            for gathering in self._open.pop(key):
                gathering.fail(error)


def different(call: CollectiveCall, other: str, found: str) -> errors.OpError:
    """Return the error of two members that do different things in one collective."""
    return errors.InvalidArgumentError(
        f"collective {call.instance_key} of group {call.group_key} is {call.description} at "
        f"{call.device} ({call.name}), but {found} at {other}. All members must run the same "
        "collectives in the same order, on the same shapes and types"
    )


async def together(parts: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run parts at the same time; the first error ends the others and is raised."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    if not tasks:
        return
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
