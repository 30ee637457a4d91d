"""The collectives of a worker: the groups that it leads, its buffers, and its sessions' members.

Source: runtime facts on collectives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.cluster.collectives.members import ClusterMembers, flat_bytes
from tideflow.cluster.collectives.messages import group_to_pb, instance_from_pb, join_from_pb
from tideflow.cluster.collectives.service import CollectiveReceiver, CollectiveStreams
from tideflow.cluster.step_sequences import StepSequences
from tideflow.cluster.worker_cache import WorkerCache
from tideflow.platform import clock
from tideflow.runtime.collective_buffers import BufferTable
from tideflow.runtime.collective_groups import GroupTable
from tideflow.runtime.collectives import CollectiveEngine
from tideflow.runtime.device import DeviceManager
from tideflow.transport import lend_memory
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.buffer_reply import BufferReply
from tideflow.wire.device_name import parse_device_name, worker_name

# TensorFlow gives an eager context one set of collectives, whatever the steps of its functions are.
_EAGER_STEP = 0


class CollectiveHost:
    """What a worker answers about collectives.  Use it on the loop.

    Args:
      leader: the task that leads groups; "" to choose one.
      has_lines: whether the worker takes pushed buffers.
    """

    def __init__(self, leader: str, has_lines: bool) -> None:
        self.leader = _task(leader)
        self.table = GroupTable()
        self.buffers = BufferTable()
        self.sequences = StepSequences()
        self._has_lines = has_lines
        self._engines: list[tuple[CollectiveEngine, ClusterMembers]] = []

    def engine(
        self,
        workers: WorkerCache,
        devices: DeviceManager,
        leader: str = "",
        common_step: int | None = None,
    ) -> CollectiveEngine:
        """Return the collectives of the sessions of a cluster.

        leader: the task that leads groups; "" for the one that the server was given.
        common_step: see CollectiveEngine.
        Raises: InvalidArgumentError for a leader that names no task.
        """
        leader = _task(leader) or self.leader

        def lost(task: str, error: errors.OpError) -> None:
            engine.lost_task(task, error)

        def count(device_type: str) -> int:
            return sum(device.device_type == device_type for device in devices.devices)

        members = ClusterMembers(
            workers, self.table, leader, self._has_lines, count, lost, self._fail, lend_memory
        )
        engine = CollectiveEngine(
            workers.own_task,
            lambda name: devices.get(name).attributes(),
            members,
            self.buffers,
            common_step,
        )
        self._engines.append((engine, members))
        return engine

    def eager_engine(
        self, server_pb: pb.ServerDef, workers: WorkerCache, devices: DeviceManager
    ) -> CollectiveEngine:
        """Return the collectives of an eager client's context on a cluster.

        server_pb: what the client says of the cluster; its session config names the leader.
        Raises: InvalidArgumentError for a leader that names no task.
        """
        leader = server_pb.default_session_config.experimental.collective_group_leader
        return self.engine(workers, devices, leader, _EAGER_STEP)

    def drop(self, engine: object) -> None:
        """Let go of the collectives of a cluster."""
        for found, members in self._engines:
            if found is engine:
                found.close()
                members.close()
        self._engines = [known for known in self._engines if known[0] is not engine]

    def fail_all(self, error: errors.OpError) -> None:
        """End all that runs, as an error of another task was reported."""
        for engine, _ in self._engines:
            engine.fail_all(error)

    def close(self) -> None:
        """End all streams, and what waits for members."""
        for engine, members in self._engines:
            members.close()  # so that the others learn that the task is lost
            engine.close()

    def streams(self) -> CollectiveStreams | None:
        """Return the service for pushed buffers; None where they are not taken."""
        if not self._has_lines:
            return None
        return CollectiveStreams(CollectiveReceiver(self._accept, self._fail))

    def _accept(self, key: str, description: str, value: Any) -> None:
        self.buffers.accept(key, (description, np.asarray(value)))

    def _fail(self, group_key: int, number: int, error: errors.OpError) -> None:
        for engine, _ in self._engines:
            engine.told_of_failure(group_key, number, error)

    # ---- RPCs

    async def complete_group(self, request: pb.CompleteGroupRequest) -> pb.CompleteGroupResponse:
        """Wait until a group that this task leads is complete."""
        return group_to_pb(await self.table.join(join_from_pb(request)))

    async def complete_instance(
        self, request: pb.CompleteInstanceRequest
    ) -> pb.CompleteInstanceResponse:
        """Compare a member's call with those of the others; find the source of a broadcast."""
        source = await self.table.complete_instance(instance_from_pb(request))
        return pb.CompleteInstanceResponse(instance_key=request.instance_key, source_rank=source)

    async def receive_buffer(
        self, request: pb.RecvBufRequest, check_device: Callable[[str, int, str], None]
    ) -> BufferReply:
        """Wait for a buffer that a device of this task gives.

        check_device: refuses a device, in an incarnation, that is to give what is named.
        """
        key = request.buf_rendezvous_key
        check_device(request.src_device, request.src_incarnation, key)
        buffer = await self.buffers.take(request.step_id, key)
        return BufferReply(flat_bytes(buffer), clock.wall_ns() // 1000)

    def get_step_sequence(self, request: pb.GetStepSequenceRequest) -> pb.GetStepSequenceResponse:
        """Return the next step of each graph, as its leader."""
        return pb.GetStepSequenceResponse(
            step_sequence=[
                pb.StepSequence(graph_key=key, next_step_id=self.sequences.lead(key))
                for key in request.graph_key
            ]
        )


def _task(leader: str) -> str:
    """Return the name of the task that a configuration spells.

    Raises: InvalidArgumentError for what names none.
    """
    if not leader:
        return ""
    spec = parse_device_name(leader)
    if spec.job is None or spec.task is None:
        raise errors.InvalidArgumentError(
            f"collective_group_leader is {leader!r}; it must name a task, such as "
            "/job:worker/replica:0/task:0"
        )
    return worker_name(spec.job, spec.task)
