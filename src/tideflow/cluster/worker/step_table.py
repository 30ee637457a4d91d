"""The steps of a worker: their rendezvous and tasks; step_states decides what becomes of them.

Source: runtime facts on RunGraph, CleanupGraph and RecvTensor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from tideflow.cluster.rpc_log import RpcLog
from tideflow.cluster.worker.remote_rendezvous import Peers, RemoteRendezvous
from tideflow.cluster.worker.step_states import (
    MOST_ENDED,
    Fail,
    Instruction,
    NotableStep,
    Offered,
    StepStates,
)
from tideflow.platform import clock
from tideflow.runtime.rendezvous import Received, Rendezvous
from tideflow.wire import errors
from tideflow.wire.status import mark_derived
from tideflow.wire.tensor_codec import Value


class StepRecord:
    """What a worker knows of one step.

    Attributes:
      local: where the values that are made here wait.
      rendezvous: what kernels use; None until the step is started here.
      owner: the worker session that started it.
      advised: keys of values that a peer keeps to be asked for.
      partial: the executors of a partial run, which go on between its calls.
    """

    __slots__ = (
        "advised", "error", "local", "owner", "partial", "rendezvous", "runs", "step_id",
    )  # fmt: skip

    def __init__(self, step_id: int) -> None:
        self.step_id = step_id
        self.local = Rendezvous()
        self.rendezvous: RemoteRendezvous | None = None
        self.owner: Peers | None = None
        self.advised: set[str] = set()
        self.runs: set[asyncio.Task[object]] = set()
        self.partial: asyncio.Task[None] | None = None
        self.error: errors.OpError | None = None

    @property
    def is_running(self) -> bool:
        """Whether something of the step runs now."""
        return bool(self.runs)

    def fail(self, error: errors.OpError) -> None:
        """Fail all that runs or waits in the step (call on the loop).  The first error stays."""
        if self.error is None:
            self.error = error
        if self.rendezvous is not None:
            self.rendezvous.abort(error)
        self.local.abort(error)
        for task in list(self.runs):
            task.cancel()


class StepTable:
    """The steps by number.  Use it on the loop.

    Args:
      log: takes note of transfers while it is on.
      most_ended: how many steps that have ended may wait to be cleaned up.
    """

    def __init__(self, log: RpcLog, most_ended: int = MOST_ENDED) -> None:
        self._log = log
        self._states = StepStates(most_ended)
        self._records: dict[int, StepRecord] = {}

    def __len__(self) -> int:
        return len(self._records)

    @property
    def running_count(self) -> int:
        """How many steps run now."""
        return self._states.running_count

    def find(self, step_id: int) -> StepRecord | None:
        """Return what is known of a step."""
        return self._records.get(step_id)

    def story(self, step_id: int) -> str:
        """Return what is remembered of a step, as one line."""
        return self._states.stories.tell(step_id, clock.monotonic_s())

    def notable(self, long_s: float) -> list[NotableStep]:
        """Return the steps that run for so long already, and the latest that ended badly."""
        return list(self._states.notable(clock.monotonic_s(), long_s))

    def start(self, step_id: int, owner: Peers) -> StepRecord:
        """Return a step's record, ready for kernels of the given worker session."""
        record = self._mention(step_id)
        if self._states.start(step_id, clock.monotonic_s()):
            record.owner = owner
            record.rendezvous = RemoteRendezvous(
                step_id, record.local, record.advised, owner, self._log
            )
        return record

    def _mention(self, step_id: int) -> StepRecord:
        record = self._records.get(step_id)
        if record is None:
            record = self._records[step_id] = StepRecord(step_id)
        return record

    def running(self, record: StepRecord) -> AbstractAsyncContextManager[None]:
        """Mark that the current task runs something of the step.

        Whatever ends it with an error fails the step.  A cancellation that comes from `fail` leaves
        as the error given there; one from outside is the caller's own.
        """
        return _RunningStep(self, record)

    def _run_began(self, record: StepRecord, task: asyncio.Task[object]) -> None:
        record.runs.add(task)
        if self._is_known(record):
            self._states.run_began(record.step_id)

    def _run_ended(self, record: StepRecord, task: asyncio.Task[object]) -> None:
        record.runs.discard(task)
        if self._is_known(record):
            now_s = clock.monotonic_s()
            instructions = self._states.run_ended(record.step_id, now_s, record.error)
            if instructions:
                self._carry_out(instructions)

    def _is_known(self, record: StepRecord) -> bool:
        """Whether a step was not forgotten since, and its number given to another."""
        return self._records.get(record.step_id) is record

    async def receive(self, step_id: int, key: str) -> Received:
        """Wait for a value of a step that is made here.

        Raises: the step's error, marked as derived, since its root is told to the step's owner.
        """
        record = self._mention(step_id)
        self._states.wait_began(step_id)
        try:
            return await record.local.take(key)
        except errors.OpError as error:
            raise mark_derived(error.with_message(error.message)) from error
        finally:
            if self._is_known(record):
                self._carry_out(self._states.wait_ended(step_id))

    def accept(self, step_id: int, key: str, value: Value, is_dead: bool) -> bool:
        """Take in a value that a peer pushes; return whether it is ours now."""
        record = self._records.get(step_id)
        if record is not None and record.rendezvous is not None:
            # That of a step that has started, to which every value is given.
            record.rendezvous.give(key, Received(value, is_dead))
            return True
        found = self._offered(step_id, getattr(value, "nbytes", 0) + len(key))
        if found is Offered.HOLD:
            self._mention(step_id).local.put(key, value, is_dead)
        return found is not Offered.REFUSE

    def take_back(self, step_id: int, key: str, value: Value, is_dead: bool) -> None:
        """Keep a value that a peer has not seen, of a step that was dropped here as it was over."""
        self._states.reopen(step_id)
        if self._offered(step_id, getattr(value, "nbytes", 0) + len(key)) is Offered.HOLD:
            self._mention(step_id).local.put(key, value, is_dead)

    def advise_asking(self, step_id: int, key: str) -> None:
        """Note that a peer has a value of a step, and is to be asked for it."""
        found = self._offered(step_id, len(key))
        if found is Offered.GIVE:
            rendezvous = self._records[step_id].rendezvous
            assert rendezvous is not None
            rendezvous.advise_asking(key)
        elif found is Offered.HOLD:
            self._mention(step_id).advised.add(key)

    def _offered(self, step_id: int, size_bytes: int) -> Offered:
        found, instructions = self._states.offered(step_id, size_bytes, clock.monotonic_s())
        if instructions:
            self._carry_out(instructions)
        return found

    def end_if_empty(self, step_id: int) -> bool:
        """Clean up an ended step of which nothing is left to be asked for; return whether so."""
        record = self._records.get(step_id)
        if record is None or record.partial is not None or not record.local.is_empty:
            return False
        if not self._states.may_end(step_id):
            return False
        self.clean_up(step_id)
        return True

    def clean_up(self, step_id: int) -> None:
        """Drop a step that was started here; what still runs or waits in it fails."""
        self._carry_out(self._states.clean_up(step_id, clock.monotonic_s()))

    def fail_where(self, predicate: Callable[[StepRecord], bool], error: errors.OpError) -> None:
        """Fail and drop the started steps that match."""
        now_s = clock.monotonic_s()
        for step_id, record in list(self._records.items()):
            if record.rendezvous is not None and predicate(record):
                self._states.lost(step_id, now_s, error.message)
                del self._records[step_id]
                record.fail(error)

    def _carry_out(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            record = self._records.pop(instruction.step_id, None)
            if record is not None and isinstance(instruction, Fail):
                record.fail(
                    mark_derived(
                        errors.AbortedError(
                            f"step {record.step_id} was cleaned up before it had ended here: "
                            f"{instruction.story}"
                        )
                    )
                )

    def validate(self) -> None:
        """Check that what is kept is what was decided.  Raises: AssertionError."""
        self._states.validate()
        assert len(self._records) == len(self._states), (self._records.keys(), "are kept")
        for step_id, record in self._records.items():
            is_started = self._states.is_started(step_id)
            assert is_started == (record.rendezvous is not None), f"step {step_id}: {is_started}"


class _RunningStep:
    """What `StepTable.running` gives; a class, as a generator takes four times as long."""

    __slots__ = ("_cancelling_before", "_record", "_steps", "_task")

    def __init__(self, steps: StepTable, record: StepRecord) -> None:
        self._steps = steps
        self._record = record

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._steps._run_began(self._record, task)
        self._cancelling_before = task.cancelling()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        cancelled: asyncio.CancelledError | None = None
        try:
            if error is None and self._task.cancelling() > self._cancelling_before:
                # `fail` came too late to interrupt anything; take its cancellation in here.
                try:
                    await asyncio.sleep(0)
                except asyncio.CancelledError as late:
                    error = cancelled = late
            if error is not None:
                self._fail(error)
        finally:
            self._steps._run_ended(self._record, self._task)
        if cancelled is not None:
            raise cancelled

    def _fail(self, error: BaseException) -> None:
        """Fail the step.  Raises: its error in place of a cancellation that comes from that."""
        record = self._record
        record.runs.discard(self._task)
        if isinstance(error, asyncio.CancelledError):
            if record.error is not None and _was_failed(self._task, self._cancelling_before):
                raise record.error from None
            text = f"step {record.step_id} was cancelled"
            record.fail(mark_derived(errors.CancelledError(text)))
        elif isinstance(error, errors.OpError):
            record.fail(error)
        elif isinstance(error, Exception):
            record.fail(errors.InternalError(f"{type(error).__name__}: {error}"))


def _was_failed(task: asyncio.Task[object], cancelling_before: int) -> bool:
    """Undo the one cancellation that `fail` asked for; tell whether it was the only one."""
    if task.cancelling() <= cancelling_before:
        # Something that was awaited was cancelled, not this task.
        return True
    return task.uncancel() <= cancelling_before
