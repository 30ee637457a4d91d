"""Models as functions of an API module: weights in, loss out.

A network names its weights with their first values, and computes its loss from the weights (by
name) and a batch.  It uses only what `tideflow`, `tideflow.v1`, `tensorflow` and
`tensorflow.compat.v1` all have, so that all shapes of programs train the same model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.transformer_model import Sizes, initial_weights, loss_of_session

Weights = Mapping[str, Any]
Batch = dict[str, np.ndarray]


@dataclass(frozen=True)
class Network:
    """A model.

    Attributes:
      weights: the first values by name.
      batches: yields batches, by the name of each input, for ever; the same in every process.
      loss: computes the mean loss, a scalar, from (tf, weights, inputs).
      optimizer: "adam", "adagrad" or "sgd"; "" where nothing is trained.
      rate: the learning rate.
      sparse: names of weights that are only gathered from.
      loss_in_tf2: the loss as programs of the TF2 shape write it, where that differs.
    """

    weights: dict[str, np.ndarray]
    batches: Callable[[], Iterator[Batch]]
    loss: Callable[[Any, Weights, Weights], Any]
    optimizer: str = "adam"
    rate: float = 1e-3
    sparse: tuple[str, ...] = ()
    loss_in_tf2: Callable[[Any, Weights, Weights], Any] | None = None


def _drawn(rng: np.random.Generator, *shape: int) -> np.ndarray:
    fan_in = int(np.prod(shape[:-1]))
    return rng.normal(0, fan_in**-0.5, shape).astype(np.float32)


def _pictures(side: int, channels: int, count: int, classes: int = 10) -> Iterator[Batch]:
    rng = np.random.default_rng(1)
    made = [
        {
            "images": rng.normal(size=(count, side, side, channels)).astype(np.float32),
            "labels": rng.integers(0, classes, count).astype(np.int32),
        }
        for _ in range(8)
    ]
    while True:
        yield from made


def _cross_entropy(tf: Any, labels: Any, logits: Any) -> Any:
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(each)


def _conv(tf: Any, x: Any, filters: Any, stride: int = 1, padding: str = "SAME") -> Any:
    return tf.nn.conv2d(x, filters, strides=[1, stride, stride, 1], padding=padding)


def _max_pool(tf: Any, x: Any) -> Any:
    return tf.nn.max_pool2d(x, ksize=2, strides=2, padding="SAME")


def mlp(*sizes: int, batch: int) -> Network:
    """A multi-layer perceptron."""
    rng = np.random.default_rng(0)
    weights: dict[str, np.ndarray] = {}
    for i in range(len(sizes) - 1):
        weights[f"w{i}"] = _drawn(rng, sizes[i], sizes[i + 1])
        weights[f"b{i}"] = np.zeros(sizes[i + 1], np.float32)

    def batches() -> Iterator[Batch]:
        for one in _pictures(1, sizes[0], batch, sizes[-1]):
            yield {**one, "images": one["images"].reshape(batch, sizes[0])}

    def loss(tf: Any, w: Weights, x: Weights) -> Any:
        h = x["images"]
        for i in range(len(sizes) - 1):
            h = tf.matmul(h, w[f"w{i}"]) + w[f"b{i}"]
            if i < len(sizes) - 2:
                h = tf.nn.relu(h)
        return _cross_entropy(tf, x["labels"], h)

    return Network(weights, batches, loss, "sgd", 0.01)


def cnn() -> Network:
    """Two convolutions of 5x5 with 32 and 64 filters, each pooled, and layers of 512 and 10."""
    rng = np.random.default_rng(0)
    weights = {
        "conv1": _drawn(rng, 5, 5, 1, 32), "bias1": np.zeros(32, np.float32),
        "conv2": _drawn(rng, 5, 5, 32, 64), "bias2": np.zeros(64, np.float32),
        "dense": _drawn(rng, 7 * 7 * 64, 512), "bias3": np.zeros(512, np.float32),
        "out": _drawn(rng, 512, 10), "bias4": np.zeros(10, np.float32),
    }  # fmt: skip

    def loss(tf: Any, w: Weights, x: Weights) -> Any:
        h = _max_pool(tf, tf.nn.relu(_conv(tf, x["images"], w["conv1"]) + w["bias1"]))
        h = _max_pool(tf, tf.nn.relu(_conv(tf, h, w["conv2"]) + w["bias2"]))
        h = tf.nn.relu(tf.matmul(tf.reshape(h, [-1, 7 * 7 * 64]), w["dense"]) + w["bias3"])
        return _cross_entropy(tf, x["labels"], tf.matmul(h, w["out"]) + w["bias4"])

    return Network(weights, lambda: _pictures(28, 1, 32), loss)


def lenet() -> Network:
    """LeNet-5 with maxima and rectifiers, on pictures of 28x28."""
    rng = np.random.default_rng(0)
    weights = {
        "conv1": _drawn(rng, 5, 5, 1, 6), "conv2": _drawn(rng, 5, 5, 6, 16),
        "dense1": _drawn(rng, 5 * 5 * 16, 120), "dense2": _drawn(rng, 120, 84),
        "out": _drawn(rng, 84, 10),
    }  # fmt: skip

    def loss(tf: Any, w: Weights, x: Weights) -> Any:
        h = _max_pool(tf, tf.nn.relu(_conv(tf, x["images"], w["conv1"])))
        h = _max_pool(tf, tf.nn.relu(_conv(tf, h, w["conv2"], padding="VALID")))
        h = tf.nn.relu(tf.matmul(tf.reshape(h, [-1, 5 * 5 * 16]), w["dense1"]))
        h = tf.nn.relu(tf.matmul(h, w["dense2"]))
        return _cross_entropy(tf, x["labels"], tf.matmul(h, w["out"]))

    return Network(weights, lambda: _pictures(28, 1, 32), loss)


def resnet20() -> Network:
    """The residual network of 20 layers for pictures of 32x32, its batches normalised."""
    rng = np.random.default_rng(0)
    weights: dict[str, np.ndarray] = {"stem": _drawn(rng, 3, 3, 3, 16)}
    blocks: list[tuple[str, int]] = []
    width = 16
    for stage, filters in enumerate((16, 32, 64)):
        for block in range(3):
            name = f"s{stage}b{block}"
            stride = 2 if stage and not block else 1
            weights[f"{name}_1"] = _drawn(rng, 3, 3, width, filters)
            weights[f"{name}_2"] = _drawn(rng, 3, 3, filters, filters)
            if width != filters:
                weights[f"{name}_skip"] = _drawn(rng, 1, 1, width, filters)
            blocks.append((name, stride))
            width = filters
    for name in list(weights):
        weights[f"{name}_scale"] = np.ones(weights[name].shape[-1], np.float32)
        weights[f"{name}_shift"] = np.zeros(weights[name].shape[-1], np.float32)
    weights["out"] = _drawn(rng, 64, 10)

    def loss(tf: Any, w: Weights, x: Weights) -> Any:
        def normed(h: Any, name: str, stride: int = 1) -> Any:
            h = _conv(tf, h, w[name], stride)
            mean, variance = tf.nn.moments(h, [0, 1, 2])
            scale, shift = w[f"{name}_scale"], w[f"{name}_shift"]
            return tf.nn.batch_normalization(h, mean, variance, shift, scale, 1e-5)

        h = tf.nn.relu(normed(x["images"], "stem"))
        for name, stride in blocks:
            inner = tf.nn.relu(normed(h, f"{name}_1", stride))
            skip = normed(h, f"{name}_skip", stride) if f"{name}_skip" in w else h
            h = tf.nn.relu(normed(inner, f"{name}_2") + skip)
        return _cross_entropy(tf, x["labels"], tf.matmul(tf.reduce_mean(h, [1, 2]), w["out"]))

    return Network(weights, lambda: _pictures(32, 3, 32), loss)


def transformer() -> Network:
    """Two layers 128 wide, of 4 heads; 8 sequences of 64 of 1000 tokens."""
    sizes = Sizes(layers=2, width=128, heads=4, length=64, batch=8, vocabulary=1000)

    def batches() -> Iterator[Batch]:
        rng = np.random.default_rng(1)
        shape = (sizes.batch, sizes.length + 1)
        made = [rng.integers(0, sizes.vocabulary, shape).astype(np.int32) for _ in range(8)]
        while True:
            yield from ({"tokens": one} for one in made)

    def loss(tf: Any, w: Weights, x: Weights) -> Any:
        return loss_of_session(_with_rsqrt(tf), dict(w), x["tokens"], sizes)

    return Network(initial_weights(sizes), batches, loss)


class _with_rsqrt:  # noqa: N801 - it stands for a module
    """The TF2 shape keeps rsqrt under `math`."""

    def __init__(self, tf: Any) -> None:
        self._tf = tf

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tf.math if name == "rsqrt" else self._tf, name)


_LSTM_STEPS, _LSTM_WIDTH, _LSTM_BATCH = 30, 64, 32


def lstm() -> Network:
    """An LSTM 64 wide over 30 steps of 32 sequences: `tf.while_loop`, or `for` over `tf.range`."""
    rng = np.random.default_rng(0)
    weights = {
        "gates": _drawn(rng, 2 * _LSTM_WIDTH, 4 * _LSTM_WIDTH),
        "bias": np.zeros(4 * _LSTM_WIDTH, np.float32),
        "out": _drawn(rng, _LSTM_WIDTH, 10),
    }

    def batches() -> Iterator[Batch]:
        draw = np.random.default_rng(1)
        shape = (_LSTM_STEPS, _LSTM_BATCH, _LSTM_WIDTH)
        made = [
            {
                "inputs": draw.normal(size=shape).astype(np.float32),
                "labels": draw.integers(0, 10, _LSTM_BATCH).astype(np.int32),
            }
            for _ in range(8)
        ]
        while True:
            yield from made

    def cell(tf: Any, x: Any, h: Any, c: Any, gates: Any, bias: Any) -> tuple[Any, Any]:
        mixed = tf.matmul(tf.concat([x, h], 1), gates) + bias
        i, f, o, g = tf.split(mixed, 4, 1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        return tf.sigmoid(o) * tf.tanh(c), c

    def loss(tf: Any, w: Weights, x: Weights) -> Any:
        gates, bias, inputs = tf.convert_to_tensor(w["gates"]), w["bias"] + 0.0, x["inputs"]

        def body(t: Any, h: Any, c: Any) -> tuple[Any, Any, Any]:
            return t + 1, *cell(tf, inputs[t], h, c, gates, bias)

        zeros = tf.zeros([_LSTM_BATCH, _LSTM_WIDTH])
        _, h, _ = tf.while_loop(
            lambda t, h, c: t < _LSTM_STEPS, body, [tf.constant(0), zeros, zeros]
        )
        return _cross_entropy(tf, x["labels"], tf.matmul(h, w["out"]))

    def loss_in_tf2(tf: Any, w: Weights, x: Weights) -> Any:
        h = tf.zeros([_LSTM_BATCH, _LSTM_WIDTH])
        c = tf.zeros([_LSTM_BATCH, _LSTM_WIDTH])
        for t in tf.range(_LSTM_STEPS):
            h, c = cell(tf, x["inputs"][t], h, c, w["gates"], w["bias"])
        return _cross_entropy(tf, x["labels"], tf.matmul(h, w["out"]))

    return Network(weights, batches, loss, "sgd", 0.1, loss_in_tf2=loss_in_tf2)


def recommender() -> Network:
    """Two tables of 100,000 and 50,000 rows of 64; 512 pairs a step."""
    rng = np.random.default_rng(0)
    users, things, width, count = 100_000, 50_000, 64, 512
    weights = {
        "users": rng.normal(0, 0.1, (users, width)).astype(np.float32),
        "things": rng.normal(0, 0.1, (things, width)).astype(np.float32),
        "bias": np.zeros((), np.float32),
    }

    def batches() -> Iterator[Batch]:
        draw = np.random.default_rng(1)
        made = [
            {
                "user": draw.integers(0, users, count).astype(np.int32),
                "thing": draw.integers(0, things, count).astype(np.int32),
                "rating": draw.random(count).astype(np.float32),
            }
            for _ in range(8)
        ]
        while True:
            yield from made

    def loss(tf: Any, w: Weights, x: Weights) -> Any:
        user = tf.nn.embedding_lookup(w["users"], x["user"])
        thing = tf.nn.embedding_lookup(w["things"], x["thing"])
        guessed = tf.reduce_sum(user * thing, 1) + w["bias"]
        return tf.reduce_mean(tf.square(guessed - x["rating"]))

    return Network(weights, batches, loss, "adagrad", 0.1, ("users", "things"))


def _floats(count: int) -> Iterator[Batch]:
    rng = np.random.default_rng(1)
    made = [{"floats": rng.random(count).astype(np.float32)} for _ in range(8)]
    while True:
        yield from made


def loop() -> Network:
    """A loop of 1000 turns with two scalar ops: one counts, one multiplies."""

    def loss(tf: Any, w: Weights, x: Weights) -> Any:
        start = tf.reduce_mean(x["floats"])
        _, found = tf.while_loop(
            lambda i, y: i < 1000, lambda i, y: (i + 1, y * 0.999), [tf.constant(0), start]
        )
        return found

    return Network({}, lambda: _floats(8), loss, "")


def chain() -> Network:
    """2000 ops in a row on eight floats, of two kinds, so that no optimiser merges them."""

    def loss(tf: Any, w: Weights, x: Weights) -> Any:
        found = x["floats"]
        for _ in range(1000):
            found = found * 0.5 + x["floats"]
        return tf.reduce_mean(found)

    return Network({}, lambda: _floats(8), loss, "")


NETWORKS: dict[str, Callable[[], Network]] = {
    "cnn": cnn,
    "lenet": lenet,
    "resnet20": resnet20,
    "transformer": transformer,
    "lstm": lstm,
    "recommender": recommender,
    "loop": loop,
    "chain": chain,
    "small-mlp": lambda: mlp(64, 128, 10, batch=64),
    "big-mlp": lambda: mlp(784, 1024, 1024, 10, batch=256),
}
