"""Datasets, and iterators on the tasks where they are placed."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np

from programs.registry import Cluster, program


def _all(at: Cluster, session: Any, element: Any, most: int = 20) -> list[Any]:
    """Return the elements that are left, and how they end."""
    found: list[Any] = []
    while len(found) < most:
        found.append(at.attempt(lambda: session.run(element)))
        if isinstance(found[-1], dict) and "error" in found[-1]:
            break
    return found


@program()
def a_dataset_on_each_task(tf: Any, at: Cluster) -> Any:
    found = []
    for device in ("/job:ps", "/job:worker/task:0", "/job:worker/task:1"):
        with tf.device(device):
            dataset = tf.data.Dataset.range(9).filter(lambda x: tf.not_equal(x, 4))
            dataset = dataset.map(lambda x: x * x).shuffle(4, seed=3).batch(3).prefetch(1)
            iterator = tf.data.make_initializable_iterator(dataset)
            element = iterator.get_next()
        doubled = element * 2
        with at.session() as session:
            session.run(iterator.initializer)
            found.append(_all(at, session, doubled))
    return found


@program()
def an_iterator_shared_between_tasks(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        dataset = tf.data.Dataset.from_tensor_slices(np.arange(6, dtype=np.float32))
        iterator = tf.data.make_initializable_iterator(dataset, shared_name=f"{at.name}/shared")
        element = iterator.get_next()
    with at.session("worker:0") as first, at.session("worker:1") as second:
        found = [at.attempt(lambda: first.run(element))]
        first.run(iterator.initializer)
        found += [one.run(element) for one in (first, second, second, first)]
        return [found, _all(at, second, element)]


@program()
def training_on_a_dataset(tf: Any, at: Cluster) -> Any:
    x = np.linspace(-1, 1, 32, dtype=np.float32)
    rows = (x, 3 * x + 1)
    with tf.device("/job:worker/task:1"):
        dataset = tf.data.Dataset.from_tensor_slices(rows).repeat().shuffle(16, seed=1).batch(8)
        iterator = tf.data.make_initializable_iterator(dataset)
        features, labels = iterator.get_next()
    with tf.device("/job:ps"):
        slope = tf.get_variable(f"{at.name}/slope", initializer=0.0, use_resource=True)
        offset = tf.get_variable(f"{at.name}/offset", initializer=0.0, use_resource=True)
    loss = tf.reduce_mean(tf.square(slope * features + offset - labels))
    train = tf.train.GradientDescentOptimizer(0.2).minimize(loss)
    with at.session() as session:
        session.run([tf.global_variables_initializer(), iterator.initializer])
        return [session.run([loss, train])[0] for _ in range(10)]


@program(clients=("tensorflow",))
def a_one_shot_iterator_and_a_feedable_one(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        first = tf.data.make_one_shot_iterator(tf.data.Dataset.range(3))
        second = tf.data.make_one_shot_iterator(
            tf.data.Dataset.range(10, 14).interleave(
                lambda x: tf.data.Dataset.from_tensors(x).repeat(2), cycle_length=2
            )
        )
        handle = tf.placeholder(tf.string, [])
        element = tf.data.Iterator.from_string_handle(handle, tf.int64, []).get_next()
        handles = [first.string_handle(), second.string_handle()]
    with at.session() as session:
        names = session.run(handles)
        found = [session.run(element, {handle: names[i]}) for i in (0, 1, 1, 0, 1, 0)]
        return [*found, at.attempt(lambda: session.run(element, {handle: names[0]}))]


@program()
def datasets_of_many_sorts(tf: Any, at: Cluster) -> Any:
    Dataset = tf.data.Dataset
    found = []
    with at.session() as session:
        for build in (
            lambda: Dataset.zip((Dataset.range(4), Dataset.from_tensors(7).repeat())),
            lambda: Dataset.range(3).concatenate(Dataset.range(10, 12)),
            lambda: Dataset.range(10).skip(2).take(5).shard(2, 1),
            lambda: Dataset.range(1, 4).flat_map(lambda x: Dataset.range(x)),
            lambda: Dataset.range(4).interleave(
                lambda x: Dataset.from_tensors(x).repeat(3), cycle_length=2, block_length=2
            ),
            lambda: Dataset.range(6).batch(4).unbatch().map(lambda x: x + 1, num_parallel_calls=2),
            lambda: Dataset.range(6).batch(4, drop_remainder=True).enumerate(),
            lambda: Dataset.range(3).cache().repeat(2),
            lambda: Dataset.from_tensor_slices({"a": [1, 2], "b": [["x"], ["y"]]}),
        ):
            with tf.device("/job:worker/task:1"):
                iterator = tf.data.make_initializable_iterator(build())
                element = iterator.get_next()
            session.run(iterator.initializer)
            found.append(_all(at, session, element))
        with tf.device("/job:ps"):
            total = Dataset.range(5).reduce(np.int64(0), lambda a, b: a + b)
        return [*found, session.run(total)]


@program()
def a_failing_element_is_told_and_passed_over(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        numbers = tf.data.Dataset.from_tensor_slices(np.float32([1, 0, 4]))
        dataset = numbers.map(lambda x: tf.check_numerics(1 / x, "bad"))
        iterator = tf.data.make_initializable_iterator(dataset)
        element = iterator.get_next()
    with at.session() as session:
        session.run(iterator.initializer)
        found = [at.attempt(lambda: session.run(element)) for _ in range(4)]
    return [one["error"] if isinstance(one, dict) else one for one in found]


@program(["tensorflow"])
def one_iterator_of_several_datasets(tf: Any, at: Cluster) -> Any:
    with tf.device("/job:ps"):
        first = tf.data.Dataset.range(2)
        second = tf.data.Dataset.range(10, 30, 10).map(lambda x: x * x)
        iterator = tf.data.Iterator.from_structure(tf.int64, [])
        element = iterator.get_next()
        starts = [iterator.make_initializer(one) for one in (first, second)]
    with at.session() as session:
        found = [at.attempt(lambda: session.run(element))]
        for start in (*starts, starts[0]):
            session.run(start)
            found.append(_all(at, session, element))
    return found


@program(["tensorflow"])
def files_are_read_by_the_task(tf: Any, at: Cluster) -> Any:
    """Text, and records in batches padded to the longest; and windows over a range."""
    with tempfile.TemporaryDirectory() as directory:
        text, records = os.path.join(directory, "text"), os.path.join(directory, "records")
        with open(text, "w") as file:
            file.write("one 1\ntwo 22\n\nthree 333")
        with tf.io.TFRecordWriter(records) as writer:
            for i in range(5):
                writer.write(" ".join("7" * i))
        with tf.device("/job:ps"):
            lines = tf.data.TextLineDataset([text]).skip(1)
            numbers = tf.data.TFRecordDataset([records]).map(
                lambda one: tf.strings.to_number(tf.strings.split([one]).values, tf.int64)
            )
            padded = numbers.padded_batch(3, padded_shapes=[None])
            windows = tf.data.Dataset.range(7).window(3, shift=2).flat_map(lambda x: x.batch(3))
            elements = [
                tf.data.make_one_shot_iterator(one).get_next() for one in (lines, padded, windows)
            ]
            missing = tf.data.TextLineDataset([text + "?"])
            nothing = tf.data.make_one_shot_iterator(missing).get_next()
        with at.session() as session:
            found = [_all(at, session, element) for element in elements]
            return [*found, at.attempt(lambda: session.run(nothing))["error"]]


@program(["tensorflow"])
def queue_runners_feed_training(tf: Any, at: Cluster) -> Any:
    """The input pipelines of old programs: threads of the client keep queues of servers filled."""
    with tf.device("/job:worker/task:1"):
        numbers = tf.train.input_producer(
            tf.range(8, dtype=tf.float32), num_epochs=3, shuffle=False, shared_name=at.name
        ).dequeue()
        batch = tf.train.batch([numbers, numbers * 2 + 1], batch_size=4, capacity=8)
    with tf.device("/job:ps"):
        v = tf.get_variable(f"{at.name}/v", initializer=0.0, use_resource=True)
    loss = tf.reduce_mean(tf.square(v * batch[0] - batch[1]))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    found = []
    with at.session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        try:
            while not coordinator.should_stop():
                found.append(session.run([loss, train])[0])
        except tf.errors.OutOfRangeError:
            found.append("over")
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=20)
    return found
