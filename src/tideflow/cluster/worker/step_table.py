"""The steps of a worker, from the first mention of a step to its clean-up.

Rule 1: a step's rendezvous is made when anybody first names the step; a RecvTensor may come
        before the RunGraph.  A step that nobody started is gone with its last waiter.
Rule 2: a step that was started stays, with its values or its error, until CleanupGraph.  Of those
        that a dead master left behind, the oldest go when there are too many.
Rule 3: clean-up fails what still runs or waits, and afterwards the step's number is new again.
Rule 4: a value that a peer pushes before the step has started waits for it, within bounds; of an
        ended step it is refused.
Source: runtime facts on RunGraph, CleanupGraph and RecvTensor.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from tideflow.cluster.rpc_log import RpcLog
from tideflow.cluster.worker.remote_rendezvous import Peers, RemoteRendezvous
from tideflow.platform import clock
from tideflow.runtime.rendezvous import Received, Rendezvous
from tideflow.wire import errors
from tideflow.wire.status import mark_derived
from tideflow.wire.tensor_codec import Value

_MOST_ENDED = 10_000
_MOST_CLEANED = 10_000
# Of steps that have not started: a master starts a step's parts at the same time, so what waits
# for longer is of one that died meanwhile.
_MOST_EARLY_STEPS = 10_000
_MOST_EARLY_BYTES = 64 << 20
_EARLY_S = 60.0


class _Early(NamedTuple):
    since_s: float
    size_bytes: int


class StepRecord:
    """What a worker knows of one step.

    Attributes:
      local: where the values that are made here wait.
      rendezvous: what kernels use; None until the step is started here.
      owner: the worker session that started it.
      advised: keys of values that a peer keeps to be asked for.
      waiting: how many RecvTensor calls are in progress.
      partial: the executors of a partial run, which go on between its calls.
    """

    __slots__ = (
        "advised", "error", "local", "owner", "partial", "rendezvous", "runs", "step_id", "waiting",
    )  # fmt: skip

    def __init__(self, step_id: int) -> None:
        self.step_id = step_id
        self.local = Rendezvous()
        self.rendezvous: RemoteRendezvous | None = None
        self.owner: Peers | None = None
        self.advised: set[str] = set()
        self.waiting = 0
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

    def __init__(self, log: RpcLog, most_ended: int = _MOST_ENDED) -> None:
        self._log = log
        self._most_ended = most_ended
        self._steps: dict[int, StepRecord] = {}
        # Started steps in which nothing runs, oldest first.
        self._ended: dict[int, None] = {}
        # Steps that were cleaned up, oldest first, for which peers may still push.
        self._cleaned: dict[int, None] = {}
        # Pushed values of steps that have not started, oldest first.
        self._early: dict[int, _Early] = {}
        self._early_bytes = 0

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def running_count(self) -> int:
        """How many steps run now."""
        return sum(record.is_running for record in self._steps.values())

    def find(self, step_id: int) -> StepRecord | None:
        """Return what is known of a step."""
        return self._steps.get(step_id)

    def start(self, step_id: int, owner: Peers) -> StepRecord:
        """Return a step's record, ready for kernels of the given worker session."""
        record = self._mention(step_id)
        if record.rendezvous is None:
            self._forget_early(step_id)
            self._cleaned.pop(step_id, None)
            record.owner = owner
            record.rendezvous = RemoteRendezvous(
                step_id, record.local, record.advised, owner, self._log
            )
        return record

    def _mention(self, step_id: int) -> StepRecord:
        record = self._steps.get(step_id)
        if record is None:
            record = self._steps[step_id] = StepRecord(step_id)
        return record

    @asynccontextmanager
    async def running(self, record: StepRecord) -> AsyncIterator[None]:
        """Mark that the current task runs something of the step.

        Whatever ends it with an error fails the step.  A cancellation that comes from `fail` leaves
        as the error given there; one from outside is the caller's own.
        """
        task = asyncio.current_task()
        assert task is not None
        record.runs.add(task)
        self._ended.pop(record.step_id, None)
        cancelling_before = task.cancelling()
        try:
            yield
            if task.cancelling() > cancelling_before:
                # `fail` came too late to interrupt anything; take its cancellation in here.
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            record.runs.discard(task)
            if record.error is not None and _was_failed(task, cancelling_before):
                raise record.error from None
            record.fail(mark_derived(errors.CancelledError(f"step {record.step_id} was cancelled")))
            raise
        except errors.OpError as error:
            record.runs.discard(task)
            record.fail(error)
            raise
        except Exception as error:
            record.runs.discard(task)
            record.fail(errors.InternalError(f"{type(error).__name__}: {error}"))
            raise
        finally:
            record.runs.discard(task)
            self._note_ended(record)

    def _note_ended(self, record: StepRecord) -> None:
        if record.runs or self._steps.get(record.step_id) is not record:
            return
        self._ended[record.step_id] = None
        while len(self._ended) > self._most_ended:
            self.clean_up(next(iter(self._ended)))

    async def receive(self, step_id: int, key: str) -> Received:
        """Wait for a value of a step that is made here.

        Raises: the step's error, marked as derived, since its root is told to the step's owner.
        """
        record = self._mention(step_id)
        record.waiting += 1
        try:
            return await record.local.take(key)
        except errors.OpError as error:
            raise mark_derived(error.with_message(error.message)) from error
        finally:
            record.waiting -= 1
            if record.rendezvous is None:
                self._drop_unstarted(step_id)

    def accept(self, step_id: int, key: str, value: Value, is_dead: bool) -> bool:
        """Take in a value that a peer pushes; return whether it is ours now."""
        if step_id in self._cleaned:
            return False
        record = self._mention(step_id)
        if record.rendezvous is not None:
            record.rendezvous.give(key, Received(value, is_dead))
            return True
        if not self._hold_early(step_id, getattr(value, "nbytes", 0) + len(key)):
            return False
        record.local.put(key, value, is_dead)
        return True

    def advise_asking(self, step_id: int, key: str) -> None:
        """Note that a peer has a value of a step, and is to be asked for it."""
        if step_id in self._cleaned:
            return
        record = self._mention(step_id)
        if record.rendezvous is not None:
            record.rendezvous.advise_asking(key)
        elif self._hold_early(step_id, len(key)):
            record.advised.add(key)

    def _hold_early(self, step_id: int, size_bytes: int) -> bool:
        """Count a value of a step that has not started; False when there is no room for it."""
        now_s = clock.monotonic_s()
        held = self._early.get(step_id, _Early(now_s, 0))
        while self._early and (
            self._early_bytes + size_bytes > _MOST_EARLY_BYTES
            or len(self._early) >= _MOST_EARLY_STEPS
        ):
            oldest_id, oldest = next(iter(self._early.items()))
            if oldest_id == step_id or now_s - oldest.since_s < _EARLY_S:
                break
            self._forget_early(oldest_id)
            self._drop_unstarted(oldest_id)
        fits = (
            self._early_bytes + size_bytes <= _MOST_EARLY_BYTES
            and len(self._early) < _MOST_EARLY_STEPS
        )
        if fits:
            self._early[step_id] = _Early(held.since_s, held.size_bytes + size_bytes)
            self._early_bytes += size_bytes
        else:
            self._drop_unstarted(step_id)
        return fits

    def _drop_unstarted(self, step_id: int) -> None:
        record = self._steps.get(step_id)
        if record is not None and not record.waiting and step_id not in self._early:
            self._forget(record)

    def _forget_early(self, step_id: int) -> None:
        held = self._early.pop(step_id, None)
        if held is not None:
            self._early_bytes -= held.size_bytes

    def end_if_empty(self, step_id: int) -> bool:
        """Clean up an ended step of which nothing is left to be asked for; return whether so."""
        record = self._steps.get(step_id)
        if record is None or record.runs or record.waiting or record.partial is not None:
            return False
        if not record.local.is_empty:
            return False
        self.clean_up(step_id)
        return True

    def clean_up(self, step_id: int) -> None:
        """Drop a step that was started here; what still runs or waits in it fails."""
        self._cleaned[step_id] = None
        if len(self._cleaned) > _MOST_CLEANED:
            del self._cleaned[next(iter(self._cleaned))]
        self._forget_early(step_id)
        record = self._steps.get(step_id)
        if record is None or record.rendezvous is None:
            self._drop_unstarted(step_id)
            return
        self._forget(record)
        if record.runs or record.waiting:
            record.fail(
                mark_derived(
                    errors.AbortedError(f"step {step_id} was cleaned up before it had ended here")
                )
            )

    def fail_where(self, predicate: Callable[[StepRecord], bool], error: errors.OpError) -> None:
        """Fail and drop the started steps that match."""
        for record in list(self._steps.values()):
            if record.rendezvous is not None and predicate(record):
                self._forget(record)
                record.fail(error)

    def _forget(self, record: StepRecord) -> None:
        if self._steps.get(record.step_id) is record:
            del self._steps[record.step_id]
        self._ended.pop(record.step_id, None)


def _was_failed(task: asyncio.Task[object], cancelling_before: int) -> bool:
    """Undo the one cancellation that `fail` asked for; tell whether it was the only one."""
    if task.cancelling() <= cancelling_before:
        # Something that was awaited was cancelled, not this task.
        return True
    return task.uncancel() <= cancelling_before
