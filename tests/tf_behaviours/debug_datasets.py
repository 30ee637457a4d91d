"""Datasets in debug mode, which is turned on for good."""

from __future__ import annotations

import functools
from typing import Any

from shown_values import elements
from tf_behaviours.registry import behaviour

debugging = functools.partial(behaviour, "python/data/kernel_tests/dataset_test.py")


@debugging("Functions are called eagerly for each element, in order, after they were traced once.")
def called_eagerly(tf: Any) -> Any:
    tf.data.experimental.enable_debug_mode()
    data = tf.data.Dataset
    calls = []

    def double(x: Any) -> Any:
        calls.append(tf.executing_eagerly())
        return x * 2

    found = [elements(data.range(3).map(double, num_parallel_calls=2).prefetch(1)), list(calls)]
    return [
        *found,
        elements(data.range(5).filter(lambda x: int(x) % 2 == 0 if _is_eager(x) else x > 0)),
        elements(data.range(3).flat_map(lambda n: data.range(n))),
        elements(data.range(3).interleave(lambda n: data.range(n), num_parallel_calls=2)),
        elements(data.range(4).batch(2, num_parallel_calls=2).map(lambda x: {"a": (x, "b")})),
        elements(data.range(4).scan(tf.constant(0, tf.int64), lambda s, x: (s + x, s + x))),
        int(data.range(4).reduce(tf.constant(0, tf.int64), lambda s, x: s + x)),
        elements(data.range(6).group_by_window(lambda x: x % 2, lambda k, d: d.batch(3), 3)),
        elements(
            data.from_generator(lambda: iter([1, 2]), output_signature=tf.TensorSpec([], tf.int32))
        ),
        str(data.range(3).map(double).element_spec),
        elements(data.range(2).map(lambda x: tf.sparse.from_dense([[x]]))),
    ]


def _is_eager(x: Any) -> bool:
    return hasattr(x, "numpy")


@debugging("Debug mode is for eager programs.")
def refused_in_graphs(tf: Any) -> Any:
    with tf.Graph().as_default():
        try:
            tf.data.experimental.enable_debug_mode()
        except ValueError as error:
            return "only supported in eager mode" in str(error)
    return False
