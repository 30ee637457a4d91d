"""Datasets, and iterators on the tasks where they are placed."""

from __future__ import annotations

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
