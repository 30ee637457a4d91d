"""Decides what became of tasks that may be lost: what was seen comes in, what to do goes out.

Rule 1: a lost connection proves nothing; the task is asked who it is.
Rule 2: a task is away when nobody can be reached where it was, a second or more after it was first
        suspected.  What runs in sessions that rely on it then fails, even if it waits for something
        else: without the task it might wait for ever.
Rule 3: a task that can be reached and does not answer is slow, and is waited for however long that
        takes.  Its connections are looked after elsewhere (transport/h2/failure_detector); when
        they are given up, it cannot be reached any more.
Rule 4: it is asked until it answers, or nobody relies on it any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

AWAY_AFTER_S = 1.0
_ASK_EVERY_S = 0.1
_ASK_LESS_EVERY_S = 1.0
_TELL_SLOW_AFTER_S = 5.0
# How long a task may take to answer; longer after each time that it did not.
_FIRST_ANSWER_S = 0.5
_MOST_ANSWER_S = 5.0


# ---- events


@dataclass(frozen=True, slots=True)
class Suspected:
    """Something speaks for it that a task is lost."""

    task: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A task has said in which incarnation it is."""

    task: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class Unreached:
    """Nobody could be reached where a task was.

    Attributes:
      reason: for messages.
    """

    task: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A task has left a question unanswered, and nothing speaks against the way there."""

    task: str


@dataclass(frozen=True, slots=True)
class Released:
    """Nobody relies on a task any more."""

    task: str


Event: TypeAlias = Suspected | Answered | Unreached | Unanswered | Released


# ---- instructions


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask a task who it is, and tell of the outcome.

    Attributes:
      after_s: how long to wait before that.
      answer_s: how long to wait for the answer.
    """

    task: str
    after_s: float
    answer_s: float


@dataclass(frozen=True, slots=True)
class Judge:
    """End the sessions that rely on another incarnation of a task."""

    task: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Fail what runs in the sessions that rely on a task."""

    task: str
    reason: str


@dataclass(frozen=True, slots=True)
class TellSlow:
    """Say in the log that a task is waited for."""

    task: str
    silent_s: float


@dataclass(frozen=True, slots=True)
class TellBack:
    """Say in the log that a task answers that was away or slow."""

    task: str
    silent_s: float


Instruction: TypeAlias = Ask | Judge | Interrupt | TellSlow | TellBack


class _Suspicion:
    __slots__ = ("answer_s", "is_away", "since_s", "told_s")

    def __init__(self, now_s: float) -> None:
        self.since_s = now_s
        self.is_away = False
        self.answer_s = _FIRST_ANSWER_S
        # After how long it was last said that the task is slow.
        self.told_s = 0.0


class TaskHealth:
    """The tasks that are suspected now."""

    def __init__(self) -> None:
        self._suspicions: dict[str, _Suspicion] = {}

    def is_suspected(self, task: str) -> bool:
        """Whether a task is being asked."""
        return task in self._suspicions

    def handle(self, event: Event, now_s: float) -> list[Instruction]:
        """Take note of what happened, and say what to do."""
        task = event.task
        if type(event) is Suspected:
            if task in self._suspicions:
                return []
            self._suspicions[task] = _Suspicion(now_s)
            return [Ask(task, 0.0, _FIRST_ANSWER_S)]
        suspicion = self._suspicions.get(task)
        if suspicion is None:
            return []
        if type(event) is Answered:
            return self._answered(event, suspicion, now_s)
        if type(event) is Released:
            del self._suspicions[task]
            return []
        if type(event) is Unreached:
            return self._unreached(event, suspicion, now_s)
        return self._unanswered(task, suspicion, now_s)

    def _answered(self, event: Answered, suspicion: _Suspicion, now_s: float) -> list[Instruction]:
        task = event.task
        del self._suspicions[task]
        found: list[Instruction] = [Judge(task, event.incarnation)]
        if suspicion.is_away or suspicion.told_s:
            found.append(TellBack(task, now_s - suspicion.since_s))
        return found

    def _unreached(
        self, event: Unreached, suspicion: _Suspicion, now_s: float
    ) -> list[Instruction]:
        found: list[Instruction] = []
        if not suspicion.is_away and now_s - suspicion.since_s >= AWAY_AFTER_S:
            suspicion.is_away = True
            found.append(Interrupt(event.task, event.reason))
        return [*found, self._ask_again(event.task, suspicion)]

    def _unanswered(self, task: str, suspicion: _Suspicion, now_s: float) -> list[Instruction]:
        silent_s = now_s - suspicion.since_s
        suspicion.answer_s = min(2 * suspicion.answer_s, _MOST_ANSWER_S)
        found: list[Instruction] = []
        if not suspicion.is_away and silent_s >= max(_TELL_SLOW_AFTER_S, 2 * suspicion.told_s):
            suspicion.told_s = silent_s
            found.append(TellSlow(task, silent_s))
        return [*found, self._ask_again(task, suspicion)]

    @staticmethod
    def _ask_again(task: str, suspicion: _Suspicion) -> Ask:
        after_s = _ASK_LESS_EVERY_S if suspicion.is_away else _ASK_EVERY_S
        return Ask(task, after_s, suspicion.answer_s)

    def validate(self) -> None:
        """Raise AssertionError where the state contradicts itself."""
        for suspicion in self._suspicions.values():
            assert suspicion.told_s == 0 or suspicion.told_s >= _TELL_SLOW_AFTER_S
            assert _FIRST_ANSWER_S <= suspicion.answer_s <= _MOST_ANSWER_S
