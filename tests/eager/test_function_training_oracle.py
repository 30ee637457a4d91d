"""Small models train as under TensorFlow: the same losses, eagerly and in traced functions."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow as ours

theirs = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

STEPS = 20


def values(seed, *shape):
    return np.random.RandomState(seed).randn(*shape).astype(np.float32) * 0.3


def dense(tf):
    x, labels = values(0, 16, 8), np.arange(16) % 3
    w1, w2 = tf.Variable(values(1, 8, 12)), tf.Variable(values(2, 12, 3))
    b = tf.Variable(tf.zeros([12]))

    def loss():
        logits = tf.matmul(tf.nn.relu(tf.matmul(x, w1) + b), w2)
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )

    return loss, [w1, w2, b]


def convolutional(tf):
    x, y = values(0, 4, 8, 8, 1), values(1, 4, 2)
    filters, w = tf.Variable(values(2, 3, 3, 1, 4)), tf.Variable(values(3, 64, 2))

    def loss():
        features = tf.nn.relu(tf.nn.conv2d(x, filters, strides=1, padding="SAME"))
        pooled = tf.nn.max_pool2d(features, ksize=2, strides=2, padding="SAME")
        return tf.reduce_mean((tf.matmul(tf.reshape(pooled, [4, -1]), w) - y) ** 2)

    return loss, [filters, w]


def recurrent(tf):
    x, y = values(0, 5, 4, 3), values(1, 4, 6)
    w, u = tf.Variable(values(2, 3, 6)), tf.Variable(values(3, 6, 6))
    rows = tf.constant(x)

    def loss():
        h = tf.zeros([4, 6])
        for i in tf.range(tf.shape(rows)[0]):
            h = tf.tanh(tf.matmul(rows[i], w) + tf.matmul(h, u))
            if tf.reduce_sum(h) > 3.0:
                h = h * 0.9
        return tf.reduce_mean((h - y) ** 2)

    return loss, [w, u]


def losses(tf, program, wrap):
    loss, weights = program(tf)

    def step():
        with tf.GradientTape() as tape:
            found = loss()
        for weight, grad in zip(weights, tape.gradient(found, weights), strict=True):
            weight.assign_sub(0.2 * grad)
        return found

    run = wrap(step)
    return [float(run()) for _ in range(STEPS)]


@pytest.mark.parametrize("program", [dense, convolutional, recurrent])
def test_losses_are_those_of_tensorflow(program) -> None:
    wanted = losses(theirs, program, theirs.function)
    assert wanted[-1] < 0.95 * wanted[0]
    np.testing.assert_allclose(losses(ours, program, lambda f: f), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(losses(ours, program, ours.function), wanted, rtol=1e-4, atol=1e-5)
