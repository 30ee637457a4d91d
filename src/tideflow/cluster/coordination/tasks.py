"""Which tasks of a coordinated cluster are there, and the barriers at which they wait.

Rule 1: a task is connected from its registration until it leaves, fails or is silent for longer
        than the heartbeat timeout.
Rule 2: an error of one task is told to all others that are connected, and ends what waits for it;
        the loss of a recoverable task is not.
Rule 3: a task that failed stays failed until it is reset, or comes in another life where that is
        allowed.
Source: coordination_service.cc of TensorFlow 2.21; runtime facts on CoordinationService.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tideflow.cluster.worker_cache import worker_name
from tideflow.wire import errors
from tideflow.wire import messages as pb

_MOST_PASSED = 10_000

_STATES = pb.CoordinatedTaskState


@dataclass(slots=True)
class TaskRecord:
    """What is known of one task."""

    name: str
    task_pb: pb.CoordinatedTask
    state: int = _STATES.TASKSTATE_DISCONNECTED
    incarnation: int = 0
    error: errors.OpError | None = None
    devices: pb.DeviceInfo | None = None
    timer: asyncio.TimerHandle | None = None

    @property
    def is_connected(self) -> bool:
        """Whether it takes part now."""
        return self.state == _STATES.TASKSTATE_CONNECTED

    def stop_timer(self) -> None:
        """Watch it no longer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


@dataclass(slots=True)
class _Barrier:
    tasks: frozenset[str]
    passed: asyncio.Future[None]
    came: set[str] = field(default_factory=set)
    timer: asyncio.TimerHandle | None = None


