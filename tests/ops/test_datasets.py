"""What datasets give, and how iterators wait, end and clean up after themselves."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from real_time import eventually
from tideflow.runtime.loop import run_sync

D = tf.data.Dataset


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def elements(dataset: Any) -> list[Any]:
    iterator = tf.data.make_initializable_iterator(dataset)
    element = iterator.get_next()
    found = []
    with tf.Session() as session:
        session.run(iterator.initializer)
        while True:
            try:
                found.append(session.run(element))
            except tf.errors.OutOfRangeError:
                return found


class Fed:
    """A dataset whose elements come from a queue, and what it takes to run it."""

    def __init__(self, count: int, change: Callable[[Any], Any], **options: Any) -> None:
        self.queue = tf.FIFOQueue(99, [tf.int64], shapes=[[]])
        self.value = tf.placeholder(tf.int64, [])
        self.put = self.queue.enqueue(self.value)
        dataset = change(D.range(count).map(lambda _: self.queue.dequeue(), **options))
        self.iterator = tf.data.make_initializable_iterator(dataset)
        self.element = self.iterator.get_next()
        self.session = tf.Session()
        self.session.run(self.iterator.initializer)

    def feed(self, *values: int) -> None:
        for value in values:
            self.session.run(self.put, {self.value: value})

    def next(self) -> Any:
        return self.session.run(self.element)

    def times_out(self) -> None:
        options = tf.RunOptions(timeout_in_ms=50)
        with pytest.raises(tf.errors.DeadlineExceededError):
            self.session.run(self.element, options=options)


def background_tasks() -> int:
    """Return how many tasks of datasets there are."""

    async def count() -> int:
        # What was cancelled just now ends first.
        for _ in range(5):
            await asyncio.sleep(0)
        names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
        return sum(name in ("_produce", "Function.element") for name in names)

    gc.collect()
    return run_sync(count())


def all_ended() -> bool:
    """Wait for all tasks of datasets to end."""
    return eventually(lambda: not background_tasks(), "the end of all tasks of datasets")


def test_elements_of_functions_and_batches():
    captured = tf.constant(5, tf.int64)
    found = elements(D.range(3).map(lambda x: (x + captured, tf.as_string(x))).batch(2))
    assert [(a.tolist(), b.tolist()) for a, b in found] == [([5, 6], [b"0", b"1"]), ([7], [b"2"])]


def test_elements_of_nested_datasets():
    assert elements(D.range(4).flat_map(D.range)) == [0, 0, 1, 0, 1, 2]
    found = elements(D.range(1, 4).interleave(lambda x: D.from_tensors(x).repeat(2), 2))
    assert found == [1, 2, 1, 2, 3, 3]


def test_structures_are_kept():
    rows = {"x": np.arange(6).reshape(3, 2), "s": ["a", "b", "c"]}
    found = elements(D.from_tensor_slices(rows).filter(lambda row: row["x"][0] > 1).enumerate())
    assert [(i, row["x"].tolist(), row["s"]) for i, row in found] == [
        (0, [2, 3], b"b"), (1, [4, 5], b"c")
    ]  # fmt: skip


def test_a_dataset_may_be_reduced_in_a_step():
    total = D.range(6).skip(1).shard(2, 0).concatenate(D.range(2)).reduce(
        np.int64(0), lambda state, x: state + x
    )  # fmt: skip
    with tf.Session() as session:
        assert session.run(total) == 1 + 3 + 5 + 1


def test_a_step_that_waits_for_an_element_can_time_out_and_loses_none():
    fed = Fed(9, lambda dataset: dataset.batch(3))
    fed.feed(1, 2)
    fed.times_out()
    fed.feed(3)
    assert fed.next().tolist() == [1, 2, 3]


def test_closing_a_session_ends_a_step_that_waits_for_an_element():
    fed = Fed(9, lambda dataset: dataset.prefetch(2))
    errors = []

    def wait() -> None:
        try:
            fed.next()
        except tf.errors.OpError as error:
            # The error itself would keep the frames that it went through.
            errors.append(type(error))

    thread = threading.Thread(target=wait)
    thread.start()
    while not background_tasks():
        pass
    fed.session.close()
    thread.join(20)
    assert errors == [tf.errors.CancelledError]
    assert all_ended()


@pytest.mark.parametrize(
    "change",
    [lambda dataset: dataset.prefetch(2), lambda dataset: dataset.prefetch(2).take(1).repeat()],
)
def test_background_work_ends_with_the_session(change):
    fed = Fed(9, change, num_parallel_calls=2)
    fed.feed(4)
    assert fed.next() == 4
    assert background_tasks()
    fed.session.close()
    del fed
    assert all_ended()


def test_background_work_ends_when_an_iterator_begins_anew():
    fed = Fed(9, lambda dataset: dataset.prefetch(2))
    fed.feed(1)
    assert fed.next() == 1
    fed.session.run(fed.iterator.initializer)
    assert all_ended()
    fed.feed(2)
    assert fed.next() == 2


def test_no_more_is_made_ahead_than_there_is_room_for():
    calls = []

    def note(x: Any) -> Any:
        calls.append(int(x))
        return x

    noted = D.range(100).map(lambda x: tf.py_func(note, [x], tf.int64)).prefetch(3)
    iterator = tf.data.make_initializable_iterator(noted)
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        for i in range(5):
            assert session.run(element) == i
            # One element given, three waiting, one being made.
            assert len(calls) <= i + 5


def test_calls_at_once_keep_their_order_unless_it_does_not_matter():
    fed = Fed(4, lambda dataset: dataset, num_parallel_calls=3)
    fed.feed(7, 8, 9, 10)
    assert sorted(fed.next() for _ in range(4)) == [7, 8, 9, 10]
    first = tf.FIFOQueue(9, [tf.int64], shapes=[[]])
    open_first = first.enqueue(np.int64(100))

    def later(x: Any) -> Any:
        return tf.cond(tf.equal(x, 0), lambda: first.dequeue(), lambda: x)

    found = []
    for deterministic in (True, False):
        dataset = D.range(3).map(later, num_parallel_calls=3, deterministic=deterministic)
        iterator = tf.data.make_initializable_iterator(dataset)
        element = iterator.get_next()
        with tf.Session() as session:
            session.run(iterator.initializer)
            if deterministic:
                session.run(open_first)
                found.append([session.run(element) for _ in range(3)])
            else:
                early = [session.run(element) for _ in range(2)]
                session.run(open_first)
                found.append([*sorted(early), session.run(element)])
    assert found == [[100, 1, 2], [1, 2, 100]]


def test_an_error_stands_for_one_element():
    dataset = D.range(3).map(lambda x: tf.check_numerics(1 / tf.cast(x - 1, tf.float32), "bad"))
    iterator = tf.data.make_initializable_iterator(dataset.prefetch(1))
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        assert session.run(element) == -1
        with pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
            session.run(element)
        assert session.run(element) == 1


def test_an_iterator_that_was_never_begun_says_so():
    element = tf.data.make_initializable_iterator(D.range(3)).get_next()
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="has not been initialized"):
            session.run(element)


def test_what_is_fed_may_change_once_the_step_has_ended():
    rows = tf.placeholder(tf.float32, [None, 2])
    iterator = tf.data.make_initializable_iterator(D.from_tensor_slices(rows))
    element = iterator.get_next()
    value = np.ones((2, 2), np.float32)
    with tf.Session() as session:
        session.run(iterator.initializer, {rows: value})
        value += 100
        assert session.run(element).tolist() == [1, 1]


def test_lines_and_records_of_files(tmp_path):
    (tmp_path / "lines").write_bytes(b"one\ntwo\n")
    assert elements(tf.data.TextLineDataset(str(tmp_path / "lines"))) == [b"one", b"two"]
    with pytest.raises(tf.errors.NotFoundError, match="No such file"):
        elements(tf.data.TextLineDataset([str(tmp_path / "missing")]))
