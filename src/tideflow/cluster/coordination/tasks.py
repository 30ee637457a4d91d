"""The tasks of a coordinated cluster as its service keeps them: timers, and who waits.

What becomes of tasks and barriers is decided in membership.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tideflow.cluster.coordination.membership import (
    BarrierKey,
    EndBarrier,
    EndErrorWaits,
    Instruction,
    Membership,
    Refuse,
    TaskRecord,
    Tell,
    Wait,
)
from tideflow.platform import clock
from tideflow.wire import errors
from tideflow.wire import messages as pb


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
        self._membership = Membership(config)
        self._tell = tell
        self.records = self._membership.records
        self.find = self._membership.find
        self._waits: dict[BarrierKey, asyncio.Future[None]] = {}
        self._error_wait: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    # ---- life

    def register(self, task_pb: pb.CoordinatedTask, incarnation: int) -> None:
        """Take a task in.

        Raises: AbortedError for one that is here in another life, or has failed.
        """
        now_s = clock.monotonic_s()
        record = self.find(task_pb)
        self._carry_out(self._membership.registered(record, task_pb, incarnation, now_s))

    def heartbeat(self, task_pb: pb.CoordinatedTask, incarnation: int) -> None:
        """Note that a task is alive.

        Raises: its error; AbortedError for another life; InvalidArgumentError for one that is not
        registered.
        """
        now_s = clock.monotonic_s()
        self._carry_out(self._membership.heartbeat(self.find(task_pb), incarnation, now_s))

    def fail(self, record: TaskRecord, error: errors.OpError) -> None:
        """Note an error of a task; tell the others."""
        self._carry_out(self._membership.failed(record, error, clock.monotonic_s()))

    def disconnect(self, record: TaskRecord) -> None:
        """Let a task go without an error."""
        self._carry_out(self._membership.left(record, clock.monotonic_s()))

    def reset(self, record: TaskRecord) -> None:
        """Let a task that failed register again.

        Raises: FailedPreconditionError for one that did not fail.
        """
        self._carry_out(self._membership.reset(record, clock.monotonic_s()))

    async def wait_for_error(self) -> None:
        """Wait for an error of any task, which is raised."""
        error = self._membership.first_error()
        if error is not None:
            raise error
        if self._error_wait is None:
            self._error_wait = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._error_wait)

    def close(self) -> None:
        """End all that waits."""
        self._carry_out(self._membership.closed())
        self._look_in_time()

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
        key = (name, counter)
        now_s = clock.monotonic_s()
        wait = self._carry_out(self._membership.arrived(key, record, tasks, timeout_s, now_s))
        if wait is not None:
            if timeout_s > 0:
                self._look_in_time()
            await asyncio.shield(wait)

    def cancel_barrier(self, name: str, counter: int, record: TaskRecord) -> None:
        """End a barrier for all who wait at it."""
        now_s = clock.monotonic_s()
        self._carry_out(self._membership.barrier_cancelled((name, counter), record, now_s))

    # ---- instructions

    def _carry_out(self, instructions: Sequence[Instruction]) -> asyncio.Future[None] | None:
        """Do what was decided; return what the caller is to wait for.

        Raises: what the caller is to be answered with.
        """
        wait: asyncio.Future[None] | None = None
        refusal: errors.OpError | None = None
        for instruction in instructions:
            match instruction:
                case Tell(other, record, error):
                    self._tell(other, record, error)
                case EndBarrier(key, error):
                    _end(self._waits.pop(key, None), error)
                case EndErrorWaits(error):
                    ended, self._error_wait = self._error_wait, None
                    _end(ended, error)
                case Wait(key):
                    wait = self._waits.get(key)
                    if wait is None:
                        wait = self._waits[key] = asyncio.get_running_loop().create_future()
                case Refuse(error):
                    refusal = error
        if self._timer is None:
            self._look_in_time()
        if refusal is not None:
            raise refusal
        return wait

    def _look_in_time(self) -> None:
        """Have a timer for the next deadline.

        One that comes too early looks again: heartbeats put deadlines off all the time, and none of
        them moves a timer.
        """
        now_s = clock.monotonic_s()
        at_s = self._membership.look_at_s(now_s)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_s is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, at_s - now_s), self._look)

    def _look(self) -> None:
        self._timer = None
        self._carry_out(self._membership.looked(clock.monotonic_s()))

    def validate(self) -> None:
        """Check that who waits does so for something.  Raises: AssertionError."""
        self._membership.validate()
        assert self._waits.keys() <= self._membership.open_barriers(), self._waits.keys()


def _end(wait: asyncio.Future[None] | None, error: errors.OpError | None) -> None:
    if wait is None or wait.done():
        return
    if error is None:
        wait.set_result(None)
    else:
        wait.set_exception(error)
        wait.exception()  # there may be nobody to see it
