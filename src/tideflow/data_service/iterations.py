"""The jobs and iterations of a dispatcher, and the splits that it gives."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from tideflow.data_service.changes import Changes
from tideflow.data_service.jobs import Iteration, Job, SplitQueue, check_same_job
from tideflow.ops.data import Splits
from tideflow.wire import errors
from tideflow.wire import messages as pb


class Jobs:
    """The jobs by id and by name.

    Args:
      chance: draws what jobs without a name are called.
    """

    def __init__(self, changes: Changes, chance: random.Random) -> None:
        self._changes = changes
        self._chance = chance
        self._known: dict[int, Job] = {}
        self._by_name: dict[str, Job] = {}
        changes.made_by(create_job=self._on_create)

    def of(self, request: pb.GetOrCreateJobRequest) -> Job:
        """Return the job of a request: that of its name, or a new one.

        Raises: InvalidArgumentError for a job of that name with other parameters.
        """
        job_id = self._changes.new_id()
        is_named = request.WhichOneof("optional_job_name") is not None
        anonymous = f"anonymous_job_{job_id}_{self._chance.getrandbits(64)}"
        name = request.job_name if is_named else anonymous
        known = self._by_name.get(name)
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
        self._changes.make(create_job=terms)
        return self._known[job_id]

    def _on_create(self, update: pb.CreateJobUpdate) -> None:
        made = Job(self._changes.seen(update.job_id), update.job_name, update)
        self._known[made.id] = self._by_name[made.name] = made

    def by_id(self, job_id: int) -> Job:
        """Return a job.  Raises: NotFoundError."""
        found = self._known.get(job_id)
        if found is None:
            raise errors.NotFoundError(f"Job with id {job_id} not found")
        return found


class Iterations:
    """The iterations of jobs, by id and by repetition."""

    def __init__(self, changes: Changes, jobs: Jobs) -> None:
        self._changes = changes
        self._jobs = jobs
        self._known: dict[int, Iteration] = {}
        self._by_key: dict[tuple[str, int], Iteration] = {}
        changes.made_by(create_iteration=self._on_create, produce_split=self._on_produce_split)

    def all(self) -> Iterable[Iteration]:
        """Return all iterations that were not dropped."""
        return self._known.values()

    def by_id(self, iteration_id: int) -> Iteration:
        """Return an iteration.  Raises: NotFoundError."""
        found = self._known.get(iteration_id)
        if found is None:
            raise errors.NotFoundError(f"Iteration id {iteration_id} not found")
        return found

    def of(self, job: Job, repetition: int) -> Iteration | None:
        """Return the iteration that a repetition of a job has now, if any."""
        found = self._by_key.get((job.name, repetition))
        return None if found is None or found.is_dropped else found

    def add(self, job: Job, repetition: int, sources: Sequence[Splits]) -> Iteration:
        """Return a new iteration, without tasks."""
        number = self._changes.new_id()
        self._changes.make(
            create_iteration=pb.CreateIterationUpdate(
                iteration_id=number,
                job_id=job.id,
                repetition=repetition,
                num_split_providers=len(sources),
            )
        )
        made = self._known[number]
        made.fill(sources)
        return made

    def _on_create(self, update: pb.CreateIterationUpdate) -> None:
        job = self._jobs.by_id(update.job_id)
        splits = [SplitQueue() for _ in range(update.num_split_providers)]
        made = Iteration(self._changes.seen(update.iteration_id), job, update.repetition, splits)
        self._known[made.id] = self._by_key[job.name, update.repetition] = made

    def forget(self, iteration_id: int) -> Iteration:
        """Return an iteration that is found no more."""
        return self._known.pop(iteration_id)

    def split(self, iteration_id: int, repetition: int, source: int) -> int | None:
        """Return the next split of a source, None where there are no more.

        Raises: NotFoundError for an iteration, FailedPreconditionError for a source that is not
        there.
        """
        iteration = self.by_id(iteration_id)
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
            self._changes.make(produce_split=update)
        return found

    def _on_produce_split(self, update: pb.ProduceSplitUpdate) -> None:
        queue = self._known[update.iteration_id].splits[update.split_provider_index]
        queue.take(update.repetition, update.finished)
