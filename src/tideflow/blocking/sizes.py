"""What is too much for the event loop by its size alone.

Code whose runs are watched is judged by them (durations.py).  What is done once, or seldom, is
judged by how much there is to do: bytes to copy or to look at, and Python objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

# To copy so many bytes into fresh memory takes about a millisecond, ten times a change of threads.
LONG_BYTES = 2 << 20
# A Python object to make, or look at, takes as long as so many bytes.
OBJECT_BYTES = 512
_OBJECT = np.dtype(object)


def item_bytes(dtype: Any) -> int:
    """Return as how many bytes one element of a NumPy type counts."""
    return OBJECT_BYTES if dtype is object else int(np.dtype(dtype).itemsize)


def work_bytes(value: Any) -> int:
    """Return as how many bytes the work counts that goes through a value once."""
    if getattr(value, "dtype", None) == _OBJECT:
        return OBJECT_BYTES * int(value.size)
    return getattr(value, "nbytes", 0)


def work_on_alike(elements: Iterable[Any], count: int) -> int:
    """Return as how many bytes the work counts that goes through `count` tuples of values of one
    kind and size, of which the first is looked at."""
    return count * sum(OBJECT_BYTES + work_bytes(value) for value in next(iter(elements), ()))
