"""How often a loop goes round, as far as what is known before it tells.

A counter that begins at a known number and grows by one is known in each turn, whatever else the
loop computes.  What of a loop's variables depends on known ones alone is run ahead with NumPy, and
the condition with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tideflow.ops.control_flow.functional_ops import truth
from tideflow.platform import clock
from tideflow.runtime.region_plan import Action, Nested

_MOST_TURNS = 1_000_000
_MOST_S = 0.5


class _Unknown:
    """What stands for a value that is not known."""


_UNKNOWN = _Unknown()


@dataclass(slots=True)
class KnownTurns:
    """What is known of a loop.

    Attributes:
      turns: how often it goes round.
      last: the known variables after it, by argument.
      ranges: of known integers, the least and the greatest value in any turn.
    """

    turns: int
    last: dict[int, Any]
    ranges: dict[int, tuple[int, int]]


def known_turns(condition: Nested, body: Nested, inputs: Sequence[Any]) -> KnownTurns | None:
    """Return what is known of a loop; None unless it is known how often it goes round."""
    known = {i: value for i, value in enumerate(inputs) if _is_known(value)}
    while known:
        found = _Function(body, range(len(body.results))).run(known)
        lost = [i for i in known if found[i] is _UNKNOWN]
        if not lost:
            break
        for i in lost:
            del known[i]
    holds = _Function(condition, [0])
    if holds.run(known)[0] is _UNKNOWN:
        return None
    return _simulate(holds, _Function(body, list(known)), known)


def _simulate(holds: _Function, advance: _Function, known: Mapping[int, Any]) -> KnownTurns | None:
    values = dict(known)
    integers = [i for i, value in values.items() if value.dtype.kind in "iu" and not value.ndim]
    low = {i: int(values[i]) for i in integers}
    high = dict(low)
    turns = 0
    until = clock.monotonic_s() + _MOST_S
    while truth(holds.run(values)[0]):
        for i in integers:
            number = int(values[i])
            low[i], high[i] = min(low[i], number), max(high[i], number)
        values = dict(zip(values, advance.run(values)))
        if any(value is _UNKNOWN for value in values.values()):
            return None  # a kernel raised
        turns += 1
        if turns >= _MOST_TURNS or clock.monotonic_s() > until:
            return None
    return KnownTurns(turns, values, {i: (low[i], high[i]) for i in integers})


class _Function:
    """The part of a function that some of its results need, run on what is known.

    wanted: positions of results.
    """

    def __init__(self, nested: Nested, wanted: Sequence[int] | range) -> None:
        self._results = [nested.results[i] for i in wanted]
        needed = {result.slot for result in self._results}
        self._actions: list[Action] = []
        for action in reversed(nested.plan.actions):
            if needed.intersection(action.outputs):
                self._actions.insert(0, action)
                needed.update(action.inputs)
        self._inputs = list(zip(nested.plan.inputs, nested.takes))
        self._constants = nested.plan.constants

    def run(self, known: Mapping[int, Any]) -> list[Any]:
        """Return the results for known arguments; what stands for unknown ones among them."""
        values: dict[int, Any] = dict(self._constants)
        for slot, argument in self._inputs:
            values[slot] = known.get(argument, _UNKNOWN)
        for action in self._actions:
            _run_known(action, values)
        found = []
        for result in self._results:
            if result.argument is not None:
                found.append(known.get(result.argument, _UNKNOWN))
            elif result.slot is not None:
                found.append(values[result.slot])
            else:
                found.append(result.value)
        return found


def _run_known(action: Action, values: dict[int, Any]) -> None:
    inputs = [values.get(slot, _UNKNOWN) for slot in action.inputs]
    results: Sequence[Any] = [_UNKNOWN] * len(action.outputs)
    if action.kind == "pure" and not any(value is _UNKNOWN for value in inputs):
        try:
            with np.errstate(all="ignore"):
                found = action.call(*inputs)
        except Exception:  # whatever a kernel raises, it is raised when the loop runs
            found = None
        if found is not None:
            results = [found] if len(action.outputs) == 1 else list(found)
    for slot, value in zip(action.outputs, results):
        values[slot] = value


def _is_known(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic))
