"""Which steps a worker knows, and what becomes of them: decided without I/O.

Rule 1: a step is known from the first mention of it; a RecvTensor may come before the RunGraph.  A
        step that nobody started is gone with its last waiter.
Rule 2: a step that was started stays, with its values or its error, until CleanupGraph.  Of those
        that a dead master left behind, the oldest go when there are too many.
Rule 3: clean-up fails what still runs or waits, and afterwards the step's number is new again.
Rule 4: a value that a peer pushes before the step has started waits for it, within bounds; of an
        ended step it is refused.

Events come in as calls, with the time; out come instructions, which the caller carries out in
their order.  The caller owns rendezvous, tasks and the clock.  It tells nothing of runs and waits
in a step that it was told to forget, whose number may be that of a new step by then.
Source: runtime facts on RunGraph, CleanupGraph and RecvTensor.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from tideflow.cluster.stories import Stories

MOST_ENDED = 10_000
_MOST_CLEANED = 10_000
_MOST_FAILED = 20
# Of steps that have not started: a master starts a step's parts at the same time, so what waits
# for longer is of one that died meanwhile.
_MOST_EARLY_STEPS = 10_000
MOST_EARLY_BYTES = 64 << 20
_EARLY_S = 60.0


class Drop(NamedTuple):
    """Forget a step; nobody waits in it."""

    step_id: int


class Fail(NamedTuple):
    """Forget a step, and fail what runs or waits in it: it was cleaned up before its end.

    story: what happened to it.
    """

    step_id: int
    story: str


Instruction: TypeAlias = Drop | Fail
NOTHING: Sequence[Instruction] = ()


class Offered(enum.Enum):
    """What to do with a value that a peer offers: refuse it, hold it for a step to start, or give
    it to the step that has started."""

    REFUSE = enum.auto()
    HOLD = enum.auto()
    GIVE = enum.auto()


class NotableStep(NamedTuple):
    """A step that somebody may want to know of.

    Attributes:
      is_running: whether it runs; else it has ended badly.
      seconds: for how long it has been running, or how long ago it failed.
      story: what happened to it, as one line.
    """

    step_id: int
    is_running: bool
    seconds: float
    story: str


class _Step:
    """What is known of one step."""

    __slots__ = ("early_bytes", "early_since_s", "is_started", "runs", "started_s", "waiting")

    def __init__(self) -> None:
        self.is_started = False
        self.started_s = 0.0
        self.runs = 0
        self.waiting = 0
        self.early_since_s: float | None = None
        self.early_bytes = 0


class StepStates:
    """The steps of one worker, by number.

    Args:
      most_ended: how many steps that have ended may wait to be cleaned up.

    Attributes:
      stories: what happened to them.
    """

    def __init__(self, most_ended: int = MOST_ENDED) -> None:
        self._most_ended = most_ended
        self.stories = Stories()
        self._note = self.stories.append
        # The latest that failed, and when.
        self._failed: deque[tuple[int, float]] = deque(maxlen=_MOST_FAILED)
        self._steps: dict[int, _Step] = {}
        # Started steps in which nothing runs, oldest first.
        self._ended: dict[int, None] = {}
        # Steps that were cleaned up, oldest first, for which peers may still push.
        self._cleaned: dict[int, None] = {}
        # Steps that have not started and hold pushed values, oldest first.
        self._early: dict[int, _Step] = {}
        self._early_bytes = 0

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def running_count(self) -> int:
        """How many steps run now."""
        return sum(step.runs > 0 for step in self._steps.values())

    def notable(self, now_s: float, long_s: float) -> Iterator[NotableStep]:
        """Yield the steps that run for so long already, and the latest that ended badly."""
        for step_id, step in self._steps.items():
            if step.runs and now_s - step.started_s >= long_s:
                story = self.stories.tell(step_id, now_s)
                yield NotableStep(step_id, True, now_s - step.started_s, story)
        for step_id, at_s in self._failed:
            yield NotableStep(step_id, False, now_s - at_s, self.stories.tell(step_id, now_s))

    def is_started(self, step_id: int) -> bool:
        """Whether a worker session has run something of a step."""
        step = self._steps.get(step_id)
        return step is not None and step.is_started

    # ---- runs and waits

    def start(self, step_id: int, now_s: float) -> bool:
        """A worker session runs something of a step; return whether that is the first time."""
        step = self._mention(step_id)
        if step.is_started:
            return False
        self._forget_early(step_id, step)
        self._cleaned.pop(step_id, None)
        step.is_started = True
        step.started_s = now_s
        self._note((now_s, step_id, "started", None))
        return True

    def _mention(self, step_id: int) -> _Step:
        step = self._steps.get(step_id)
        if step is None:
            step = self._steps[step_id] = _Step()
        return step

    def run_began(self, step_id: int) -> None:
        """A run of a started step began."""
        step = self._steps.get(step_id)
        if step is not None:
            step.runs += 1
            self._ended.pop(step_id, None)

    def run_ended(
        self, step_id: int, now_s: float, error: BaseException | None = None
    ) -> Sequence[Instruction]:
        """A run ended, well or with an error."""
        if error is not None:
            self._note((now_s, step_id, "failed", type(error).__name__))
            if not self._failed or self._failed[-1][0] != step_id:
                self._failed.append((step_id, now_s))
        step = self._steps.get(step_id)
        if step is None or not step.runs:
            return NOTHING
        step.runs -= 1
        if step.runs:
            return NOTHING
        self._ended[step_id] = None
        if len(self._ended) <= self._most_ended:
            return NOTHING
        return self.clean_up(next(iter(self._ended)), now_s)

    def wait_began(self, step_id: int) -> None:
        """Somebody waits for a value of a step, which is known from now on."""
        self._mention(step_id).waiting += 1

    def wait_ended(self, step_id: int) -> Sequence[Instruction]:
        """Somebody waits no longer."""
        step = self._steps.get(step_id)
        if step is None or not step.waiting:
            return NOTHING
        step.waiting -= 1
        return NOTHING if step.is_started else self._drop_unstarted(step_id)

    # ---- values that are pushed

    def offered(
        self, step_id: int, size_bytes: int, now_s: float
    ) -> tuple[Offered, Sequence[Instruction]]:
        """A peer offers a value, or says that it has one to be asked for."""
        if step_id in self._cleaned:
            return Offered.REFUSE, NOTHING
        step = self._mention(step_id)
        if step.is_started:
            return Offered.GIVE, NOTHING
        return self._hold_early(step_id, step, size_bytes, now_s)

    def reopen(self, step_id: int) -> None:
        """A step that was cleaned up is not over: a peer has not seen all of its values."""
        self._cleaned.pop(step_id, None)

    def _hold_early(
        self, step_id: int, step: _Step, size_bytes: int, now_s: float
    ) -> tuple[Offered, Sequence[Instruction]]:
        dropped: list[Instruction] = []
        while self._early and not self._has_room(size_bytes):
            oldest_id, oldest = next(iter(self._early.items()))
            assert oldest.early_since_s is not None
            if oldest_id == step_id or now_s - oldest.early_since_s < _EARLY_S:
                break
            self._forget_early(oldest_id, oldest)
            dropped += self._drop_unstarted(oldest_id)
        if not self._has_room(size_bytes):
            self.stories.note(now_s, step_id, "a value refused for lack of room", size_bytes)
            return Offered.REFUSE, [*dropped, *self._drop_unstarted(step_id)]
        if step.early_since_s is None:
            step.early_since_s = now_s
            self._early[step_id] = step
            self.stories.note(now_s, step_id, "first value came before the start")
        step.early_bytes += size_bytes
        self._early_bytes += size_bytes
        return Offered.HOLD, dropped

    def _has_room(self, size_bytes: int) -> bool:
        return (
            self._early_bytes + size_bytes <= MOST_EARLY_BYTES
            and len(self._early) < _MOST_EARLY_STEPS
        )

    def _forget_early(self, step_id: int, step: _Step) -> None:
        if step.early_since_s is not None:
            del self._early[step_id]
            self._early_bytes -= step.early_bytes
            step.early_since_s, step.early_bytes = None, 0

    def _drop_unstarted(self, step_id: int) -> Sequence[Instruction]:
        step = self._steps.get(step_id)
        if step is None or step.waiting or step.early_since_s is not None:
            return NOTHING
        self._forget(step_id)
        return (Drop(step_id),)

    # ---- ends

    def may_end(self, step_id: int) -> bool:
        """Whether nothing runs or waits in a step, so that it may go once it holds no value."""
        step = self._steps.get(step_id)
        return step is not None and not (step.runs or step.waiting)

    def clean_up(self, step_id: int, now_s: float) -> Sequence[Instruction]:
        """A step is over for all tasks; the master, a peer or a bound says so."""
        self._cleaned[step_id] = None
        if len(self._cleaned) > _MOST_CLEANED:
            del self._cleaned[next(iter(self._cleaned))]
        step = self._steps.get(step_id)
        if step is None:
            return NOTHING
        self._forget_early(step_id, step)
        if not step.is_started:
            return self._drop_unstarted(step_id)
        self._forget(step_id)
        self._note((now_s, step_id, "cleaned up", None))
        if step.runs or step.waiting:
            return (Fail(step_id, self.stories.tell(step_id, now_s)),)
        return (Drop(step_id),)

    def lost(self, step_id: int, now_s: float, reason: str) -> None:
        """The session of a step is over; the caller forgets the step and fails what is in it."""
        step = self._steps.get(step_id)
        if step is not None:
            self._forget_early(step_id, step)
            self._forget(step_id)
            self.stories.note(now_s, step_id, "lost", reason)

    def _forget(self, step_id: int) -> None:
        self._steps.pop(step_id, None)
        self._ended.pop(step_id, None)

    # ---- checks

    def validate(self) -> None:
        """Check that all that is known fits together.  Raises: AssertionError."""
        held_bytes = 0
        for step_id, step in self._steps.items():
            assert step.runs >= 0, (step_id, step.runs)
            assert step.waiting >= 0, (step_id, step.waiting)
            assert step.is_started or not step.runs, f"step {step_id} runs without a start"
            is_early = step.early_since_s is not None
            assert is_early == (step_id in self._early), f"early values of step {step_id}"
            assert is_early or not step.early_bytes, (step_id, step.early_bytes)
            assert not (is_early and step.is_started), f"step {step_id} still holds early values"
            assert step.is_started or step.waiting or is_early, f"nobody wants step {step_id}"
            held_bytes += step.early_bytes
        assert self._early.keys() <= self._steps.keys(), "early values of unknown steps"
        assert held_bytes == self._early_bytes <= MOST_EARLY_BYTES, (held_bytes, self._early_bytes)
        for step_id in self._ended:
            step = self._steps[step_id]
            assert step.is_started, f"step {step_id} has ended without a start"
            assert not step.runs, f"step {step_id} has ended and runs"
        assert len(self._ended) <= self._most_ended, len(self._ended)
        assert len(self._cleaned) <= _MOST_CLEANED, len(self._cleaned)
