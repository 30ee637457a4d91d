"""What a value needs and does when it is run, so that no program depends on a race.

A step may change a variable and read it without an order between the two; then TensorFlow itself
gives now this and now that.  The grammars ask here before they put values into one step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Effects:
    """What a value needs and does.

    Attributes:
      needs: placeholders that must be fed.
      reads: states, such as variables, that it reads.
      writes: states that it changes, each with the statement that does.
      draws: what gives the next random numbers of a row each time that it runs.
      after: names whose values are there before any of its changes.
      may_fail: whether a step may fail there, and leave other changes of the step made or not.
    """

    needs: frozenset[str] = _NONE
    reads: frozenset[str] = _NONE
    writes: frozenset[tuple[str, str]] = frozenset()
    draws: frozenset[str] = _NONE
    after: frozenset[str] = _NONE
    may_fail: bool = False

    def __or__(self, other: Effects) -> Effects:
        return Effects(
            self.needs | other.needs,
            self.reads | other.reads,
            self.writes | other.writes,
            self.draws | other.draws,
            self.after | other.after,
            self.may_fail or other.may_fail,
        )

    @property
    def lasts(self) -> bool:
        """Whether a later step can tell that it ran."""
        return bool(self.writes or self.draws)

    @property
    def touches(self) -> frozenset[str]:
        """All states that it reads or changes."""
        return self.reads | {state for state, _ in self.writes}


def all_of(effects: Iterable[Effects]) -> Effects:
    """Return what several values do together."""
    made = Effects()
    for one in effects:
        made |= one
    return made


def may_race(first: tuple[str, Effects], second: tuple[str, Effects]) -> bool:
    """Whether two values, each with its name, may be in one step only with an order."""
    return _disturbs(first, second) or _disturbs(second, first)


def _disturbs(writer: tuple[str, Effects], other: tuple[str, Effects]) -> bool:
    name, effects = other
    if name in writer[1].after:
        return False
    if effects.may_fail and not (
        writer[1].writes <= effects.writes and writer[1].draws <= effects.draws
    ):
        return True
    for state, statement in writer[1].writes:
        by_same = (state, statement) in effects.writes
        if state in effects.touches and not by_same:
            return True
    return False
