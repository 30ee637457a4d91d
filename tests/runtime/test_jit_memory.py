"""What callers and compiled code hand to each other is copied only where it must be."""

from __future__ import annotations

import numpy as np
import pytest

from tideflow.runtime.jit_memory import aligned
from tideflow.runtime.memory import ALIGNMENT

COUNT = (4 << 20) // 4


def ones(offset, count=COUNT):
    """Return an array that begins so many bytes after an aligned address."""
    memory = np.empty(count * 4 + 2 * ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT + offset
    made = memory[begin : begin + count * 4].view(np.float32)
    made[:] = 1
    return made


def address(array):
    return array.ctypes.data


def test_what_is_aligned_or_small_is_taken_as_it_is():
    for value in (ones(0), ones(16, 1000), np.float32(3.0), np.ones((4, 4))[:, ::2]):
        assert aligned(value) is value


@pytest.mark.parametrize("offset", [4, 16, 32])
def test_what_lies_otherwise_is_copied_to_memory_that_is_used_again(offset):
    value = ones(offset)
    first = aligned(value)
    assert first is not value
    assert address(first) % ALIGNMENT == 0
    assert not np.shares_memory(first, value)
    assert (first == 1).all()
    where = address(first)
    second = aligned(value)
    assert address(second) != where
    del first
    value[:] = 2
    third = aligned(value)
    assert address(third) == where
    assert (third == 2).all()
    assert (second == 1).all()


def test_rows_with_gaps_are_closed_up():
    value = ones(0, 2 * COUNT).reshape(-1, 2)[:, 1]
    value[7] = 5
    found = aligned(value)
    assert found.flags.c_contiguous
    assert (found == value).all()
