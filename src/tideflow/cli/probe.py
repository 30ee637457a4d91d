"""Asks the tasks of a running cluster what they are doing.

A tideflow server answers tideflow.Status; a TensorFlow server lacks it, and is asked for its
devices, and through its master for those of the cluster.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tideflow.cluster import ClusterSpec
from tideflow.cluster.services import MasterService, WorkerService
from tideflow.cluster.status import StatusService
from tideflow.transport import Channel, make_channel, stub
from tideflow.wire import errors
from tideflow.wire import messages as pb

TIMEOUT_S = 5.0
LONG_STEP_S = 10.0


@dataclass(frozen=True)
class TaskReport:
    """What is known of one task.

    Attributes:
      name: /job:ps/task:0, or the address where the name is not known.
      status: what a tideflow server said; None for others.
      devices: of the task.
      problem: why nothing is known; empty for a task that answered.
    """

    name: str
    address: str
    status: pb.ServerStatusResponse | None = None
    devices: list[pb.DeviceAttributes] = field(default_factory=list)
    problem: str = ""


@dataclass(frozen=True)
class ClusterReport:
    """What is known of a cluster: its tasks, the asked one first.

    Attributes:
      others: devices of tasks whose addresses are not known (the peer is a TensorFlow).
    """

    tasks: list[TaskReport]
    others: list[pb.DeviceAttributes] = field(default_factory=list)


async def probe_cluster(
    target: str, timeout_s: float = TIMEOUT_S, long_step_s: float = LONG_STEP_S
) -> ClusterReport:
    """Return what the server at a target, and the tasks of its cluster, say.

    long_step_s: how long a step has to be running already to be told of.

    Raises: OpError when that server cannot be reached or is no TensorFlow or tideflow server;
    other tasks that do not answer are reported as such.
    """
    channel = make_channel(target)
    try:
        status_pb = await _status(channel, timeout_s, long_step_s)
        if status_pb is None:
            return await _probe_foreign(target, channel, timeout_s)
    finally:
        await channel.close()
    first = TaskReport(
        short_name(status_pb.task), status_pb.address, status_pb, list(status_pb.device)
    )
    addresses = _addresses(status_pb)
    addresses.pop(first.name, None)
    rest = await asyncio.gather(
        *(_probe_task(name, address, timeout_s, long_step_s) for name, address in addresses.items())
    )
    return ClusterReport([first, *rest])


def short_name(task: str) -> str:
    """Return a task's name without the replica, which says nothing in today's clusters."""
    return task.replace("/replica:0", "")


def _addresses(status_pb: pb.ServerStatusResponse) -> dict[str, str]:
    cluster = ClusterSpec(status_pb.cluster)
    return {
        f"/job:{job}/task:{index}": address
        for job in cluster.jobs
        for index, address in cluster.tasks(job).items()
    }


async def _status(
    channel: Channel, timeout_s: float, long_step_s: float
) -> pb.ServerStatusResponse | None:
    """Return a tideflow server's status, None from another gRPC server."""
    request = pb.ServerStatusRequest(long_step_s=long_step_s)
    try:
        async with asyncio.timeout(timeout_s) as scope:
            return await stub(StatusService, channel).GetServerStatus(request)
    except errors.UnimplementedError:
        return None
    except TimeoutError:
        if not scope.expired():
            raise
        raise _silent(channel.target, timeout_s) from None


def _silent(target: str, timeout_s: float) -> errors.OpError:
    return errors.DeadlineExceededError(f"{target} did not answer within {timeout_s:g} s")


async def _probe_task(name: str, address: str, timeout_s: float, long_step_s: float) -> TaskReport:
    channel = make_channel(address)
    try:
        status_pb = await _status(channel, timeout_s, long_step_s)
        if status_pb is None:
            devices = await _devices(channel, timeout_s)
            return TaskReport(name, address, None, devices)
        return TaskReport(name, address, status_pb, list(status_pb.device))
    except errors.OpError as error:
        return TaskReport(name, address, problem=_brief(error))
    finally:
        await channel.close()


def _brief(error: errors.OpError) -> str:
    if isinstance(error, errors.UnavailableError):
        return "not reachable"
    if isinstance(error, errors.DeadlineExceededError):
        return "no answer"
    return error.message.splitlines()[0]


async def _probe_foreign(target: str, channel: Channel, timeout_s: float) -> ClusterReport:
    devices = await _devices(channel, timeout_s)
    name = short_name(devices[0].name.partition("/device:")[0]) if devices else target
    address = target.removeprefix("grpc://")
    others: list[pb.DeviceAttributes] = []
    try:
        async with asyncio.timeout(timeout_s):
            # A master asks all tasks before it answers, and waits for those that are missing.
            listed = await stub(MasterService, channel).ListDevices(pb.ListDevicesRequest())
            others = list(listed.remote_device)
    except (errors.OpError, TimeoutError):
        pass
    return ClusterReport([TaskReport(name, address, None, devices)], others)


async def _devices(channel: Channel, timeout_s: float) -> list[pb.DeviceAttributes]:
    try:
        async with asyncio.timeout(timeout_s):
            answer = await stub(WorkerService, channel).GetStatus(pb.GetStatusRequest())
    except errors.UnimplementedError:
        raise errors.UnimplementedError(
            f"{channel.target} speaks gRPC, but is neither a tideflow nor a TensorFlow server"
        ) from None
    except TimeoutError:
        raise _silent(channel.target, timeout_s) from None
    return list(answer.device_attributes)
