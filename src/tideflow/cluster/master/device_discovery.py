"""Which devices a cluster has: every task is asked, and waited for.

Source: master.cc (DeviceFinder) of TensorFlow 2.21; runtime facts on CreateSession.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tideflow.cluster.worker_cache import WorkerCache
from tideflow.transport import NotGrpcError, growing_pauses_s
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import (
    DeviceSpec,
    canonical,
    compatible,
    parse_device_name,
    task_name,
)

_LOGGER = logging.getLogger(__name__)
T = TypeVar("T")

# How often the log says which tasks are still missing; clients tell their users more often.
REPORT_EVERY_S = 30.0
_FIRST_PAUSE_S, _MOST_PAUSE_S = 0.1, 1.0


@dataclass(frozen=True, slots=True)
class ClusterDevices:
    """The devices that a session may use.

    Attributes:
      attributes: of all of them, the own task's first.
      own_count: how many belong to the own task.
    """

    attributes: tuple[pb.DeviceAttributes, ...]
    own_count: int
    incarnations: dict[str, int]

    @classmethod
    def of(
        cls, own: Sequence[pb.DeviceAttributes], others: Iterable[pb.DeviceAttributes]
    ) -> ClusterDevices:
        """Return the devices of the own task and of others.

        Raises: InternalError when the own task has none.
        """
        if not own:
            raise errors.InternalError("the server's own worker has no device")
        every = (*own, *sorted(others, key=lambda device_pb: device_pb.name))
        return cls(every, len(own), {d.name: d.incarnation for d in every})

    @property
    def names(self) -> list[str]:
        """The full names, the client device first."""
        return [device_pb.name for device_pb in self.attributes]

    @property
    def client_device(self) -> str:
        """The device on which feeds and fetches live."""
        return self.attributes[0].name

    @property
    def client_incarnation(self) -> int:
        """The incarnation of the client device."""
        return self.attributes[0].incarnation

    def incarnation_of(self, task: str) -> int | None:
        """The incarnation of a task's first device; None for a task that has none."""
        return next((d.incarnation for d in self.attributes if task_name(d.name) == task), None)

    @property
    def tasks(self) -> list[str]:
        """The names of the tasks that have the devices, the own one first."""
        return list(dict.fromkeys(task_name(name) for name in self.names))


def allowed_tasks(workers: WorkerCache, filters: Sequence[str]) -> list[str]:
    """Return the tasks that fit any of the filters (all, without filters), the own task first.

    Raises: InvalidArgumentError for a malformed filter.
    """
    specs = [parse_device_name(canonical(text)) for text in filters]
    others = [
        task
        for task in workers.task_names()
        if not workers.is_local(task)
        and (not specs or any(compatible(spec, task) for spec in specs))
    ]
    return [workers.own_task, *others]


async def discover_devices(
    workers: WorkerCache,
    filters: Sequence[str],
    why: str,
    missing: dict[str, str] | None = None,
) -> ClusterDevices:
    """Ask all allowed tasks for their devices; wait for those that are not there yet.

    Args:
      why: what waits, for the log: "CreateSession".
      missing: is kept up to date meanwhile: the tasks that have not answered, each with the reason
        ("" while there is none).
    Raises: what a task answers instead; InvalidArgumentError for an address at which something
    else listens than a worker.  Cancelling the wait ends all calls.
    """
    tasks = allowed_tasks(workers, filters)
    missing = {} if missing is None else missing
    missing.update(dict.fromkeys(tasks, ""))
    found: dict[str, list[pb.DeviceAttributes]] = {}

    async def ask(task: str) -> None:
        try:
            response = await _status_when_there(workers, task, missing)
        except errors.OpError as error:
            raise error.with_message(
                f"{why} could not learn the devices of {task}: {error.message}"
            ) from None
        found[task] = [_renamed(device_pb, task) for device_pb in response.device_attributes]
        del missing[task]

    reporter = asyncio.ensure_future(_report(workers, missing, why))
    try:
        await gather_or_cancel([ask(task) for task in tasks])
    finally:
        reporter.cancel()
    others = [device_pb for task in tasks[1:] for device_pb in found[task]]
    return ClusterDevices.of(found[tasks[0]], others)


async def _status_when_there(
    workers: WorkerCache, task: str, missing: dict[str, str]
) -> pb.GetStatusResponse:
    """Ask a task until it is there; note in `missing` why it is not."""
    pauses_s = growing_pauses_s(_FIRST_PAUSE_S, _MOST_PAUSE_S)
    while True:
        try:
            return await workers.get(task).GetStatus(pb.GetStatusRequest())
        except (NotGrpcError, errors.UnimplementedError) as error:
            raise errors.InvalidArgumentError(
                f"the cluster has {task} at {workers.address(task)}, but no worker of tideflow or "
                f"TensorFlow answers there ({error.message})"
            ) from None
        except errors.UnavailableError as error:
            missing[task] = error.message.splitlines()[0]
        await asyncio.sleep(next(pauses_s))


async def gather_or_cancel(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await all; the first error cancels the rest, waits for their end, and is raised."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def _report(workers: WorkerCache, missing: dict[str, str], why: str) -> None:
    while True:
        await asyncio.sleep(REPORT_EVERY_S)
        _LOGGER.warning("%s still waits for %s", why, ", ".join(describe(workers, missing)))


def describe(workers: WorkerCache, missing: Mapping[str, str]) -> list[str]:
    """Say of each missing task where it should be, and why it is missing."""
    return [
        f"{task} at {workers.address(task)} ({reason or 'no answer yet'})"
        for task, reason in missing.items()
    ]


def _renamed(device_pb: pb.DeviceAttributes, task: str) -> pb.DeviceAttributes:
    """Return a device under the task's name as this cluster knows it, whatever it calls itself."""
    own = parse_device_name(task)
    spec = parse_device_name(device_pb.name)
    renamed = replace(DeviceSpec(own.job, own.replica, own.task), device_index=spec.device_index)
    # Past the constructor, which would turn `cpu` into `CPU`; peers keep it as it is.
    object.__setattr__(renamed, "device_type", spec.device_type)
    copied = pb.DeviceAttributes()
    copied.CopyFrom(device_pb)
    copied.name = renamed.to_string()
    return copied
