"""Gradients of Fourier transforms whose sizes differ from their input's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf

X = np.random.default_rng(2).normal(size=(2, 6))
STEP = 1e-6

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "short": lambda x: tf.abs(tf.signal.rfft(x, [3])),
    "odd": lambda x: tf.signal.irfft(tf.complex(x, x * x), [5]),
    "short back": lambda x: tf.signal.irfft(tf.complex(x, x * x), [4]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_gradient_is_that_of_small_steps(name: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float64, X.shape)
        y = tf.reduce_sum(tf.square(FUNCTIONS[name](x)))
        (gradient,) = tf.gradients(y, [x])
        found = session.run(gradient, {x: X})
        wanted = np.zeros_like(X)
        for at in np.ndindex(*X.shape):
            step = np.zeros_like(X)
            step[at] = STEP
            above, below = (session.run(y, {x: X + sign * step}) for sign in (1, -1))
            wanted[at] = (above - below) / (2 * STEP)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
