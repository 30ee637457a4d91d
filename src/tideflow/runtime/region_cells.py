"""The variables of a region, found once and kept in mind from step to step."""

from __future__ import annotations

import itertools
import operator
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tideflow.graph.kernel import Resources
from tideflow.ops.state import ResourceVariableState, VariableState, in_lock_order
from tideflow.runtime.jit_compile import take_over
from tideflow.runtime.region_plan import RegionPlan
from tideflow.wire import errors


class HeldCells(NamedTuple):
    """The variables of a region in a step.

    Attributes:
      states: in the order of the plan's cells.
      locks: of those that the region changes, in the order in which they are taken.
      are_distinct: whether no two of them are the same variable.
    """

    states: list[VariableState]
    locks: list[threading.Lock]
    are_distinct: bool


class _Known(NamedTuple):
    """What was found last, for which handles, and how much had been dropped until then."""

    handles: list[Any]
    drops: int
    # Weak, so that a variable which is dropped is gone.
    states: list[weakref.ref[VariableState]]
    locks: list[threading.Lock]
    are_distinct: bool


class RegionCells:
    """Finds the variables of a region in each step.

    A handle names the same variable until something of its device is dropped, so most steps only
    compare the handles with those of the step before.
    """

    def __init__(self, plan: RegionPlan, resources: Resources) -> None:
        self._resources = resources
        self._changed = plan.changed
        self._slots = [cell.slot for cell in plan.cells]
        self._are_refs = [cell.is_ref for cell in plan.cells]
        self._dtypes = [cell.dtype for cell in plan.cells]
        self._known = _Known([], -1, [], [], True)

    def find(self, slots: Sequence[Any]) -> HeldCells | None:
        """Return the variables; None when one is not there or is of another type."""
        known = self._known
        drops = self._resources.drops
        handles = [slots[slot] for slot in self._slots]
        if known.drops == drops and known.handles == handles:
            states: list[Any] = [state() for state in known.states]
            if None not in states:
                return HeldCells(states, known.locks, known.are_distinct)
        return self._find(handles, drops)

    def _find(self, handles: list[Any], drops: int) -> HeldCells | None:
        lookup = self._resources.lookup
        try:
            states: list[VariableState] = [
                handle if is_ref else lookup(handle, ResourceVariableState)
                for handle, is_ref in zip(handles, self._are_refs)
            ]
        except errors.OpError:
            return None
        if [state.dtype for state in states] != self._dtypes:
            return None
        for state in states:
            take_over(state)
        locks = [state.lock for state in in_lock_order(states[: self._changed])]
        are_distinct = len(set(map(id, states))) == len(states)
        refs = [weakref.ref(state) for state in states]
        self._known = _Known(handles, drops, refs, locks, are_distinct)
        return HeldCells(states, locks, are_distinct)


# An interrupt (Ctrl-C) is raised where Python begins a call of its own, or ends one of C.  What
# must not be broken is therefore one call of C, which takes all that an iterator has.
drain = deque[object](maxlen=0).extend
_acquire = operator.methodcaller("acquire")
_release = operator.methodcaller("release")


def take_all(locks: Sequence[threading.Lock]) -> None:
    """Acquire locks; none is held when it raises."""
    taken: list[threading.Lock] = []
    back = map(_release, taken)
    try:
        taken.extend(itertools.compress(locks, map(_acquire, locks)))
    except BaseException:  # the user's interrupt, while another thread holds one
        drain(back)
        raise


def release_later(locks: Sequence[threading.Lock]) -> Iterator[None]:
    """Return what releases locks when it is drained."""
    return map(_release, locks)


def store_later(states: Sequence[VariableState], values: Sequence[Any]) -> Iterator[None]:
    """Return what gives variables the values that are in a list when it is drained."""
    return map(setattr, states, itertools.repeat("value"), values)
