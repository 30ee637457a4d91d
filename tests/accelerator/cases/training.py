"""Training on devices gives what the CPU gives."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from accelerator.looks import NO_GPU, OPTIMIZERS, ROWS, use_both_kinds
from tideflow.wire import messages as pb


def train_losses(config, optimizer, use_resource):
    rng = np.random.default_rng(3)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 6])
        labels = tf.placeholder(tf.int32, [None])
        hidden = x
        for i, width in enumerate((8, 5)):
            shape = [int(hidden.shape[1]), width]
            initial = rng.normal(size=shape).astype(np.float32)
            weights = tf.get_variable(f"w{i}", initializer=initial, use_resource=use_resource)
            hidden = tf.nn.tanh(tf.matmul(hidden, weights))
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=hidden)
        )
        train = optimizer().minimize(loss, tf.train.get_or_create_global_step())
        rng = np.random.default_rng(4)
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            losses = []
            for _ in range(6):
                feeds = {x: rng.normal(size=(9, 6)), labels: rng.integers(0, 5, 9)}
                losses.append(session.run([loss, train], feeds)[0])
            return losses, session.run(tf.trainable_variables())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@use_both_kinds
def test_training_gives_what_the_cpu_gives(optimizer, use_resource):
    ours, weights = train_losses(pb.ConfigProto(), OPTIMIZERS[optimizer], use_resource)
    expected, expected_weights = train_losses(NO_GPU, OPTIMIZERS[optimizer], use_resource)
    np.testing.assert_allclose(ours, expected, rtol=1e-5)
    for found, wanted in zip(weights, expected_weights, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_gradients_cross_devices():
    x = tf.placeholder(tf.float32, [4, 3])
    with tf.device("/GPU:0"):
        a = tf.tanh(x)
    with tf.device("/CPU:0"):
        b = tf.sin(a)
    with tf.device("/GPU:1"):
        c = tf.reduce_sum(b * b)
    (slope,) = tf.gradients(c, x)
    with tf.Session() as session:
        found = session.run(slope, {x: ROWS / 10})
    t = np.tanh(ROWS / 10)
    np.testing.assert_allclose(found, 2 * np.sin(t) * np.cos(t) * (1 - t * t), rtol=1e-5)
