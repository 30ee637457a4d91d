"""Whether and when a task that died is started again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tideflow.transport import growing_pauses_s

DEFAULT_MOST = 10

# A restarted server is missed by others: the first try comes soon.
_FIRST_PAUSE_S = 0.4
_MOST_PAUSE_S = 30.0
_HEALTHY_S = 60.0


@dataclass(frozen=True)
class RestartPolicy:
    """How often a task may die in a row.

    Attributes:
      most: restarts in a row; 0 for none at all.
      healthy_s: a task that ran for so long has recovered, and begins to count anew.
      first_pause_s, most_pause_s: before a restart; pauses double in between.
    """

    most: int = 0
    healthy_s: float = _HEALTHY_S
    first_pause_s: float = _FIRST_PAUSE_S
    most_pause_s: float = _MOST_PAUSE_S


class Restarts:
    """The restarts of one task.

    Attributes:
      in_a_row: how many there were since the task last ran for long.
      total: how many there were.
    """

    def __init__(self, policy: RestartPolicy) -> None:
        self.policy = policy
        self.in_a_row = 0
        self.total = 0
        self._pauses_s = self._new_pauses()

    def _new_pauses(self) -> Iterator[float]:
        return growing_pauses_s(self.policy.first_pause_s, self.policy.most_pause_s)

    def next_pause_s(self, ran_s: float) -> float | None:
        """Return how long to wait before the next start of a task that ran for ran_s and died;
        None when it has died too often."""
        if ran_s >= self.policy.healthy_s:
            self.in_a_row = 0
            self._pauses_s = self._new_pauses()
        if self.in_a_row >= self.policy.most:
            return None
        self.in_a_row += 1
        self.total += 1
        return next(self._pauses_s)
