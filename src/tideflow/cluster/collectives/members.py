"""How a task reaches the other members of collective groups.

A group's leader is the task that the server's configuration names.  Without one it is the own task
for groups that may be complete with the own devices, else the chief or the first worker.
Source: runtime facts on collectives; rpc_collective_executor_mgr.cc of TensorFlow 2.21.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.cluster.collectives.messages import group_from_pb, instance_to_pb, join_to_pb
from tideflow.cluster.collectives.service import buffer_frame, exchange_method, failure_frame
from tideflow.cluster.repeated_calls import repeated
from tideflow.cluster.worker_cache import WorkerCache
from tideflow.runtime.collective_arithmetic import Array
from tideflow.runtime.collective_groups import (
    Group,
    GroupTable,
    InstanceRequest,
    JoinRequest,
    Member,
)
from tideflow.transport import MessageStream, StreamReceiver
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import parse_device_name, worker_name
from tideflow.wire.ids import new_request_id

_LOGGER = logging.getLogger(__name__)


class _MemberStream(StreamReceiver):
    """The end of a stream that gives."""

    def __init__(self, on_end: Callable[[errors.OpError | None], None]) -> None:
        self.messages: MessageStream | None = None
        self._on_end = on_end

    def received(self, message: Any) -> None:
        """Do nothing: the other end says nothing."""

    def ended(self, error: errors.OpError | None) -> None:
        self._on_end(error)


class ClusterMembers:
    """Implements RemoteMembers for the workers of one cluster.

    Args:
      workers: finds them.
      table: the groups that this task leads.
      leader: the task that leads groups; "" to choose one.
      has_lines: whether this task takes pushed buffers.
      local_count: how many devices of a type this task has.
      on_lost: is told of a task to which the stream has ended, and why.
      on_failure: is told of the key and number of a group that has failed, and why.
      lend: gives memory for results.
    """

    def __init__(
        self,
        workers: WorkerCache,
        table: GroupTable,
        leader: str,
        has_lines: bool,
        local_count: Callable[[str], int],
        on_lost: Callable[[str, errors.OpError], None],
        on_failure: Callable[[int, int, errors.OpError], None],
        lend: Callable[[int], memoryview],
    ) -> None:
        self.has_lines = has_lines
        self.lend = lend
        self._workers = workers
        self._table = table
        self._leader = leader
        self._local_count = local_count
        self._on_lost = on_lost
        self._on_failure = on_failure
        self._streams: dict[str, _MemberStream] = {}
        self._leaders: dict[int, str] = {}

    # ---- the leader

    def leader(self, size: int = 0, device_type: str = "") -> str:
        """Return the task that leads a group of so many devices of a type."""
        if self._leader:
            return self._leader
        own = self._workers.own_task
        if size <= self._local_count(device_type):
            return own
        jobs = self._workers.cluster.jobs
        for job in ("chief", "worker"):
            if job in jobs:
                return worker_name(job, min(self._workers.cluster.task_indices(job)))
        return min(self._workers.task_names(), default=own)

    async def join(self, request: JoinRequest) -> Group:
        """Join a group at its leader."""
        leader = self.leader(request.size, request.member.attributes.device_type)
        self._leaders[request.key] = leader
        if self._workers.is_local(leader):
            return await self._table.join(request)
        response = await self._workers.get(leader).CompleteGroup(join_to_pb(request))
        return group_from_pb(response)

    async def complete_instance(self, request: InstanceRequest) -> int:
        """Ask the leader for the source of a collective."""
        leader = self._leaders[request.group_key]
        if self._workers.is_local(leader):
            return await self._table.complete_instance(request)
        device_type = parse_device_name(request.device).device_type or ""
        response = await self._workers.get(leader).CompleteInstance(
            instance_to_pb(request, device_type)
        )
        return response.source_rank

    # ---- streams

    async def connect(self, group: Group, tasks: list[str]) -> None:
        """Open streams to tasks of a group."""
        for task in tasks:
            if task not in self._streams:
                await self._open(task)

    async def _open(self, task: str) -> None:
        def ended(error: errors.OpError | None) -> None:
            if self._streams.get(task) is stream:
                del self._streams[task]
                self._on_lost(task, error or errors.UnavailableError("its stream has ended"))

        stream = _MemberStream(ended)
        stream.messages = await self._workers.channel(task).open_message_stream(
            exchange_method(), stream
        )
        if self._streams.setdefault(task, stream) is not stream:
            stream.messages.close()  # another call was faster

    def push(self, task: str, key: str, description: str, buffer: Array) -> None:
        """Give a task a buffer.  Raises: UnavailableError when there is no stream to it."""
        stream = self._streams.get(task)
        sent = False
        if stream is not None and stream.messages is not None:
            sent = stream.messages.send(buffer_frame(key, description, buffer))
        if not sent:
            raise errors.UnavailableError(f"{task} was lost in a collective")

    def tell_failure(self, group: Group, tasks: list[str], error: errors.OpError) -> None:
        """Let tasks, and other clients of this one, know that what runs in a group has failed."""
        for task in tasks:
            stream = self._streams.get(task)
            if stream is not None and stream.messages is not None:
                stream.messages.send(failure_frame(group.key, group.number, error))
        self._on_failure(group.key, group.number, error)

    async def receive(
        self, member: Member, step_id: int, key: str, size_bytes: int, to: str
    ) -> Array:
        """Ask a member's task for a buffer; return its bytes."""
        request = pb.RecvBufRequest(
            step_id=step_id,
            buf_rendezvous_key=key,
            num_bytes=size_bytes,
            src_device=member.device,
            dst_device=to,
            src_incarnation=member.incarnation,
            request_id=new_request_id(),
        )
        worker = self._workers.get(member.task)
        reply = await repeated(worker, lambda: worker.RecvBuf(request))
        return reply.content

    def close(self) -> None:
        """End all streams."""
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            if stream.messages is not None:
                stream.messages.close()


def flat_bytes(buffer: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of a buffer, without a copy where it lies in one piece."""
    return np.ascontiguousarray(buffer).reshape(-1).view(np.uint8)
