# mypy: disable-error-code="empty-body"
"""The services of a cluster, by TensorFlow's names and messages: master, worker, eager service.

Source: master_service.proto, worker_service.proto and eager_service.proto of TensorFlow 2.21.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from tideflow.transport import Service, rpc, rpc_stream
from tideflow.wire import messages as pb
from tideflow.wire.buffer_reply import BufferReply
from tideflow.wire.parted import MaybeParted, take_apart
from tideflow.wire.tensor_reply import TensorReply


def tells_graphs(answer: Any) -> bool:
    """Whether the records of a step hold graphs, which may have large constants."""
    response: pb.RunStepResponse | pb.RunCallableResponse = take_apart(answer)[0]
    return bool(response.metadata.partition_graphs)


class MasterService(Service, name="tensorflow.MasterService"):
    """What a client asks of a master: sessions and their steps."""

    @rpc(sends_graphs=True)
    async def CreateSession(
        self, request: MaybeParted[pb.CreateSessionRequest]
    ) -> pb.CreateSessionResponse: ...

    @rpc(sends_graphs=True)
    async def ExtendSession(
        self, request: MaybeParted[pb.ExtendSessionRequest]
    ) -> pb.ExtendSessionResponse: ...

    @rpc
    async def PartialRunSetup(
        self, request: pb.PartialRunSetupRequest
    ) -> pb.PartialRunSetupResponse: ...

    @rpc(answers_graphs=tells_graphs)
    async def RunStep(
        self, request: MaybeParted[pb.RunStepRequest]
    ) -> MaybeParted[pb.RunStepResponse]: ...

    @rpc
    async def CloseSession(self, request: pb.CloseSessionRequest) -> pb.CloseSessionResponse: ...

    @rpc
    async def ListDevices(self, request: pb.ListDevicesRequest) -> pb.ListDevicesResponse: ...

    @rpc
    async def Reset(self, request: pb.ResetRequest) -> pb.ResetResponse: ...

    @rpc
    async def MakeCallable(self, request: pb.MakeCallableRequest) -> pb.MakeCallableResponse: ...

    @rpc(answers_graphs=tells_graphs)
    async def RunCallable(
        self, request: MaybeParted[pb.RunCallableRequest]
    ) -> MaybeParted[pb.RunCallableResponse]: ...

    @rpc
    async def ReleaseCallable(
        self, request: pb.ReleaseCallableRequest
    ) -> pb.ReleaseCallableResponse: ...


class WorkerService(Service, name="tensorflow.WorkerService"):
    """What a master, or another worker, asks of a worker."""

    @rpc
    async def GetStatus(self, request: pb.GetStatusRequest) -> pb.GetStatusResponse: ...

    @rpc
    async def CreateWorkerSession(
        self, request: pb.CreateWorkerSessionRequest
    ) -> pb.CreateWorkerSessionResponse: ...

    @rpc(timeout_s=10.0)
    async def DeleteWorkerSession(
        self, request: pb.DeleteWorkerSessionRequest
    ) -> pb.DeleteWorkerSessionResponse: ...

    @rpc(sends_graphs=True)
    async def RegisterGraph(
        self, request: MaybeParted[pb.RegisterGraphRequest]
    ) -> pb.RegisterGraphResponse: ...

    @rpc
    async def DeregisterGraph(
        self, request: pb.DeregisterGraphRequest
    ) -> pb.DeregisterGraphResponse: ...

    @rpc(answers_graphs=lambda answer: bool(take_apart(answer)[0].partition_graph))
    async def RunGraph(
        self, request: MaybeParted[pb.RunGraphRequest]
    ) -> MaybeParted[pb.RunGraphResponse]: ...

    @rpc
    async def CleanupGraph(self, request: pb.CleanupGraphRequest) -> pb.CleanupGraphResponse: ...

    @rpc
    async def CleanupAll(self, request: pb.CleanupAllRequest) -> pb.CleanupAllResponse: ...

    @rpc
    async def RecvTensor(self, request: pb.RecvTensorRequest) -> TensorReply: ...

    @rpc
    async def MarkRecvFinished(
        self, request: pb.MarkRecvFinishedRequest
    ) -> pb.MarkRecvFinishedResponse: ...

    @rpc
    async def Logging(self, request: pb.LoggingRequest) -> pb.LoggingResponse: ...

    @rpc
    async def Tracing(self, request: pb.TracingRequest) -> pb.TracingResponse: ...

    @rpc
    async def RecvBuf(self, request: pb.RecvBufRequest) -> BufferReply: ...

    @rpc
    async def GetStepSequence(
        self, request: pb.GetStepSequenceRequest
    ) -> pb.GetStepSequenceResponse: ...

    @rpc
    async def CompleteGroup(self, request: pb.CompleteGroupRequest) -> pb.CompleteGroupResponse: ...

    @rpc
    async def CompleteInstance(
        self, request: pb.CompleteInstanceRequest
    ) -> pb.CompleteInstanceResponse: ...


def registers_functions(request: MaybeParted[pb.EnqueueRequest]) -> bool:
    """Whether a request of the eager service holds functions, and so perhaps large constants."""
    items = take_apart(request)[0].queue
    return any(item.WhichOneof("item") == "register_function" for item in items)


class EagerService(Service, name="tensorflow.eager.EagerService"):
    """What an eager client asks of a worker, and a worker of the client and of other workers."""

    @rpc
    async def CreateContext(self, request: pb.CreateContextRequest) -> pb.CreateContextResponse: ...

    @rpc
    async def UpdateContext(self, request: pb.UpdateContextRequest) -> pb.UpdateContextResponse: ...

    @rpc(sends_graphs=registers_functions)
    async def Enqueue(self, request: MaybeParted[pb.EnqueueRequest]) -> pb.EnqueueResponse: ...

    @rpc_stream
    def StreamingEnqueue(
        self, requests: AsyncIterator[MaybeParted[pb.EnqueueRequest]]
    ) -> AsyncIterator[pb.EnqueueResponse]: ...

    @rpc
    async def WaitQueueDone(self, request: pb.WaitQueueDoneRequest) -> pb.WaitQueueDoneResponse: ...

    @rpc
    async def RunComponentFunction(
        self, request: pb.RunComponentFunctionRequest
    ) -> MaybeParted[pb.RunComponentFunctionResponse]: ...

    @rpc
    async def KeepAlive(self, request: pb.KeepAliveRequest) -> pb.KeepAliveResponse: ...

    @rpc
    async def CloseContext(self, request: pb.CloseContextRequest) -> pb.CloseContextResponse: ...
