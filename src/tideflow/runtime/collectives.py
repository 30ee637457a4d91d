"""A session's collectives: finds the other members of a call and takes part in it.

Groups whose members are all tideflow servers, or all here, exchange directly; others run
TensorFlow's rings.  The first failure in a group ends all that runs in it, here and at the other
members, and the next call forms the group anew.
Source: runtime facts on collectives; base_collective_executor.cc of TensorFlow 2.21.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

import numpy as np

from tideflow.ops.collectives import CollectiveCall, Kind
from tideflow.runtime import collective_ring as ring
from tideflow.runtime.collective_arithmetic import Array
from tideflow.runtime.collective_buffers import BufferTable
from tideflow.runtime.collective_direct import Gatherings, different, exchange
from tideflow.runtime.collective_groups import (
    Group,
    GroupTable,
    InstanceRequest,
    JoinRequest,
    Member,
)
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.status import mark_derived

T = TypeVar("T")

_MOST_INSTANCES = 10_000
# How long a member may take to ask for a buffer before it is looked at.
_WATCH_AFTER_S = 0.5


class RemoteMembers(Protocol):
    """How the other members of groups are reached.  Use it on the loop."""

    has_lines: bool

    async def join(self, request: JoinRequest) -> Group:
        """Join a group at its leader."""

    async def complete_instance(self, request: InstanceRequest) -> int:
        """Ask the leader for the source of a collective."""

    async def connect(self, group: Group, tasks: list[str]) -> None:
        """Open lines to tasks of a group."""

    def push(self, task: str, key: str, description: str, buffer: Array) -> None:
        """Give a task a buffer.  Raises: UnavailableError when there is no line to it."""

    async def receive(
        self, member: Member, step_id: int, key: str, size_bytes: int, to: str
    ) -> Array:
        """Ask a member's task for a buffer; return its bytes."""

    def tell_failure(self, group: Group, tasks: list[str], error: errors.OpError) -> None:
        """Let tasks, and other clients of this one, know that what runs in a group has failed."""

    def lend(self, size_bytes: int) -> memoryview:
        """Return memory that is used again when nothing refers to it any more."""


class NoRemoteMembers:
    """The members are the devices of this process; the groups are led here."""

    has_lines = False

    def __init__(self) -> None:
        self._table = GroupTable()
        self.join = self._table.join
        self.complete_instance = self._table.complete_instance

    async def connect(self, group: Group, tasks: list[str]) -> None:
        """Raise, as no other task can be a member."""
        raise errors.InternalError(f"group {group.key} has members elsewhere: {group.names}")

    def push(self, task: str, key: str, description: str, buffer: Array) -> None:
        """Raise, as there is no other task."""
        raise errors.InternalError(f"there is no task {task}")

    async def receive(
        self, member: Member, step_id: int, key: str, size_bytes: int, to: str
    ) -> Array:
        """Raise, as there is no other task."""
        raise errors.InternalError(f"there is no task {member.task}")

    def tell_failure(self, group: Group, tasks: list[str], error: errors.OpError) -> None:
        """Do nothing: everybody is here."""

    def lend(self, size_bytes: int) -> memoryview:
        """Return new memory."""
        return np.empty(size_bytes, np.uint8).data


