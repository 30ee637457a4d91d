"""The dispatcher of the tf.data service, carried out: what DispatcherState decides, on sockets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from tideflow.blocking import GRAPHS, run_blocking, spawn
from tideflow.data_service.calls import AWAY
from tideflow.data_service.dispatcher_state import DispatcherState
from tideflow.data_service.graphs import dataset_of
from tideflow.data_service.jobs import Iteration, Job, RegisteredDataset, Task
from tideflow.data_service.journal import Journal
from tideflow.data_service.removals import Removals
from tideflow.data_service.services import VERSION, DataWorkerService, DispatcherService
from tideflow.data_service.snapshots import DistributedSnapshot
from tideflow.ops.control_flow import PythonFunction, python_functions_of
from tideflow.ops.data import Splits, split_sources
from tideflow.platform import clock
from tideflow.transport import Channel, make_channel, stub
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import int64
from tideflow.wire.tensor_codec import encode_tensor

_LOG = logging.getLogger(__name__)
T = TypeVar("T")

# How long a worker may take to hear of a task; it hears of it with its next heartbeat otherwise.
_ASSIGN_S = 5.0
_CONCURRENT_SNAPSHOTS = 10


class Dispatcher(DispatcherService):
    """Answers workers and clients.

    Args:
      worker_addresses: as for DispatcherState.
      check_interval_s, idle_s, client_timeout_s: how often iterations without clients are looked
        for; how long they are kept, less than 0 for ever; and how long a client may be silent.
      journal: where what it knows is kept for its next process; None to forget it.
      concurrent_snapshots: how many snapshots a worker writes at once; 0 for 10.
    """

    def __init__(
        self,
        worker_addresses: Sequence[str],
        check_interval_s: float,
        idle_s: float,
        client_timeout_s: float,
        journal: Journal | None = None,
        concurrent_snapshots: int = 0,
    ) -> None:
        self._journal = journal
        self._state = DispatcherState(worker_addresses, journal)
        self._check_interval_s = check_interval_s
        self._idle_s = idle_s
        self._client_timeout_s = client_timeout_s
        self._concurrent_snapshots = concurrent_snapshots or _CONCURRENT_SNAPSHOTS
        self._channels: dict[str, Channel] = {}
        self._turn = asyncio.Lock()
        self._collector: asyncio.Task[None] | None = None
        self._snapshots: dict[str, DistributedSnapshot] = {}
        self._removals = Removals()
        # Of the datasets, by their ids: workers of this process call them.
        self._functions: dict[str, list[PythonFunction]] = {}

    @property
    def worker_count(self) -> int:
        """How many workers have registered."""
        return len(self._state.workers.known)

    async def resume(self) -> None:
        """Go on with what the journal says; called once, before the first call is answered.

        Raises: DataLossError for a journal that is damaged; what the file system says.
        """
        if self._journal is None:
            return
        for update in await self._journal.read():
            self._state.replay(update)
        for dataset in self._state.datasets.all():
            dataset.definition = await self._journal.dataset(dataset.id)
            self._hold_functions(dataset)
        for iteration in self._state.resume(clock.monotonic_s()):
            iteration.fill(await self._sources(iteration.job))
        for path in self._state.snapshots:
            self._snapshots[path] = await DistributedSnapshot.resume(path)

    def start(self) -> None:
        """Begin to look for what nobody uses."""
        if self._idle_s >= 0:
            self._collector = asyncio.get_running_loop().create_task(self._collect())

    async def close(self) -> None:
        """End what runs in the background, and let connections go."""
        if self._collector is not None:
            self._collector.cancel()
            await asyncio.wait([self._collector])
        self._functions.clear()
        self._snapshots.clear()
        for channel in self._channels.values():
            await channel.close()

    async def _collect(self) -> None:
        while True:
            await asyncio.sleep(self._check_interval_s)
            self._state.collect(clock.monotonic_s(), self._client_timeout_s, self._idle_s)
            try:
                await self._keep()
            except errors.OpError as error:
                _LOG.error("the journal of the dispatcher cannot be written: %s", error.message)

    async def _keep(self) -> None:
        """Return when all that has changed would outlive this process, where it is to."""
        if self._journal is not None:
            await self._journal.flush()

    async def GetVersion(self, request: pb.GetVersionRequest) -> pb.GetVersionResponse:
        return pb.GetVersionResponse(version=VERSION)

    # ---- workers

    async def WorkerHeartbeat(
        self, request: pb.DataWorkerHeartbeatRequest
    ) -> pb.DataWorkerHeartbeatResponse:
        new, gone = self._state.heard_of_worker(request)
        reply = pb.DataWorkerHeartbeatResponse(tasks_to_delete=gone)
        if new:
            await run_blocking(GRAPHS, lambda _: reply.new_tasks.extend(map(self._task_def, new)))
        await self._keep()
        if self._snapshots:
            reply.snapshot_tasks.extend(await _whole(self._snapshot_tasks(request)))
        return reply

    async def _snapshot_tasks(
        self, request: pb.DataWorkerHeartbeatRequest
    ) -> list[pb.SnapshotTaskDef]:
        worker, found = request.worker_address, []
        for path, snapshot in list(self._snapshots.items()):
            progress = None
            if path in request.snapshot_task_progress:
                progress = request.snapshot_task_progress[path]
            writes = sum(one.is_writing(worker) for one in self._snapshots.values())
            may_begin = writes < self._concurrent_snapshots
            task = await snapshot.heard_of_worker(worker, progress, may_begin)
            if task is not None:
                found.append(task)
        return found

    async def WorkerUpdate(self, request: pb.WorkerUpdateRequest) -> pb.WorkerUpdateResponse:
        unknown = None
        for update in request.updates:
            try:
                if update.completed:
                    self._state.tasks.finish(update.task_id)
            except errors.NotFoundError as error:
                unknown = error
        await self._keep()
        if unknown is not None:
            raise unknown
        return pb.WorkerUpdateResponse()

    async def GetDatasetDef(self, request: pb.GetDatasetDefRequest) -> pb.GetDatasetDefResponse:
        found = self._state.datasets.by_id(request.dataset_id)
        return await run_blocking(
            GRAPHS, lambda _: pb.GetDatasetDefResponse(dataset_def=found.definition)
        )

    async def GetSplit(self, request: pb.GetSplitRequest) -> pb.GetSplitResponse:
        split = self._state.iterations.split(
            request.iteration_id, request.repetition, request.split_provider_index
        )
        await self._keep()
        if split is None:
            return pb.GetSplitResponse(end_of_splits=True)
        # Without a type an int is 32 bits wide, and TensorFlow reads 64 whatever the message says.
        return pb.GetSplitResponse(split=encode_tensor(split, int64))

    # ---- clients

    async def GetOrRegisterDataset(
        self, request: pb.GetOrRegisterDatasetRequest
    ) -> pb.GetOrRegisterDatasetResponse:
        _forget_devices(request.dataset.graph)
        found = self._state.datasets.register(request)
        self._hold_functions(found)
        await self._keep()
        return pb.GetOrRegisterDatasetResponse(dataset_id=found.id)

    def _hold_functions(self, dataset: RegisteredDataset) -> None:
        """Keep the Python functions of a dataset until the dispatcher's end."""
        if dataset.id not in self._functions:
            self._functions[dataset.id] = python_functions_of(dataset.definition.graph)

    async def GetDataServiceMetadata(
        self, request: pb.GetDataServiceMetadataRequest
    ) -> pb.GetDataServiceMetadataResponse:
        found = self._state.datasets.by_id(request.dataset_id)
        return pb.GetDataServiceMetadataResponse(metadata=found.metadata)

    async def GetDataServiceConfig(
        self, request: pb.GetDataServiceConfigRequest
    ) -> pb.GetDataServiceConfigResponse:
        return pb.GetDataServiceConfigResponse(config=pb.DataServiceConfig())

    async def DisableCompressionAtRuntime(
        self, request: pb.DisableCompressionAtRuntimeRequest
    ) -> pb.DisableCompressionAtRuntimeResponse:
        found = self._state.datasets.by_id(request.dataset_id)
        if found.metadata.compression == pb.DataServiceMetadata.COMPRESSION_SNAPPY:
            return pb.DisableCompressionAtRuntimeResponse(compression_disabled_at_runtime=False)
        return pb.DisableCompressionAtRuntimeResponse(no_compression_to_disable=True)

    async def GetOrCreateJob(self, request: pb.GetOrCreateJobRequest) -> pb.GetOrCreateJobResponse:
        job = self._state.jobs.of(request)
        await self._keep()
        return pb.GetOrCreateJobResponse(job_id=job.id)

    async def GetOrCreateIteration(
        self, request: pb.GetOrCreateIterationRequest
    ) -> pb.GetOrCreateIterationResponse:
        job = self._state.jobs.by_id(request.job_id)
        made = None
        async with self._turn:
            iteration = self._state.iterations.of(job, request.repetition)
            if iteration is None:
                sources = await self._sources(job)
                iteration = self._state.start_iteration(job, request.repetition, sources)
                made = iteration
            client = self._state.clients.add(iteration)
        await self._keep()
        if made is not None:
            await self._assign(made)
        return pb.GetOrCreateIterationResponse(iteration_client_id=client)

    async def _sources(self, job: Job) -> list[Splits]:
        definition = self._state.datasets.by_id(job.terms.dataset_id).definition
        if job.policy != pb.ProcessingModeDef.DYNAMIC:
            return []
        return split_sources(await dataset_of(definition))

    async def ClientHeartbeat(
        self, request: pb.ClientHeartbeatRequest
    ) -> pb.ClientHeartbeatResponse:
        client = request.iteration_client_id
        is_coordinated = request.WhichOneof("optional_current_round") is not None
        is_blocked = request.WhichOneof("optional_blocked_round") is not None
        iteration = self._state.clients.heard_of(
            client,
            clock.monotonic_s(),
            request.current_round if is_coordinated else None,
            request.blocked_round if is_blocked else None,
        )
        await self._keep()
        reply = pb.ClientHeartbeatResponse(iteration_finished=iteration.is_finished)
        if iteration.pending:
            reply.block_round = iteration.pending[0].target_round
        for task in iteration.tasks:
            reply.task_info.add(
                worker_address=task.worker.address,
                transfer_servers=task.worker.transfer_servers,
                worker_tags=task.worker.tags,
                task_id=task.id,
                iteration_id=iteration.id,
                worker_uid=task.worker.uid,
                starting_round=task.starting_round,
            )
        return reply

    async def MaybeRemoveTask(
        self, request: pb.MaybeRemoveTaskRequest
    ) -> pb.MaybeRemoveTaskResponse:
        try:
            task = self._state.tasks.by_id(request.task_id)
        except errors.NotFoundError:
            return pb.MaybeRemoveTaskResponse(removed=True)
        count = task.iteration.job.num_consumers
        if count is None:
            raise errors.FailedPreconditionError(
                "MaybeRemoveTask called on a non-round-robin task."
            )
        removed = await self._removals.ask(task.id, request.consumer_index, request.round, count)
        if removed and not task.is_finished:
            self._state.tasks.remove(task.id)
            await self._keep()
        return pb.MaybeRemoveTaskResponse(removed=removed)

    async def ReleaseIterationClient(
        self, request: pb.ReleaseIterationClientRequest
    ) -> pb.ReleaseIterationClientResponse:
        self._state.clients.release(request.iteration_client_id, clock.monotonic_s())
        await self._keep()
        return pb.ReleaseIterationClientResponse()

    async def GetWorkers(self, request: pb.GetWorkersRequest) -> pb.GetWorkersResponse:
        reply = pb.GetWorkersResponse()
        for address in self._state.workers.known:
            reply.workers.add(address=address)
        return reply

    # ---- snapshots

    async def Snapshot(self, request: pb.SnapshotRequest) -> pb.SnapshotResponse:
        if self._journal is None:
            raise errors.InvalidArgumentError(
                "tf.data distributed snapshot requires running tf.data service in the fault "
                "tolerant mode. To enable the fault tolerant mode, set "
                "`DispatcherConfig.fault_tolerant_mode` to true and provide a valid "
                "`DispatcherConfig.work_dir`."
            )
        _forget_devices(request.dataset.graph)
        await _whole(self._begin_snapshot(request))
        return pb.SnapshotResponse()

    async def _begin_snapshot(self, request: pb.SnapshotRequest) -> None:
        async with self._turn:
            if request.path in self._snapshots:
                raise errors.AlreadyExistsError(
                    f"tf.data snapshot at {request.path} is already started or completed"
                )
            self._snapshots[request.path] = await DistributedSnapshot.begin(request)
            self._state.add_snapshot(request.path)
            await self._keep()

    async def GetSnapshotSplit(
        self, request: pb.GetSnapshotSplitRequest
    ) -> pb.GetSnapshotSplitResponse:
        return await _whole(self._snapshot(request.base_path).split(request))

    async def GetSnapshotStreams(
        self, request: pb.GetSnapshotStreamsRequest
    ) -> pb.GetSnapshotStreamsResponse:
        return self._snapshot(request.path).streams()

    def _snapshot(self, path: str) -> DistributedSnapshot:
        found = self._snapshots.get(path)
        if found is None:
            raise errors.InvalidArgumentError(f"the dispatcher knows no snapshot at {path}")
        return found

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
        request = await run_blocking(
            GRAPHS, lambda _: pb.ProcessTaskRequest(task=self._task_def(task))
        )
        try:
            async with asyncio.timeout(_ASSIGN_S):
                await worker.ProcessTask(request)
        except (*AWAY, TimeoutError):
            # It is given its tasks when it says that it is there again.
            return

    def _task_def(self, task: Task) -> pb.TaskDef:
        """Return what tells a worker of a task; its graph may be large, and is copied."""
        iteration, worker = task.iteration, task.worker
        job = iteration.job
        made = pb.TaskDef(
            dataset_def=self._state.datasets.by_id(job.terms.dataset_id).definition,
            dataset_id=job.terms.dataset_id,
            task_id=task.id,
            iteration_id=iteration.id,
            num_split_providers=len(iteration.splits),
            worker_address=worker.address,
            processing_mode_def=job.terms.processing_mode_def,
            use_cross_trainer_cache=job.terms.use_cross_trainer_cache,
        )
        if job.num_consumers is not None:
            made.num_consumers = job.num_consumers
        if job.is_static:
            made.num_workers = self._state.workers.share_count
            made.worker_index = worker.index
        return made


async def _whole(work: Coroutine[Any, Any, T]) -> T:
    """Return what work gives; it is done to its end even if who asked for it goes."""
    return await asyncio.shield(spawn(work))


def _forget_devices(graph_pb: pb.GraphDef) -> None:
    """Let a graph run on whatever devices a worker has."""
    for nodes in (graph_pb.node, *(function.node_def for function in graph_pb.library.function)):
        for node_pb in nodes:
            node_pb.device = ""
