"""Gradients that users give or stop, eagerly and in traced functions alike."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow as tf

WRAPS = pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])


def slope(function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x)


@WRAPS
def test_a_custom_gradient_takes_the_place_of_the_real_one(wrap) -> None:
    @tf.custom_gradient
    def clipped(x):
        return x * x, lambda dy: tf.clip_by_value(dy * 3.0, -1.0, 1.0)

    assert wrap(lambda x: slope(clipped, x))(tf.constant(2.0)).numpy() == 1


@WRAPS
def test_it_gives_the_gradients_of_variables_too(wrap) -> None:
    v = tf.Variable(3.0)

    @tf.custom_gradient
    def scaled(x):
        def grad(dy, variables=None):
            return dy * v * 10.0, [dy * x * 100.0 for _ in variables]

        return x * v, grad

    def slopes(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = scaled(x)
        return tape.gradient(y, [x, v])

    assert [g.numpy() for g in wrap(slopes)(tf.constant(2.0))] == [30, 200]


@WRAPS
def test_gradients_of_a_custom_gradient(wrap) -> None:
    @tf.custom_gradient
    def log1pexp(x):
        e = tf.exp(x)
        return tf.math.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))

    second = wrap(lambda x: slope(lambda x: slope(log1pexp, x), x))(tf.constant(0.5))
    sigmoid = 1 / (1 + np.exp(-0.5))
    np.testing.assert_allclose(second.numpy(), sigmoid * (1 - sigmoid), rtol=1e-5)


@WRAPS
def test_reading_a_variable_needs_a_gradient_for_it(wrap) -> None:
    v = tf.Variable(3.0)

    @tf.custom_gradient
    def scaled(x):
        return x * v, lambda dy: dy

    with pytest.raises(TypeError, match="let its grad_fn take `variables=None`"):
        wrap(scaled)(tf.constant(2.0))


@WRAPS
def test_a_stopped_gradient_counts_as_constant(wrap) -> None:
    found = wrap(lambda x: slope(lambda x: x * tf.stop_gradient(x), x))(tf.constant(2.0))
    assert found.numpy() == 2


def test_tf_gradients_inside_a_function() -> None:
    found = tf.function(lambda x: tf.gradients(x * x * x, [x]))(tf.constant(2.0))
    assert [g.numpy() for g in found] == [12]


@WRAPS
def test_numpy_functions_compute_and_say_what_failed(wrap) -> None:
    def summed(x):
        return tf.numpy_function(np.cumsum, [x], tf.float32)

    def failing(x):
        return tf.numpy_function(lambda a: a / [][0], [x], tf.float32)

    x = tf.constant([2.0, 3.0])
    assert wrap(summed)(x).numpy().tolist() == [2, 5]
    # Called at once it raises what the function raises; a graph's operation raises an OpError.
    with pytest.raises((IndexError, tf.errors.OpError), match="list index out of range"):
        wrap(failing)(x)