class CollectiveEngine:
    """Implements Collectives for the sessions of one cluster at one task.

    Args:
      own_task: this task's name in the cluster.
      attributes_of: describes a device of this task, by its full name.
      remote: reaches the other members.
      buffers: where buffers meet; those that other tasks ask for and push are there, too.
      common_step: the step under whose id all buffers travel; None where each step has its own.
        An eager client's functions have ids that no two tasks need agree on, so that TensorFlow
        gives the buffers of an eager context the id 0.
    """

    def __init__(
        self,
        own_task: str,
        attributes_of: Callable[[str], pb.DeviceAttributes],
        remote: RemoteMembers,
        buffers: BufferTable | None = None,
        common_step: int | None = None,
    ) -> None:
        self.own_task = own_task
        self._common_step = common_step
        self.buffers = BufferTable() if buffers is None else buffers
        self.remote = remote
        self._attributes_of = attributes_of
        # The groups that are in use here, and which of the own devices have joined them.
        self._groups: dict[int, Group] = {}
        self._joined: dict[tuple[int, str], Group] = {}
        self._given_up: dict[int, int] = {}
        self._sources: dict[tuple[int, int, str], int] = {}
        self._gatherings = Gatherings()
        # Questions to other tasks that are in progress, by group.
        self._asking: dict[asyncio.Task[Array], int] = {}
        self._errors: dict[int, errors.OpError] = {}
        # How many calls each member has in progress, and who is still to be told of a failure.
        self._in_progress: Counter[tuple[int, str]] = Counter()
        self._untold: dict[tuple[int, str], errors.OpError] = {}

    # ---- taking part

    async def run(self, call: CollectiveCall, step_id: int, value: Any) -> Any:
        """Take part in a collective (see Collectives.run)."""
        if self._common_step is not None:
            step_id = self._common_step
        given = None if value is None else np.asarray(value)
        stage = ["waiting for other workers"]
        return await self._in_time(call, stage, self._run(call, step_id, given, stage))

    async def _in_time(
        self, call: CollectiveCall, stage: list[str], work: Coroutine[Any, Any, T]
    ) -> T:
        """Do the work of a call within its time."""
        if call.timeout_s <= 0:
            return await work
        # A task of its own: a kernel's coroutine may begin in a task that is not its own.
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait([task], timeout=call.timeout_s)
            if task.done():
                return task.result()
        finally:
            task.cancel()
            await asyncio.wait([task])
        raise self._late(call, stage[0])

    def _late(self, call: CollectiveCall, stage: str) -> errors.OpError:
        group = self._groups.get(call.group_key)
        members = "" if group is None else f"; its members are {group.names}"
        return errors.DeadlineExceededError(
            f"Collective has timed out {stage}. {call.device} has waited {call.timeout_s:g} s in "
            f"collective {call.instance_key} of group {call.group_key}, {call.description} "
            f"({call.name}){members}. All members must run the same collectives in the same order"
        )

    async def _run(
        self,
        call: CollectiveCall,
        step_id: int,
        value: Array | None,
        stage: list[str],
    ) -> Any:
        who = (call.group_key, call.device)
        group = self._joined.get(who)
        if group is None:
            # Each member hears of each failure once, so that all know when the group begins anew.
            untold = self._untold.pop(who, None)
            if untold is not None:
                raise untold
            group = await self._join(call)
        if group.size != call.group_size:
            raise errors.InternalError(
                f"{call.device} takes part in group {call.group_key} with size {call.group_size}, "
                f"but that group has size {group.size}: {group.names}"
            )
        stage[0] = "during execution"
        self._in_progress[who] += 1
        # Buffers that are pushed belong to no step.
        failed_step = None if group.has_lines else step_id
        try:
            return await self._take_part(call, group, step_id, value)
        except asyncio.CancelledError:
            error = errors.AbortedError(
                f"{call.device} gave up its part in collective {call.instance_key} of group "
                f"{group.key} ({call.name}): its step was cancelled or took too long"
            )
            self.fail(group, mark_derived(error), failed_step)
            raise
        except errors.OpError as error:
            self.fail(group, error, failed_step)
            raise
        finally:
            self._in_progress[who] -= 1

    async def join(self, call: CollectiveCall) -> None:
        """Wait until the call's group is complete (see Collectives.join)."""
        await self._in_time(call, ["waiting for other workers"], self._join(call))

    async def _join(self, call: CollectiveCall) -> Group:
        key = call.group_key
        member = Member(self._attributes_of(call.device), self.remote.has_lines, call.rank)
        request = JoinRequest(key, call.group_size, member, self._given_up.get(key, 0))
        group = await self.remote.join(request)
        if self.buffers.is_over(group.number):
            # It ended here with another client; the leader is told to begin anew.
            again = JoinRequest(key, call.group_size, member, group.number)
            group = await self.remote.join(again)
        current = self._groups.get(key)
        if current is None or current.number != group.number or not group.number:
            self.buffers.renew(key)
            self._groups[key] = group
        else:
            group = current
        others = [task for task in group.tasks if task != self.own_task]
        if others and group.has_lines:
            try:
                await self.remote.connect(group, others)
            except errors.OpError as error:
                self.fail(group, error)
                raise
        if self._groups.get(key) is not group:
            raise self._errors.get(group.number) or errors.AbortedError(
                f"group {key} has failed while {call.device} joined it"
            )
        self._joined[key, call.device] = group
        return group

    async def _take_part(
        self, call: CollectiveCall, group: Group, step_id: int, value: Array | None
    ) -> Any:
        source = -1
        is_direct = group.has_lines or len(group.tasks) == 1
        if not is_direct or call.kind is Kind.BROADCAST:
            source = await self._source(call, group)
        if is_direct:
            return await self._directly(call, group, value, source)
        peers = _RingPeers(self, call, group, step_id)
        if call.kind is Kind.BROADCAST:
            return await ring.tree_broadcast(call, group, peers, value, source)
        assert value is not None
        if call.kind is Kind.REDUCE:
            return await ring.ring_reduce(call, group, peers, value)
        if call.kind is Kind.GATHER:
            return await ring.ring_gather(call, group, peers, value)
        if call.kind is Kind.ALL_TO_ALL:
            return await ring.all_to_all(call, group, peers, value)
        # TensorFlow has none for CPUs, so there is none to agree with: merge all, keep the own.
        merged = await ring.ring_reduce(call, group, peers, value)
        rank = group.rank_of(call.device)
        return merged.reshape(group.size, -1, *call.shape[1:])[rank]

    async def _source(self, call: CollectiveCall, group: Group) -> int:
        known = (group.key, call.instance_key, call.device)
        found = self._sources.get(known)
        if found is None:
            found = await self.remote.complete_instance(InstanceRequest.of(call))
            self._sources[known] = found
            if len(self._sources) > _MOST_INSTANCES:
                del self._sources[next(iter(self._sources))]
        return found

    async def _directly(
        self, call: CollectiveCall, group: Group, value: Array | None, source: int
    ) -> Any:
        rank = group.rank_of(call.device)
        peers = _DirectPeers(self, call, group)
        own = group.ranks_of(self.own_task)
        if len(own) == 1:
            values = {} if value is None else {rank: value}
            return (await exchange(call, group, self.own_task, peers, values, source))[rank]
        key = peers.prefix
        gathering = self._gatherings.join(key, rank, call, value)
        if len(gathering.came) < len(own):
            return (await asyncio.shield(gathering.results))[rank]
        self._gatherings.close(key, gathering)
        try:
            found = await exchange(call, group, self.own_task, peers, gathering.values, source)
        except errors.OpError as error:
            gathering.fail(error)
            raise
        except asyncio.CancelledError:
            gathering.fail(
                mark_derived(errors.AbortedError(f"{call.device} gave up its part in {call.name}"))
            )
            raise
        gathering.results.set_result(found)
        return found[rank]

    async def ask(
        self, group: Group, rank: int, step_id: int, key: str, size_bytes: int, to: str
    ) -> Array:
        """Ask another task's member for a buffer; `fail` ends the wait."""
        receiving = self.remote.receive(group.members[rank], step_id, key, size_bytes, to)
        task = asyncio.ensure_future(receiving)
        self._asking[task] = group.key
        try:
            return await task
        except asyncio.CancelledError:
            waiter = asyncio.current_task()
            if waiter and waiter.cancelling():
                raise
            raise errors.AbortedError(f"the collectives of group {group.key} have failed") from None
        finally:
            del self._asking[task]
            task.cancel()

    # ---- failures

    def fail(self, group: Group, error: errors.OpError, step_id: int | None = None) -> None:
        """End all that runs in a group, here and at its other members (call on the loop)."""
        if self._groups.get(group.key) is not group:
            return
        others = [task for task in group.tasks if task != self.own_task]
        aborted = _aborted_by(error)
        self._end(group, aborted, step_id)
        if group.has_lines:
            self.remote.tell_failure(group, others, aborted)

    def told_of_failure(self, key: int, number: int, error: errors.OpError) -> None:
        """Take note that a member has failed (call on the loop)."""
        group = self._groups.get(key)
        if group is not None and group.number == number:
            self._end(group, error, None)

    def lost_task(self, task: str, error: errors.OpError) -> None:
        """Take note that a task is gone: end all that runs with it (call on the loop)."""
        for group in list(self._groups.values()):
            if task in group.tasks and group.has_lines:
                lost = errors.UnavailableError(
                    f"{task} was lost, a member of collective group {group.key}: {error.message}"
                )
                self.fail(group, lost)

    def fail_all(self, error: errors.OpError) -> None:
        """End all that runs, and tell each member once (call on the loop)."""
        for group in list(self._groups.values()):
            self._end(group, _aborted_by(error), None)

    def close(self) -> None:
        """Fail all that runs: this task ends, or leaves the cluster (call on the loop).

        A group in which nothing runs goes on, for other clients of the same tasks.
        """
        for group in list(self._groups.values()):
            gone = errors.AbortedError(f"{self.own_task} leaves collective group {group.key}")
            if any(self._in_progress[who] for who in self._joined if who[0] == group.key):
                self.fail(group, gone)
            else:
                self._leave(group, gone)

    def _end(self, group: Group, error: errors.OpError, step_id: int | None) -> None:
        self._leave(group, error)
        if group.number:
            self.buffers.end_group(group.number)
        self.buffers.fail(group.key, error, step_id)

    def _leave(self, group: Group, error: errors.OpError) -> None:
        key = group.key
        del self._groups[key]
        self._given_up[key] = group.number
        if group.number:
            self._errors = {group.number: error}
        for who in [who for who in self._joined if who[0] == key]:
            del self._joined[who]
            if not self._in_progress[who]:
                self._untold[who] = error
        for known in [known for known in self._sources if known[0] == key]:
            del self._sources[known]
        self._gatherings.fail(lambda prefix: prefix.startswith(f"{key}:"), error)
        for task, asked in list(self._asking.items()):
            if asked == key:
                task.cancel()


