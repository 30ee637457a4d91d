"""Convolutions of any rank, and such that pad or resize first, without TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf

RNG = np.random.default_rng(2)
IMAGES = RNG.random((2, 3, 5, 6, 2)).astype(np.float32)
FILTER = RNG.random((2, 2, 2, 3)).astype(np.float32)


def run(made):
    with tf.Session() as session:
        return session.run(made)


def test_any_number_of_batch_dimensions_is_convolved_as_one():
    made = tf.raw_ops.Conv(
        input=IMAGES, filter=FILTER, strides=[1, 1, 1, 1], padding="SAME", batch_dims=2
    )
    flat = tf.nn.conv2d(IMAGES.reshape(6, 5, 6, 2), FILTER, strides=1, padding="SAME")
    np.testing.assert_array_equal(run(made), run(flat).reshape(2, 3, 5, 6, 3))


def test_groups_are_refused():
    made = tf.raw_ops.Conv(
        input=IMAGES[0], filter=FILTER, strides=[1, 1, 1, 1], padding="SAME", groups=2
    )
    with pytest.raises(tf.errors.UnimplementedError, match="Grouped"):
        run(made)


def test_every_image_of_a_batch_is_resized_mirrored_and_convolved():
    images, around = IMAGES[0], [[0, 0], [1, 0], [0, 2], [0, 0]]
    made = tf.raw_ops.FusedResizeAndPadConv2D(
        input=images, size=[7, 8], paddings=around, filter=FILTER, mode="SYMMETRIC",
        strides=[1, 2, 2, 1], padding="VALID",
    )  # fmt: skip
    resized = tf.image.resize_bilinear(images, [7, 8])
    padded = tf.pad(resized, around, "SYMMETRIC")
    wanted = tf.nn.conv2d(padded, FILTER, strides=[1, 2, 2, 1], padding="VALID")
    np.testing.assert_allclose(run(made), run(wanted), rtol=1e-6)
    plain = tf.raw_ops.FusedPadConv2D(
        input=resized, paddings=around, filter=FILTER, mode="SYMMETRIC", strides=[1, 2, 2, 1],
        padding="VALID",
    )  # fmt: skip
    np.testing.assert_allclose(run(plain), run(wanted), rtol=1e-6)
