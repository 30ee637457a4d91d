"""A worker of the tf.data service: it runs datasets, and gives their elements to clients.

A task's dataset is made when the first client asks for an element of it.  What failed once fails
for all who ask.

Source: tensorflow/core/data/service/{worker_impl,task_runner}.cc.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Sequence

from tideflow.data_service.calls import alike, check_version, until_reached
from tideflow.data_service.elements import with_element
from tideflow.data_service.graphs import dataset_of
from tideflow.data_service.services import DataWorkerService, DispatcherService
from tideflow.data_service.snapshot_writer import SnapshotWriter
from tideflow.data_service.task_elements import (
    FirstComeFirstServed,
    RoundRobin,
    SharedByTrainers,
    SkippedError,
    TaskElements,
)
from tideflow.ops.control_flow import PythonFunction, python_functions_of
from tideflow.ops.data import (
    Element,
    IteratorResource,
    RuntimeDataset,
    SplitFeed,
    read_splits,
    share_of,
    with_shards,
)
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.parted import MaybeParted, take_apart
from tideflow.wire.tensor_codec import decode_tensor

_LOG = logging.getLogger(__name__)


class _ServedSplits:
    """Asks the dispatcher for the splits of an iteration."""

    def __init__(self, dispatcher: DispatcherService, iteration_id: int) -> None:
        self._dispatcher = dispatcher
        self._iteration_id = iteration_id
        self._repetitions: dict[int, int] = {}

    def begin(self, source: int) -> SplitFeed:
        repetition = self._repetitions.get(source, -1) + 1
        self._repetitions[source] = repetition
        request = pb.GetSplitRequest(
            iteration_id=self._iteration_id, repetition=repetition, split_provider_index=source
        )
        return _Feed(self._dispatcher, request)


class _Feed:
    __slots__ = ("_dispatcher", "_ended", "_request")

    def __init__(self, dispatcher: DispatcherService, request: pb.GetSplitRequest) -> None:
        self._dispatcher = dispatcher
        self._request = request
        self._ended = False

    async def next(self) -> int | None:
        if self._ended:
            return None
        reply = await until_reached(lambda: self._dispatcher.GetSplit(self._request))
        self._ended = reply.end_of_splits
        return None if self._ended else int(decode_tensor(reply.split))


class _RunningTask:
    """The elements of one task."""

    def __init__(self, definition: pb.TaskDef, dispatcher: DispatcherService) -> None:
        self.definition = definition
        self._dispatcher = dispatcher
        self._turn = asyncio.Lock()
        self._types: Sequence[DType] = ()
        self._elements: TaskElements | None = None
        self._given = 0
        self._functions = python_functions_of(definition.dataset_def.graph)

    async def answer(self, request: pb.GetElementRequest) -> MaybeParted[pb.GetElementResponse]:
        """Return an element for who asks.  Raises: what making it raised."""
        async with self._turn:
            elements = self._elements = self._elements or await self._begin()
        try:
            element = await elements.answer(request)
        except SkippedError:
            return pb.GetElementResponse(skip_task=True)
        if element is None:
            return pb.GetElementResponse(end_of_sequence=True)
        reply = pb.GetElementResponse(element_index=self._given)
        self._given += 1
        return await with_element(reply, element, self._types)

    async def _begin(self) -> TaskElements:
        definition = self.definition
        if definition.WhichOneof("dataset") == "dataset_def":
            found = definition.dataset_def
        else:
            request = pb.GetDatasetDefRequest(dataset_id=definition.dataset_id)
            found = (await self._dispatcher.GetDatasetDef(request)).dataset_def
            self._functions = python_functions_of(found.graph)
        whole = await dataset_of(found)
        cardinality = whole.cardinality()
        dataset = self._shared_out(whole)
        iterator = IteratorResource(dataset.types, dataset.shapes)
        iterator.start(dataset)
        self._types = dataset.types
        failures: list[errors.OpError] = []

        async def make() -> Element | None:
            for failure in failures:
                raise alike(failure)
            try:
                return await iterator.next(dataset.types, dataset.shapes)
            except errors.OpError as error:
                failures.append(alike(error))
                raise

        if definition.WhichOneof("optional_num_consumers") is not None:
            return RoundRobin(make, definition.num_consumers, cardinality)
        if definition.use_cross_trainer_cache:
            return SharedByTrainers(make)
        return FirstComeFirstServed(make)

    def _shared_out(self, dataset: RuntimeDataset) -> RuntimeDataset:
        definition = self.definition
        policy = definition.processing_mode_def.sharding_policy
        if policy == pb.ProcessingModeDef.OFF:
            return dataset
        if policy == pb.ProcessingModeDef.DYNAMIC:
            feeds = _ServedSplits(self._dispatcher, definition.iteration_id)
            read_splits(dataset, feeds, definition.num_split_providers)
            return dataset
        if policy == pb.ProcessingModeDef.HINT:
            return with_shards(dataset, definition.num_workers, definition.worker_index)
        return share_of(dataset, definition.num_workers, definition.worker_index)

    async def stop(self) -> None:
        """Make no more elements."""
        self._functions.clear()
        elements, self._elements = self._elements, None
        if elements is not None:
            await elements.stop()


class DataWorker(DataWorkerService):
    """Runs the tasks that a dispatcher gives it.

    Args:
      dispatcher: whom it asks for tasks and splits.
      tags: what it tells of itself.
      heartbeat_s: how often it asks for tasks.
    """

    def __init__(
        self,
        dispatcher: DispatcherService,
        tags: Sequence[str],
        heartbeat_s: float,
    ) -> None:
        self._dispatcher = dispatcher
        self._address = ""
        self._tags = list(tags)
        self._heartbeat_s = heartbeat_s
        self._uid = random.getrandbits(62)
        self._tasks: dict[int, _RunningTask] = {}
        self._finished: set[int] = set()
        self._untold: set[int] = set()
        self._snapshots: dict[str, SnapshotWriter] = {}
        self._functions: dict[tuple[str, str], list[PythonFunction]] = {}
        self._is_registered = False
        self._news = asyncio.Event()
        self._snapshot_news = asyncio.Event()
        self._running: list[asyncio.Task[None]] = []

    @property
    def task_count(self) -> int:
        """How many tasks it has."""
        return len(self._tasks)

    async def start(self, address: str) -> None:
        """Register with the dispatcher, once it is there, and begin to work.

        address: where clients find it.
        """
        self._address = address
        await check_version(self._dispatcher, "the dispatcher")
        await until_reached(self._ask_for_tasks)
        self._is_registered = True
        loop = asyncio.get_running_loop()
        self._running = [loop.create_task(self._beat()), loop.create_task(self._tell())]

    async def close(self) -> None:
        """End all tasks."""
        self._is_registered = False
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)
        for number in list(self._tasks):
            await self._end(number)
        for writer in self._snapshots.values():
            await writer.stop()
        self._functions.clear()

    def hold_functions(self, address: str, name: str, functions: list[PythonFunction]) -> None:
        """Keep, until the worker's end, the Python functions of a dataset that this process has
        given to a dispatcher: the worker may get tasks of it.

        address: the dispatcher's; name: the dataset's id or the snapshot's directory.
        """
        if functions:
            self._functions.setdefault((address, name), functions)

    # ---- what it is told

    async def ProcessTask(self, request: pb.ProcessTaskRequest) -> pb.ProcessTaskResponse:
        self._add(request.task)
        return pb.ProcessTaskResponse()

    def _add(self, definition: pb.TaskDef) -> None:
        if definition.task_id not in self._tasks:
            self._tasks[definition.task_id] = _RunningTask(definition, self._dispatcher)

    async def _end(self, number: int) -> None:
        found = self._tasks.pop(number, None)
        if found is not None:
            self._finished.add(number)
            await found.stop()

    # ---- what clients ask

    async def GetElement(self, request: pb.GetElementRequest) -> MaybeParted[pb.GetElementResponse]:
        if not self._is_registered:
            raise errors.UnavailableError("Worker has not yet registered with dispatcher.")
        number = request.task_id
        task = self._tasks.get(number)
        if task is None:
            if number in self._finished:
                return pb.GetElementResponse(end_of_sequence=True)
            # The dispatcher may yet tell of it.
            raise errors.UnavailableError(f"Task {number} not found")
        reply = await task.answer(request)
        if take_apart(reply)[0].end_of_sequence:
            self._untold.add(number)
            self._news.set()
        return reply

    async def GetWorkerTasks(self, request: pb.GetWorkerTasksRequest) -> pb.GetWorkerTasksResponse:
        reply = pb.GetWorkerTasksResponse()
        for number, task in self._tasks.items():
            reply.tasks.add(
                worker_address=self._address,
                task_id=number,
                iteration_id=task.definition.iteration_id,
            )
        return reply

    async def GetSnapshotTaskProgresses(
        self, request: pb.GetSnapshotTaskProgressesRequest
    ) -> pb.GetSnapshotTaskProgressesResponse:
        return pb.GetSnapshotTaskProgressesResponse(
            snapshot_task_progresses=[one.progress() for one in self._snapshots.values()]
        )

    # ---- what it says

    async def _ask_for_tasks(self) -> None:
        request = pb.DataWorkerHeartbeatRequest(
            worker_address=self._address,
            worker_tags=self._tags,
            worker_uid=self._uid,
            current_tasks=list(self._tasks),
        )
        request.transfer_servers.add(protocol="grpc", address=self._address)
        for path, writer in self._snapshots.items():
            request.snapshot_task_progress[path].CopyFrom(writer.progress())
        reply = await self._dispatcher.WorkerHeartbeat(request)
        for definition in reply.new_tasks:
            self._add(definition)
        for number in reply.tasks_to_delete:
            await self._end(number)
        await self._write_snapshots({task.base_path: task for task in reply.snapshot_tasks})

    async def _write_snapshots(self, wanted: dict[str, pb.SnapshotTaskDef]) -> None:
        """Write the streams that are wanted, and no others."""
        for path in self._snapshots.keys() - wanted.keys():
            await self._snapshots.pop(path).stop()
        for path in wanted.keys() - self._snapshots.keys():
            self._snapshots[path] = SnapshotWriter(
                wanted[path], self._address, self._dispatcher, self._snapshot_news.set
            )

    async def _beat(self) -> None:
        """Ask the dispatcher for tasks from time to time, and when a snapshot has news."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat_s):
                    await self._snapshot_news.wait()
            self._snapshot_news.clear()
            try:
                await self._ask_for_tasks()
            except errors.OpError as error:
                _LOG.debug("the dispatcher does not answer a heartbeat: %s", error.message)
            except Exception:
                # Without heartbeats the worker would never be given anything again.
                _LOG.exception("a heartbeat failed")

    async def _tell(self) -> None:
        """Tell the dispatcher of tasks that have ended."""
        while True:
            await self._news.wait()
            self._news.clear()
            # One by one: a dispatcher that has forgotten a task looks at none behind it.
            for number in sorted(self._untold):
                await self._tell_end(number)
                self._untold.discard(number)

    async def _tell_end(self, number: int) -> None:
        request = pb.WorkerUpdateRequest(worker_address=self._address)
        request.updates.add(task_id=number, completed=True)
        try:
            await until_reached(lambda: self._dispatcher.WorkerUpdate(request))
        except errors.NotFoundError:
            return  # What it has forgotten by now needs no end.
        except errors.OpError as error:
            _LOG.error("the dispatcher refuses the end of a task: %s", error.message)
