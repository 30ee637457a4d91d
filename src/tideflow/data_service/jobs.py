"""What a dispatcher keeps of datasets, workers, jobs, their iterations and tasks.

Source: tensorflow/core/data/service/dispatcher_state.h.
"""

from __future__ import annotations

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
    terms: pb.CreateJobUpdate

    @property
    def policy(self) -> int:
        """The sharding policy."""
        return self.terms.processing_mode_def.sharding_policy

    @property
    def num_consumers(self) -> int | None:
        """How many consumers read in rounds; None where whoever asks first is served first."""
        is_coordinated = self.terms.WhichOneof("optional_num_consumers") is not None
        return self.terms.num_consumers if is_coordinated else None

    @property
    def is_static(self) -> bool:
        """Whether each worker has a share of its own."""
        return self.policy in _STATIC


class SplitQueue:
    """Gives the splits of one source, in repetitions."""

    __slots__ = ("_at", "_keys", "_repetition")

    def __init__(self) -> None:
        self._keys: Sequence[int] = ()
        self._repetition = 0
        self._at = 0

    def fill(self, splits: Splits) -> None:
        """Say which splits a repetition has."""
        self._keys = splits.keys

    def next(self, repetition: int) -> tuple[int | None, bool]:
        """Return the next split of a repetition, None where it has no more.

        Also return whether that changes what is to come.
        """
        if repetition < self._repetition:
            return None, False
        at = self._at if repetition == self._repetition else 0
        return (self._keys[at] if at < len(self._keys) else None), True

    def take(self, repetition: int, finished: bool) -> None:
        """Take note of a split that was given, or of the end of a repetition."""
        if repetition > self._repetition:
            self._repetition, self._at = repetition, 0
        if finished:
            self._repetition, self._at = repetition + 1, 0
        else:
            self._at += 1


@dataclass(eq=False, slots=True)
class Iteration:
    """One repetition of a job.

    Attributes:
      clients: those who read it.
      idle_since_s: since when nobody did.
      pending: tasks for whose beginning the consumers of a coordinated read have yet to agree.
      rounds: in which round each client was when it was heard of last.
    """

    id: int
    job: Job
    repetition: int
    splits: list[SplitQueue]
    tasks: list[Task] = field(default_factory=list)
    clients: set[int] = field(default_factory=set)
    idle_since_s: float | None = None
    is_finished: bool = False
    is_dropped: bool = False
    pending: list[PendingTask] = field(default_factory=list)
    rounds: dict[int, int] = field(default_factory=dict)

    def fill(self, sources: Sequence[Splits]) -> None:
        """Say which splits a repetition of each source has."""
        for queue, splits in zip(self.splits, sources, strict=True):
            queue.fill(splits)


@dataclass(eq=False, slots=True)
class Task:
    """What one worker does of an iteration."""

    id: int
    iteration: Iteration
    worker: KnownWorker
    starting_round: int = 0
    is_finished: bool = False


@dataclass(eq=False, slots=True)
class PendingTask:
    """A task that begins in a round once all consumers agree not to have begun that round."""

    task: Task
    target_round: int
    failures: int = 0
    ready: set[int] = field(default_factory=set)


def check_same_job(job: Job, request: pb.GetOrCreateJobRequest) -> None:
    """Check that who asks for a known job wants the same.  Raises: InvalidArgumentError."""
    known = job.terms
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


def _policy_name(terms: pb.GetOrCreateJobRequest | pb.CreateJobUpdate) -> str:
    policy = terms.processing_mode_def.sharding_policy
    return f"sharding_policy: {pb.ProcessingModeDef.ShardingPolicy.Name(policy)}" if policy else ""
