"""What accumulators promise: waiting, order, cancellation, threads and sharing."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.ops.queues.accumulators import DenseAccumulator, SparseAccumulator
from tideflow.wire import dtypes, errors


def dense(dims=(2,), is_mean=True):
    return DenseAccumulator("a", dtypes.float32, dims, is_mean)


def grad(*values):
    return np.array(values, np.float32)


def scenario(test):
    """Run an async test on a loop of its own."""

    def run():
        asyncio.run(asyncio.wait_for(test(), 10))

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


async def started(coro):
    """Start a call and let it go as far as it can."""
    task = asyncio.ensure_future(coro)
    for _ in range(3):
        await asyncio.sleep(0)
    return task


@scenario
async def test_a_take_waits_for_enough_gradients():
    a = dense()
    take = await started(a.take(2))
    a.add(0, grad(1, 2))
    assert not take.done()
    a.add(0, grad(3, 2))
    assert (await take).tolist() == [2, 2]
    assert a.count == 0


@scenario
async def test_a_gradient_of_a_step_that_was_taken_is_dropped():
    a = dense()
    take = await started(a.take(1))
    a.add(0, grad(1, 2))
    a.add(0, grad(9, 9))  # the take was served by the first one, though nobody has seen it yet
    assert a.count == 0
    assert (await take).tolist() == [1, 2]


@scenario
async def test_takes_are_served_in_order():
    a = dense()
    first, second = await started(a.take(2)), await started(a.take(1))
    a.set_step(-5)
    a.add(0, grad(1, 1))
    assert not second.done()
    a.add(0, grad(3, 3))
    assert (await first).tolist() == [2, 2]
    a.add(0, grad(7, 7))
    assert (await second).tolist() == [7, 7]


@scenario
async def test_who_is_cancelled_takes_nothing():
    a = dense()
    take = await started(a.take(1))
    take.cancel()
    with pytest.raises(asyncio.CancelledError):
        await take
    a.add(0, grad(1, 2))
    assert a.count == 1
    assert (await a.take(1)).tolist() == [1, 2]


@scenario
async def test_what_was_given_is_not_changed_and_what_is_taken_is_ones_own():
    a = dense()
    given = grad(1, 2)
    a.add(0, given)
    a.add(0, given)
    taken = await a.take(1)
    a.add(1, given)
    a.add(1, given)
    assert given.tolist() == [1, 2]
    assert taken.tolist() == [1, 2]


@scenario
async def test_threads_may_add():
    a = dense()
    take = await started(a.take(400))

    def add():
        for _ in range(100):
            a.add(0, grad(1, 2))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert (await take).tolist() == [1, 2]
    for thread in threads:
        thread.join()


@scenario
async def test_a_mean_of_slices_counts_each_slice_by_itself():
    a = SparseAccumulator("a", dtypes.float32, (6, 1), True)
    a.add(0, np.array([1, 3]), np.array([[2], [4]], np.float32), None)
    a.add(0, np.array([3]), np.array([[8]], np.float32), None)
    indices, values, shape = await a.take(2)
    assert indices.tolist() == [1, 3]
    assert values.tolist() == [[2], [6]]
    assert shape.tolist() == [6, 1]


def test_a_step_that_waits_for_gradients_ends_when_its_session_does_its_sibling():
    with tf.Graph().as_default(), tf.Session() as session:
        a = tf.ConditionalAccumulator("float32", [])
        bad = tf.debugging.Assert(tf.constant(False), ["no"])
        with pytest.raises(errors.InvalidArgumentError, match="assertion failed"):
            session.run([a.take_grad(1), bad])
        session.run(a.apply_grad(3.0))
        assert session.run(a.take_grad(1)) == 3


def test_gradients_of_another_shape_are_refused_when_the_graph_is_built():
    with tf.Graph().as_default():
        a = tf.ConditionalAccumulator("float32", [2])
        with pytest.raises(ValueError, match="not compatible"):
            a.apply_grad([1.0, 2.0, 3.0])
        assert a.take_grad(1).shape.as_list() == [2]
