"""Gradients of the nn ops against differences of their values, once and twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ops.evaluate import evaluate
from tideflow.graph.building import apply_op
from tideflow.graph.graph import Graph
from tideflow.ops.framework.constants import placeholder
from tideflow.ops.gradients import gradients
from tideflow.ops.nn import (
    activations as nn_activations,
)
from tideflow.ops.nn import (
    batch_norm as nn_batch_norm,
)
from tideflow.ops.nn import (
    bias as nn_bias,
)
from tideflow.ops.nn import (
    cross_entropy as nn_losses,
)
from tideflow.ops.nn import depthwise_conv2d
from tideflow.ops.nn.avg_pools import avg_pool
from tideflow.ops.nn.convolutions import conv1d, conv2d, conv2d_transpose
from tideflow.ops.nn.depthwise import separable_conv2d
from tideflow.ops.nn.embedding import embedding_lookup
from tideflow.ops.nn.pools import max_pool
from tideflow.ops.nn.top_values import top_k

RNG = np.random.default_rng(5)
STEP = 1e-5


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def distinct(*shape: int) -> Any:
    """Numbers far enough apart that a small step changes no order, none of them near 0 or 6."""
    count = int(np.prod(shape))
    return (RNG.permutation(count) - count / 2 + 0.3).reshape(shape) * 0.37


def weighted_sum(y: Any) -> Any:
    """Return a number in which every element of y counts differently."""
    flat = apply_op("Reshape", y, [-1])
    count = apply_op("Cast", apply_op("Range", 1, apply_op("AddV2", apply_op("Size", y), 1), 1),
                     DstT=y.dtype)  # fmt: skip
    return apply_op("Sum", apply_op("Mul", flat, apply_op("Sin", count)), 0)


def differences(run: Callable[[list[Any]], float], values: list[Any]) -> list[Any]:
    found = []
    for i, value in enumerate(values):
        slope = np.empty(value.shape)
        for at in np.ndindex(*value.shape):
            ends = []
            for step in (STEP, -STEP):
                moved = [v.copy() for v in values]
                moved[i][at] += step
                ends.append(run(moved))
            slope[at] = (ends[0] - ends[1]) / (2 * STEP)
        found.append(slope)
    return found


def check(build: Callable[..., Any], values: list[Any], order: int, known: bool) -> None:
    """Compare gradients of a weighted sum of build(*values), or of their own weighted sum."""
    with Graph().as_default():
        xs = [placeholder("float64", v.shape if known else None) for v in values]
        y = weighted_sum(build(*xs))
        if order == 2:
            first = [g for g in gradients(y, xs) if g is not None]
            y = first[0] = weighted_sum(first[0])
            for other in first[1:]:
                y = apply_op("AddV2", y, weighted_sum(other))
        found = gradients(y, xs)
        feeds = lambda given: dict(zip(xs, given, strict=True))  # noqa: E731
        expected = differences(lambda given: float(evaluate([y], feeds(given))[0]), values)
        for slope, grad, x in zip(expected, found, xs, strict=True):
            if grad is None:
                np.testing.assert_allclose(slope, 0, atol=1e-7)
                continue
            value = evaluate([apply_op("Identity", grad)], feeds(values))[0]
            np.testing.assert_allclose(value, slope, rtol=2e-4, atol=2e-5)
            assert grad.shape.is_compatible_with(x.shape)


X = distinct(2, 4)
IMAGE = normal(1, 4, 4, 2)
POOLED = distinct(1, 4, 4, 2)
SAME2 = {"strides": [1, 2, 2, 1], "padding": "SAME"}

TWICE: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "relu": (nn_activations.relu, [X]),
    "relu6": (nn_activations.relu6, [X]),
    "leaky_relu": (lambda x: nn_activations.leaky_relu(x, 0.3), [X]),
    "elu": (nn_activations.elu, [X]),
    "selu": (nn_activations.selu, [X]),
    "softplus": (nn_activations.softplus, [X]),
    "swish": (lambda x: nn_activations.swish(x, 1.5), [X]),
    "gelu approximate": (lambda x: nn_activations.gelu(x, approximate=True), [X]),
    "bias_add": (nn_bias.bias_add, [normal(3, 2), normal(2)]),
    "relu_layer": (nn_bias.relu_layer, [normal(3, 2), normal(2, 4), normal(4)]),
    "l2_loss": (nn_bias.l2_loss, [normal(3, 2)]),
    "softmax": (nn_losses.softmax, [normal(2, 3)]),
    "log_softmax": (nn_losses.log_softmax, [normal(2, 3)]),
    "softmax xent": (
        # The op's gradient holds for labels that add up to 1.
        lambda x, z: nn_losses.softmax_cross_entropy_with_logits_v2(nn_losses.softmax(z), x),
        [normal(2, 3), normal(2, 3)],
    ),
    "sparse xent": (
        lambda x: nn_losses.sparse_softmax_cross_entropy_with_logits(labels=[2, 0], logits=x),
        [normal(2, 3)],
    ),
    "sigmoid xent": (
        lambda x, z: nn_losses.sigmoid_cross_entropy_with_logits(labels=z, logits=x),
        [X, normal(2, 4)],
    ),
    "conv2d": (lambda x, w: conv2d(x, w, **SAME2), [IMAGE, normal(3, 3, 2, 2)]),
    "depthwise": (
        lambda x, w: depthwise_conv2d(x, w, [1, 1, 1, 1], "VALID"),
        [IMAGE, normal(2, 2, 2, 2)],
    ),
    "max_pool": (lambda x: max_pool(x, 2, 2, "SAME"), [POOLED]),
    "avg_pool": (lambda x: avg_pool(x, 3, 2, "SAME"), [POOLED]),
}

ONCE: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "softsign": (nn_activations.softsign, [X]),
    "gelu": (nn_activations.gelu, [X]),
    "crelu": (nn_activations.crelu, [X]),
    "bias_add NCHW": (
        lambda x, b: nn_bias.bias_add(x, b, "NCHW"),
        [normal(2, 3, 2, 2), normal(3)],
    ),
    "weighted xent": (
        lambda x, z: nn_losses.weighted_cross_entropy_with_logits(z, x, 3.0),
        [X, normal(2, 4)],
    ),
    "log_poisson": (
        lambda x, z: nn_losses.log_poisson_loss(z, x, True),
        [normal(3), np.array([0.5, 2.5, 4.0])],
    ),
    "l2_normalize": (lambda x: nn_losses.l2_normalize(x, 1), [normal(2, 3)]),
    "conv2d explicit dilated": (
        lambda x, w: conv2d(x, w, 1, [[0, 0], [1, 0], [0, 2], [0, 0]], dilations=[1, 2, 1, 1]),
        [IMAGE, normal(2, 2, 2, 3)],
    ),
    "conv2d grouped": (lambda x, w: conv2d(x, w, 1, "SAME"), [IMAGE, normal(2, 2, 1, 2)]),
    "conv2d NCHW": (
        lambda x, w: conv2d(x, w, 1, "SAME", data_format="NCHW"),
        [normal(1, 2, 3, 3), normal(2, 2, 2, 2)],
    ),
    "conv2d_transpose": (
        lambda x, w: conv2d_transpose(x, w, [1, 5, 5, 3], 2, "SAME"),
        [normal(1, 3, 3, 2), normal(2, 2, 3, 2)],
    ),
    "separable": (
        lambda x, d, p: separable_conv2d(x, d, p, [1, 1, 1, 1], "SAME"),
        [IMAGE, normal(2, 2, 2, 1), normal(1, 1, 2, 3)],
    ),
    "conv1d": (lambda x, w: conv1d(x, w, 2, "SAME"), [normal(2, 5, 2), normal(3, 2, 3)]),
    "top_k": (lambda x: top_k(x, 2)[0], [distinct(2, 3, 4)]),
    "batch_normalization": (
        lambda x, m, v, o, s: nn_batch_norm.batch_normalization(x, m, v * v + 1.0, o, s, 0.1),
        [normal(3, 2), normal(2), normal(2), normal(2), normal(2)],
    ),
    "embedding of parts": (
        lambda a, b: embedding_lookup([a, b], [[3, 0], [2, 3]]),
        [normal(2, 2), normal(2, 2)],
    ),
}


@pytest.mark.parametrize("known", [True, False], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", [*TWICE, *ONCE])
def test_first_gradient(name, known):
    build, values = {**TWICE, **ONCE}[name]
    check(build, values, 1, known)


@pytest.mark.parametrize("name", TWICE)
def test_second_gradient(name):
    build, values = TWICE[name]
    check(build, values, 2, True)


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_second_gradients_of_batch_norms(is_training: bool, layout: str) -> None:
    """The gradient of the gradient tells how the gradient changes with a small step."""
    x = normal(2, 3, 2, 2).astype(np.float32)
    size = 2 if layout == "NHWC" else 3
    scale, offset = np.float32(1 + np.arange(size)), np.float32(0.5 * np.ones(size))
    moments = [np.zeros(0, np.float32)] * 2 if is_training else [offset, scale]
    attrs = {"is_training": is_training, "data_format": layout, "epsilon": 0.1}
    with Graph().as_default():
        given = [placeholder("float32", v.shape) for v in (x, scale, offset, *moments)]
        y = apply_op("FusedBatchNormV3", *given, **attrs)[0]
        first = gradients(weighted_sum(apply_op("Tanh", y)), given[:3])
        total = apply_op("AddN", [weighted_sum(one) for one in first])
        slopes = gradients(total, given[:3])
        feeds: dict[Any, Any] = dict(zip(given, (x, scale, offset, *moments)))
        values = evaluate(slopes, feeds)
        for at, slope in enumerate(values):
            way = normal(*slope.shape).astype(np.float32)
            ends = []
            for step in (-1e-2, 1e-2):
                moved = feeds | {given[at]: feeds[given[at]] + np.float32(step) * way}
                ends.append(float(evaluate([total], moved)[0]))
            expected = (ends[1] - ends[0]) / 2e-2
            np.testing.assert_allclose(np.sum(slope * way), expected, rtol=3e-2, atol=3e-2)
