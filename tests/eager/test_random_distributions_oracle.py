"""Gamma and binomial values of the eager API: gradients and states, as TensorFlow has them."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow as eager

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


def test_samples_of_gamma_have_a_gradient() -> None:
    found = []
    for library in (eager, tensorflow):
        library.random.set_seed(1)  # whatever other tests left behind
        alpha = library.constant([0.7, 2.0])
        with library.GradientTape() as tape:
            tape.watch(alpha)
            drawn = library.random.stateless_gamma([3, 2], [1, 2], alpha, 2.0)
            drawn = drawn + library.random.gamma([3], alpha, seed=4)
        found.append(tape.gradient(drawn, alpha).numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)


def test_a_generator_draws_binomial_values_and_goes_on() -> None:
    states = []
    for library in (eager, tensorflow):
        generator = library.random.Generator.from_seed(5)
        drawn = [
            generator.binomial([7, 2], [10.0, 90.0], [0.5, 0.4]).numpy().tolist() for _ in range(2)
        ]
        states.append((drawn, generator.state.numpy().tolist()))
    assert states[0] == states[1]


def test_unseeded_values_differ_from_each_other() -> None:
    first, second = (eager.random.gamma([4], 2.0).numpy() for _ in range(2))
    assert (first > 0).all()
    assert (first != second).any()
