"""What a dispatcher knows: datasets, workers, jobs, their iterations, tasks and clients.

Rule 1: facts in, decisions out; the caller owns sockets, clock and tasks.
Rule 2: an iteration has a task on each worker, those that come later included; it is finished when
        all its tasks are.
Rule 3: a worker is known by its address: one that comes back gets the tasks that it had.
Rule 4: each split of a repetition is given once, to whoever asks first.
Rule 5: all that must outlive the dispatcher's process changes by an Update; the same updates in the
        same order give the same state again.
Rule 6: in a coordinated read a worker that comes later begins in a round that all consumers have
        agreed to.

Source: tensorflow/core/data/service/{dispatcher_state,dispatcher_impl}.cc.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Protocol

from tideflow.data_service.jobs import (
    Iteration,
    Job,
    KnownWorker,
    PendingTask,
    RegisteredDataset,
    SplitQueue,
    Task,
    check_same_job,
)
from tideflow.ops.data import Splits
from tideflow.wire import errors
from tideflow.wire import messages as pb


class Recorder(Protocol):
    """Keeps what must outlive the process."""

    def keep(self, dataset_id: str, definition: pb.DatasetDef) -> None:
        """Keep the graph of a dataset that an update is about to name."""

    def record(self, update: pb.Update) -> None:
        """Keep a change, behind all those before it."""


class Forgetful:
    """Keeps nothing."""

    def keep(self, dataset_id: str, definition: pb.DatasetDef) -> None:
        """Keep nothing."""

    def record(self, update: pb.Update) -> None:
        """Keep nothing."""


class DispatcherState:
    """All that a dispatcher knows.

    Args:
      worker_addresses: the workers that share out elements by their places in this list, as
        "host", "host:port" or "host:%port%"; empty to take any worker.
      recorder: is told of all changes that must outlive the process.
      chance: draws what jobs without a name are called.
    """

    def __init__(
        self,
        worker_addresses: Sequence[str] = (),
        recorder: Recorder | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self.workers: dict[str, KnownWorker] = {}
        self.snapshots: list[str] = []
        self._recorder = recorder or Forgetful()
        self._chance = chance or random.Random()
        self._addresses = list(worker_addresses)
        self._datasets: dict[str, RegisteredDataset] = {}
        self._jobs: dict[int, Job] = {}
        self._jobs_by_name: dict[str, Job] = {}
        self._iterations: dict[int, Iteration] = {}
        self._by_key: dict[tuple[str, int], Iteration] = {}
        self._tasks: dict[int, Task] = {}
        self._clients: dict[int, Iteration] = {}
        self._heard_s: dict[int, float] = {}
        self._next_id = 1000

    @property
    def share_count(self) -> int:
        """Among how many workers elements are shared out by their places."""
        return len(self._addresses)

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    # ---- changes

    def _change(self, update: pb.Update) -> None:
        self.replay(update)
        self._recorder.record(update)

    def replay(self, update: pb.Update) -> None:
        """Make a change that a dispatcher made before."""
        kind = update.WhichOneof("update_type")
        assert kind is not None
        change = getattr(self, f"_on_{kind}", None)
        if change is None:
            raise errors.UnimplementedError(f"the journal has an update that is not known: {kind}")
        change(getattr(update, kind))

    def resume(self, now_s: float) -> list[Iteration]:
        """Begin to serve with what was replayed; return the iterations that want their splits.

        All clients count as just heard of: they could not say anything meanwhile.
        """
        for client in self._clients:
            self._heard_s[client] = now_s
        for iteration in self._iterations.values():
            iteration.idle_since_s = None if iteration.clients else now_s
        return [one for one in self._iterations.values() if one.splits and not one.is_finished]

    def _seen(self, number: int) -> int:
        self._next_id = max(self._next_id, number + 1)
        return number

    # ---- datasets

    def register(self, request: pb.GetOrRegisterDatasetRequest) -> RegisteredDataset:
        """Return the dataset of a request: a new one, or that which has the id.

        Raises: InvalidArgumentError for one of another structure under the same id.
        """
        known = self._datasets.get(request.dataset_id)
        if known is not None:
            self._check_same(known, request.metadata)
            return known
        name = request.dataset_id or str(self._new_id())
        self._recorder.keep(name, request.dataset)
        update = pb.Update()
        update.register_dataset.dataset_id = name
        update.register_dataset.dedupe_by_dataset_id = bool(request.dataset_id)
        update.register_dataset.metadata.CopyFrom(request.metadata)
        self._change(update)
        self._datasets[name].definition = request.dataset
        return self._datasets[name]

    def _on_register_dataset(self, update: pb.RegisterDatasetUpdate) -> None:
        name = update.dataset_id
        if name.isdecimal():
            self._seen(int(name))
        self._datasets[name] = RegisteredDataset(name, pb.DatasetDef(), update.metadata)

    def datasets(self) -> Iterable[RegisteredDataset]:
        """Return all datasets."""
        return self._datasets.values()

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

    # ---- snapshots

    def add_snapshot(self, path: str) -> None:
        """Take note that a snapshot is written to a directory."""
        self._change(pb.Update(snapshot=pb.SnapshotUpdate(path=path)))

    def _on_snapshot(self, update: pb.SnapshotUpdate) -> None:
        self.snapshots.append(update.path)

    # ---- jobs

    def job_of(self, request: pb.GetOrCreateJobRequest) -> Job:
        """Return the job of a request: that of its name, or a new one.

        Raises: InvalidArgumentError for a job of that name with other parameters.
        """
        job_id = self._new_id()
        is_named = request.WhichOneof("optional_job_name") is not None
        anonymous = f"anonymous_job_{job_id}_{self._chance.getrandbits(64)}"
        name = request.job_name if is_named else anonymous
        known = self._jobs_by_name.get(name)
        if known is not None:
            check_same_job(known, request)
            return known
        terms = pb.CreateJobUpdate(
            job_id=job_id,
            job_name=name,
            dataset_id=request.dataset_id,
            processing_mode_def=request.processing_mode_def,
            target_workers=request.target_workers,
            use_cross_trainer_cache=request.use_cross_trainer_cache,
        )
        if request.WhichOneof("optional_num_consumers") is not None:
            terms.num_consumers = request.num_consumers
        self._change(pb.Update(create_job=terms))
        return self._jobs[job_id]

    def _on_create_job(self, update: pb.CreateJobUpdate) -> None:
        made = Job(self._seen(update.job_id), update.job_name, update)
        self._jobs[made.id] = self._jobs_by_name[made.name] = made

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
        update = pb.CreateIterationUpdate(
            iteration_id=self._new_id(),
            job_id=job.id,
            repetition=repetition,
            num_split_providers=len(sources),
        )
        self._change(pb.Update(create_iteration=update))
        made = self._iterations[update.iteration_id]
        made.fill(sources)
        for worker in self.workers.values():
            self._add_task(made, worker)
        return made

    def _on_create_iteration(self, update: pb.CreateIterationUpdate) -> None:
        job = self._jobs[update.job_id]
        splits = [SplitQueue() for _ in range(update.num_split_providers)]
        made = Iteration(self._seen(update.iteration_id), job, update.repetition, splits)
        self._iterations[made.id] = self._by_key[job.name, update.repetition] = made

    # ---- tasks

    def _add_task(self, iteration: Iteration, worker: KnownWorker) -> None:
        if iteration.job.is_static and worker.index < 0:
            raise errors.NotFoundError(
                f"Worker {worker.address} is not in the workers list. A sharding policy other than "
                "OFF and DYNAMIC needs DispatcherConfig.worker_addresses"
            )
        update = pb.CreateTaskUpdate(
            task_id=self._new_id(),
            iteration_id=iteration.id,
            worker_address=worker.address,
            transfer_servers=worker.transfer_servers,
            worker_tags=worker.tags,
            worker_uid=worker.uid,
        )
        self._change(pb.Update(create_task=update))

    def _on_create_task(self, update: pb.CreateTaskUpdate) -> None:
        task = self._task_of(update)
        task.iteration.tasks.append(task)

    def _task_of(self, update: pb.CreateTaskUpdate | pb.CreatePendingTaskUpdate) -> Task:
        iteration = self._iterations[update.iteration_id]
        task = Task(self._seen(update.task_id), iteration, self.workers[update.worker_address])
        self._tasks[task.id] = task
        return task

    def _add_pending_task(self, iteration: Iteration, worker: KnownWorker) -> None:
        update = pb.CreatePendingTaskUpdate(
            task_id=self._new_id(),
            iteration_id=iteration.id,
            worker_address=worker.address,
            transfer_servers=worker.transfer_servers,
            worker_tags=worker.tags,
            worker_uid=worker.uid,
            starting_round=max(iteration.rounds.values(), default=0) + 1,
        )
        self._change(pb.Update(create_pending_task=update))

    def _on_create_pending_task(self, update: pb.CreatePendingTaskUpdate) -> None:
        task = self._task_of(update)
        task.iteration.pending.append(PendingTask(task, update.starting_round))

    def task(self, task_id: int) -> Task:
        """Return a task by its id.  Raises: NotFoundError."""
        found = self._tasks.get(task_id)
        if found is None:
            raise errors.NotFoundError(f"Task {task_id} not found")
        return found

    def remove_task(self, task_id: int) -> None:
        """Have nobody read from a task any more.  Raises: NotFoundError for an unknown one."""
        self.task(task_id)
        self._change(pb.Update(remove_task=pb.RemoveTaskUpdate(task_id=task_id)))

    def _on_remove_task(self, update: pb.RemoveTaskUpdate) -> None:
        task = self._tasks.pop(update.task_id)
        task.is_finished = True
        task.iteration.tasks.remove(task)

    def finish_task(self, task_id: int) -> None:
        """Take note that a task has ended.  Raises: NotFoundError for an unknown one."""
        if not self.task(task_id).is_finished:
            self._change(pb.Update(finish_task=pb.FinishTaskUpdate(task_id=task_id)))

    def _on_finish_task(self, update: pb.FinishTaskUpdate) -> None:
        task = self._tasks[update.task_id]
        task.is_finished = True
        iteration = task.iteration
        iteration.is_finished = all(one.is_finished for one in iteration.tasks)

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
        found, changes = iteration.splits[source].next(repetition)
        if changes:
            update = pb.ProduceSplitUpdate(
                iteration_id=iteration_id,
                repetition=repetition,
                split_provider_index=source,
                finished=found is None,
            )
            self._change(pb.Update(produce_split=update))
        return found

    def _on_produce_split(self, update: pb.ProduceSplitUpdate) -> None:
        queue = self._iterations[update.iteration_id].splits[update.split_provider_index]
        queue.take(update.repetition, update.finished)

    # ---- clients

    def add_client(self, iteration: Iteration) -> int:
        """Return the id of a new client of an iteration."""
        client = self._new_id()
        update = pb.AcquireIterationClientUpdate(
            iteration_id=iteration.id, iteration_client_id=client
        )
        self._change(pb.Update(acquire_iteration_client=update))
        return client

    def _on_acquire_iteration_client(self, update: pb.AcquireIterationClientUpdate) -> None:
        iteration = self._iterations[update.iteration_id]
        client = self._seen(update.iteration_client_id)
        self._clients[client] = iteration
        iteration.clients.add(client)
        iteration.idle_since_s = None

    def heard_of_client(
        self,
        client: int,
        now_s: float,
        current_round: int | None = None,
        blocked_round: int | None = None,
    ) -> Iteration:
        """Return the iteration of a client that has said that it is there.

        current_round: of a coordinated read, in which the client is.
        blocked_round: the round that it does not begin until it is told to.
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
        if current_round is not None:
            iteration.rounds[client] = current_round
            self._agree(iteration, client, current_round, blocked_round)
        return iteration

    def _agree(
        self, iteration: Iteration, client: int, current_round: int, blocked_round: int | None
    ) -> None:
        """Let a client agree to the round in which the first waiting task is to begin, or not."""
        if not iteration.pending:
            return
        waiting = iteration.pending[0]
        update = pb.ClientHeartbeatUpdate(iteration_client_id=client)
        if current_round >= waiting.target_round:
            # Later and later, until the time is enough for all to hear of it.
            update.task_rejected.new_target_round = current_round + 2 ** (waiting.failures + 1)
        elif (
            blocked_round is not None
            and blocked_round <= waiting.target_round
            and client not in waiting.ready
        ):
            update.task_accepted = True
        else:
            return
        self._change(pb.Update(client_heartbeat=update))

    def _on_client_heartbeat(self, update: pb.ClientHeartbeatUpdate) -> None:
        iteration = self._clients[update.iteration_client_id]
        waiting = iteration.pending[0]
        if update.HasField("task_rejected"):
            waiting.failures += 1
            waiting.target_round = update.task_rejected.new_target_round
            waiting.ready.clear()
        if update.task_accepted:
            waiting.ready.add(update.iteration_client_id)
            if len(waiting.ready) == iteration.job.num_consumers:
                waiting.task.starting_round = waiting.target_round
                iteration.tasks.append(waiting.task)
                del iteration.pending[0]

    def release_client(self, client: int, now_s: float) -> None:
        """Forget a client.  Raises: NotFoundError for an unknown one."""
        iteration = self._clients.get(client)
        if iteration is None:
            raise errors.NotFoundError(f"Iteration client id not found: {client}")
        update = pb.ReleaseIterationClientUpdate(iteration_client_id=client)
        self._change(pb.Update(release_iteration_client=update))
        if not iteration.clients:
            iteration.idle_since_s = now_s

    def _on_release_iteration_client(self, update: pb.ReleaseIterationClientUpdate) -> None:
        client = update.iteration_client_id
        iteration = self._clients.pop(client)
        self._heard_s.pop(client, None)
        iteration.clients.discard(client)
        iteration.rounds.pop(client, None)

    def collect(self, now_s: float, client_timeout_s: float, idle_s: float) -> None:
        """Forget clients that are silent, and drop iterations that nobody has read for long."""
        for client, heard_s in list(self._heard_s.items()):
            if now_s - heard_s > client_timeout_s:
                self.release_client(client, now_s)
        for iteration in list(self._iterations.values()):
            since_s = iteration.idle_since_s
            if since_s is not None and now_s - since_s > idle_s:
                update = pb.GarbageCollectIterationUpdate(iteration_id=iteration.id)
                self._change(pb.Update(garbage_collect_iteration=update))

    def _on_garbage_collect_iteration(self, update: pb.GarbageCollectIterationUpdate) -> None:
        iteration = self._iterations.pop(update.iteration_id)
        iteration.is_finished = iteration.is_dropped = True
        for task in [*iteration.tasks, *(waiting.task for waiting in iteration.pending)]:
            task.is_finished = True
            self._tasks.pop(task.id, None)

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
        self._index_of(request.worker_address)
        update = pb.RegisterWorkerUpdate(
            worker_address=request.worker_address,
            transfer_servers=request.transfer_servers,
            worker_tags=request.worker_tags,
            worker_uid=request.worker_uid,
        )
        self._change(pb.Update(register_worker=update))
        made = self.workers[request.worker_address]
        for iteration in list(self._iterations.values()):
            if iteration.is_finished:
                continue
            if iteration.job.num_consumers is None:
                self._add_task(iteration, made)
            else:
                self._add_pending_task(iteration, made)
        return made

    def _on_register_worker(self, update: pb.RegisterWorkerUpdate) -> None:
        address = update.worker_address
        self.workers[address] = KnownWorker(
            address,
            list(update.transfer_servers),
            list(update.worker_tags),
            update.worker_uid,
            self._index_of(address),
        )

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

    def validate(self) -> None:
        """Check what must hold at all times."""
        for task in self._tasks.values():
            waiting = [one.task for one in task.iteration.pending]
            assert task in [*task.iteration.tasks, *waiting]
        for client, iteration in self._clients.items():
            assert client in iteration.clients
        for iteration in self._iterations.values():
            ended = [task.is_finished for task in iteration.tasks]
            assert not (iteration.is_finished and ended) or all(ended)
