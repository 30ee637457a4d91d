"""Which tasks of a coordinated cluster are there, and the barriers at which they wait: decided
without I/O.

Rule 1: a task is connected from its registration until it leaves, fails or is silent for longer
        than the heartbeat timeout.
Rule 2: an error of one task is told to all others that are connected, and ends what waits for it;
        the loss of a recoverable task is not.
Rule 3: a task that failed stays failed until it is reset, or comes in another life where that is
        allowed.

Events come in as calls, with the time; out come instructions, which the caller carries out in their
order.  The caller owns the clock, timers and whoever waits.
Source: coordination_service.cc of TensorFlow 2.21; runtime facts on CoordinationService.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tideflow.cluster.stories import Stories
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.device_name import worker_name

_MOST_PASSED = 10_000
# How many tasks are told of one by one that did not come to a barrier.
_MOST_TOLD = 5
# Deadlines are looked at so often within one heartbeat timeout, at most.
_LOOKS = 20

_STATES = pb.CoordinatedTaskState

BarrierKey: TypeAlias = tuple[str, int]


@dataclass(slots=True)
class TaskRecord:
    """What is known of one task.

    Attributes:
      lost_at_s: when it is lost if it says nothing until then; None while it is not connected.
    """

    name: str
    task_pb: pb.CoordinatedTask
    state: int = _STATES.TASKSTATE_DISCONNECTED
    incarnation: int = 0
    error: errors.OpError | None = None
    devices: pb.DeviceInfo | None = None
    lost_at_s: float | None = None

    @property
    def is_connected(self) -> bool:
        """Whether it takes part now."""
        return self.state == _STATES.TASKSTATE_CONNECTED


@dataclass(slots=True)
class _Barrier:
    tasks: frozenset[str]
    timeout_s: float
    late_at_s: float | None
    came: set[str] = field(default_factory=set)


# ---- instructions


class Tell(NamedTuple):
    """Tell a connected task of an error of another."""

    other: TaskRecord
    record: TaskRecord
    error: errors.OpError


class EndBarrier(NamedTuple):
    """Let those go on who wait at a barrier, or fail them."""

    key: BarrierKey
    error: errors.OpError | None


class EndErrorWaits(NamedTuple):
    """Tell those who wait for an error of any task."""

    error: errors.OpError


class Wait(NamedTuple):
    """Let the caller of `arrived` wait until its barrier ends."""

    key: BarrierKey


class Refuse(NamedTuple):
    """Answer with an error, once all else is done."""

    error: errors.OpError


Instruction: TypeAlias = Tell | EndBarrier | EndErrorWaits | Wait | Refuse
NOTHING: Sequence[Instruction] = ()


class Membership:
    """The tasks of one cluster.

    Args:
      config: the jobs, the timeouts, and which losses count.
    Attributes:
      records: of all tasks, by name.
      stories: what happened to them, by name.
    """

    def __init__(self, config: pb.CoordinationServiceConfig) -> None:
        self._config = config
        self.heartbeat_timeout_s = (config.heartbeat_timeout_in_ms or 10_000) / 1000
        self.records: dict[str, TaskRecord] = {}
        self.stories = Stories()
        for job in config.coordinated_job_list:
            for task in range(job.num_tasks):
                name = worker_name(job.name, task)
                task_pb = pb.CoordinatedTask(job_name=job.name, task_id=task)
                self.records[name] = TaskRecord(name, task_pb)
        self._barriers: dict[BarrierKey, _Barrier] = {}
        # Barriers that all have passed, oldest first: who asks again need not wait.
        self._passed: dict[BarrierKey, frozenset[str]] = {}

    def find(self, task_pb: pb.CoordinatedTask) -> TaskRecord:
        """Return the record of a task.  Raises: InvalidArgumentError for one that is not of it."""
        name = worker_name(task_pb.job_name, task_pb.task_id)
        found = self.records.get(name)
        if found is None:
            raise errors.InvalidArgumentError(
                f"{name} is not coordinated here; the tasks are {', '.join(self.records)}"
            )
        return found

    # ---- life

    def registered(
        self, record: TaskRecord, task_pb: pb.CoordinatedTask, incarnation: int, now_s: float
    ) -> Sequence[Instruction]:
        """A task registers; one that is here in another life, or has failed, is refused."""
        record.task_pb = task_pb
        if record.is_connected and record.incarnation == incarnation:
            self._heard(record, now_s)
            return NOTHING
        instructions: list[Instruction] = []
        if record.is_connected:
            error = errors.AbortedError(
                f"{record.name} unexpectedly tried to connect with a different incarnation. It has "
                "likely restarted."
            )
            instructions.extend(self.failed(record, error, now_s))
            if not (self._config.allow_new_incarnation_to_reconnect or task_pb.recoverable):
                return [*instructions, Refuse(error)]
        elif record.error is not None and record.incarnation == incarnation:
            text = f"{record.name} has failed and must be reset first: {record.error.message}"
            return (Refuse(errors.AbortedError(text)),)
        record.state = _STATES.TASKSTATE_CONNECTED
        record.incarnation = incarnation
        record.error = record.devices = None
        self._heard(record, now_s)
        self.stories.note(now_s, record.name, "registered")
        return instructions

    def heartbeat(
        self, record: TaskRecord, incarnation: int, now_s: float
    ) -> Sequence[Instruction]:
        """A task says that it is alive; one that failed, or is not this one, is refused."""
        if record.error is not None:
            return (Refuse(record.error),)
        if not record.is_connected:
            text = f"{record.name} sent a heartbeat, but is not registered"
            return (Refuse(errors.InvalidArgumentError(text)),)
        if record.incarnation != incarnation:
            error = errors.AbortedError(
                f"Incarnation ID mismatch: expecting {record.incarnation} but got {incarnation} "
                f"from {record.name}. The task has restarted"
            )
            return [*self.failed(record, error, now_s), Refuse(error)]
        self._heard(record, now_s)
        return NOTHING

    def _heard(self, record: TaskRecord, now_s: float) -> None:
        record.lost_at_s = now_s + self.heartbeat_timeout_s

    def failed(
        self, record: TaskRecord, error: errors.OpError, now_s: float
    ) -> Sequence[Instruction]:
        """A task has an error."""
        if record.state == _STATES.TASKSTATE_ERROR:
            return NOTHING
        record.state = _STATES.TASKSTATE_ERROR
        record.error = error
        record.lost_at_s = None
        self.stories.note(now_s, record.name, "failed", type(error).__name__)
        instructions = self._end_barriers(record, error)
        if not record.task_pb.recoverable:
            instructions.extend(
                Tell(other, record, error)
                for other in self.records.values()
                if other is not record and other.is_connected
            )
            instructions.append(EndErrorWaits(error))
        return instructions

    def left(self, record: TaskRecord, now_s: float) -> Sequence[Instruction]:
        """A task leaves without an error."""
        record.state = _STATES.TASKSTATE_DISCONNECTED
        record.error = record.devices = record.lost_at_s = None
        self.stories.note(now_s, record.name, "left")
        gone = errors.InternalError(f"{record.name} has left before it came to the barrier")
        return self._end_barriers(record, gone)

    def reset(self, record: TaskRecord, now_s: float) -> Sequence[Instruction]:
        """A task that failed may register again; one that did not fail is refused."""
        if record.state != _STATES.TASKSTATE_ERROR:
            text = f"{record.name} cannot be reset: it has not failed"
            return (Refuse(errors.FailedPreconditionError(text)),)
        return self.left(record, now_s)

    def first_error(self) -> errors.OpError | None:
        """Return the error of a task whose loss counts, if there is one."""
        for record in self.records.values():
            if record.error is not None and not record.task_pb.recoverable:
                return record.error
        return None

    # ---- time

    def look_at_s(self, now_s: float) -> float | None:
        """Return when `looked` is to be called; None while there is no deadline."""
        deadlines = [r.lost_at_s for r in self.records.values() if r.lost_at_s is not None]
        barriers = [b.late_at_s for b in self._barriers.values() if b.late_at_s is not None]
        if deadlines:
            # Heartbeats put these off all the time.
            barriers.append(max(min(deadlines), now_s + self.heartbeat_timeout_s / _LOOKS))
        return min(barriers, default=None)

    def looked(self, now_s: float) -> Sequence[Instruction]:
        """Time has passed: tasks that were silent are lost, barriers that are late end."""
        instructions: list[Instruction] = []
        for record in self.records.values():
            if record.lost_at_s is not None and record.lost_at_s <= now_s:
                instructions.extend(self.failed(record, self._silent(record, now_s), now_s))
        # Of several that are lost at once, none is told of another.
        instructions = [
            one for one in instructions if not isinstance(one, Tell) or one.other.is_connected
        ]
        for key, barrier in list(self._barriers.items()):
            if barrier.late_at_s is not None and barrier.late_at_s <= now_s:
                instructions.append(self._end(key, self._late(key, barrier, now_s)))
        return instructions

    def _silent(self, record: TaskRecord, now_s: float) -> errors.OpError:
        return errors.UnavailableError(
            "The following tasks are unhealthy (stopped sending heartbeats):\n"
            f"{record.name}\nThe tasks have crashed. Check the task logs for an earlier error, "
            "or scheduler events (e.g. preemption, eviction) to debug further.\n"
            f"{record.name}: {self.stories.tell(record.name, now_s)}"
        )

    def _late(self, key: BarrierKey, barrier: _Barrier, now_s: float) -> errors.OpError:
        missing = sorted(barrier.tasks - barrier.came)
        told = [f"{name} ({self._story(name, now_s)})" for name in missing[:_MOST_TOLD]]
        return errors.DeadlineExceededError(
            f"Barrier timed out. Id: {key[0]}. After {barrier.timeout_s:g} s these had not come: "
            f"{', '.join([*told, *missing[_MOST_TOLD:]])}"
        )

    def _story(self, name: str, now_s: float) -> str:
        if not self.records[name].incarnation:
            return "it has never registered"
        return self.stories.tell(name, now_s)

    # ---- barriers

    def arrived(
        self,
        key: BarrierKey,
        record: TaskRecord,
        tasks: Sequence[pb.CoordinatedTask],
        timeout_s: float,
        now_s: float,
    ) -> Sequence[Instruction]:
        """A task comes to a barrier of the tasks given (all there are, if none is named).

        Raises: InvalidArgumentError for a task that is not coordinated here.
        """
        wanted = frozenset(self.find(task_pb).name for task_pb in tasks) or frozenset(self.records)
        if record.name not in wanted:
            text = f"{record.name} came to barrier {key[0]!r}, which is for {_names(wanted)}"
            return (Refuse(errors.InvalidArgumentError(text)),)
        if self._passed.get(key) == wanted:
            return NOTHING
        barrier = self._barriers.get(key)
        if barrier is None:
            failed = next((e for n in wanted if (e := self.records[n].error) is not None), None)
            if failed is not None:
                return (Refuse(failed),)
            late_at_s = now_s + timeout_s if timeout_s > 0 else None
            barrier = self._barriers[key] = _Barrier(wanted, timeout_s, late_at_s)
        elif barrier.tasks != wanted:
            error = errors.InvalidArgumentError(
                f"barrier {key[0]!r} is for {_names(barrier.tasks)}, but {record.name} says that "
                f"it is for {_names(wanted)}"
            )
            return self._end(key, error), Refuse(error)
        barrier.came.add(record.name)
        self.stories.note(now_s, record.name, "came to barrier", key[0])
        if barrier.came != barrier.tasks:
            return (Wait(key),)
        self._passed[key] = barrier.tasks
        if len(self._passed) > _MOST_PASSED:
            del self._passed[next(iter(self._passed))]
        return (self._end(key, None),)

    def barrier_cancelled(
        self, key: BarrierKey, record: TaskRecord, now_s: float
    ) -> Sequence[Instruction]:
        """A task ends a barrier for all who wait at it."""
        if key not in self._barriers:
            return NOTHING
        self.stories.note(now_s, record.name, "cancelled barrier", key[0])
        error = errors.CancelledError(f"Barrier {key[0]!r} was cancelled by {record.name}")
        return (self._end(key, error),)

    def _end_barriers(self, record: TaskRecord, error: errors.OpError) -> list[Instruction]:
        keys = [key for key, barrier in self._barriers.items() if record.name in barrier.tasks]
        return [self._end(key, error) for key in keys]

    def _end(self, key: BarrierKey, error: errors.OpError | None) -> Instruction:
        del self._barriers[key]
        return EndBarrier(key, error)

    def open_barriers(self) -> Set[BarrierKey]:
        """Return the barriers at which tasks wait."""
        return self._barriers.keys()

    def closed(self) -> Sequence[Instruction]:
        """The service ends; so does all that waits."""
        error = errors.CancelledError("the coordination service is shutting down")
        for record in self.records.values():
            record.lost_at_s = None
        ends = [self._end(key, error) for key in list(self._barriers)]
        return [*ends, EndErrorWaits(error)]

    # ---- checks

    def validate(self) -> None:
        """Check that all that is known fits together.  Raises: AssertionError."""
        for name, record in self.records.items():
            has_failed = record.state == _STATES.TASKSTATE_ERROR
            assert has_failed == (record.error is not None), f"{name}: {record.error}"
            assert record.is_connected or record.lost_at_s is None, f"{name} is watched"
        for key, barrier in self._barriers.items():
            assert barrier.came < barrier.tasks <= self.records.keys(), f"barrier {key}: {barrier}"
            failed = [name for name in barrier.tasks if self.records[name].error is not None]
            assert not failed, f"barrier {key} waits for {failed}"
        assert len(self._passed) <= _MOST_PASSED, len(self._passed)


def _names(tasks: frozenset[str]) -> str:
    return ", ".join(sorted(tasks))
