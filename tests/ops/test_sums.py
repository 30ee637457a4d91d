"""Large sums over all axes but the last: both tiers give the same."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tideflow.ops  # noqa: F401 - registers all ops
from ops.harness import Case, run

RNG = np.random.default_rng(7)

SHAPES = [
    (32, 16, 16, 16),
    (8, 81, 7, 24),
    (3, 111, 111, 1),
    (4, 96, 96, 3),
    (4096, 64),
    (512, 65),
    (1 << 16, 1),
]


def check(case, exact, most):
    for tier in ("numpy", "jax"):
        (found,) = run(case, tier)
        np.testing.assert_allclose(found.astype(np.float64), exact, rtol=most, atol=most)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("keep_dims", [False, True])
def test_sums_and_means_by_channel(shape, keep_dims):
    x = RNG.random(shape).astype(np.float32)
    axes = tuple(range(len(shape) - 1))
    attrs = {"keep_dims": keep_dims}
    exact = x.astype(np.float64).mean(axes, keepdims=keep_dims)
    check(Case("Mean", [x, np.array(axes, np.int32)], attrs), exact, 1e-5)
    # The same axes, counted from the end.
    behind = np.array([axis - len(shape) for axis in axes], np.int64)
    total = Case("Sum", [x, behind], attrs)
    check(total, exact * (x.size // shape[-1]), 1e-5 * x.size)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16, np.int8])
def test_other_types_keep_theirs(dtype):
    x = RNG.integers(-3, 3, (16, 16, 16, 16)).astype(dtype)
    exact = x.astype(np.float64).sum((0, 1, 2))
    if dtype is np.int8:
        exact = exact.astype(np.int64).astype(np.int8)
    check(Case("Sum", [x, np.array([0, 1, 2], np.int32)]), exact, 1e-2 * np.abs(exact).max())


def test_gradients_of_biases():
    dy = RNG.random((32, 16, 16, 16)).astype(np.float32)
    check(Case("BiasAddGrad", [dy]), dy.astype(np.float64).sum((0, 1, 2)), 1e-4)
