"""A task's own part in a coordinated cluster: it registers, waits for the others, and stays in
touch with the task that leads.

Source: coordination_service_agent.cc of TensorFlow 2.21; runtime facts on CoordinationService.
"""

from __future__ import annotations

import asyncio
import logging

from tideflow.blocking import spawn
from tideflow.cluster.coordination import CoordinationService
from tideflow.cluster.task_server import TaskServer
from tideflow.platform import clock
from tideflow.transport import stub
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import parse_device_name

_LOGGER = logging.getLogger(__name__)

HEARTBEAT_TIMEOUT_S = 10.0
# How long the others may take to start, and how often it is said that they are waited for.
_START_S = 3600.0
_TELL_S = 10.0
_RETRY_S = 0.2
# How long a task that has ended well waits for the others, which may still take from it.
_LEAVE_S = 5.0
# The name by which TensorFlow knows the message, which has another package here.
_DEVICE_URL = "type.googleapis.com/tensorflow.DeviceAttributes"


def coordinate(config: pb.ConfigProto, leader: str, jobs: dict[str, int]) -> None:
    """Write into a server's configuration who coordinates which tasks.

    Args:
      leader: the name of a task, which leads collectives as well.
      jobs: numbers of tasks.
    """
    config.experimental.collective_group_leader = leader
    asked = config.experimental.coordination_config
    asked.service_type = "standalone"
    asked.service_leader = leader
    asked.heartbeat_timeout_in_ms = int(HEARTBEAT_TIMEOUT_S * 1000)
    asked.shutdown_barrier_timeout_in_ms = int(_LEAVE_S * 1000)
    for job, count in jobs.items():
        asked.coordinated_job_list.add(name=job, num_tasks=count)


class CoordinationAgent:
    """Use it on the loop.

    Args:
      server: of this task, which has started.
      leader: the name of the task that coordinates.
    """

    def __init__(self, server: TaskServer, leader: str) -> None:
        place = parse_device_name(server.task)
        workers = server.worker.workers
        self._server = server
        self._leader = leader
        self._task_pb = pb.CoordinatedTask(job_name=place.job or "", task_id=place.task or 0)
        self._incarnation = server.devices.client_device.incarnation
        self._service: CoordinationService = (
            server.coordinator
            if workers.is_local(leader)
            else stub(CoordinationService, workers.channel(leader))
        )
        self._beating: asyncio.Task[None] | None = None
        self._has_failed = False

    async def join(self) -> list[pb.DeviceAttributes]:
        """Register, and return the devices of all tasks once all are there.

        Raises: AbortedError where this task is there already, in another process;
        DeadlineExceededError when the others do not come; the error of one that fails meanwhile.
        """
        telling = spawn(self._tell_of_waiting())
        last = clock.monotonic_s() + _START_S
        try:
            while True:
                try:
                    return await self._join_once()
                except errors.UnavailableError:
                    self._stop_beating()
                    if clock.monotonic_s() > last:
                        raise
                    await asyncio.sleep(_RETRY_S)
        finally:
            telling.cancel()

    async def _join_once(self) -> list[pb.DeviceAttributes]:
        await self._service.RegisterTask(
            pb.RegisterTaskRequest(incarnation=self._incarnation, source_task=self._task_pb)
        )
        self._beating = spawn(self._beat())
        request = pb.WaitForAllTasksRequest(source_task=self._task_pb)
        for device in self._server.devices.devices:
            packed = request.device_info.device.add(type_url=_DEVICE_URL)
            packed.value = device.attributes().SerializeToString()
        response = await self._service.WaitForAllTasks(request)
        return [
            pb.DeviceAttributes.FromString(packed.value) for packed in response.device_info.device
        ]

    async def _tell_of_waiting(self) -> None:
        while True:
            await asyncio.sleep(_TELL_S)
            _LOGGER.warning("%s waits for all tasks to come to %s", self._server.task, self._leader)

    async def _beat(self) -> None:
        heard = clock.monotonic_s()
        request = pb.HeartbeatRequest(incarnation=self._incarnation, source_task=self._task_pb)
        while True:
            try:
                await self._service.Heartbeat(request)
                heard = clock.monotonic_s()
            except errors.OpError as error:
                lost = isinstance(error, errors.UnavailableError)
                if not lost or clock.monotonic_s() - heard > HEARTBEAT_TIMEOUT_S:
                    self._has_failed = True
                    self._server.worker.collectives.fail_all(error)
                    return
            await asyncio.sleep(HEARTBEAT_TIMEOUT_S / 2)

    def _stop_beating(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None

    async def leave(self, error: errors.OpError | None = None) -> None:
        """Leave, once the others need nothing more; at once, and telling them, with an error."""
        self._stop_beating()
        if self._has_failed:
            return
        try:
            async with asyncio.timeout(_LEAVE_S + 1):
                if error is None:
                    await self._service.ShutdownTask(
                        pb.ShutdownTaskRequest(source_task=self._task_pb)
                    )
                else:
                    await self._service.ReportErrorToService(
                        pb.ReportErrorToServiceRequest(
                            error_code=error.error_code,
                            error_message=error.message,
                            error_origin=self._task_pb,
                        )
                    )
        except (TimeoutError, errors.OpError) as found:
            _LOGGER.info("%s leaves %s: %s", self._server.task, self._leader, found)
