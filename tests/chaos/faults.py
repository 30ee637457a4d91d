"""What goes wrong in a chaos run, and when: decided by its seed alone."""

from __future__ import annotations

import enum
import itertools
import random
from dataclasses import dataclass

from tideflow.cli.launcher import TaskId

# How long processes of a run may be silent (TIDEFLOW_SILENCE_S).
SILENCE_S = 2.0

TASKS = (TaskId("ps", 0), TaskId("worker", 0), TaskId("worker", 1))


class Kind(enum.Enum):
    """What happens to a task."""

    KILL = "kill -9"
    STOP = "stop for a moment"
    STOP_LONG = "stop for long"
    CUT = "cut connections"
    SILENCE = "silent line for a moment"
    SILENCE_LONG = "silent line for long"


_FIRST = list(itertools.product((Kind.KILL, Kind.STOP, Kind.CUT, Kind.SILENCE), TASKS))
_LATER = [Kind.KILL] * 4 + [Kind.CUT] * 3 + list(Kind)


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
      tasks: to which, at the same time.
      at_step: once the training has made so many steps.
      lasts_s: how long a task is stopped, or its line silent.
      killed_later: a task that is killed in the middle of the recovery, and when, if any.
    """

    kind: Kind
    tasks: tuple[TaskId, ...]
    at_step: int
    lasts_s: float = 0.0
    killed_later: tuple[TaskId, float] | None = None

    def __str__(self) -> str:
        names = " and ".join(map(str, self.tasks))
        lasts = f" ({self.lasts_s:.1f} s)" if self.lasts_s else ""
        later = ""
        if self.killed_later is not None:
            later = f", {self.killed_later[1]:.1f} s later kill -9 {self.killed_later[0]}"
        return f"{self.kind.value} {names}{lasts} at step {self.at_step}{later}"


def plan(seed: int, steps: int) -> list[Fault]:
    """Return the faults of a run of so many steps.

    The first twelve seeds begin with each kind of brief fault at each task; all else is chance.
    """
    chance = random.Random(seed)
    kind, task = _FIRST[seed % len(_FIRST)]
    kinds = [(kind, (task,))]
    for _ in range(chance.randint(1, 2)):
        count = 2 if chance.random() < 0.2 else 1
        kinds.append((chance.choice(_LATER), tuple(chance.sample(TASKS, count))))
    width = steps * 7 // 10 // len(kinds)
    return [
        Fault(
            kind,
            tasks,
            chance.randrange(width // 4, width) + i * width,
            _lasts(kind, chance),
            _killed_later(kind, chance),
        )
        for i, (kind, tasks) in enumerate(kinds)
    ]


def _killed_later(kind: Kind, chance: random.Random) -> tuple[TaskId, float] | None:
    if kind not in (Kind.KILL, Kind.CUT) or chance.random() < 0.6:
        return None
    return chance.choice(TASKS), chance.uniform(0.05, 1.2)


def _lasts(kind: Kind, chance: random.Random) -> float:
    if kind in (Kind.KILL, Kind.CUT):
        return 0.0
    if kind in (Kind.STOP_LONG, Kind.SILENCE_LONG):
        return SILENCE_S * chance.uniform(1.3, 1.6)
    return chance.uniform(0.1, 0.8)
