"""The groups that members of collectives form, and what their leader keeps of them.

Rule 1: a group is complete when as many devices have joined as each of them says; then all learn
        the members, in the order of ranks.
Rule 2: what members do not agree on is told to all of them, and to those that come later.
Rule 3: who was told that a group has failed, who gives up a group, and a device that comes back in
        another life begin the group anew.  (TensorFlow's groups fail for good.)
Rule 4: a member that leaves before the group is complete never joined.
Source: collective_param_resolver_local.cc of TensorFlow 2.21; runtime facts on collectives.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tideflow.ops.collectives import CollectiveCall, Kind
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import parse_device_name, task_name

# Instances of a group whose sources are kept.
_MOST_SOURCES = 4096


@dataclass(frozen=True, slots=True)
class Member:
    """A device in a group.

    Attributes:
      attributes: as the device describes itself.
      has_lines: whether its task takes pushed buffers (a tideflow server).
      rank: the place that it asks for; None for the order of the names.
    """

    attributes: pb.DeviceAttributes
    has_lines: bool
    rank: int | None = None

    @property
    def device(self) -> str:
        """The device's full name."""
        return self.attributes.name

    @property
    def incarnation(self) -> int:
        """Which life of the device it is."""
        return self.attributes.incarnation

    @property
    def task(self) -> str:
        """The task whose device it is."""
        return task_name(self.attributes.name)


@dataclass(frozen=True, slots=True)
class Group:
    """A complete group.

    Attributes:
      number: tells this group from earlier ones of the same key; 0 where the leader gives none.
      members: by rank.
      tasks: those of the members, in the order of their first ranks.
      has_lines: whether all members' tasks take pushed buffers.
    """

    key: int
    number: int
    members: tuple[Member, ...]
    has_lines: bool
    tasks: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        tasks = dict.fromkeys(member.task for member in self.members)
        object.__setattr__(self, "tasks", tuple(tasks))

    @property
    def size(self) -> int:
        """How many members there are."""
        return len(self.members)

    def rank_of(self, device: str) -> int:
        """Return a member's rank.  Raises: InternalError for a device that is none."""
        for rank, member in enumerate(self.members):
            if member.device == device:
                return rank
        raise errors.InternalError(
            f"{device} is not in group {self.key}; its members are {self.names}"
        )

    def ranks_of(self, task: str) -> list[int]:
        """Return the ranks of a task's members."""
        return [rank for rank, member in enumerate(self.members) if member.task == task]

    @property
    def names(self) -> str:
        """The members, for messages."""
        return ", ".join(member.device for member in self.members)


@dataclass(slots=True)
class JoinRequest:
    """A device that wants to be in a group.

    Attributes:
      given_up: the number of the group of this key that it was in and has given up; 0 for none.
    """

    key: int
    size: int
    member: Member
    given_up: int = 0


@dataclass(slots=True)
class InstanceRequest:
    """A member's call, as the leader compares it with those of the others."""

    name: str
    kind: int
    dtype: int
    shape: tuple[int, ...]
    group_key: int
    group_size: int
    instance_key: int
    device: str
    is_source: bool

    @classmethod
    def of(cls, call: CollectiveCall) -> InstanceRequest:
        """Return what the leader is told of a call."""
        return cls(
            call.name,
            int(call.kind),
            call.dtype.number,
            call.shape,
            call.group_key,
            call.group_size,
            call.instance_key,
            call.device,
            call.is_source,
        )


@dataclass(slots=True)
class _Instance:
    first: InstanceRequest
    asked: set[str] = field(default_factory=set)
    source: str = ""
    found: asyncio.Future[int] = field(default_factory=lambda: _future())


