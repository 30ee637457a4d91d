"""Tensors that pass between callers and compiled code without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.ops.state import OwnMemory

# To copy less is quicker than to hand it on.
_COPIED_BYTES = 1 << 15


def as_own(result: Any) -> Any:
    """Return what compiled code gave as an array of NumPy, in the same memory; scalars as NumPy's.

    A large one may be changed by whoever holds it alone (see `OwnMemory`), so nobody else may keep
    the result: compiled code does not write to it, but would see what changes.
    """
    value = np.asarray(result)
    if not value.shape:
        return value[()]
    if value.nbytes <= _COPIED_BYTES or value.dtype.isbuiltin != 1 or not value.flags.c_contiguous:
        return value
    return np.asarray(OwnMemory(value, result.unsafe_buffer_pointer()))
