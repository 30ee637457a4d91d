"""What a dispatcher knows: datasets, workers, jobs, their iterations, tasks and clients.

Rule 1: facts in, decisions out; the caller owns sockets, clock and tasks.
Rule 2: an iteration has a task on each worker, those that come later included; it is finished when
        all its tasks are.
Rule 3: a worker is known by its address: one that comes back gets the tasks that it had.
Rule 4: each split of a repetition is given once, to whoever asks first.

Source: tensorflow/core/data/service/{dispatcher_state,dispatcher_impl}.cc.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tideflow.ops.data import Splits
from tideflow.wire import errors
from tideflow.wire import messages as pb

_STATIC = frozenset(
    {
        pb.ProcessingModeDef.FILE,
        pb.ProcessingModeDef.DATA,
        pb.ProcessingModeDef.FILE_OR_DATA,
        pb.ProcessingModeDef.HINT,
    }
)


@dataclass(eq=False, slots=True)
class RegisteredDataset:
    """A dataset by its id."""

    id: str
    definition: pb.DatasetDef
    metadata: pb.DataServiceMetadata


@dataclass(eq=False, slots=True)
class KnownWorker:
    """A worker; index: its place in the list of workers, where there is one."""

    address: str
    transfer_servers: Sequence[pb.DataTransferServerInfo]
    tags: Sequence[str]
    uid: int
    index: int


@dataclass(eq=False, slots=True)
class Job:
    """What clients with one job name read."""

    id: int
    name: str
    request: pb.GetOrCreateJobRequest

    @property
    def policy(self) -> int:
        """The sharding policy."""
        return self.request.processing_mode_def.sharding_policy

    @property
    def is_static(self) -> bool:
        """Whether each worker has a share of its own."""
        return self.policy in _STATIC


class SplitQueue:
    """Gives the splits of one source, in repetitions."""

    __slots__ = ("_at", "_keys", "_repetition")

    def __init__(self, splits: Splits) -> None:
        self._keys = splits.keys
        self._repetition = 0
        self._at = 0

    def next(self, repetition: int) -> int | None:
        """Return the next split of a repetition, None where it has no more."""
        if repetition < self._repetition:
            return None
        if repetition > self._repetition:
            self._repetition, self._at = repetition, 0
        if self._at == len(self._keys):
            self._repetition, self._at = repetition + 1, 0
            return None
        self._at += 1
        return self._keys[self._at - 1]


@dataclass(eq=False, slots=True)
class Iteration:
    """One repetition of a job.  clients: those who read it; idle_since_s: since when nobody did."""

    id: int
    job: Job
    repetition: int
    splits: list[SplitQueue]
    tasks: list[Task] = field(default_factory=list)
    clients: set[int] = field(default_factory=set)
    idle_since_s: float | None = None
    is_finished: bool = False
    is_dropped: bool = False


@dataclass(eq=False, slots=True)
class Task:
    """What one worker does of an iteration."""

    id: int
    iteration: Iteration
    worker: KnownWorker
    is_finished: bool = False


class DispatcherState:
    """All that a dispatcher knows.

    Args:
      worker_addresses: the workers that share out elements by their places in this list, as
        "host", "host:port" or "host:%port%"; empty to take any worker.
    """

    def __init__(self, worker_addresses: Sequence[str] = ()) -> None:
        self.workers: dict[str, KnownWorker] = {}
        self._addresses = list(worker_addresses)
        self._datasets: dict[str, RegisteredDataset] = {}
        self._jobs: dict[int, Job] = {}
        self._jobs_by_name: dict[str, Job] = {}
        self._iterations: dict[int, Iteration] = {}
        self._by_key: dict[tuple[str, int], Iteration] = {}
        self._tasks: dict[int, Task] = {}
        self._clients: dict[int, Iteration] = {}
        self._heard_s: dict[int, float] = {}
        self._ids = itertools.count(1000)

    @property
    def share_count(self) -> int:
        """Among how many workers elements are shared out by their places."""
        return len(self._addresses)

    # ---- datasets

    def register(self, request: pb.GetOrRegisterDatasetRequest) -> RegisteredDataset:
        """Return the dataset of a request: a new one, or that which has the id.

        Raises: InvalidArgumentError for one of another structure under the same id.
        """
        known = self._datasets.get(request.dataset_id)
        if known is not None:
            self._check_same(known, request.metadata)
            return known
        name = request.dataset_id or str(next(self._ids))
        found = RegisteredDataset(name, request.dataset, request.metadata)
        self._datasets[name] = found
        return found

    def _check_same(self, known: RegisteredDataset, given: pb.DataServiceMetadata) -> None:
        for what in ("element_spec", "compression"):
            old, new = getattr(known.metadata, what), getattr(given, what)
            if old != new and (what == "compression" or (old and new)):
                raise errors.InvalidArgumentError(
                    f"Datasets with the same ID should have the same structure: dataset "
                    f"{known.id!r} is registered with another {what}"
                )

    def dataset(self, dataset_id: str) -> RegisteredDataset:
        """Return a dataset by its id.  Raises: NotFoundError."""
        found = self._datasets.get(dataset_id)
        if found is None:
            raise errors.NotFoundError(f"Dataset id {dataset_id} not found")
        return found

    # ---- jobs

    def job_of(self, request: pb.GetOrCreateJobRequest) -> Job:
        """Return the job of a request: that of its name, or a new one.

        Raises: InvalidArgumentError for a job of that name with other parameters.
        """
        job_id = next(self._ids)
        is_named = request.WhichOneof("optional_job_name") is not None
        name = request.job_name if is_named else f"anonymous_job_{job_id}_{random.getrandbits(64)}"
        known = self._jobs_by_name.get(name)
        if known is not None:
            _check_same_job(known, request)
            return known
        made = Job(job_id, name, request)
        self._jobs[job_id] = self._jobs_by_name[name] = made
        return made

    def job(self, job_id: int) -> Job:
        """Return a job by its id.  Raises: NotFoundError."""
        found = self._jobs.get(job_id)
        if found is None:
            raise errors.NotFoundError(f"Job with id {job_id} not found")
        return found

    def iteration_of(self, job: Job, repetition: int) -> Iteration | None:
        """Return the iteration that a repetition of a job has now, if any."""
        found = self._by_key.get((job.name, repetition))
        return None if found is None or found.is_dropped else found

    def start_iteration(self, job: Job, repetition: int, sources: Sequence[Splits]) -> Iteration:
        """Return a new iteration, with a task on each worker."""
        splits = [SplitQueue(one) for one in sources]
        made = Iteration(next(self._ids), job, repetition, splits)
        self._iterations[made.id] = self._by_key[job.name, repetition] = made
        for worker in self.workers.values():
            self._add_task(made, worker)
        return made

    def _add_task(self, iteration: Iteration, worker: KnownWorker) -> None:
        if iteration.job.is_static and worker.index < 0:
            raise errors.NotFoundError(
                f"Worker {worker.address} is not in the workers list. A sharding policy other than "
                "OFF and DYNAMIC needs DispatcherConfig.worker_addresses"
            )
        made = Task(next(self._ids), iteration, worker)
        self._tasks[made.id] = made
        iteration.tasks.append(made)

    def split(self, iteration_id: int, repetition: int, source: int) -> int | None:
        """Return the next split of a source, None where there are no more.

        Raises: NotFoundError for an iteration, FailedPreconditionError for a source that is not
        there.
        """
        iteration = self._iterations.get(iteration_id)
        if iteration is None:
            raise errors.NotFoundError(f"Iteration id {iteration_id} not found")
        if not 0 <= source < len(iteration.splits):
            raise errors.FailedPreconditionError(
                f"Cannot get split for iteration {iteration_id}, since it is not a "
                "distributed_epoch iteration."
                if not iteration.splits
                else f"iteration {iteration_id} has no source {source}"
            )
        return iteration.splits[source].next(repetition)

    # ---- clients

    def add_client(self, iteration: Iteration) -> int:
        """Return the id of a new client of an iteration."""
        client = next(self._ids)
        self._clients[client] = iteration
        iteration.clients.add(client)
        iteration.idle_since_s = None
        return client

    def heard_of_client(self, client: int, now_s: float) -> Iteration:
        """Return the iteration of a client that has said that it is there.

        Raises: NotFoundError for an unknown one; FailedPreconditionError where its iteration was
        dropped.
        """
        iteration = self._clients.get(client)
        if iteration is None:
            raise errors.NotFoundError(
                f"Unknown iteration client id {client}. The dispatcher is not configured to be "
                "fault tolerant, so this could be caused by a dispatcher restart."
            )
        if iteration.is_dropped:
            raise errors.FailedPreconditionError(
                "The requested iteration has been garbage collected due to inactivity. Consider "
                "configuring the dispatcher with a higher `iteration_gc_timeout_ms`."
            )
        self._heard_s[client] = now_s
        return iteration

    def release_client(self, client: int, now_s: float) -> None:
        """Forget a client.  Raises: NotFoundError for an unknown one."""
        iteration = self._clients.pop(client, None)
        if iteration is None:
            raise errors.NotFoundError(f"Iteration client id not found: {client}")
        self._heard_s.pop(client, None)
        iteration.clients.discard(client)
        if not iteration.clients:
            iteration.idle_since_s = now_s

    def collect(self, now_s: float, client_timeout_s: float, idle_s: float) -> None:
        """Forget clients that are silent, and drop iterations that nobody has read for long."""
        for client, heard_s in list(self._heard_s.items()):
            if now_s - heard_s > client_timeout_s:
                self.release_client(client, now_s)
        for iteration in list(self._iterations.values()):
            since_s = iteration.idle_since_s
            if since_s is not None and now_s - since_s > idle_s:
                self._drop(iteration)

    def _drop(self, iteration: Iteration) -> None:
        iteration.is_finished = iteration.is_dropped = True
        for task in iteration.tasks:
            task.is_finished = True
            self._tasks.pop(task.id, None)
        del self._iterations[iteration.id]

    # ---- workers

    def heard_of_worker(
        self, request: pb.DataWorkerHeartbeatRequest
    ) -> tuple[list[Task], list[int]]:
        """Return the tasks that a worker does not have yet, and the ids of those to give up.

        A worker that is new gets a task of each iteration that is not finished.
        Raises: InvalidArgumentError for a worker that is not in the list of workers.
        """
        worker = self.workers.get(request.worker_address)
        if worker is None:
            worker = self._add_worker(request)
        mine = {task.id: task for task in self._open_tasks(worker)}
        has = set(request.current_tasks)
        new = [task for number, task in mine.items() if number not in has]
        return new, sorted(has - mine.keys())

    def _add_worker(self, request: pb.DataWorkerHeartbeatRequest) -> KnownWorker:
        address = request.worker_address
        made = KnownWorker(
            address,
            list(request.transfer_servers),
            list(request.worker_tags),
            request.worker_uid,
            self._index_of(address),
        )
        self.workers[address] = made
        for iteration in list(self._iterations.values()):
            if not iteration.is_finished:
                self._add_task(iteration, made)
        return made

    def _index_of(self, address: str) -> int:
        if not self._addresses:
            return -1
        taken = {worker.index for worker in self.workers.values()}
        host = address.rpartition(":")[0]
        for wanted in ((address,), (host, f"{host}:%port%")):
            for index, known in enumerate(self._addresses):
                if known in wanted and index not in taken:
                    return index
        raise errors.InvalidArgumentError(
            f"Failed to assign an index for worker {address}. Configured workers list: "
            f"[{', '.join(self._addresses)}]. The worker's address is not configured, or other "
            "workers are already running at the configured host."
        )

    def _open_tasks(self, worker: KnownWorker) -> list[Task]:
        return [
            task for task in self._tasks.values() if task.worker is worker and not task.is_finished
        ]

    def finish_task(self, task_id: int) -> None:
        """Take note that a task has ended.  Raises: NotFoundError for an unknown one."""
        task = self._tasks.get(task_id)
        if task is None:
            raise errors.NotFoundError(f"Task {task_id} not found")
        task.is_finished = True
        iteration = task.iteration
        iteration.is_finished = all(one.is_finished for one in iteration.tasks)

    def validate(self) -> None:
        """Check what must hold at all times."""
        for task in self._tasks.values():
            assert task in task.iteration.tasks
        for client, iteration in self._clients.items():
            assert client in iteration.clients
        for iteration in self._iterations.values():
            ended = [task.is_finished for task in iteration.tasks]
            assert not (iteration.is_finished and ended) or all(ended)


def _check_same_job(job: Job, request: pb.GetOrCreateJobRequest) -> None:
    known = job.request
    differs = []
    if known.processing_mode_def != request.processing_mode_def:
        differs.append(
            f"Existing processing mode: <{_policy_name(known)}>; got <{_policy_name(request)}>. "
        )
    if known.use_cross_trainer_cache != request.use_cross_trainer_cache:
        words = {True: "enabled", False: "disabled"}
        differs.append(
            f"Existing cross-trainer cache: <{words[known.use_cross_trainer_cache]}>; got "
            f"<{words[request.use_cross_trainer_cache]}>. "
        )
    if known.target_workers != request.target_workers:
        names = [
            pb.TargetWorkers.Name(one.target_workers).removeprefix("TARGET_WORKERS_")
            for one in (known, request)
        ]
        differs.append(f"Existing target workers: <{names[0]}>; got <{names[1]}>. ")
    if differs:
        raise errors.InvalidArgumentError(
            f"Tried to create job with name {job.name}, but found an existing job with different "
            f"parameters: {''.join(differs)}"
        )


def _policy_name(request: pb.GetOrCreateJobRequest) -> str:
    policy = request.processing_mode_def.sharding_policy
    return f"sharding_policy: {pb.ProcessingModeDef.ShardingPolicy.Name(policy)}" if policy else ""
