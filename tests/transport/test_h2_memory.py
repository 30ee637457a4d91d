"""Memory for received messages: lent while something views it, then used again."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tideflow.runtime.memory import ALIGNMENT, FreeMemory, Lender

MIB = 1 << 20


def address(view):
    return np.frombuffer(view, np.uint8).ctypes.data


def test_memory_is_aligned_and_writable():
    lender = Lender()
    for size in (1, 100_000, MIB + 3):
        view = lender.lend(size)
        assert len(view) == size
        assert address(view) % ALIGNMENT == 0
        view[:] = bytes(size)


def test_memory_comes_back_when_its_last_view_is_gone():
    lender = Lender()
    view = lender.lend(MIB)
    first = address(view)
    array = np.frombuffer(view[64:], np.float32)[5:].reshape(-1, 1)
    inner = array[3:].view(np.int32)
    del view, array
    assert lender.held_bytes == 0
    other = lender.lend(MIB)
    assert address(other) != first
    del inner
    assert lender.held_bytes == MIB
    assert address(lender.lend(MIB)) == first


def test_only_equal_sizes_match():
    lender = Lender()
    lender.lend(MIB)
    assert lender.held_bytes == MIB
    again = lender.lend(MIB - 1)
    assert lender.held_bytes == MIB
    del again
    assert lender.held_bytes == 2 * MIB - 1


def test_what_lies_unused_is_bounded_and_the_oldest_goes():
    lender = Lender(3 * MIB)
    views = [lender.lend(MIB + i) for i in range(4)]
    while views:
        views.pop(0)
    assert lender.held_bytes == 2 * MIB + 5
    assert lender.lend(MIB + 3).nbytes == MIB + 3
    assert lender.held_bytes == 2 * MIB + 5


def test_more_than_is_ever_held_is_lent_too():
    lender = Lender(MIB)
    lender.lend(2 * MIB)
    assert lender.held_bytes == 0


@pytest.mark.parametrize("pool", [FreeMemory(), Lender()])
def test_a_fork_needs_no_lock_that_a_thread_of_its_parent_had(pool):
    take = pool.lend if isinstance(pool, Lender) else pool.take
    is_within, may_leave = threading.Event(), threading.Event()

    class Size(int):
        """A size that is looked up, under the lock, for as long as the test likes."""

        def __hash__(self):
            is_within.set()
            may_leave.wait(30)
            return int.__hash__(self)

    thread = threading.Thread(target=take, args=[Size(MIB)])
    thread.start()
    assert is_within.wait(30)
    pool.reset()
    taken = [take(MIB) for _ in range(2)]
    assert [one and len(one) for one in taken] == [MIB if isinstance(pool, Lender) else None] * 2
    may_leave.set()
    thread.join()
