"""The two services of tf.data: the dispatcher's and the worker's.

Source: tensorflow/core/data/service/{dispatcher,worker}.proto.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from tideflow.transport import Service, rpc
from tideflow.wire import messages as pb
from tideflow.wire.parted import MaybeParted

# What TensorFlow 2.21 calls the version of these services; both sides must say the same.
VERSION = 9


class DispatcherService(Service, name="tensorflow.data.DispatcherService"):
    """Knows datasets, jobs and workers, and says who works on what."""

    @rpc
    async def GetVersion(self, request: pb.GetVersionRequest) -> pb.GetVersionResponse: ...

    # ---- workers

    @rpc(answers_graphs=lambda reply: bool(reply.new_tasks))
    async def WorkerHeartbeat(
        self, request: pb.DataWorkerHeartbeatRequest
    ) -> pb.DataWorkerHeartbeatResponse: ...

    @rpc
    async def WorkerUpdate(self, request: pb.WorkerUpdateRequest) -> pb.WorkerUpdateResponse: ...

    @rpc(answers_graphs=True)
    async def GetDatasetDef(self, request: pb.GetDatasetDefRequest) -> pb.GetDatasetDefResponse: ...

    @rpc
    async def GetSplit(self, request: pb.GetSplitRequest) -> pb.GetSplitResponse: ...

    # ---- clients

    @rpc(sends_graphs=True)
    async def GetOrRegisterDataset(
        self, request: pb.GetOrRegisterDatasetRequest
    ) -> pb.GetOrRegisterDatasetResponse: ...

    @rpc
    async def GetDataServiceMetadata(
        self, request: pb.GetDataServiceMetadataRequest
    ) -> pb.GetDataServiceMetadataResponse: ...

    @rpc
    async def GetDataServiceConfig(
        self, request: pb.GetDataServiceConfigRequest
    ) -> pb.GetDataServiceConfigResponse: ...

    @rpc
    async def DisableCompressionAtRuntime(
        self, request: pb.DisableCompressionAtRuntimeRequest
    ) -> pb.DisableCompressionAtRuntimeResponse: ...

    @rpc
    async def GetOrCreateJob(
        self, request: pb.GetOrCreateJobRequest
    ) -> pb.GetOrCreateJobResponse: ...

    @rpc
    async def GetOrCreateIteration(
        self, request: pb.GetOrCreateIterationRequest
    ) -> pb.GetOrCreateIterationResponse: ...

    @rpc
    async def ClientHeartbeat(
        self, request: pb.ClientHeartbeatRequest
    ) -> pb.ClientHeartbeatResponse: ...

    @rpc
    async def ReleaseIterationClient(
        self, request: pb.ReleaseIterationClientRequest
    ) -> pb.ReleaseIterationClientResponse: ...

    @rpc
    async def MaybeRemoveTask(
        self, request: pb.MaybeRemoveTaskRequest
    ) -> pb.MaybeRemoveTaskResponse: ...

    @rpc
    async def GetWorkers(self, request: pb.GetWorkersRequest) -> pb.GetWorkersResponse: ...

    # ---- snapshots

    @rpc(sends_graphs=True)
    async def Snapshot(self, request: pb.SnapshotRequest) -> pb.SnapshotResponse: ...

    @rpc
    async def GetSnapshotSplit(
        self, request: pb.GetSnapshotSplitRequest
    ) -> pb.GetSnapshotSplitResponse: ...

    @rpc
    async def GetSnapshotStreams(
        self, request: pb.GetSnapshotStreamsRequest
    ) -> pb.GetSnapshotStreamsResponse: ...


class DataWorkerService(Service, name="tensorflow.data.WorkerService"):
    """Makes the elements of tasks, and gives them to clients."""

    @rpc(sends_graphs=True)
    async def ProcessTask(self, request: pb.ProcessTaskRequest) -> pb.ProcessTaskResponse: ...

    @rpc
    async def GetElement(
        self, request: pb.GetElementRequest
    ) -> MaybeParted[pb.GetElementResponse]: ...

    @rpc
    async def GetWorkerTasks(
        self, request: pb.GetWorkerTasksRequest
    ) -> pb.GetWorkerTasksResponse: ...

    @rpc
    async def GetSnapshotTaskProgresses(
        self, request: pb.GetSnapshotTaskProgressesRequest
    ) -> pb.GetSnapshotTaskProgressesResponse: ...
