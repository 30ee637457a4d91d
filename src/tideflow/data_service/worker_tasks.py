"""The workers that a dispatcher knows, and the tasks that they have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.data_service.changes import Changes
from tideflow.data_service.iterations import Iterations
from tideflow.data_service.jobs import Iteration, KnownWorker, PendingTask, Task
from tideflow.wire import errors
from tideflow.wire import messages as pb


class Workers:
    """The workers by address.

    Args:
      addresses: as of DispatcherState.
    """

    def __init__(self, changes: Changes, addresses: Sequence[str]) -> None:
        self.known: dict[str, KnownWorker] = {}
        self._changes = changes
        self._addresses = list(addresses)
        changes.made_by(register_worker=self._on_register)

    @property
    def share_count(self) -> int:
        """Among how many workers elements are shared out by their places."""
        return len(self._addresses)

    def add(self, request: pb.DataWorkerHeartbeatRequest) -> KnownWorker:
        """Return a worker that is new.

        Raises: InvalidArgumentError for one that is not in the list of workers.
        """
        self._index_of(request.worker_address)
        self._changes.make(
            register_worker=pb.RegisterWorkerUpdate(
                worker_address=request.worker_address,
                transfer_servers=request.transfer_servers,
                worker_tags=request.worker_tags,
                worker_uid=request.worker_uid,
            )
        )
        return self.known[request.worker_address]

    def _on_register(self, update: pb.RegisterWorkerUpdate) -> None:
        address = update.worker_address
        self.known[address] = KnownWorker(
            address,
            list(update.transfer_servers),
            list(update.worker_tags),
            update.worker_uid,
            self._index_of(address),
        )

    def _index_of(self, address: str) -> int:
        if not self._addresses:
            return -1
        taken = {worker.index for worker in self.known.values()}
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


class Tasks:
    """The tasks by id."""

    def __init__(self, changes: Changes, iterations: Iterations, workers: Workers) -> None:
        self._changes = changes
        self._iterations = iterations
        self._workers = workers
        self._known: dict[int, Task] = {}
        changes.made_by(
            create_task=self._on_create,
            create_pending_task=self._on_create_pending,
            remove_task=self._on_remove,
            finish_task=self._on_finish,
        )

    def add(self, iteration: Iteration, worker: KnownWorker) -> None:
        """Give a worker a task of an iteration.

        Raises: NotFoundError where the worker would need a place in the list of workers.
        """
        if iteration.job.is_static and worker.index < 0:
            raise errors.NotFoundError(
                f"Worker {worker.address} is not in the workers list. A sharding policy other than "
                "OFF and DYNAMIC needs DispatcherConfig.worker_addresses"
            )
        self._changes.make(create_task=pb.CreateTaskUpdate(**self._terms(iteration, worker)))

    def add_pending(self, iteration: Iteration, worker: KnownWorker) -> None:
        """Give a worker a task that begins in a round to which all consumers agree."""
        first = max(iteration.rounds.values(), default=0) + 1
        update = pb.CreatePendingTaskUpdate(starting_round=first, **self._terms(iteration, worker))
        self._changes.make(create_pending_task=update)

    def _terms(self, iteration: Iteration, worker: KnownWorker) -> dict[str, Any]:
        return {
            "task_id": self._changes.new_id(),
            "iteration_id": iteration.id,
            "worker_address": worker.address,
            "transfer_servers": worker.transfer_servers,
            "worker_tags": worker.tags,
            "worker_uid": worker.uid,
        }

    def _on_create(self, update: pb.CreateTaskUpdate) -> None:
        task = self._task_of(update)
        task.iteration.tasks.append(task)

    def _on_create_pending(self, update: pb.CreatePendingTaskUpdate) -> None:
        task = self._task_of(update)
        task.iteration.pending.append(PendingTask(task, update.starting_round))

    def _task_of(self, update: pb.CreateTaskUpdate | pb.CreatePendingTaskUpdate) -> Task:
        iteration = self._iterations.by_id(update.iteration_id)
        task = Task(
            self._changes.seen(update.task_id),
            iteration,
            self._workers.known[update.worker_address],
        )
        self._known[task.id] = task
        return task

    def by_id(self, task_id: int) -> Task:
        """Return a task.  Raises: NotFoundError."""
        found = self._known.get(task_id)
        if found is None:
            raise errors.NotFoundError(f"Task {task_id} not found")
        return found

    def remove(self, task_id: int) -> None:
        """Have nobody read from a task any more.  Raises: NotFoundError for an unknown one."""
        self.by_id(task_id)
        self._changes.make(remove_task=pb.RemoveTaskUpdate(task_id=task_id))

    def _on_remove(self, update: pb.RemoveTaskUpdate) -> None:
        task = self._known.pop(update.task_id)
        task.is_finished = True
        task.iteration.tasks.remove(task)

    def finish(self, task_id: int) -> None:
        """Take note that a task has ended.  Raises: NotFoundError for an unknown one."""
        if not self.by_id(task_id).is_finished:
            self._changes.make(finish_task=pb.FinishTaskUpdate(task_id=task_id))

    def _on_finish(self, update: pb.FinishTaskUpdate) -> None:
        task = self._known[update.task_id]
        task.is_finished = True
        iteration = task.iteration
        iteration.is_finished = all(one.is_finished for one in iteration.tasks)

    def forget(self, task: Task) -> None:
        """Take note that an iteration of which a task is was dropped."""
        task.is_finished = True
        self._known.pop(task.id, None)

    def open_of(self, worker: KnownWorker) -> list[Task]:
        """Return the tasks that a worker has to do."""
        return [
            task for task in self._known.values() if task.worker is worker and not task.is_finished
        ]

    def validate(self) -> None:
        """Check what must hold at all times."""
        for task in self._known.values():
            waiting = [one.task for one in task.iteration.pending]
            assert task in [*task.iteration.tasks, *waiting]
