"""The dispatcher of the tf.data service, carried out: what DispatcherState decides, on sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tideflow.data_service.calls import AWAY
from tideflow.data_service.dispatcher_state import DispatcherState, Iteration, Job, Task
from tideflow.data_service.graphs import dataset_of
from tideflow.data_service.services import VERSION, DataWorkerService, DispatcherService
from tideflow.ops.data import Splits, split_sources
from tideflow.platform import clock
from tideflow.transport import Channel, make_channel, stub
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import int64
from tideflow.wire.tensor_codec import encode_tensor


class Dispatcher(DispatcherService):
    """Answers workers and clients.

    Args:
      worker_addresses: as for DispatcherState.
      check_interval_s, idle_s, client_timeout_s: how often iterations without clients are looked
        for; how long they are kept, less than 0 for ever; and how long a client may be silent.
    """

    def __init__(
        self,
        worker_addresses: Sequence[str],
        check_interval_s: float,
        idle_s: float,
        client_timeout_s: float,
    ) -> None:
        self._state = DispatcherState(worker_addresses)
        self._check_interval_s = check_interval_s
        self._idle_s = idle_s
        self._client_timeout_s = client_timeout_s
        self._channels: dict[str, Channel] = {}
        self._turn = asyncio.Lock()
        self._collector: asyncio.Task[None] | None = None

    @property
    def worker_count(self) -> int:
        """How many workers have registered."""
        return len(self._state.workers)

    def start(self) -> None:
        """Begin to look for what nobody uses."""
        if self._idle_s >= 0:
            self._collector = asyncio.get_running_loop().create_task(self._collect())

    async def close(self) -> None:
        """End what runs in the background, and let connections go."""
        if self._collector is not None:
            self._collector.cancel()
            await asyncio.wait([self._collector])
        for channel in self._channels.values():
            await channel.close()

    async def _collect(self) -> None:
        while True:
            await asyncio.sleep(self._check_interval_s)
            self._state.collect(clock.monotonic_s(), self._client_timeout_s, self._idle_s)

    async def GetVersion(self, request: pb.GetVersionRequest) -> pb.GetVersionResponse:
        return pb.GetVersionResponse(version=VERSION)

    # ---- workers

    async def WorkerHeartbeat(
        self, request: pb.DataWorkerHeartbeatRequest
    ) -> pb.DataWorkerHeartbeatResponse:
        new, gone = self._state.heard_of_worker(request)
        reply = pb.DataWorkerHeartbeatResponse(tasks_to_delete=gone)
        for task in new:
            reply.new_tasks.append(self._definition(task))
        return reply

    async def WorkerUpdate(self, request: pb.WorkerUpdateRequest) -> pb.WorkerUpdateResponse:
        for update in request.updates:
            if update.completed:
                self._state.finish_task(update.task_id)
        return pb.WorkerUpdateResponse()

    async def GetDatasetDef(self, request: pb.GetDatasetDefRequest) -> pb.GetDatasetDefResponse:
        found = self._state.dataset(request.dataset_id)
        return pb.GetDatasetDefResponse(dataset_def=found.definition)

    async def GetSplit(self, request: pb.GetSplitRequest) -> pb.GetSplitResponse:
        split = self._state.split(
            request.iteration_id, request.repetition, request.split_provider_index
        )
        if split is None:
            return pb.GetSplitResponse(end_of_splits=True)
        # Without a type an int is 32 bits wide, and TensorFlow reads 64 whatever the message says.
        return pb.GetSplitResponse(split=encode_tensor(split, int64))

    # ---- clients

    async def GetOrRegisterDataset(
        self, request: pb.GetOrRegisterDatasetRequest
    ) -> pb.GetOrRegisterDatasetResponse:
        _forget_devices(request.dataset.graph)
        return pb.GetOrRegisterDatasetResponse(dataset_id=self._state.register(request).id)

    async def GetDataServiceMetadata(
        self, request: pb.GetDataServiceMetadataRequest
    ) -> pb.GetDataServiceMetadataResponse:
        found = self._state.dataset(request.dataset_id)
        return pb.GetDataServiceMetadataResponse(metadata=found.metadata)

    async def GetDataServiceConfig(
        self, request: pb.GetDataServiceConfigRequest
    ) -> pb.GetDataServiceConfigResponse:
        return pb.GetDataServiceConfigResponse(config=pb.DataServiceConfig())

    async def DisableCompressionAtRuntime(
        self, request: pb.DisableCompressionAtRuntimeRequest
    ) -> pb.DisableCompressionAtRuntimeResponse:
        found = self._state.dataset(request.dataset_id)
        if found.metadata.compression == pb.DataServiceMetadata.COMPRESSION_SNAPPY:
            return pb.DisableCompressionAtRuntimeResponse(compression_disabled_at_runtime=False)
        return pb.DisableCompressionAtRuntimeResponse(no_compression_to_disable=True)

    async def GetOrCreateJob(self, request: pb.GetOrCreateJobRequest) -> pb.GetOrCreateJobResponse:
        if request.WhichOneof("optional_num_consumers") is not None:
            raise errors.UnimplementedError(
                "the dispatcher has no coordinated reads (num_consumers, consumer_index)"
            )
        if request.use_cross_trainer_cache:
            raise errors.UnimplementedError("the dispatcher has no cross_trainer_cache")
        if request.processing_mode_def.sharding_policy == pb.ProcessingModeDef.HINT:
            raise errors.UnimplementedError("the dispatcher has no ShardingPolicy.HINT")
        return pb.GetOrCreateJobResponse(job_id=self._state.job_of(request).id)

    async def GetOrCreateIteration(
        self, request: pb.GetOrCreateIterationRequest
    ) -> pb.GetOrCreateIterationResponse:
        job = self._state.job(request.job_id)
        made = None
        async with self._turn:
            iteration = self._state.iteration_of(job, request.repetition)
            if iteration is None:
                sources = await self._sources(job)
                iteration = self._state.start_iteration(job, request.repetition, sources)
                made = iteration
            client = self._state.add_client(iteration)
        if made is not None:
            await self._assign(made)
        return pb.GetOrCreateIterationResponse(iteration_client_id=client)

    async def _sources(self, job: Job) -> list[Splits]:
        definition = self._state.dataset(job.request.dataset_id).definition
        if job.policy != pb.ProcessingModeDef.DYNAMIC:
            return []
        return split_sources(await dataset_of(definition))

    async def ClientHeartbeat(
        self, request: pb.ClientHeartbeatRequest
    ) -> pb.ClientHeartbeatResponse:
        client = request.iteration_client_id
        iteration = self._state.heard_of_client(client, clock.monotonic_s())
        reply = pb.ClientHeartbeatResponse(iteration_finished=iteration.is_finished)
        for task in iteration.tasks:
            reply.task_info.add(
                worker_address=task.worker.address,
                transfer_servers=task.worker.transfer_servers,
                worker_tags=task.worker.tags,
                task_id=task.id,
                iteration_id=iteration.id,
                worker_uid=task.worker.uid,
            )
        return reply

    async def ReleaseIterationClient(
        self, request: pb.ReleaseIterationClientRequest
    ) -> pb.ReleaseIterationClientResponse:
        self._state.release_client(request.iteration_client_id, clock.monotonic_s())
        return pb.ReleaseIterationClientResponse()

    async def GetWorkers(self, request: pb.GetWorkersRequest) -> pb.GetWorkersResponse:
        reply = pb.GetWorkersResponse()
        for address in self._state.workers:
            reply.workers.add(address=address)
        return reply

    # ---- giving out tasks

    async def _assign(self, iteration: Iteration) -> None:
        """Tell the workers of an iteration's tasks.

        Raises: what a worker says of its task, unless it is away.
        """
        await asyncio.gather(*[self._assign_task(task) for task in iteration.tasks])

    async def _assign_task(self, task: Task) -> None:
        address = task.worker.address
        if address not in self._channels:
            self._channels[address] = make_channel(address)
        worker = stub(DataWorkerService, self._channels[address])
        try:
            await worker.ProcessTask(pb.ProcessTaskRequest(task=self._definition(task)))
        except AWAY:
            # It is given its tasks when it says that it is there again.
            return

    def _definition(self, task: Task) -> pb.TaskDef:
        iteration, worker = task.iteration, task.worker
        job = iteration.job
        made = pb.TaskDef(
            dataset_def=self._state.dataset(job.request.dataset_id).definition,
            dataset_id=job.request.dataset_id,
            task_id=task.id,
            iteration_id=iteration.id,
            num_split_providers=len(iteration.splits),
            worker_address=worker.address,
            processing_mode_def=job.request.processing_mode_def,
        )
        if job.is_static:
            made.num_workers = self._state.share_count
            made.worker_index = worker.index
        return made


def _forget_devices(graph_pb: pb.GraphDef) -> None:
    """Let a graph run on whatever devices a worker has."""
    for nodes in (graph_pb.node, *(function.node_def for function in graph_pb.library.function)):
        for node_pb in nodes:
            node_pb.device = ""
