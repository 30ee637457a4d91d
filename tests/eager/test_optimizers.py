"""Optimizers of the TF2 shape."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow as tf

KINDS = [
    "SGD",
    "Adam",
    "AdamW",
    "Adagrad",
    "RMSprop",
    "Ftrl",
    "Adadelta",
    "Adamax",
    "Lion",
    "Nadam",
]


def descend(optimizer, wrap):
    v = tf.Variable([1.0, 2.0])
    step = wrap(lambda: optimizer.minimize(lambda: tf.reduce_sum(v * v), [v]))
    for _ in range(5):
        step()
    return v.numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_takes_the_same_steps_as_single_calls(kind: str) -> None:
    make = getattr(tf.optimizers, kind)
    plain = descend(make(0.1), lambda step: step)
    traced = descend(make(0.1), tf.function)
    np.testing.assert_allclose(plain, traced, rtol=1e-6)
    assert (plain < [1.0, 2.0]).all()


def test_steps_are_counted_and_the_rate_can_follow_them() -> None:
    v = tf.Variable(1.0)
    optimizer = tf.optimizers.SGD(lambda step: 0.1 * tf.cast(step + 1, tf.float32))
    for expected in (0.9, 0.7, 0.4):
        optimizer.apply_gradients([(tf.constant(1.0), v)])
        np.testing.assert_allclose(v.numpy(), expected, rtol=1e-6)
    assert optimizer.iterations.numpy() == 3
    with pytest.raises(TypeError, match="schedule"):
        optimizer.learning_rate = 0.5


def test_slices_change_only_their_rows() -> None:
    table = tf.Variable(tf.ones([4, 2]))
    grad = tf.IndexedSlices(tf.ones([2, 2]), tf.constant([1, 1]))
    tf.optimizers.SGD(0.25).apply_gradients([(grad, table)])
    assert table.numpy()[:, 0].tolist() == [1, 0.5, 1, 1]


def test_missing_gradients_and_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="No gradients"):
        tf.optimizers.Adam().apply_gradients([(None, tf.Variable(1.0))])
    with pytest.raises(TypeError, match="speed"):
        tf.optimizers.Adam(speed=3)
    with pytest.raises(ValueError, match="tape"):
        tf.optimizers.Adam().minimize(tf.constant(1.0), [tf.Variable(1.0)])
