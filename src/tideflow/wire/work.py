"""How much work values are, in bytes to copy, so that what is too much for the event loop is known
by its size alone.

Code whose runs are watched is judged by them instead (tideflow/blocking/durations.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

# To copy so many bytes into fresh memory takes about a millisecond, ten times a change of threads.
LONG_BYTES = 2 << 20
# A Python object to make, or to look at, takes as long as so many bytes.
OBJECT_BYTES = 512
# So do bytes that protobuf reads or writes, each.
PROTOBUF_BYTES = 4
_OBJECT = np.dtype(object)


def item_bytes(dtype: Any) -> int:
    """Return as how many bytes one element of a NumPy type counts."""
    return OBJECT_BYTES if dtype is object else int(np.dtype(dtype).itemsize)


def work_bytes(value: Any) -> int:
    """Return as how many bytes the work counts that goes through a value once; what strings say
    is not gone through."""
    if getattr(value, "dtype", None) is _OBJECT:
        return OBJECT_BYTES * int(value.size)
    return getattr(value, "nbytes", 0)


def work_on_alike(elements: Iterable[Any], count: int) -> int:
    """Return as how many bytes the work counts that goes through `count` tuples of values of one
    kind and size, of which the first is looked at."""
    return count * sum(OBJECT_BYTES + work_bytes(value) for value in next(iter(elements), ()))


def writing_work(value: Any) -> int:
    """Return as how many bytes the work counts that writes a value: numbers in a row are sent from
    where they lie, all else is copied, and strings one by one."""
    if isinstance(value, np.ndarray):
        if value.dtype is not _OBJECT:
            return 0 if value.flags.c_contiguous else value.nbytes
        work = OBJECT_BYTES * value.size
        if work <= LONG_BYTES:
            work += sum(len(item) for item in value.flat if type(item) is bytes)
        return work
    return len(value) if type(value) is bytes else 0


def sending_work(value: Any) -> int:
    """Return as how many bytes the work counts that sends a value, or takes it in."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype is _OBJECT:
        return writing_work(value)
    return getattr(value, "nbytes", 0)
