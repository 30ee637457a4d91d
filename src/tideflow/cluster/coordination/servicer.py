"""The coordination service of one task: at the leader all of it, elsewhere only what it is told.

Source: coordination_service_rpc_handler.cc of TensorFlow 2.21; runtime facts on
CoordinationService.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from tideflow.blocking import spawn
from tideflow.cluster.coordination.membership import TaskRecord
from tideflow.cluster.coordination.service import CoordinationService
from tideflow.cluster.coordination.tasks import CoordinatedTasks
from tideflow.cluster.worker_cache import WorkerCache
from tideflow.transport import stub
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import parse_device_name, worker_name

_LOGGER = logging.getLogger(__name__)


class CoordinationServicer(CoordinationService):
    """Implements CoordinationService for one task.  Use it on the loop.

    Args:
      workers: finds the other tasks, to tell them of errors.
      config: what to coordinate, if this task leads; None if it does not.
      incarnation: of this task.
      on_error: is told of errors of other tasks.
    """

    def __init__(
        self,
        workers: WorkerCache,
        config: pb.CoordinationServiceConfig | None,
        incarnation: int,
        on_error: Callable[[errors.OpError], None],
    ) -> None:
        self._workers = workers
        self._incarnation = incarnation
        self._on_error = on_error
        self._tasks = None if config is None else CoordinatedTasks(config, self._tell)
        self._values: dict[str, bytes] = {}
        self._awaited: dict[str, asyncio.Future[bytes]] = {}
        self._shutdown_timeout_s = 0.0
        if config is not None:
            self._shutdown_timeout_s = config.shutdown_barrier_timeout_in_ms / 1000

    @property
    def tasks(self) -> CoordinatedTasks:
        """The coordinated tasks.  Raises: InternalError at a task that does not lead."""
        if self._tasks is None:
            raise errors.InternalError(
                f"Coordination service is not enabled at {self._workers.own_task}; the leader is "
                "named by coordination_config.service_leader of the servers' configuration"
            )
        return self._tasks

    def _tell(self, other: TaskRecord, record: TaskRecord, error: errors.OpError) -> None:
        request = pb.ReportErrorToTaskRequest(
            error_code=error.error_code,
            error_message=error.message,
            error_payload=pb.CoordinationServiceError(source_task=record.task_pb),
        )
        spawn(self._tell_soon(other.name, request))

    async def _tell_soon(self, task: str, request: pb.ReportErrorToTaskRequest) -> None:
        try:
            if self._workers.is_local(task):
                await self.ReportErrorToTask(request)
            else:
                channel = self._workers.channel(task)
                await stub(CoordinationService, channel).ReportErrorToTask(request)
        except errors.OpError as error:
            _LOGGER.info("ReportErrorToTask at %s: %s", task, error)

    async def close(self) -> None:
        """End all that waits."""
        if self._tasks is not None:
            self._tasks.close()
        for waiting in self._awaited.values():
            waiting.cancel()
        self._awaited.clear()

    # ---- tasks

    async def RegisterTask(self, request: pb.RegisterTaskRequest) -> pb.RegisterTaskResponse:
        self.tasks.register(request.source_task, request.incarnation)
        return pb.RegisterTaskResponse(leader_incarnation=self._incarnation)

    async def Heartbeat(self, request: pb.HeartbeatRequest) -> pb.HeartbeatResponse:
        self.tasks.heartbeat(request.source_task, request.incarnation)
        return pb.HeartbeatResponse(leader_incarnation=self._incarnation)

    async def WaitForAllTasks(
        self, request: pb.WaitForAllTasksRequest
    ) -> pb.WaitForAllTasksResponse:
        tasks = self.tasks
        record = tasks.find(request.source_task)
        record.devices = request.device_info
        await tasks.barrier("WaitForAllTasks", 0, record, ())
        response = pb.WaitForAllTasksResponse(leader_incarnation=self._incarnation)
        for one in tasks.records.values():
            if one.devices is not None:
                response.device_info.device.extend(one.devices.device)
        return response

    async def ShutdownTask(self, request: pb.ShutdownTaskRequest) -> pb.ShutdownTaskResponse:
        record = self.tasks.find(request.source_task)
        if self._shutdown_timeout_s > 0 and record.is_connected:
            await self.tasks.barrier("ShutdownTask", 0, record, (), self._shutdown_timeout_s)
        self.tasks.disconnect(record)
        return pb.ShutdownTaskResponse()

    async def ResetTask(self, request: pb.ResetTaskRequest) -> pb.ResetTaskResponse:
        self.tasks.reset(self.tasks.find(request.source_task))
        return pb.ResetTaskResponse()

    async def GetTaskState(self, request: pb.GetTaskStateRequest) -> pb.GetTaskStateResponse:
        response = pb.GetTaskStateResponse()
        for task_pb in request.source_task:
            record = self.tasks.find(task_pb)
            found_pb = response.task_state.add(
                task=task_pb, state=record.state, incarnation=record.incarnation
            )
            if record.error is not None:
                found_pb.error_code = record.error.error_code
                found_pb.error_message = record.error.message
                found_pb.error_payload.source_task.CopyFrom(task_pb)
        return response

    # ---- errors

    async def ReportErrorToTask(
        self, request: pb.ReportErrorToTaskRequest
    ) -> pb.ReportErrorToTaskResponse:
        source = request.error_payload.source_task
        origin = f"/job:{source.job_name}/task:{source.task_id}"
        text = f"Error reported from {origin}: {request.error_message}"
        self._on_error(errors.error_for_code(request.error_code)(text, code=request.error_code))
        return pb.ReportErrorToTaskResponse()

    async def ReportErrorToService(
        self, request: pb.ReportErrorToServiceRequest
    ) -> pb.ReportErrorToServiceResponse:
        record = self.tasks.find(request.error_origin)
        code = request.error_code
        self.tasks.fail(record, errors.error_for_code(code)(request.error_message, code=code))
        return pb.ReportErrorToServiceResponse()

    async def PollForError(self, request: pb.PollForErrorRequest) -> pb.PollForErrorResponse:
        self.tasks.find(request.source_task)
        await self.tasks.wait_for_error()
        raise errors.InternalError("an error came, and is gone")

    # ---- barriers

    async def Barrier(self, request: pb.BarrierRequest) -> pb.BarrierResponse:
        record = self.tasks.find(request.source_task)
        await self.tasks.barrier(
            f"user:{request.barrier_id}",
            request.counter,
            record,
            request.tasks,
            request.barrier_timeout_in_ms / 1000,
        )
        return pb.BarrierResponse(counter=request.counter)

    async def CancelBarrier(self, request: pb.CancelBarrierRequest) -> pb.CancelBarrierResponse:
        record = self.tasks.find(request.source_task)
        self.tasks.cancel_barrier(f"user:{request.barrier_id}", request.counter, record)
        return pb.CancelBarrierResponse()

    # ---- values

    async def InsertKeyValue(self, request: pb.InsertKeyValueRequest) -> pb.InsertKeyValueResponse:
        self._require_leader()
        key = _normal(request.kv.key)
        if key in self._values and not request.allow_overwrite:
            raise errors.AlreadyExistsError(f"Config key {key} already exists.")
        self._values[key] = request.kv.value
        waiting = self._awaited.pop(key, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(request.kv.value)
        return pb.InsertKeyValueResponse()

    async def GetKeyValue(self, request: pb.GetKeyValueRequest) -> pb.GetKeyValueResponse:
        self._require_leader()
        key = _normal(request.key)
        value = self._values.get(key)
        if value is None:
            if key not in self._awaited:
                self._awaited[key] = asyncio.get_running_loop().create_future()
            value = await asyncio.shield(self._awaited[key])
        return pb.GetKeyValueResponse(kv=pb.KeyValueEntry(key=key, value=value))

    async def TryGetKeyValue(self, request: pb.TryGetKeyValueRequest) -> pb.TryGetKeyValueResponse:
        self._require_leader()
        key = _normal(request.key)
        if key not in self._values:
            raise errors.NotFoundError(f"Config key {key} not found.")
        entry_pb = pb.KeyValueEntry(key=key, value=self._values[key])
        return pb.TryGetKeyValueResponse(kv=entry_pb)

    async def GetKeyValueDir(self, request: pb.GetKeyValueDirRequest) -> pb.GetKeyValueDirResponse:
        self._require_leader()
        start = _normal(request.directory_key) + "/"
        return pb.GetKeyValueDirResponse(
            directory_key=_normal(request.directory_key),
            kv=[
                pb.KeyValueEntry(key=key, value=value)
                for key, value in sorted(self._values.items())
                if key.startswith(start)
            ],
        )

    async def DeleteKeyValue(self, request: pb.DeleteKeyValueRequest) -> pb.DeleteKeyValueResponse:
        self._require_leader()
        key = _normal(request.key)
        self._values.pop(key, None)
        if request.is_directory:
            for below in [one for one in self._values if one.startswith(key + "/")]:
                del self._values[below]
        return pb.DeleteKeyValueResponse()

    def _require_leader(self) -> None:
        assert self.tasks is not None


def _normal(key: str) -> str:
    """Return a key without slashes at its ends or in a row."""
    return "/".join(part for part in key.split("/") if part)


def coordination_config(server_pb: pb.ServerDef, task: str) -> pb.CoordinationServiceConfig | None:
    """Return what a server's task is to coordinate; None where it does not lead.

    Without a list of jobs all tasks of the cluster are coordinated.
    """
    asked = server_pb.default_session_config.experimental.coordination_config
    if asked.service_type != "standalone" or asked.force_disable:
        return None
    spec = parse_device_name(asked.service_leader)
    if worker_name(spec.job or "", spec.task or 0) != task:
        return None
    found = pb.CoordinationServiceConfig()
    found.CopyFrom(asked)
    if not found.coordinated_job_list:
        for job in server_pb.cluster.job:
            found.coordinated_job_list.add(name=job.name, num_tasks=len(job.tasks))
    return found
