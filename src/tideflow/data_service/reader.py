"""A client's way through one iteration of a job: tasks from the dispatcher, elements from workers.

Rule 1: each task is asked for one element at a time; not more elements are asked for or waiting
        than the reading allows.
Rule 2: a worker that is away is asked again; its task ends when it says so, or the dispatcher.
Rule 3: what runs in the background does not keep the iterator alive; when that goes, all ends.

Source: tensorflow/core/data/service/client/data_service_client.cc.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref
from collections import deque
from collections.abc import Iterator

from tideflow.blocking import spawn
from tideflow.data_service.calls import (
    AWAY,
    FIRST_PAUSE_S,
    MOST_PAUSE_S,
    alike,
    check_version,
    until_reached,
)
from tideflow.data_service.elements import element_of
from tideflow.data_service.local_workers import find_local_worker, has_local_workers
from tideflow.data_service.rounds import Rounds, RoundTask
from tideflow.data_service.services import DataWorkerService, DispatcherService
from tideflow.data_service.task_elements import INFINITE, UNKNOWN
from tideflow.ops.data import Element, Reading
from tideflow.transport import Channel, growing_pauses_s, make_channel, stub
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.parted import take_apart

_LOG = logging.getLogger(__name__)

# How long a dispatcher that may be gone is waited for when nothing more is wanted of it.
_GOODBYE_S = 2.0


class ServiceIterator:
    """Gives the elements of one repetition of a job."""

    __slots__ = ("__weakref__", "_ended", "_reading", "_repetition", "_run")

    def __init__(self, reading: Reading, repetition: int) -> None:
        self._reading = reading
        self._repetition = repetition
        self._run: _IteratorReader | None = None
        self._ended = False

    async def next(self) -> Element | None:
        """Return the next element of any worker; None when all tasks have ended."""
        if self._ended:
            return None
        if self._run is None:
            _check(self._reading)
            run = _IteratorReader(self._reading)
            loop = asyncio.get_running_loop()
            weakref.finalize(self, _stop_soon, loop, run).atexit = False
            self._run = run
            run.start(self._repetition)
        try:
            element = await self._run.take()
        except errors.OpError:
            # What failed once fails ever after, and need not be read.
            self._run.stop()
            raise
        if element is None:
            self._ended = True
            await self._run.close()
        return element


def _check(reading: Reading) -> None:
    """Check what can be told without the dispatcher.

    Raises: InvalidArgumentError for what cannot be had together.
    """
    is_coordinated = reading.num_consumers >= 0
    if reading.target_workers == pb.TargetWorkers.TARGET_WORKERS_LOCAL:
        if not has_local_workers():
            raise errors.InvalidArgumentError(
                "Local reads require local tf.data workers, but no local worker is found. You need "
                "to run local tf.data service workers in your training workers."
            )
        if is_coordinated:
            raise errors.InvalidArgumentError(
                'Coordinated reads require non-local workers, but `target_workers` is "LOCAL".'
            )
    if not reading.trainer_id:
        return
    if not reading.job_name:
        raise errors.InvalidArgumentError(
            "Cross-trainer caching requires named jobs. Got empty `job_name`."
        )
    if is_coordinated:
        raise errors.InvalidArgumentError(
            "Cross-trainer caching does not support coordinated reads. Got number of coordinated "
            f"consumers: {reading.num_consumers}"
        )


def _stop_soon(loop: asyncio.AbstractEventLoop, run: _IteratorReader) -> None:
    """Stop what reads for an iterator that has gone, from any thread."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(run.stop)


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """Say in errors of the body what it was about."""
    try:
        yield
    except errors.OpError as error:
        raise error.with_message(f"{what}: {error.message}") from None


def _at_worker(info: pb.TaskInfo, error: errors.OpError) -> errors.OpError:
    """Return the error of a task with the name of its worker."""
    return error.with_message(
        f"Failed to get element from worker {info.worker_address}: {error.message}"
    )


def _unexpected(error: Exception) -> errors.InternalError:
    """Return what tells the iterator of an error that none should be: it would wait for ever."""
    _LOG.error("reading from the tf.data service failed", exc_info=error)
    return errors.InternalError(f"{type(error).__name__}: {error}")


class _Task:
    """A task that is read.  is_finished: whether its worker has said that it has ended."""

    __slots__ = ("info", "is_finished", "reader")

    def __init__(self, info: pb.TaskInfo) -> None:
        self.info = info
        self.is_finished = False
        self.reader: asyncio.Task[None] | None = None