@dataclass(slots=True)
class _Record:
    key: int
    size: int
    device_type: str
    number: int = field(default_factory=lambda: secrets.randbits(62) + 1)
    members: dict[str, Member] = field(default_factory=dict)
    # How many calls wait for each device's sake.
    waiting: dict[str, int] = field(default_factory=dict)
    complete: asyncio.Future[Group] = field(default_factory=lambda: _future())
    error: errors.OpError | None = None
    told: set[tuple[str, int]] = field(default_factory=set)
    instances: dict[int, _Instance] = field(default_factory=dict)
    # The ranks of the sources of broadcasts that are known to all, by instance, oldest first.
    sources: dict[int, int] = field(default_factory=dict)

    def remember(self, instance_key: int, source: int) -> None:
        """Note the source of a broadcast that all members have asked for."""
        self.sources.pop(instance_key, None)
        self.sources[instance_key] = source
        while len(self.sources) > _MOST_SOURCES:
            del self.sources[next(iter(self.sources))]

    def fail(self, error: errors.OpError) -> None:
        """Let all who wait, and who come later, hear of it."""
        self.error = error
        _fail(self.complete, error)
        for instance in self.instances.values():
            _fail(instance.found, error)


class GroupTable:
    """What a leader knows of all groups.  Use it on the loop."""

    def __init__(self) -> None:
        self._records: dict[int, _Record] = {}

    async def join(self, request: JoinRequest) -> Group:
        """Wait until a group is complete; return it.

        Raises: InternalError where members do not agree on the group, or it has others already.
        """
        if request.size < 1:
            raise errors.InvalidArgumentError(
                f"{request.member.device!r} joins group {request.key} with size {request.size}; a "
                "group has at least one member"
            )
        parse_device_name(request.member.device)
        record = self._record_for(request)
        member = request.member
        if record.error is None:
            self._check(record, request)
        if record.error is not None:
            record.told.add((member.device, member.incarnation))
            raise record.error
        record.members[member.device] = member
        if not record.complete.done() and len(record.members) == record.size:
            self._complete(record)
        device = member.device
        record.waiting[device] = record.waiting.get(device, 0) + 1
        try:
            return await asyncio.shield(record.complete)
        except errors.OpError:
            record.told.add((member.device, member.incarnation))
            raise
        finally:
            record.waiting[device] -= 1
            if not record.complete.done() and not record.waiting[device]:
                del record.members[device]

    def _record_for(self, request: JoinRequest) -> _Record:
        record = self._records.get(request.key)
        if record is not None and self._is_over(record, request):
            error = errors.AbortedError(
                f"collective group {request.key} begins anew: {request.member.device} has joined "
                "it again"
            )
            record.fail(error)
            record = None
        if record is None:
            device_type = request.member.attributes.device_type
            record = self._records[request.key] = _Record(request.key, request.size, device_type)
        return record

    @staticmethod
    def _is_over(record: _Record, request: JoinRequest) -> bool:
        """Whether the one who joins begins the group anew."""
        member = request.member
        if request.given_up == record.number:
            return True
        known = record.members.get(member.device)
        if known is not None and known.incarnation != member.incarnation:
            return record.complete.done()
        return record.error is not None and (member.device, member.incarnation) in record.told

    @staticmethod
    def _check(record: _Record, request: JoinRequest) -> None:
        """Fail the record if the one who joins does not fit in."""
        member = request.member
        others = ", ".join(record.members)
        if request.size != record.size:
            error = errors.InternalError(
                f"{member.device} is joining group {record.key} with size {request.size}, but that "
                f"group has size {record.size} for {others}"
            )
        elif member.attributes.device_type != record.device_type:
            error = errors.InternalError(
                f"{member.device} is joining group {record.key} with device type "
                f"{member.attributes.device_type}, but that group has type {record.device_type} "
                f"({others})"
            )
        elif record.complete.done() and member.device not in record.members:
            # A full group goes on: only the stranger is turned away.
            raise errors.InternalError(
                f"{member.device} is joining group {record.key}, which is full; its members are "
                f"{others}"
            )
        else:
            return
        record.fail(error)

    @staticmethod
    def _complete(record: _Record) -> None:
        try:
            members = _ranked(record.members.values())
        except errors.OpError as error:
            record.fail(error)
            return
        has_lines = all(member.has_lines for member in members)
        record.complete.set_result(Group(record.key, record.number, members, has_lines))

    def find(self, key: int) -> Group | None:
        """Return a complete group that has not failed."""
        record = self._records.get(key)
        if record is None or record.error is not None or not record.complete.done():
            return None
        return record.complete.result()

    # ---- instances

    async def complete_instance(self, request: InstanceRequest) -> int:
        """Return the rank that sends in a broadcast, once it is known; -1 for other collectives.

        Raises: FailedPreconditionError for a group that is not known; InvalidArgumentError or
        InternalError where the members do not agree, with the names of two that differ.
        """
        record = self._records.get(request.group_key)
        if record is None or not record.complete.done() or record.error is not None:
            raise errors.FailedPreconditionError(
                f"group {request.group_key} not found. This normally means the server has restarted"
            )
        group = record.complete.result()
        rank = group.rank_of(request.device)
        if request.kind == Kind.BROADCAST:
            # TensorFlow's tasks ask once for each instance: later rounds are without them.
            known = record.sources.get(request.instance_key)
            if known is not None and request.is_source == (rank == known):
                return known
        instance = record.instances.get(request.instance_key)
        if instance is None:
            instance = record.instances[request.instance_key] = _Instance(request)
        instance.asked.add(request.device)
        error = self._agree(instance, request, rank, group.size)
        if len(instance.asked) == group.size:
            del record.instances[request.instance_key]
            if instance.source:
                record.remember(request.instance_key, group.rank_of(instance.source))
        if error is not None:
            _fail(instance.found, error)
            raise error
        return await asyncio.shield(instance.found)

    @staticmethod
    def _agree(
        instance: _Instance, request: InstanceRequest, rank: int, size: int
    ) -> errors.OpError | None:
        """Take a member's call into account; return what is wrong with it."""
        error = _difference(instance, request)
        if error is not None:
            return error
        if request.kind != Kind.BROADCAST:
            _give(instance.found, -1)
        elif request.is_source:
            instance.source = request.device
            _give(instance.found, rank)
        elif len(instance.asked) == size and not instance.source:
            key = request.instance_key
            return errors.InvalidArgumentError(
                f"Instance {key} found no source for broadcast. This could mean that there were "
                f"group_size={size} BcastRecvs but no BcastSend."
            )
        return None


