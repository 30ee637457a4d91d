"""Tensors that pass between callers and compiled code without a copy."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tideflow.ops.state import OwnMemory
from tideflow.runtime.memory import ALIGNMENT, Lender

# To copy less is quicker than to hand it on.
_COPIED_BYTES = 1 << 15
# The compiler copies what is not aligned to fresh memory, which costs more than the copying where
# it is this much.
_ALIGNED_BYTES = 1 << 22
_MOST_BYTES = 256 << 20
_lender = Lender(_MOST_BYTES)
# In a fork's child: a thread that it does not have may have been within, with the lock.
os.register_at_fork(after_in_child=_lender.reset)


def is_copied(value: Any) -> bool:
    """Whether a value is a large array that lies where compiled code cannot take it."""
    if type(value) is not np.ndarray or not _is_large(value):
        return False
    return not value.flags.c_contiguous or value.ctypes.data % ALIGNMENT != 0


def _is_large(value: Any) -> bool:
    return _ALIGNED_BYTES <= value.nbytes <= _MOST_BYTES and not value.dtype.hasobject


def aligned(value: Any) -> Any:
    """Return a value as compiled code takes it without a copy of its own: a large array that lies
    otherwise is copied to memory that is used again."""
    return aligned_copy(value) if is_copied(value) else value


def aligned_copy(value: Any) -> Any:
    """Return a copy of an array; of a large one, where compiled code takes it without another."""
    if not _is_large(value):
        return value.copy()
    found = np.ndarray(value.shape, value.dtype, _lender.lend(value.nbytes))
    np.copyto(found, value)
    return found


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