class _IteratorReader:
    """What reads for one iterator, on the event loop."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._dispatcher_channel = make_channel(reading.address)
        self._dispatcher = stub(DispatcherService, self._dispatcher_channel)
        self._client = 0
        self._tasks: dict[int, _Task] = {}
        self._channels: dict[str, Channel] = {}
        self._elements: deque[Element] = deque()
        self._held = 0
        self._error: errors.OpError | None = None
        # Whether the dispatcher says that all is over, and whether tasks are left to others.
        self._is_finished = False
        self._leaves_tasks = False
        lock = asyncio.Lock()
        self._changed = asyncio.Condition(lock)
        # Who waits longest for room is next: a fast worker would leave none to the others.
        self._room = asyncio.Condition(lock)
        self._news = asyncio.Event()
        is_coordinated = reading.num_consumers >= 0
        self._rounds = Rounds(reading.consumer_index) if is_coordinated else None
        self._manager: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    def start(self, repetition: int) -> None:
        """Begin to read."""
        self._manager = spawn(self._manage(repetition))

    # ---- for the iterator

    async def take(self) -> Element | None:
        """Return the next element, None when there are no more.  Raises: what a worker said."""
        async with self._changed:
            while not self._elements:
                if self._error is not None:
                    raise alike(self._error)
                if self._is_over():
                    return None
                await self._changed.wait()
            self._held -= 1
            self._room.notify()
            return self._elements.popleft()

    def _is_over(self) -> bool:
        if self._held:
            return False
        if self._is_finished:
            return True
        ended = all(task.is_finished for task in self._tasks.values())
        return self._leaves_tasks and bool(self._tasks) and ended

    def stop(self) -> None:
        """Begin to end."""
        if self._closing is None:
            self._closing = spawn(self._close())

    async def close(self) -> None:
        """End what reads, tell the dispatcher, and let connections go."""
        self.stop()
        assert self._closing is not None
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        readers = [task.reader for task in self._tasks.values()]
        rounds = None if self._rounds is None else self._rounds.reader
        running = [one for one in (self._manager, rounds, *readers) if one is not None]
        for one in running:
            one.cancel()
        if running:
            await asyncio.wait(running)
        if self._client:
            request = pb.ReleaseIterationClientRequest(iteration_client_id=self._client)
            # The dispatcher forgets a silent client by itself.
            with contextlib.suppress(errors.OpError, TimeoutError):
                async with asyncio.timeout(_GOODBYE_S):
                    await self._dispatcher.ReleaseIterationClient(request)
        for channel in (self._dispatcher_channel, *self._channels.values()):
            await channel.close()

    # ---- tasks

    async def _manage(self, repetition: int) -> None:
        try:
            await self._begin(repetition)
            if self._rounds is not None:
                self._rounds.reader = spawn(self._read_rounds(self._rounds))
            while not self._is_finished:
                await self._ask_for_tasks()
                await self._wait_for_news()
        except errors.OpError as error:
            await self._fail(error)
        except Exception as error:
            await self._fail(_unexpected(error))

    async def _begin(self, repetition: int) -> None:
        reading = self._reading
        await check_version(self._dispatcher, reading.address)
        request = pb.GetOrCreateJobRequest(
            dataset_id=reading.dataset_id,
            processing_mode_def=reading.processing_mode,
            target_workers=reading.target_workers,
        )
        if reading.job_name:
            request.job_name = reading.job_name
        if reading.num_consumers >= 0:
            request.num_consumers = reading.num_consumers
        if reading.trainer_id:
            request.use_cross_trainer_cache = True
            await self._check_endless(repetition)
        with _told(f"Failed to get or create job for dataset with id {reading.dataset_id}"):
            job = await until_reached(lambda: self._dispatcher.GetOrCreateJob(request))
        wanted = pb.GetOrCreateIterationRequest(job_id=job.job_id, repetition=repetition)
        with _told(f"Failed to get or create iteration for job with id {job.job_id}"):
            made = await until_reached(lambda: self._dispatcher.GetOrCreateIteration(wanted))
        self._client = made.iteration_client_id

    async def _check_endless(self, repetition: int) -> None:
        """Check that the dataset suits a cache of trainers.  Raises: InvalidArgumentError."""
        request = pb.GetDataServiceMetadataRequest(dataset_id=self._reading.dataset_id)
        reply = await until_reached(lambda: self._dispatcher.GetDataServiceMetadata(request))
        if reply.metadata.cardinality not in (INFINITE, UNKNOWN):
            raise errors.InvalidArgumentError(
                "Cross-trainer caching requires the input dataset to be infinite. Got input with "
                f"cardinality {reply.metadata.cardinality}"
            )
        if repetition > 1:
            raise errors.InvalidArgumentError(
                "Cross-trainer caching requires infinite datasets and disallows multiple "
                f"repetitions of the same dataset. Got repetition {repetition}"
            )

    async def _ask_for_tasks(self) -> None:
        request = pb.ClientHeartbeatRequest(iteration_client_id=self._client)
        if self._rounds is not None:
            self._rounds.tell(request)
        try:
            reply = await self._dispatcher.ClientHeartbeat(request)
        except AWAY:
            return
        known = {info.task_id: info for info in reply.task_info}
        for number in self._tasks.keys() - known.keys():
            if self._rounds is not None:
                self._rounds.remove(number)
            reader = self._tasks.pop(number).reader
            if reader is not None:
                reader.cancel()
        for number, info in known.items():
            if number in self._tasks or reply.iteration_finished:
                continue
            if not self._should_read(info):
                self._leaves_tasks = True
                continue
            task = self._tasks[number] = _Task(info)
            worker = self._worker(info)
            if self._rounds is None:
                task.reader = spawn(self._read(task, worker))
            else:
                self._rounds.add(info, worker)
        if self._rounds is not None and self._rounds.heard(reply):
            self._news.set()
        async with self._changed:
            self._is_finished = reply.iteration_finished
            self._changed.notify_all()
            self._room.notify_all()

    async def _wait_for_news(self) -> None:
        """Wait until the dispatcher is to be asked again: soon where all tasks have ended."""
        tasks = self._tasks.values()
        if tasks and all(task.is_finished for task in tasks):
            # The workers tell the dispatcher, too, and are about to have done so.
            await asyncio.sleep(FIRST_PAUSE_S)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._reading.refresh_interval_s):
                await self._news.wait()
        self._news.clear()

    def _should_read(self, info: pb.TaskInfo) -> bool:
        is_local = find_local_worker(info.worker_address) is not None
        target = self._reading.target_workers
        if self._rounds is not None:
            return True  # or consumers would be in different rounds
        if target == pb.TargetWorkers.TARGET_WORKERS_LOCAL:
            return is_local
        is_beside_others = any(tag.upper() == "COLOCATED" for tag in info.worker_tags)
        return is_local or target != pb.TargetWorkers.TARGET_WORKERS_AUTO or not is_beside_others

    def _worker(self, info: pb.TaskInfo) -> DataWorkerService:
        """Return the worker of a task.  Raises: NotFoundError for a protocol that it lacks."""
        protocol = self._reading.data_transfer_protocol or "grpc"
        if protocol == "local":
            found = find_local_worker(info.worker_address)
            if found is None:
                raise errors.NotFoundError(
                    f"Local worker at address {info.worker_address} is not in this process"
                )
            return found
        addresses = {one.protocol: one.address for one in info.transfer_servers}
        address = addresses.get(protocol)
        if address is None:
            if protocol != "grpc":
                raise errors.NotFoundError(
                    f"protocol {protocol} is not available for worker {info.worker_address}"
                )
            address = info.worker_address
        if address not in self._channels:
            self._channels[address] = make_channel(address)
        return stub(DataWorkerService, self._channels[address])

    # ---- elements

    async def _read(self, task: _Task, worker: DataWorkerService) -> None:
        request = pb.GetElementRequest(
            task_id=task.info.task_id, trainer_id=self._reading.trainer_id
        )
        pauses = growing_pauses_s(FIRST_PAUSE_S, MOST_PAUSE_S)
        try:
            while not task.is_finished:
                await self._wait_for_room()
                try:
                    answer = await worker.GetElement(request)
                    reply, _ = take_apart(answer)
                    found = None
                    if not reply.end_of_sequence and not reply.skip_task:
                        found = await element_of(answer, self._reading.uncompress)
                except AWAY:
                    await self._give_back()
                    await asyncio.sleep(next(pauses))
                    continue
                except BaseException:
                    await self._give_back()
                    raise
                pauses = growing_pauses_s(FIRST_PAUSE_S, MOST_PAUSE_S)
                if found is None:
                    task.is_finished = reply.end_of_sequence
                    self._news.set()
                    await self._give_back()
                else:
                    async with self._changed:
                        self._elements.append(found)
                        self._changed.notify_all()
        except errors.OpError as error:
            await self._fail(_at_worker(task.info, error))
        except Exception as error:
            await self._fail(_unexpected(error))

    async def _read_rounds(self, rounds: Rounds) -> None:
        try:
            while True:
                for task in await rounds.begin():
                    await self._wait_for_room()
                    try:
                        found = await self._element_of_round(rounds, task)
                    except errors.OpError as error:
                        raise _at_worker(task.info, error) from None
                    if found is None:
                        await self._give_back()
                        continue
                    async with self._changed:
                        self._elements.append(found)
                        self._changed.notify_all()
        except errors.OpError as error:
            await self._fail(error)
        except Exception as error:
            await self._fail(_unexpected(error))

    async def _element_of_round(self, rounds: Rounds, task: RoundTask) -> Element | None:
        answer = await rounds.ask(task, self._dispatcher)
        return None if answer is None else await element_of(answer, self._reading.uncompress)

    async def _wait_for_room(self) -> None:
        async with self._room:
            while self._held >= self._most():
                await self._room.wait()
            self._held += 1

    def _most(self) -> int:
        most = self._reading.max_outstanding_requests
        return most if most > 0 else max(1, len(self._tasks))

    async def _give_back(self) -> None:
        self._held -= 1
        async with self._changed:
            self._changed.notify_all()
            self._room.notify()

    async def _fail(self, error: errors.OpError) -> None:
        async with self._changed:
            self._error = self._error or alike(error)
            self._changed.notify_all()
