"""Where steps of dual coordinate ascent lead, however examples are chosen."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf

F = np.float32


def trained(x, y, loss, l2, adaptative, steps=60, named=None):
    """Return the weights of dense features, of named ones, and the last state of the examples.

    Args:
      named: for each example the index of its one named feature.
    """
    count, dense = x.shape
    state, weights = np.zeros((count, 4), F), np.zeros(dense, F)
    of_named = np.zeros(0 if named is None else max(named) + 1, F)
    given = [tf.placeholder(tf.float32, one.shape) for one in (state, weights, of_named)]
    one_group = named is not None
    made = tf.train.sdca_optimizer(
        [np.arange(count)] * one_group, [np.int64(named or [])] * one_group, [], [F(x)],
        np.ones(count, F), F(y), [np.arange(of_named.size)] * one_group, given[2:] * one_group,
        given[1:2], given[0], loss_type=loss, l1=0.0, l2=l2, num_loss_partitions=1,
        num_inner_iterations=1, adaptative=adaptative,
    )  # fmt: skip
    assert made.out_delta_dense_weights[0].shape.as_list() == [dense]
    with tf.Session() as session:
        for _ in range(steps):
            feeds = dict(zip(given, (state, weights, of_named)))
            state, sparse, (change,) = session.run(list(made), feeds)
            weights, of_named = weights + change, of_named + sum(sparse)
    return weights, of_named, state


@pytest.mark.parametrize("adaptative", [False, True])
def test_squares_lead_to_the_solution_of_ridge_regression(adaptative):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(20, 3)), rng.normal(size=20)
    found, _, state = trained(x, y, "squared_loss", 2.0, adaptative)
    wanted = np.linalg.solve(x.T @ x + 2 * np.eye(3), x.T @ y)
    np.testing.assert_allclose(found, wanted, atol=2e-3)
    np.testing.assert_allclose(state[:, 0], y - x @ wanted, atol=2e-2)


def test_named_features_stand_beside_dense_ones():
    rng = np.random.default_rng(1)
    x, y, named = rng.normal(size=(20, 2)), rng.normal(size=20), rng.integers(0, 3, 20).tolist()
    dense, sparse, _ = trained(x, y, "squared_loss", 2.0, False, named=named)
    both = np.concatenate([x, np.eye(3)[named]], axis=1)
    wanted = np.linalg.solve(both.T @ both + 2 * np.eye(5), both.T @ y)
    np.testing.assert_allclose([*dense, *sparse], wanted, atol=2e-3)


@pytest.mark.parametrize("loss", ["logistic_loss", "smooth_hinge_loss", "poisson_loss"])
def test_no_gradient_is_left(loss):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(20, 3))
    y = (x @ [1, -2, 0.5] + rng.normal(size=20) > 0).astype(float)
    found, _, state = trained(x, y, loss, 3.0, False)
    wx, sign = x @ found.astype(float), 2 * y - 1
    slopes = {
        "logistic_loss": -sign / (1 + np.exp(sign * wx)),
        "smooth_hinge_loss": -sign * np.clip(1 - sign * wx, 0, 1),
        "poisson_loss": np.exp(wx) - y,
    }
    np.testing.assert_allclose(x.T @ slopes[loss] + 3 * found, 0, atol=2e-2)
    # The loss and its conjugate meet where both are best.
    gap = state[:, 1].sum() + state[:, 2].sum() + 3 * (found @ found)
    np.testing.assert_allclose(gap, 0, atol=2e-2)


def test_a_label_of_no_class_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"labels of 0\.0 or 1\.0"):
        trained(np.ones((1, 1)), np.array([3.0]), "hinge_loss", 1.0, False, steps=1)


def test_weights_are_brought_nearer_to_zero():
    v, w = (
        tf.raw_ops.VariableV2(shape=np.shape(value), dtype=tf.float32, shared_name=name)
        for name, value in (("v", [1.0, -3.0, 0.25]), ("w", [[0.75]]))
    )
    begin = [
        tf.raw_ops.Assign(ref=v, value=tf.constant([1.0, -3.0, 0.25])),
        tf.raw_ops.Assign(ref=w, value=tf.constant([[0.75]])),
    ]
    with tf.Session() as session:
        session.run(begin)
        session.run(tf.train.sdca_shrink_l1([v, w], l1=1.0, l2=2.0))
        assert session.run(v).tolist() == [0.5, -2.5, 0]
        assert session.run(w).tolist() == [[0.25]]
