"""The public functions of tf.nn and tf.losses beside TensorFlow's, built the same way in both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ops.evaluate import evaluate
from tideflow.graph.graph import Graph
from tideflow.ops.export import exports

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow
tf = tensorflow.compat.v1

RNG = np.random.default_rng(23)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.normal(size=shape).astype(dtype)


X = normal(3, 4)
Z = RNG.uniform(size=(3, 4)).astype(np.float32)
ONE_HOT = np.eye(4, dtype=np.float32)[[2, 0, 3]]
CLASSES = np.array([2, 0, 3])
WEIGHTS = np.array([0.5, 0.0, 2.0], np.float32)
COLUMN = WEIGHTS[:, None]
IMAGE = normal(2, 5, 5, 3)
TABLE = normal(7, 2)
IDS = np.array([[0, 6], [3, 4]])

NN = {
    "relu": {"features": X},
    "leaky_relu": {"features": np.array([-3, 4])},
    "crelu": {"features": X},
    "swish": {"features": X},
    "softplus": {"features": X},
    "bias_add": {"value": IMAGE, "bias": normal(3), "data_format": "NHWC"},
    "xw_plus_b": {"x": X, "weights": normal(4, 2), "biases": normal(2)},
    "relu_layer": {"x": X, "weights": normal(4, 2), "biases": normal(2)},
    "l2_loss": {"t": X},
    "l2_normalize": {"x": IMAGE, "axis": [1, 2]},
    "zero_fraction": {"value": np.array([0, 1, 0, 3])},
    "softmax": {"logits": IMAGE, "axis": 1},
    "log_softmax": {"logits": IMAGE, "axis": -3},
    "softmax_cross_entropy_with_logits": {"labels": ONE_HOT, "logits": X},
    "softmax_cross_entropy_with_logits_v2": {"labels": IMAGE, "logits": IMAGE, "axis": 1},
    "sparse_softmax_cross_entropy_with_logits": {
        "labels": RNG.integers(0, 3, size=(2, 5, 5)), "logits": IMAGE,
    },
    "sigmoid_cross_entropy_with_logits": {"labels": Z, "logits": X},
    "weighted_cross_entropy_with_logits": {"labels": Z, "logits": X, "pos_weight": 2.5},
    "log_poisson_loss": {"targets": Z * 4, "log_input": X, "compute_full_loss": True},
    "conv2d": {
        "input": IMAGE, "filter": normal(3, 3, 3, 2), "strides": [1, 2, 2, 1], "padding": "SAME",
    },
    "conv2d_transpose": {
        "value": IMAGE, "filter": normal(3, 3, 2, 3), "output_shape": [2, 10, 10, 2],
        "strides": 2, "padding": "SAME",
    },
    "conv1d": {
        "value": IMAGE[:, 0], "filters": normal(2, 3, 2), "stride": 2, "padding": "VALID",
    },
    "depthwise_conv2d": {
        "input": IMAGE, "filter": normal(2, 2, 3, 2), "strides": [1, 1, 1, 1], "padding": "SAME",
        "rate": [2, 2],
    },
    "separable_conv2d": {
        "input": IMAGE, "depthwise_filter": normal(2, 2, 3, 1),
        "pointwise_filter": normal(1, 1, 3, 4), "strides": [1, 1, 1, 1], "padding": "VALID",
    },
    "max_pool": {"value": IMAGE, "ksize": 2, "strides": 2, "padding": "VALID"},
    "avg_pool": {"value": IMAGE, "ksize": 3, "strides": [2, 1], "padding": "SAME"},
    "avg_pool_v2": {"input": IMAGE, "ksize": 2, "strides": 1, "padding": "VALID"},
    "max_pool_v2": {"input": IMAGE, "ksize": [2, 1], "strides": 2, "padding": "SAME"},
    "atrous_conv2d": {
        "value": IMAGE, "filters": normal(2, 2, 3, 2), "rate": 2, "padding": "SAME",
    },
    "depthwise_conv2d_native": {
        "input": IMAGE, "filter": normal(2, 2, 3, 2), "strides": [1, 1, 1, 1], "padding": "VALID",
    },
    "moments": {"x": IMAGE, "axes": [0, 1, 2]},
    "batch_normalization": {
        "x": IMAGE, "mean": normal(3), "variance": np.abs(normal(3)), "offset": normal(3),
        "scale": normal(3), "variance_epsilon": 0.01,
    },
    "fused_batch_norm": {"x": IMAGE, "scale": normal(3), "offset": normal(3)},
    "top_k": {"input": X, "k": 2},
    "in_top_k": {"predictions": X, "targets": CLASSES, "k": 2},
    "embedding_lookup": {"params": TABLE, "ids": IDS},
}  # fmt: skip

REGRESSION = {"labels": Z, "predictions": X}
LOSSES = {
    "absolute_difference": REGRESSION,
    "mean_squared_error": REGRESSION,
    "cosine_distance": {**REGRESSION, "axis": 1},
    "hinge_loss": {"labels": ONE_HOT, "logits": X},
    "huber_loss": {**REGRESSION, "delta": 0.7},
    "log_loss": {"labels": ONE_HOT, "predictions": Z},
    "sigmoid_cross_entropy": {
        "multi_class_labels": ONE_HOT, "logits": X, "label_smoothing": 0.1,
    },
    "softmax_cross_entropy": {"onehot_labels": ONE_HOT, "logits": X, "label_smoothing": 0.2},
    "sparse_softmax_cross_entropy": {"labels": CLASSES, "logits": X},
}  # fmt: skip


def ours(name: str, arguments: dict[str, Any]) -> list[Any]:
    with Graph().as_default(), np.errstate(all="ignore"):
        found = exports()[name](**arguments)
        return evaluate(list(found) if isinstance(found, tuple) else [found])


def theirs(name: str, arguments: dict[str, Any]) -> list[Any]:
    function: Any = tf
    for part in name.split("."):
        function = getattr(function, part)
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(tf.nest.flatten(function(**arguments)))


def differences(name: str, arguments: dict[str, Any]) -> list[str]:
    """Return what differs between the outputs of both."""
    found, expected = ours(name, arguments), theirs(name, arguments)
    if len(found) != len(expected):
        return [f"{len(found)} outputs; TensorFlow has {len(expected)}"]
    return [
        f"output {i}: {mine!r}; TensorFlow: {other!r}"
        for i, (mine, other) in enumerate(zip(found, expected, strict=True))
        if mine.dtype != other.dtype
        or mine.shape != other.shape
        or not np.allclose(mine, other, rtol=2e-5, atol=2e-5, equal_nan=True)
    ]


@pytest.mark.parametrize("name", NN)
def test_nn(name):
    assert differences(f"nn.{name}", NN[name]) == []


@pytest.mark.parametrize("strategy", ["mod", "div"])
@pytest.mark.parametrize("max_norm", [None, 0.5])
def test_embedding_of_parts(strategy, max_norm):
    parts = [TABLE[:3], TABLE[3:5], TABLE[5:7]]
    arguments = {"params": parts, "ids": IDS, "partition_strategy": strategy, "max_norm": max_norm}
    assert differences("nn.embedding_lookup", arguments) == []


@pytest.mark.parametrize(
    "reduction", ["none", "weighted_sum", "weighted_mean", "weighted_sum_over_batch_size",
                  "weighted_sum_by_nonzero_weights"],
)  # fmt: skip
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name, reduction):
    by_row = name in ("softmax_cross_entropy", "sparse_softmax_cross_entropy")
    for weights in (1.0, 0.0, WEIGHTS if by_row else COLUMN):
        assert (
            differences(
                f"losses.{name}", {**LOSSES[name], "weights": weights, "reduction": reduction}
            )
            == []
        )