def _aborted_by(error: errors.OpError) -> errors.OpError:
    """Return what the others, and those that come later in the same step, are told."""
    start = "Collective ops is aborted by: "
    if error.message.startswith(start):
        return error
    made = errors.error_for_code(error.error_code)(
        f"{start}{error.message}\nThe error could be from a previous operation. The group is "
        "formed anew by its next collective.",
        code=error.error_code,
    )
    return mark_derived(made)


class _RingPeers:
    """The buffers of one call that runs as TensorFlow's does."""

    def __init__(
        self, engine: CollectiveEngine, call: CollectiveCall, group: Group, step_id: int
    ) -> None:
        self._engine = engine
        self._call = call
        self._group = group
        self._step_id = step_id

    async def send(self, rank: int, key: str, buffer: Array) -> None:
        seen = self._engine.buffers.put(self._step_id, key, buffer)
        if seen is None:
            return
        if self._group.members[rank].task == self._engine.own_task:
            await seen
            return
        await asyncio.wait([seen], timeout=_WATCH_AFTER_S)
        if not seen.done():
            await self._watch(rank, key, seen)
        seen.result()

    async def _watch(self, rank: int, sent: str, seen: asyncio.Future[None]) -> None:
        """Wait until a member has asked for a buffer, or it is known that it never will.

        It is asked for something that it does not have: it answers when its collectives fail.  The
        name is of this buffer alone, since several of one call may be waited for at once.
        """
        key = f"{sent}:watch:{self._call.device}"
        asking = self._engine.ask(self._group, rank, self._step_id, key, 0, self._call.device)
        failure = asyncio.ensure_future(asking)
        try:
            either: list[asyncio.Future[Any]] = [seen, failure]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if failure.done() and not seen.done():
                failure.result()
                await seen
        finally:
            failure.cancel()
            await asyncio.wait([failure])
            if not failure.cancelled():
                failure.exception()

    async def receive(self, rank: int, key: str, buffer: Array) -> Array:
        engine = self._engine
        if self._group.members[rank].task == engine.own_task:
            found: Array = await engine.buffers.take(self._step_id, key)
        else:
            found = await engine.ask(
                self._group, rank, self._step_id, key, buffer.nbytes, self._call.device
            )
        if found.nbytes != buffer.nbytes:
            raise errors.InternalError(
                f"buffer {key!r} from {self._group.members[rank].device} has {found.nbytes} bytes; "
                f"{self._call.device} expects {buffer.nbytes}. All members must give tensors of "
                "the same shape and type"
            )
        return found.view(buffer.dtype).reshape(buffer.shape)


class _DirectPeers:
    """The other tasks, for one call of which nobody needs to be asked."""

    def __init__(self, engine: CollectiveEngine, call: CollectiveCall, group: Group) -> None:
        self._engine = engine
        self._call = call
        self.prefix = f"{group.key}:{call.instance_key}:{group.number:x}"
        self.lend = engine.remote.lend

    def push(self, task: str, part: str, buffer: Array) -> None:
        engine = self._engine
        key = f"{self.prefix}:{part}:{engine.own_task}"
        engine.remote.push(task, key, self._call.description, buffer)

    async def take(self, task: str, part: str) -> Array:
        key = f"{self.prefix}:{part}:{task}"
        description, buffer = await self._engine.buffers.take(0, key)
        if description != self._call.description:
            raise different(self._call, task, description)
        found: Array = buffer
        return found