class CoordinatedTasks:
    """The tasks of one cluster.  Use it on the loop.

    Args:
      config: the jobs, the timeouts, and which losses count.
      tell: tells a connected task of an error of another.
    """

    def __init__(
        self,
        config: pb.CoordinationServiceConfig,
        tell: Callable[[TaskRecord, TaskRecord, errors.OpError], None],
    ) -> None:
        self._config = config
        self._tell = tell
        self.heartbeat_timeout_s = (config.heartbeat_timeout_in_ms or 10_000) / 1000
        self.records: dict[str, TaskRecord] = {}
        for job in config.coordinated_job_list:
            for task in range(job.num_tasks):
                name = worker_name(job.name, task)
                task_pb = pb.CoordinatedTask(job_name=job.name, task_id=task)
                self.records[name] = TaskRecord(name, task_pb)
        self._barriers: dict[tuple[str, int], _Barrier] = {}
        # Barriers that all have passed, oldest first: who asks again need not wait.
        self._passed: dict[tuple[str, int], frozenset[str]] = {}
        self._error: asyncio.Future[None] | None = None

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

    def register(self, task_pb: pb.CoordinatedTask, incarnation: int) -> None:
        """Take a task in.

        Raises: AbortedError for one that is here in another life, or has failed.
        """
        record = self.find(task_pb)
        record.task_pb = task_pb
        if record.is_connected and record.incarnation == incarnation:
            self._watch(record)
            return
        if record.is_connected:
            error = errors.AbortedError(
                f"{record.name} unexpectedly tried to connect with a different incarnation. It has "
                "likely restarted."
            )
            self.fail(record, error)
            if not (self._config.allow_new_incarnation_to_reconnect or task_pb.recoverable):
                raise error
        elif record.error is not None and record.incarnation == incarnation:
            raise errors.AbortedError(
                f"{record.name} has failed and must be reset first: {record.error.message}"
            )
        record.state = _STATES.TASKSTATE_CONNECTED
        record.incarnation = incarnation
        record.error = record.devices = None
        self._watch(record)

    def heartbeat(self, task_pb: pb.CoordinatedTask, incarnation: int) -> None:
        """Note that a task is alive.

        Raises: its error; AbortedError for another life; InvalidArgumentError for one that is not
        registered.
        """
        record = self.find(task_pb)
        if record.error is not None:
            raise record.error
        if not record.is_connected:
            raise errors.InvalidArgumentError(
                f"{record.name} sent a heartbeat, but is not registered"
            )
        if record.incarnation != incarnation:
            error = errors.AbortedError(
                f"Incarnation ID mismatch: expecting {record.incarnation} but got {incarnation} "
                f"from {record.name}. The task has restarted"
            )
            self.fail(record, error)
            raise error
        self._watch(record)

    def _watch(self, record: TaskRecord) -> None:
        record.stop_timer()
        loop = asyncio.get_running_loop()
        record.timer = loop.call_later(self.heartbeat_timeout_s, self._lose, record)

    def _lose(self, record: TaskRecord) -> None:
        self.fail(
            record,
            errors.UnavailableError(
                "The following tasks are unhealthy (stopped sending heartbeats):\n"
                f"{record.name}\nThe tasks have crashed. Check the task logs for an earlier error, "
                "or scheduler events (e.g. preemption, eviction) to debug further."
            ),
        )

    def fail(self, record: TaskRecord, error: errors.OpError) -> None:
        """Note an error of a task; tell the others."""
        if record.state == _STATES.TASKSTATE_ERROR:
            return
        record.stop_timer()
        record.state = _STATES.TASKSTATE_ERROR
        record.error = error
        self._end_barriers(record, error)
        if record.task_pb.recoverable:
            return
        for other in self.records.values():
            if other is not record and other.is_connected:
                self._tell(other, record, error)
        if self._error is not None and not self._error.done():
            self._error.set_exception(error)
            self._error.exception()  # there may be nobody to see it
            self._error = None

    def disconnect(self, record: TaskRecord) -> None:
        """Let a task go without an error."""
        record.stop_timer()
        record.state = _STATES.TASKSTATE_DISCONNECTED
        record.error = record.devices = None
        gone = errors.InternalError(f"{record.name} has left before it came to the barrier")
        self._end_barriers(record, gone)

    def reset(self, record: TaskRecord) -> None:
        """Let a task that failed register again.

        Raises: FailedPreconditionError for one that did not fail.
        """
        if record.state != _STATES.TASKSTATE_ERROR:
            raise errors.FailedPreconditionError(
                f"{record.name} cannot be reset: it has not failed"
            )
        self.disconnect(record)

    async def wait_for_error(self) -> None:
        """Wait for an error of any task, which is raised."""
        for record in self.records.values():
            if record.error is not None and not record.task_pb.recoverable:
                raise record.error
        if self._error is None:
            self._error = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._error)

    def close(self) -> None:
        """End all that waits."""
        error = errors.CancelledError("the coordination service is shutting down")
        for record in self.records.values():
            record.stop_timer()
        for key in list(self._barriers):
            self._end(key, error)
        if self._error is not None and not self._error.done():
            self._error.set_exception(error)
            self._error.exception()

    # ---- barriers

    async def barrier(
        self,
        name: str,
        counter: int,
        record: TaskRecord,
        tasks: Sequence[pb.CoordinatedTask],
        timeout_s: float = 0.0,
    ) -> None:
        """Wait until all tasks (all there are, if none is named) have come to a barrier.

        Raises: DeadlineExceededError when one takes too long; InvalidArgumentError where they do
        not agree on who they are; the error of one that fails meanwhile.
        """
        wanted = frozenset(self.find(task_pb).name for task_pb in tasks) or frozenset(self.records)
        if record.name not in wanted:
            raise errors.InvalidArgumentError(
                f"{record.name} came to barrier {name!r}, which is for {_names(wanted)}"
            )
        key = (name, counter)
        if self._passed.get(key) == wanted:
            return
        barrier = self._barriers.get(key)
        if barrier is None:
            barrier = self._open(key, wanted, timeout_s)
        elif barrier.tasks != wanted:
            error = errors.InvalidArgumentError(
                f"barrier {name!r} is for {_names(barrier.tasks)}, but {record.name} says that it "
                f"is for {_names(wanted)}"
            )
            self._end(key, error)
            raise error
        barrier.came.add(record.name)
        if barrier.came == barrier.tasks:
            self._end(key, None)
        await asyncio.shield(barrier.passed)

    def _open(self, key: tuple[str, int], tasks: frozenset[str], timeout_s: float) -> _Barrier:
        loop = asyncio.get_running_loop()
        made = self._barriers[key] = _Barrier(tasks, loop.create_future())
        if timeout_s > 0:
            made.timer = loop.call_later(timeout_s, self._late, key, timeout_s)
        for name in tasks:
            error = self.records[name].error
            if error is not None:
                self._end(key, error)
                break
        return made

    def _late(self, key: tuple[str, int], timeout_s: float) -> None:
        barrier = self._barriers[key]
        missing = _names(barrier.tasks - barrier.came)
        self._end(
            key,
            errors.DeadlineExceededError(
                f"Barrier timed out. Id: {key[0]}. After {timeout_s:g} s these had not come: "
                f"{missing}"
            ),
        )

    def cancel_barrier(self, name: str, counter: int, record: TaskRecord) -> None:
        """End a barrier for all who wait at it."""
        error = errors.CancelledError(f"Barrier {name!r} was cancelled by {record.name}")
        self._end((name, counter), error)

    def _end_barriers(self, record: TaskRecord, error: errors.OpError) -> None:
        for key in [k for k, barrier in self._barriers.items() if record.name in barrier.tasks]:
            self._end(key, error)

    def _end(self, key: tuple[str, int], error: errors.OpError | None) -> None:
        barrier = self._barriers.pop(key, None)
        if barrier is None or barrier.passed.done():
            return
        if barrier.timer is not None:
            barrier.timer.cancel()
        if error is None:
            self._passed[key] = barrier.tasks
            if len(self._passed) > _MOST_PASSED:
                del self._passed[next(iter(self._passed))]
            barrier.passed.set_result(None)
        else:
            barrier.passed.set_exception(error)
            barrier.passed.exception()  # there may be nobody to see it


def _names(tasks: frozenset[str]) -> str:
    return ", ".join(sorted(tasks))
