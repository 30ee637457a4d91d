"""The same queue programs under tideflow and under TensorFlow: results or kinds of error."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as ours

theirs = pytest.importorskip("tensorflow").compat.v1
pytestmark = pytest.mark.tensorflow


def outcome(tf, fetch, session, feeds=None):
    """Return the value as lists, or the name of the error's class."""
    try:
        found = session.run(fetch, feeds)
    except tf.errors.OpError as error:
        return type(error).__name__
    if isinstance(found, list):
        return [np.asarray(f).tolist() for f in found]
    return None if found is None else np.asarray(found).tolist()


def fifo_order(tf, run):
    q = tf.FIFOQueue(10, ["float32", "int32"], [[], [2]])
    yield run(q.enqueue_many(([1.0, 2.0], [[1, 2], [3, 4]])))
    yield run(q.dequeue())
    yield run(q.dequeue_up_to(1))
    yield run(q.dequeue_many(0))
    yield run(q.size())


def closing(tf, run):
    q = tf.FIFOQueue(10, "float32", [[]])
    yield run(q.enqueue_many([[1.0, 2.0, 3.0]]))
    yield run(q.is_closed())
    yield run(q.close())
    yield run(q.is_closed())
    yield run(q.enqueue(4.0))
    yield run(q.enqueue_many([[4.0]]))
    yield run(q.dequeue_many(4))
    yield run(q.size())
    yield run(q.dequeue_up_to(4))
    yield run(q.dequeue_up_to(4))
    yield run(q.dequeue())
    yield run(q.close())
    yield run(q.close(cancel_pending_enqueues=True))


def bad_values(tf, run):
    value, count = tf.placeholder("float32"), tf.placeholder("int32", [])
    q = tf.FIFOQueue(10, ["float32", "float32"], [[2], []])
    yield run(q.enqueue((value, 1.0)), {value: [1, 2, 3]})
    yield run(q.enqueue_many((value, [1.0])), {value: [[1, 2], [3, 4]]})
    yield run(q.enqueue_many((value, [1.0])), {value: [[1, 2, 3]]})
    yield run(q.dequeue_many(count), {count: -1})
    yield run(tf.FIFOQueue(10, "float32").dequeue_many(count), {count: 1})
    yield run(q.size())


def sharing(tf, run):
    yield run(tf.FIFOQueue(10, "float32", [[]], shared_name="a").enqueue(5.0))
    yield run(tf.FIFOQueue(10, "float32", [[]], shared_name="a").dequeue())
    yield run(tf.FIFOQueue(9, "float32", [[]], shared_name="a").size())
    yield run(tf.FIFOQueue(10, "int32", [[]], shared_name="a").size())
    yield run(tf.FIFOQueue(10, "float32", [[1]], shared_name="a").size())
    yield run(tf.RandomShuffleQueue(10, 0, "float32", [[]], shared_name="a").size())
    yield run(tf.PriorityQueue(10, "float32", [[]], shared_name="a").size())


def shuffling(tf, run):
    q = tf.RandomShuffleQueue(10, 2, "float32", [[]])
    yield run(q.enqueue_many([[7.0, 7.0, 7.0, 7.0]]))
    yield run(q.dequeue_many(2))
    yield run(q.close())
    yield run(q.dequeue_many(3))
    yield run(q.dequeue_up_to(3))
    yield run(tf.RandomShuffleQueue(5, 5, "float32").size())


def seeded_shuffling(tf, run):
    """Seeds of an op, and of a graph, give TensorFlow's own order."""
    for seed in (2, None):
        q = tf.RandomShuffleQueue(20, 0, "int32", [[]], seed=seed)
        yield run(q.enqueue_many([list(range(9))]))
        yield run(q.dequeue_many(4))
        yield run(q.enqueue_many([[10, 11]]))
        yield run(q.dequeue_many(7))
        tf.set_random_seed(7)


def padding(tf, run):
    q = tf.PaddingFIFOQueue(10, ["int32", "string"], [[None, 2], [None]])
    row, words = tf.placeholder("int32"), tf.placeholder("string")
    yield run(q.enqueue((row, words)), {row: [[1, 2]], words: ["a", "b"]})
    yield run(q.enqueue((row, words)), {row: np.zeros((0, 2), np.int32), words: ["c"]})
    yield run(q.enqueue((row, words)), {row: [[1, 2, 3]], words: ["a"]})
    yield run(q.dequeue_many(2))
    yield run(q.size())


def priorities(tf, run):
    q = tf.PriorityQueue(10, ["string", "int32"], [[], []])
    yield run(q.enqueue_many(([3, 1, 2], ["c", "a", "b"], [30, 10, 20])))
    yield run(q.dequeue())
    yield run(q.dequeue_many(2))


PROGRAMS = [
    fifo_order,
    closing,
    bad_values,
    sharing,
    shuffling,
    seeded_shuffling,
    padding,
    priorities,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_end_alike(program):
    found = []
    for tf in (ours, theirs):
        with tf.Graph().as_default(), tf.Session() as session:

            def run(fetch, feeds=None, tf=tf, session=session):
                return outcome(tf, fetch, session, feeds)

            found.append(list(program(tf, run)))
    assert found[0] == found[1]