def _difference(instance: _Instance, request: InstanceRequest) -> errors.OpError | None:
    """Return what is wrong between a call and the first one of its instance."""
    first, key = instance.first, request.instance_key
    if (first.kind, first.dtype) != (request.kind, request.dtype):
        return errors.InternalError(
            f"Collective instance {key} expected type {request.kind} and data_type {request.dtype} "
            f"at {request.device} ({request.name}), but {first.device} ({first.name}) expects type "
            f"{first.kind} and data_type {first.dtype}. The members must run the same collectives "
            "in the same order"
        )
    if first.shape != request.shape:
        return errors.InvalidArgumentError(
            f"Shape mismatch in the collective instance {key}. Op at device {request.device} "
            f"expected shape {_dims(request.shape)} but another member in the group expected shape "
            f"{_dims(first.shape)}. This is likely due to different input shapes at different "
            f"members of the collective op. The other member is {first.device}"
        )
    if request.is_source and instance.source not in ("", request.device):
        return errors.InternalError(
            f"Instance {key} already has source {instance.source}, received second claim from "
            f"{request.device}"
        )
    return None


def _dims(shape: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"


def _ranked(members: Iterable[Member]) -> tuple[Member, ...]:
    """Return members in the order of their ranks."""
    found = sorted(members, key=lambda member: _name_key(member.device))
    given = [member.rank for member in found]
    if all(rank is None for rank in given):
        return tuple(found)
    by_rank = {member.rank: member for member in found}
    if set(by_rank) != set(range(len(found))):
        ranks = ", ".join(f"{member.device}: {member.rank}" for member in found)
        raise errors.InvalidArgumentError(
            f"the ranks of the members of a group must be 0 to {len(found) - 1}; found {ranks}"
        )
    return tuple(by_rank[rank] for rank in range(len(found)))


def _name_key(device: str) -> tuple[str, int, int, str, int]:
    spec = parse_device_name(device)
    return (
        spec.job or "",
        spec.replica or 0,
        spec.task or 0,
        spec.device_type or "",
        spec.device_index or 0,
    )


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


def _give(future: asyncio.Future[int], value: int) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[int] | asyncio.Future[Group], error: errors.OpError) -> None:
    if future.done():
        # What was answered already may be found to be wrong: those who ask later hear of it.
        return
    future.set_exception(error)
    future.exception()  # there may be nobody to see it
