"""Ops on volumes, in what TensorFlow's CPU kernels leave out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.harness import Case, run
from tideflow.graph.building import apply_op

_random = np.random.default_rng(5)
X = _random.normal(size=(2, 5, 6, 7, 3)).astype(np.float32)
W = _random.normal(size=(2, 3, 2, 3, 4)).astype(np.float32)
RATES = (2, 1, 3)


def with_holes(w: Any) -> Any:
    """Return a filter with zeros between its taps, as dilation means it."""
    sizes = [(size - 1) * rate + 1 for size, rate in zip(w.shape, RATES)]
    made = np.zeros((*sizes, *w.shape[3:]), w.dtype)
    made[tuple(slice(None, None, rate) for rate in RATES)] = w
    return made


@pytest.mark.parametrize("tier", ["numpy", "jax"])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_a_dilated_filter_is_one_with_holes(tier: str, padding: str) -> None:
    plain = {"strides": [1] * 5, "padding": padding}
    (wanted,) = run(Case("Conv3D", [X, with_holes(W)], plain), tier)
    dilated = {**plain, "dilations": [1, *RATES, 1]}
    (found,) = run(Case("Conv3D", [X, W], dilated), tier)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    dy = _random.normal(size=wanted.shape).astype(np.float32)
    sizes = np.int32(X.shape)
    (wanted,) = run(Case("Conv3DBackpropInputV2", [sizes, with_holes(W), dy], plain), tier)
    (found,) = run(Case("Conv3DBackpropInputV2", [sizes, W, dy], dilated), tier)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("tier", ["numpy", "jax"])
def test_the_channels_may_come_second(tier: str) -> None:
    attrs = {"strides": [1, 2, 1, 2, 1], "padding": "SAME"}
    second = {"strides": [1, 1, 2, 1, 2], "padding": "SAME", "data_format": "NCDHW"}
    turned = X.transpose(0, 4, 1, 2, 3)
    for op, given, sizes in (
        ("Conv3D", [W], {}),
        ("MaxPool3D", [], {"ksize": 2}),
        ("AvgPool3D", [], {"ksize": 2}),
    ):
        ksize = {"ksize": [1, 2, 2, 2, 1]} if sizes else {}
        other = {"ksize": [1, 1, 2, 2, 2]} if sizes else {}
        (wanted,) = run(Case(op, [X, *given], {**attrs, **ksize}), tier)
        (found,) = run(Case(op, [turned, *given], {**second, **other}), tier)
        np.testing.assert_allclose(found.transpose(0, 2, 3, 4, 1), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("tier", ["numpy", "jax"])
def test_channels_in_groups_are_convolutions_of_their_own(tier: str) -> None:
    attrs = {"strides": [1, 2, 1, 2, 1], "padding": "SAME"}
    x = _random.normal(size=(2, 4, 3, 5, 6)).astype(np.float32)
    w = _random.normal(size=(2, 3, 2, 2, 9)).astype(np.float32)
    groups = list(zip(np.split(x, 3, axis=4), np.split(w, 3, axis=4)))
    (found,) = run(Case("Conv3D", [x, w], attrs), tier)
    wanted = [run(Case("Conv3D", [one, its], attrs), tier)[0] for one, its in groups]
    np.testing.assert_allclose(found, np.concatenate(wanted, 4), rtol=1e-4, atol=1e-4)
    dy = _random.normal(size=found.shape).astype(np.float32)
    parts = list(zip(groups, np.split(dy, 3, axis=4)))
    for op, inputs, of_group in (
        (
            "Conv3DBackpropInputV2",
            [np.int32(x.shape), w, dy],
            lambda one, its, part: [np.int32(one.shape), its, part],
        ),
        (
            "Conv3DBackpropFilterV2",
            [x, np.int32(w.shape), dy],
            lambda one, its, part: [one, np.int32(its.shape), part],
        ),
    ):
        (found,) = run(Case(op, inputs, attrs), tier)
        each = [run(Case(op, of_group(*pair, part), attrs), tier)[0] for pair, part in parts]
        np.testing.assert_allclose(found, np.concatenate(each, 4), rtol=1e-4, atol=1e-4)


SAME = {"strides": [1, 2, 1, 2, 1], "padding": "SAME"}
POOL = {**SAME, "ksize": [1, 2, 3, 2, 1]}
SIZES = np.int32(W.shape)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("Conv3D", [X, W[:, :, :, :2]], SAME),
        ("Conv3D", [X[0], W], SAME),
        ("Conv3D", [X, W[0]], SAME),
        ("Conv3DBackpropInputV2", [np.int32([1, 2]), W, X], SAME),
        ("Conv3DBackpropFilterV2", [X, SIZES, X], SAME),
        ("MaxPool3D", [X[0]], POOL),
        ("AvgPool3DGrad", [np.int32([1, 2]), X], POOL),
    ],
)
def test_inputs_that_do_not_fit_are_refused(op: str, inputs: list[Any], attrs: Any) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        # Nothing is known of them when the graph is made.
        given = [tf.placeholder(one.dtype.name, None) for one in inputs]
        made = apply_op(op, *given, **attrs)
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(made, dict(zip(given, inputs)))
