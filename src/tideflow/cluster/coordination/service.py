# mypy: disable-error-code="empty-body"
"""CoordinationService: what TensorFlow's multi-worker strategies ask of the task that coordinates.

Source: coordination_service.proto of TensorFlow 2.21; runtime facts on CoordinationService.
"""

from __future__ import annotations

from tideflow.transport import Service, rpc
from tideflow.wire import messages as pb


class CoordinationService(Service, name="tensorflow.CoordinationService"):
    """Knows which tasks live, and carries errors, barriers and small values between them."""

    @rpc
    async def RegisterTask(self, request: pb.RegisterTaskRequest) -> pb.RegisterTaskResponse: ...

    @rpc
    async def Heartbeat(self, request: pb.HeartbeatRequest) -> pb.HeartbeatResponse: ...

    @rpc
    async def WaitForAllTasks(
        self, request: pb.WaitForAllTasksRequest
    ) -> pb.WaitForAllTasksResponse: ...

    @rpc
    async def ShutdownTask(self, request: pb.ShutdownTaskRequest) -> pb.ShutdownTaskResponse: ...

    @rpc
    async def ResetTask(self, request: pb.ResetTaskRequest) -> pb.ResetTaskResponse: ...

    @rpc(timeout_s=5.0)
    async def ReportErrorToTask(
        self, request: pb.ReportErrorToTaskRequest
    ) -> pb.ReportErrorToTaskResponse: ...

    @rpc
    async def ReportErrorToService(
        self, request: pb.ReportErrorToServiceRequest
    ) -> pb.ReportErrorToServiceResponse: ...

    @rpc
    async def GetTaskState(self, request: pb.GetTaskStateRequest) -> pb.GetTaskStateResponse: ...

    @rpc
    async def InsertKeyValue(
        self, request: pb.InsertKeyValueRequest
    ) -> pb.InsertKeyValueResponse: ...

    @rpc
    async def GetKeyValue(self, request: pb.GetKeyValueRequest) -> pb.GetKeyValueResponse: ...

    @rpc
    async def TryGetKeyValue(
        self, request: pb.TryGetKeyValueRequest
    ) -> pb.TryGetKeyValueResponse: ...

    @rpc
    async def GetKeyValueDir(
        self, request: pb.GetKeyValueDirRequest
    ) -> pb.GetKeyValueDirResponse: ...

    @rpc
    async def DeleteKeyValue(
        self, request: pb.DeleteKeyValueRequest
    ) -> pb.DeleteKeyValueResponse: ...

    @rpc
    async def Barrier(self, request: pb.BarrierRequest) -> pb.BarrierResponse: ...

    @rpc
    async def CancelBarrier(self, request: pb.CancelBarrierRequest) -> pb.CancelBarrierResponse: ...

    @rpc
    async def PollForError(self, request: pb.PollForErrorRequest) -> pb.PollForErrorResponse: ...
