"""Layers and initializers: what variables they make, what they compute."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.ops  # noqa: F401 - registers all ops
from tideflow.client.session import Session
from tideflow.graph.graph import Graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.ops.export import exports
from tideflow.ops.framework import constant
from tideflow.ops.framework.constants import placeholder
from tideflow.ops.nn import layers, losses, weighted_losses
from tideflow.ops.nn.dropouts import dropout
from tideflow.ops.state import initializers

TF = exports()
RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as made:
        yield made


def run(fetches, feeds=None):
    with Session() as session:
        session.run(TF["global_variables_initializer"]())
        return session.run(fetches, feeds)


def names(graph):
    return [v.name for v in graph.get_collection(GraphKeys.GLOBAL_VARIABLES)]


def test_dense_layers_without_names_get_scopes_of_their_own(graph):
    x = constant(RNG.normal(size=(3, 4)).astype(np.float32))
    layers.dense(layers.dense(x, 5), 2)
    assert names(graph) == ["dense/kernel:0", "dense/bias:0", "dense_1/kernel:0", "dense_1/bias:0"]


def test_dense_keeps_outer_dimensions():
    value = RNG.normal(size=(2, 3, 4)).astype(np.float32)
    kernel = RNG.normal(size=(4, 5)).astype(np.float32)
    y = layers.dense(
        constant(value), 5, kernel_initializer=initializers.Constant(kernel),
        bias_initializer=initializers.Ones(),
    )  # fmt: skip
    assert y.shape.as_list() == [2, 3, 5]
    np.testing.assert_allclose(run(y), value @ kernel + 1, rtol=1e-5)


def test_a_layer_reuses_its_variables_by_name(graph):
    x = constant(np.ones((1, 4), np.float32))
    first = layers.dense(x, 2, name="shared")
    second = layers.dense(x, 2, name="shared", reuse=True)
    assert len(names(graph)) == 2
    left, right = run([first, second])
    np.testing.assert_array_equal(left, right)


def test_dense_needs_its_width():
    with pytest.raises(ValueError, match="must be known"):
        layers.dense(placeholder("float32", [None, None]), 2)


def test_conv_and_pooling_shapes():
    x = constant(RNG.normal(size=(2, 8, 8, 3)).astype(np.float32))
    y = layers.conv2d(x, 6, 3, strides=2, padding="same", activation=TF["nn.relu"])
    pooled = layers.average_pooling2d(layers.max_pooling2d(y, 2, 2), 2, 1)
    flat = layers.flatten(pooled)
    assert flat.shape.as_list() == [2, 6]
    assert run(flat).shape == (2, 6)


def test_flatten_of_channels_first_puts_channels_last():
    value = np.arange(12, dtype=np.float32).reshape(1, 2, 2, 3)
    found = run(layers.flatten(constant(value), data_format="channels_first"))
    np.testing.assert_array_equal(found, value.transpose(0, 2, 3, 1).reshape(1, 12))


def test_batch_normalization_moves_its_moments_only_while_training(graph):
    value = RNG.normal(3.0, 2.0, size=(16, 2)).astype(np.float32)
    training = placeholder("bool", [])
    y = layers.batch_normalization(constant(value), momentum=0.9, training=training)
    updates = graph.get_collection(GraphKeys.UPDATE_OPS)
    mean, variance = graph.get_collection(GraphKeys.GLOBAL_VARIABLES)[2:]
    with Session() as session:
        session.run(TF["global_variables_initializer"]())
        session.run(updates, {training: False})
        np.testing.assert_array_equal(session.run(mean), [0, 0])
        found, _ = session.run([y, updates], {training: True})
        np.testing.assert_allclose(found.mean(0), 0, atol=1e-5)
        np.testing.assert_allclose(session.run(mean), 0.1 * value.mean(0), rtol=1e-4)
        np.testing.assert_allclose(session.run(variance), 0.9 + 0.1 * value.var(0), rtol=1e-4)


def test_dropout_keeps_the_expected_sum_and_repeats_with_a_seed():
    x = constant(np.ones(4000, np.float32))
    y = dropout(x, rate=0.25, seed=7)
    first, second = run(y), run(y)
    np.testing.assert_array_equal(first, second)
    assert set(np.unique(first)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((first == 0).mean() - 0.25) < 0.05


@pytest.mark.parametrize("bad", [{"rate": 1.0}, {"rate": 0.1, "keep_prob": 0.9}, {}])
def test_dropout_refuses(bad):
    with pytest.raises(ValueError):
        dropout(constant([1.0]), **bad)


def test_layer_dropout_follows_a_fed_mode():
    training = placeholder("bool", [])
    y = layers.dropout(constant(np.ones(100, np.float32)), 0.5, training=training)
    with Session() as session:
        assert (session.run(y, {training: False}) == 1).all()
        assert (session.run(y, {training: True}) == 0).any()


# ---- initializers


def test_constants_fill_and_stretch():
    assert run(initializers.Constant([1, 2, 3])([2, 3])).tolist() == [[1, 2, 3], [3, 3, 3]]
    assert run(initializers.Zeros()([2], "int32")).dtype == np.int32
    assert run(initializers.Ones()([40, 40])).sum() == 1600
    assert run(initializers.Zeros()([1], "string")).tolist() == [b""]
    assert run(initializers.Identity(2.0)([2, 3])).tolist() == [[2, 0, 0], [0, 2, 0]]


def test_a_constant_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="cannot fill"):
        initializers.Constant([1, 2, 3])([2])
    with pytest.raises(TypeError, match="is wanted"):
        initializers.Constant([1, 2], verify_shape=True)([2, 1])


@pytest.mark.parametrize(
    ("made", "variance", "bound"),
    [
        (initializers.GlorotUniform(seed=1), 2 / (60 + 140), np.sqrt(6 / 200)),
        (initializers.GlorotNormal(seed=1), 2 / (60 + 140), None),
        (initializers.HeNormal(seed=1), 2 / 60, None),
        (initializers.LecunUniform(seed=1), 1 / 60, np.sqrt(3 / 60)),
        (initializers.VarianceScaling(3.0, "fan_out", "untruncated_normal", 1), 3 / 140, None),
        (initializers.RandomNormal(0.0, 0.3, seed=1), 0.09, None),
        (initializers.RandomUniformV1(-1.0, 1.0, seed=1), 1 / 3, 1.0),
    ],
)
def test_random_initializers_have_their_variance(made, variance, bound):
    found = run(made([60, 140]))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.var(), variance, rtol=0.06)
    np.testing.assert_allclose(found.mean(), 0, atol=0.05 * np.sqrt(variance))
    if bound is not None:
        assert np.abs(found).max() <= bound * 1.0001


def test_fans_count_the_field_of_a_filter():
    found = run(initializers.HeUniform(seed=2)([3, 3, 20, 50]))
    assert np.abs(found).max() <= np.sqrt(6 / 180) * 1.0001
    np.testing.assert_allclose(found.var(), 2 / 180, rtol=0.06)


def test_configs_make_equal_initializers():
    for made in (
        initializers.VarianceScaling(2.0, "fan_out", "uniform", 4),
        initializers.GlorotUniform(seed=3),
        initializers.TruncatedNormal(1.0, 2.0, 5),
        initializers.Constant(7, "int32"),
    ):
        again = type(made).from_config(made.get_config())
        assert again.get_config() == made.get_config()


@pytest.mark.parametrize(
    "arguments", [{"scale": 0.0}, {"mode": "fan_none"}, {"distribution": "cauchy"}]
)
def test_variance_scaling_refuses(arguments):
    with pytest.raises(ValueError):
        initializers.VarianceScaling(**arguments)


# ---- losses


def test_losses_gather_in_their_collection():
    x = constant([1.0, 3.0])
    first = losses.mean_squared_error(constant([0.0, 1.0]), x)
    second = losses.absolute_difference(constant([0.0, 1.0]), x, scope="mine")
    losses.huber_loss(constant([0.0, 1.0]), x, loss_collection=None)
    assert weighted_losses.get_losses() == [first, second]
    assert weighted_losses.get_losses("mine") == [second]
    assert run(weighted_losses.get_total_loss()) == pytest.approx(2.5 + 1.5)


def test_regularization_losses_join_the_total():
    weighted_losses.add_loss(constant(1.0))
    weighted_losses.add_loss(constant(0.25), GraphKeys.REGULARIZATION_LOSSES)
    total, alone, regular = run(
        [
            weighted_losses.get_total_loss(),
            weighted_losses.get_total_loss(add_regularization_losses=False),
            weighted_losses.get_regularization_loss(),
        ]
    )
    assert (total, alone, regular) == (1.25, 1.0, 0.25)


def test_weights_that_do_not_broadcast_are_refused():
    with pytest.raises(ValueError, match="cannot be broadcast"):
        weighted_losses.compute_weighted_loss(constant([[1.0, 2.0]]), constant([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="is no reduction"):
        weighted_losses.compute_weighted_loss(constant([1.0]), reduction="mean")


def test_no_losses_have_no_total():
    with pytest.raises(ValueError, match="no losses"):
        weighted_losses.get_total_loss()
