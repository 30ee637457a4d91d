"""What a queue promises, without ops or sessions around it."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from tideflow.ops.queues import Queue
from tideflow.ops.queues.queues import PaddingFIFOQueue, PriorityQueue, RandomShuffleQueue
from tideflow.wire import dtypes, errors

F32 = [dtypes.float32]


def fifo(capacity=10, shapes=((),)):
    return Queue("q", F32, shapes, capacity)


def scenario(test):
    """Run an async test on a loop of its own."""

    def run():
        asyncio.run(asyncio.wait_for(test(), 10))

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


def one(value):
    return (np.float32(value),)


async def started(coro):
    """Start a call and let it go as far as it can."""
    task = asyncio.ensure_future(coro)
    for _ in range(3):
        await asyncio.sleep(0)
    return task


async def fill(queue, *values):
    for value in values:
        await queue.put(one(value))


@scenario
async def test_elements_come_out_in_the_order_in_which_they_went_in():
    queue = fifo()
    await fill(queue, 1, 2, 3)
    assert [float((await queue.take())[0]) for _ in range(3)] == [1, 2, 3]


@scenario
async def test_a_take_waits_for_a_put():
    queue = fifo()
    take = await started(queue.take())
    assert not take.done()
    await fill(queue, 7)
    assert (await take) == one(7)


@scenario
async def test_takes_are_served_in_the_order_in_which_they_came():
    queue = fifo()
    first, second = await started(queue.take()), await started(queue.take())
    await fill(queue, 1, 2)
    assert [await first, await second] == [one(1), one(2)]


@scenario
async def test_a_put_waits_for_room():
    queue = fifo(capacity=1)
    await fill(queue, 1)
    put = await started(queue.put(one(2)))
    assert not put.done()
    assert await queue.take() == one(1)
    await put
    assert len(queue) == 1


@scenario
async def test_batches_larger_than_the_capacity_pass_through():
    queue = fifo(capacity=1)
    take = await started(queue.take_many(5))
    await queue.put_many((np.arange(5, dtype=np.float32),))
    np.testing.assert_array_equal((await take)[0], np.arange(5))


@scenario
async def test_a_batch_takes_as_elements_come():
    queue = fifo()
    await fill(queue, 1, 2)
    take = await started(queue.take_many(3))
    assert len(queue) == 0
    await fill(queue, 3)
    np.testing.assert_array_equal((await take)[0], [1, 2, 3])


@scenario
async def test_a_cancelled_batch_gives_its_elements_back():
    queue = fifo()
    await fill(queue, 1, 2)
    take = await started(queue.take_many(3))
    take.cancel()
    with pytest.raises(asyncio.CancelledError):
        await take
    assert [await queue.take(), await queue.take()] == [one(1), one(2)]


@scenario
async def test_a_take_cancelled_after_its_element_came_gives_it_to_the_next():
    queue = fifo()
    first, second = await started(queue.take()), await started(queue.take())
    await fill(queue, 1)
    first.cancel()
    assert await second == one(1)
    with pytest.raises(asyncio.CancelledError):
        await first


@scenario
async def test_a_cancelled_put_of_many_leaves_what_it_put():
    queue = fifo(capacity=2)
    put = await started(queue.put_many((np.arange(3, dtype=np.float32),)))
    put.cancel()
    with pytest.raises(asyncio.CancelledError):
        await put
    assert [await queue.take(), await queue.take()] == [one(0), one(1)]
    assert len(queue) == 0


@scenario
async def test_a_cancelled_put_lets_the_next_one_in():
    queue = fifo(capacity=1)
    await fill(queue, 1)
    first, second = await started(queue.put(one(2))), await started(queue.put(one(3)))
    first.cancel()
    assert await queue.take() == one(1)
    await second
    assert await queue.take() == one(3)


@scenario
async def test_a_closed_queue_gives_what_it_has_and_takes_no_more():
    queue = fifo()
    await fill(queue, 1)
    await queue.close()
    with pytest.raises(errors.CancelledError, match="FIFOQueue 'q' is closed"):
        await queue.put(one(2))
    assert await queue.take() == one(1)
    with pytest.raises(errors.OutOfRangeError, match=r"requested 1, current size 0"):
        await queue.take()


@scenario
async def test_closing_twice_is_an_error():
    queue = fifo()
    await queue.close()
    with pytest.raises(errors.CancelledError, match="already closed"):
        await queue.close()


@scenario
async def test_closing_wakes_takes_that_can_get_no_more():
    queue = fifo()
    await fill(queue, 1, 2)
    take = await started(queue.take_many(4))
    await queue.close()
    with pytest.raises(errors.OutOfRangeError, match=r"requested 4, current size 2"):
        await take
    assert len(queue) == 2


@scenario
async def test_closing_waits_for_pending_puts():
    queue = fifo(capacity=1)
    await fill(queue, 1)
    put = await started(queue.put(one(2)))
    close = await started(queue.close())
    late = await started(queue.put(one(3)))
    assert not queue.closed
    assert await queue.take() == one(1)
    await put
    await close
    assert queue.closed
    with pytest.raises(errors.CancelledError):
        await late
    assert await queue.take() == one(2)


@scenario
async def test_closing_can_cancel_pending_puts():
    queue = fifo(capacity=1)
    await fill(queue, 1)
    put = await started(queue.put(one(2)))
    await queue.close(cancel_pending=True)
    with pytest.raises(errors.CancelledError, match="was closed"):
        await put
    assert await queue.take() == one(1)


@scenario
async def test_up_to_takes_the_rest_of_a_closed_queue():
    queue = fifo()
    await fill(queue, 1, 2)
    take = await started(queue.take_many(3, up_to=True))
    assert not take.done()
    await queue.close()
    np.testing.assert_array_equal((await take)[0], [1, 2])
    with pytest.raises(errors.OutOfRangeError):
        await queue.take_many(3, up_to=True)


@scenario
async def test_wrong_shapes_and_counts_are_refused():
    queue = fifo(shapes=((2,),))
    with pytest.raises(errors.InvalidArgumentError, match=r"expected \[2\], got \[3\]"):
        await queue.put((np.zeros(3, np.float32),))
    with pytest.raises(errors.InvalidArgumentError, match="2 were given"):
        await queue.put((np.zeros(2, np.float32), np.float32(0)))
    with pytest.raises(errors.InvalidArgumentError, match=r"expected \[\?,|expected \[\?"):
        await queue.put_many((np.zeros((2, 3), np.float32),))
    with pytest.raises(errors.InvalidArgumentError, match="at least 0"):
        await queue.take_many(-1)


@scenario
async def test_parts_of_a_batch_must_have_one_size():
    queue = Queue("q", [dtypes.float32, dtypes.int32], [(), ()], 5)
    with pytest.raises(errors.InvalidArgumentError, match=r"first size: \[2, 3\]"):
        await queue.put_many((np.zeros(2, np.float32), np.zeros(3, np.int32)))
    assert len(queue) == 0


@scenario
async def test_batches_need_declared_shapes():
    queue = fifo(shapes=())
    await queue.put((np.zeros(3, np.float32),))
    with pytest.raises(errors.InvalidArgumentError, match="without shapes"):
        await queue.take_many(1)


@scenario
async def test_an_empty_batch_needs_no_elements():
    queue = fifo(shapes=((2,),))
    (batch,) = await queue.take_many(0)
    assert batch.shape == (0, 2)
    assert batch.dtype == np.float32


@scenario
async def test_strings_stay_bytes():
    queue = Queue("q", [dtypes.string], [()], 5)
    await queue.put_many((np.array([b"a", b"bc\0"], object),))
    (batch,) = await queue.take_many(2)
    assert batch.dtype == object
    assert batch.tolist() == [b"a", b"bc\0"]


@scenario
async def test_a_shuffling_queue_keeps_its_minimum_until_closed():
    queue = RandomShuffleQueue("q", F32, [()], 10, min_after_dequeue=2, seeds=(1, 2))
    await fill(queue, 1, 2, 3)
    await queue.take()
    take = await started(queue.take())
    assert not take.done()
    await queue.close()
    await take
    assert len(queue) == 1


@scenario
async def test_a_seeded_shuffling_queue_repeats_itself():
    async def drain():
        queue = RandomShuffleQueue("q", F32, [()], 100, seeds=(5, 6))
        await queue.put_many((np.arange(50, dtype=np.float32),))
        return (await queue.take_many(50))[0].tolist()

    first, second = await drain(), await drain()
    assert first == second
    assert first != sorted(first)
    assert sorted(first) == list(range(50))


@scenario
async def test_a_seeded_shuffling_queue_has_tensorflows_order():
    queue = RandomShuffleQueue("q", F32, [()], 20, seeds=(87654321, 2))
    await fill(queue, *range(9))
    assert (await queue.take_many(9))[0].tolist() == [6, 4, 8, 5, 7, 3, 2, 1, 0]


@scenario
async def test_a_padding_queue_fills_up_with_zeros():
    queue = PaddingFIFOQueue("q", F32, [(None, 2)], 10)
    await queue.put((np.ones((1, 2), np.float32),))
    await queue.put((np.ones((3, 2), np.float32),))
    (batch,) = await queue.take_many(2)
    np.testing.assert_array_equal(batch.sum(axis=(1, 2)), [2, 6])
    assert batch.shape == (2, 3, 2)


@scenario
async def test_a_priority_queue_gives_the_lowest_first_and_equals_in_order():
    queue = PriorityQueue("q", [dtypes.int64, dtypes.float32], [(), ()], 10)
    for priority, value in ((5, 1), (-3, 2), (5, 3), (0, 4)):
        await queue.put((np.int64(priority), np.float32(value)))
    priorities, values = await queue.take_many(4)
    assert priorities.tolist() == [-3, 0, 5, 5]
    assert values.tolist() == [2, 4, 1, 3]


@scenario
async def test_a_cancelled_batch_leaves_a_priority_queue_in_order():
    queue = PriorityQueue("q", [dtypes.int64, dtypes.float32], [(), ()], 10)
    for value in (1, 2):
        await queue.put((np.int64(5), np.float32(value)))
    take = await started(queue.take_many(3))
    take.cancel()
    with pytest.raises(asyncio.CancelledError):
        await take
    assert (await queue.take_many(2))[1].tolist() == [1, 2]


def test_queues_declared_otherwise_differ():
    assert fifo().difference(fifo()) is None
    assert "capacity 10, not 5" in fifo().difference(fifo(5))
    other = RandomShuffleQueue("q", F32, [()], 10)
    assert "is a FIFOQueue, not a RandomShuffleQueue" in fifo().difference(other)
    assert "float32" in fifo().difference(Queue("q", [dtypes.int32], [()], 10))
