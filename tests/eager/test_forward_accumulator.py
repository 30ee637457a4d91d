"""Derivatives forwards agree with those of tapes, within graphs and without."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow as tf
from tideflow.wire import errors


@pytest.fixture
def x():
    return tf.constant([1.0, 2.0, 3.0])


@pytest.fixture
def t():
    return tf.constant([1.0, 0.0, 2.0])


def cubes(x):
    return tf.reduce_sum(x**3) * x[0]


def loop(x):
    y = x
    for _ in tf.range(3):
        y = y * x
    return tf.reduce_sum(y) * x[0]


def branch(x):
    return (tf.reduce_sum(x * x) if x[0] > 0.0 else x[1]) * x[0]


FUNCTIONS = {"cubes": cubes, "loop": loop, "branch": branch}


def by_two_tapes(f, x, t):
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        product = tf.reduce_sum(inner.gradient(y, x) * t)
    return outer.gradient(product, x)


def over_a_tape(f, x, t):
    with tf.autodiff.ForwardAccumulator(x, t) as acc:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        grad = tape.gradient(y, x)
    return acc.jvp(grad)


def under_a_tape(f, x, t):
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tf.autodiff.ForwardAccumulator(x, t) as acc:
            y = f(x)
        found = acc.jvp(y)
    return tape.gradient(found, x)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("way", [over_a_tape, under_a_tape])
def test_hessians_times_vectors_are_those_of_two_tapes(name, way, x, t):
    f = tf.function(FUNCTIONS[name])
    expected = by_two_tapes(f, x, t).numpy()
    np.testing.assert_allclose(way(f, x, t), expected)
    if (name, way) != ("loop", over_a_tape):
        np.testing.assert_allclose(tf.function(way)(f, x, t), expected)


def test_the_gradient_of_a_loop_in_a_graph_is_refused_rather_than_wrong(x, t):
    with pytest.raises(errors.UnimplementedError, match="by two tapes"):
        tf.function(over_a_tape)(loop, x, t)


def test_what_has_no_tangent_is_none_or_zeros(x, t):
    other = tf.constant([1.0, 2.0])
    with tf.autodiff.ForwardAccumulator(x, t) as acc:
        y = x * x
        z = other * 2.0
    assert acc.jvp(y).numpy().tolist() == [2.0, 0.0, 12.0]
    assert acc.jvp([z, y * 2.0]) == [None, None]
    zeros = acc.jvp(z, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    assert zeros.numpy().tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="multiple times"):
        tf.autodiff.ForwardAccumulator([x, x], [t, t])


def test_slices_have_the_tangents_of_their_values():
    table = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.autodiff.ForwardAccumulator(table, tf.ones([2, 2])) as acc:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.gather(table, [0, 0, 1]) ** 3)
        grad = tape.gradient(y, table)
    found = acc.jvp(grad)
    assert found.indices.numpy().tolist() == [0, 0, 1]
    np.testing.assert_allclose(found.values, 6 * tf.gather(table, [0, 0, 1]))


def test_gradients_that_users_give_are_for_tapes_alone(x, t):
    @tf.custom_gradient
    def cube(x):
        return x**3, lambda dy: dy * 7.0 * x

    def tangent(x, t):
        with tf.autodiff.ForwardAccumulator(x, t) as acc:
            y = cube(x)
        return acc.jvp(y)

    expected = [3.0, 0.0, 54.0]
    np.testing.assert_allclose(tangent(x, t), expected)
    np.testing.assert_allclose(tf.function(tangent)(x, t), expected)
