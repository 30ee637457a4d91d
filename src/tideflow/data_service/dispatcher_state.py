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
from collections.abc import Sequence

from tideflow.data_service.changes import Changes, Recorder
from tideflow.data_service.iteration_clients import IterationClients
from tideflow.data_service.iterations import Iterations, Jobs
from tideflow.data_service.jobs import Iteration, Job, KnownWorker, Task
from tideflow.data_service.known_datasets import Datasets
from tideflow.data_service.worker_tasks import Tasks, Workers
from tideflow.ops.data import Splits
from tideflow.wire import messages as pb


class DispatcherState:
    """All that a dispatcher knows, in the parts that it is asked for.

    What concerns several parts is here: a worker that comes, an iteration that begins or goes.

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
        self.snapshots: list[str] = []
        self._changes = changes = Changes(recorder)
        self.datasets = Datasets(changes)
        self.jobs = Jobs(changes, chance or random.Random())
        self.iterations = Iterations(changes, self.jobs)
        self.workers = Workers(changes, worker_addresses)
        self.tasks = Tasks(changes, self.iterations, self.workers)
        self.clients = IterationClients(changes, self.iterations)
        changes.made_by(
            snapshot=self._on_snapshot, garbage_collect_iteration=self._on_garbage_collect
        )

    def replay(self, update: pb.Update) -> None:
        """Make a change that a dispatcher made before.  Raises: UnimplementedError."""
        self._changes.replay(update)

    def resume(self, now_s: float) -> list[Iteration]:
        """Begin to serve with what was replayed; return the iterations that want their splits."""
        self.clients.resume(now_s)
        for iteration in self.iterations.all():
            iteration.idle_since_s = None if iteration.clients else now_s
        return [one for one in self.iterations.all() if one.splits and not one.is_finished]

    def add_snapshot(self, path: str) -> None:
        """Take note that a snapshot is written to a directory."""
        self._changes.make(snapshot=pb.SnapshotUpdate(path=path))

    def _on_snapshot(self, update: pb.SnapshotUpdate) -> None:
        self.snapshots.append(update.path)

    def start_iteration(self, job: Job, repetition: int, sources: Sequence[Splits]) -> Iteration:
        """Return a new iteration, with a task on each worker."""
        made = self.iterations.add(job, repetition, sources)
        for worker in self.workers.known.values():
            self.tasks.add(made, worker)
        return made

    def heard_of_worker(
        self, request: pb.DataWorkerHeartbeatRequest
    ) -> tuple[list[Task], list[int]]:
        """Return the tasks that a worker does not have yet, and the ids of those to give up.

        A worker that is new gets a task of each iteration that is not finished.
        Raises: InvalidArgumentError for a worker that is not in the list of workers.
        """
        worker = self.workers.known.get(request.worker_address)
        if worker is None:
            worker = self._add_worker(request)
        mine = {task.id: task for task in self.tasks.open_of(worker)}
        has = set(request.current_tasks)
        new = [task for number, task in mine.items() if number not in has]
        return new, sorted(has - mine.keys())

    def _add_worker(self, request: pb.DataWorkerHeartbeatRequest) -> KnownWorker:
        made = self.workers.add(request)
        for iteration in list(self.iterations.all()):
            if iteration.is_finished:
                continue
            if iteration.job.num_consumers is None:
                self.tasks.add(iteration, made)
            else:
                self.tasks.add_pending(iteration, made)
        return made

    def collect(self, now_s: float, client_timeout_s: float, idle_s: float) -> None:
        """Forget clients that are silent, and drop iterations that nobody has read for long."""
        self.clients.release_silent(now_s, client_timeout_s)
        for iteration in list(self.iterations.all()):
            since_s = iteration.idle_since_s
            if since_s is not None and now_s - since_s > idle_s:
                update = pb.GarbageCollectIterationUpdate(iteration_id=iteration.id)
                self._changes.make(garbage_collect_iteration=update)

    def _on_garbage_collect(self, update: pb.GarbageCollectIterationUpdate) -> None:
        iteration = self.iterations.forget(update.iteration_id)
        iteration.is_finished = iteration.is_dropped = True
        for task in [*iteration.tasks, *(waiting.task for waiting in iteration.pending)]:
            self.tasks.forget(task)

    def validate(self) -> None:
        """Check what must hold at all times."""
        self.tasks.validate()
        self.clients.validate()
        for iteration in self.iterations.all():
            ended = [task.is_finished for task in iteration.tasks]
            assert not (iteration.is_finished and ended) or all(ended)
