"""Pipelines of data whose iterators are on a worker."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager_programs.registry import W0, W1, Cluster, program, values


@program(["tensorflow"])
def a_dataset_is_iterated_on_a_worker(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        data = tf.data.Dataset.from_tensor_slices(np.arange(7, dtype=np.float32)).batch(3)
        iterator = iter(data)
        return [next(iterator).numpy() for _ in range(3)]


@program(["tensorflow"])
def a_dataset_calls_functions_on_a_worker(tf: Any, at: Cluster) -> Any:
    with tf.device(W1):
        data = tf.data.Dataset.range(10).map(lambda x: x * x).filter(lambda x: x % 2 == 0)
        return [int(x) for x in data.repeat(2).take(7)]


@program(["tensorflow"])
def a_function_reads_an_iterator(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        iterator = iter(tf.data.Dataset.from_tensor_slices([1.0, 2.0, 3.0, 4.0]))

        @tf.function
        def f(it: Any) -> Any:
            return next(it) + next(it)

        found = [f(iterator).numpy(), f(iterator).numpy()]
        return [*found, at.attempt(lambda: f(iterator), "End of sequence")]


@program()
def elements_come_from_the_program(tf: Any, at: Cluster) -> Any:
    def numbers() -> Any:
        yield from (3, 5)

    @tf.function
    def total() -> Any:
        found = tf.constant(1, tf.int64)
        for x in tf.data.Dataset.from_generator(numbers, output_signature=spec):
            found += x
        return found

    spec = tf.TensorSpec([], tf.int64)
    with tf.device(W0):
        far = tf.data.Dataset.from_generator(numbers, output_signature=spec)
        found = [[int(x) for x in far.batch(2).unbatch()]]
    with tf.device(W1):
        counted = tf.data.Dataset.range(3)
        mapped = counted.map(lambda x: tf.numpy_function(lambda v: v + 1, [x], tf.int64))
        found.append([int(x) for x in mapped])
        mapped = counted.map(lambda x: tf.py_function(lambda v: v * 2, [x], tf.int64))
        return [*found, [int(x) for x in mapped], int(total())]


@program()
def a_dataset_is_walked_over_where_it_is(tf: Any, at: Cluster) -> Any:
    with tf.device(W0):
        far = tf.data.Dataset.range(4).map(lambda x: x * 2)
        found = [[int(x) for x in far]]
        walk = iter(far.batch(3))
        there = [walk.get_next_as_optional().has_value().numpy() for _ in range(3)]
    near = tf.data.Dataset.range(2)
    with tf.device(W1):
        found += [[int(x) for x in far], [int(x) for x in near]]
    return [found, there, next(iter(far)).device.partition("/device")[0]]


@program()
def rows_are_picked_on_a_worker(tf: Any, at: Cluster) -> Any:
    table = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    with tf.device(W0):
        held = tf.constant(table) * 1.0
        rows = tf.nn.embedding_lookup(held, [3, 0, 3])
        summed = tf.math.segment_sum(rows, [0, 0, 1])
    with tf.device(W1):
        spread = tf.tile(summed, [1, 2])
    return values([rows, summed, spread])


@program()
def datasets_of_many_kinds_on_a_worker(tf: Any, at: Cluster) -> Any:
    """Windows, groups, ragged and sparse batches, and what is drawn from several datasets."""
    with tf.device(W1):
        counted = tf.data.Dataset.range(8)
        ragged = counted.take(4).map(lambda x: tf.range(x)).ragged_batch(3)
        dense = ragged.map(lambda rows: tf.reduce_sum(rows.to_tensor(), axis=1))
        sparse = counted.take(2).map(lambda x: tf.sparse.from_dense(tf.one_hot(x, 3)))
        windows = counted.window(3, shift=2, drop_remainder=True).flat_map(lambda w: w.batch(3))
        grouped = counted.group_by_window(
            key_func=lambda x: x % 2, reduce_func=lambda key, rows: rows.batch(4), window_size=4
        )
        choices = tf.data.Dataset.from_tensors(np.int64(1)).repeat(3)
        chosen = tf.data.Dataset.choose_from_datasets([counted, counted.map(lambda x: -x)], choices)
        mixed = counted.interleave(lambda x: tf.data.Dataset.from_tensors(x).repeat(2), 2)
        scanned = counted.scan(tf.constant(0, tf.int64), lambda total, x: (total + x, total))
        found = [list(map(_plain, made)) for made in (dense, windows, grouped, chosen)]
        found += [list(map(_plain, made)) for made in (mixed, scanned, counted.unique())]
        rows = [tf.sparse.to_dense(row) for row in sparse.batch(2)]
        return [found, *values(rows), int(counted.reduce(tf.constant(0, tf.int64), _add))]


def _add(total: Any, x: Any) -> Any:
    return total + x


def _plain(element: Any) -> Any:
    return element.numpy().tolist()
