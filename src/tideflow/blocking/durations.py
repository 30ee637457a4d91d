"""What past runs of a piece of code tell of how long the next one takes.

Code that is known to be short runs on the event loop, since a change of threads costs more than it
does.  Nothing is known before the first run, nor of a run on larger inputs than those of the runs
before: these are made in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

# Code that takes longer keeps the loop from everything else.
LOOP_BUDGET_S = 0.001

_UNKNOWN_S = float("inf")
# How much larger inputs may be than those of runs that were short.
_GROWTH = 2
# Numbers in so small arrays may be sizes.
_FEW = 8
# No tensor has so many elements: such numbers are no sizes, and must not make others seem small.
_MOST_SIZE = 2**48


class Durations:
    """What is known of the runs of one piece of code.

    Attributes:
      seconds: how long a run takes; infinite before the first one.
    """

    __slots__ = ("_most_weight", "seconds")

    def __init__(self) -> None:
        self.seconds = _UNKNOWN_S
        self._most_weight = 0

    def is_short(self, weight: int) -> bool:
        """Whether a run on inputs of this weight may have the loop."""
        return self.seconds <= LOOP_BUDGET_S and weight <= _GROWTH * self._most_weight

    def took(self, seconds: float, weight: int) -> None:
        """Take note of a run."""
        is_short = seconds <= LOOP_BUDGET_S
        if weight > _GROWTH * self._most_weight and not is_short and self.seconds != _UNKNOWN_S:
            return  # it tells of such inputs only
        # One quick run shows what the code takes; slow ones may have waited for a thread or a core.
        if self.seconds == _UNKNOWN_S:
            self.seconds = seconds
        else:
            self.seconds = min(seconds, self.seconds + 0.3 * (seconds - self.seconds))
        if is_short and weight > self._most_weight:
            self._most_weight = weight


def weight_of(values: Iterable[Any]) -> int:
    """Return how large the work on values may be: their bytes, and what they say if they may be
    sizes."""
    weight = 1
    for value in values:
        kind = type(value)
        if kind is np.ndarray:
            weight += value.nbytes
            if value.size <= _FEW:
                weight += _said(value)
        elif kind in _INTEGERS:
            size = abs(int(value))
            weight += size if size < _MOST_SIZE else 0
        elif kind in _FLOATS:
            weight += _whole(float(value))
        elif kind is bytes:
            weight += len(value)
    return weight


_INTEGERS = frozenset({np.int32, np.int64, np.int16, np.int8, np.uint8, np.uint16, np.uint32,
                       np.uint64, int})  # fmt: skip
_FLOATS = frozenset({np.float32, np.float64, np.float16, float})


def _whole(number: float) -> int:
    """Return how large a size is that a number may be; 0 for one that is none."""
    return abs(int(number)) if -_MOST_SIZE < number < _MOST_SIZE else 0


def _said(array: np.ndarray[Any, Any]) -> int:
    """Return the product of numbers that may be a shape, or how long strings are."""
    kind = array.dtype.kind
    if kind in "iuf":
        product = 1
        for size in array.reshape(-1).tolist():
            product *= max(1, _whole(size))
        return product if product < _MOST_SIZE else 0
    if kind == "O":
        return sum(len(item) for item in array.reshape(-1).tolist() if type(item) is bytes)
    return 0
