"""A small transformer as a graph, and what it starts from.

It is its own module because who measures tideflow must not have imported jax.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

NORM_EPSILON = 1e-5


@dataclass(frozen=True)
class Sizes:
    """How large the model and its batch are."""

    layers: int
    width: int
    heads: int
    length: int
    batch: int
    vocabulary: int


def initial_weights(sizes: Sizes) -> dict[str, np.ndarray]:
    """Return the weights by name."""
    rng = np.random.default_rng(0)
    width = sizes.width

    def drawn(*shape: int) -> np.ndarray:
        return rng.normal(0, shape[0] ** -0.5, shape).astype(np.float32)

    made = {"embedding": drawn(sizes.vocabulary, width), "position": drawn(sizes.length, width)}
    for i in range(sizes.layers):
        for norm in ("before", "middle"):
            made[f"{i}_{norm}_scale"] = np.ones(width, np.float32)
            made[f"{i}_{norm}_shift"] = np.zeros(width, np.float32)
        made[f"{i}_qkv"] = drawn(width, 3 * width)
        made[f"{i}_join"] = drawn(width, width)
        made[f"{i}_widen"] = drawn(width, 4 * width)
        made[f"{i}_narrow"] = drawn(4 * width, width)
    made["out"] = drawn(width, sizes.vocabulary)
    return made


def tokens_of(sizes: Sizes) -> np.ndarray:
    """Return a batch of sequences, one token longer than what the model reads."""
    rng = np.random.default_rng(1)
    shape = (sizes.batch, sizes.length + 1)
    return rng.integers(0, sizes.vocabulary, shape).astype(np.int32)


def loss_of_session(tf: Any, weights: dict[str, Any], tokens: Any, sizes: Sizes) -> Any:
    """Return the mean cross entropy as a tensor of the graph."""

    def normed(x: Any, name: str) -> Any:
        x = x - tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(x * x, -1, keepdims=True)
        return (
            x * tf.rsqrt(variance + NORM_EPSILON) * weights[f"{name}_scale"]
            + weights[f"{name}_shift"]
        )

    def through(x: Any, name: str, width: int) -> Any:
        return tf.reshape(
            tf.matmul(tf.reshape(x, [-1, int(weights[name].shape[0])]), weights[name]),
            [sizes.batch, sizes.length, width],
        )

    depth = sizes.width // sizes.heads
    mask = tf.constant(mask_of(sizes.length))
    x = tf.gather(weights["embedding"], tokens[:, :-1]) + weights["position"]
    for i in range(sizes.layers):
        qkv = through(normed(x, f"{i}_before"), f"{i}_qkv", 3 * sizes.width)
        qkv = tf.reshape(qkv, [sizes.batch, sizes.length, 3, sizes.heads, depth])
        q, k, v = tf.unstack(tf.transpose(qkv, [2, 0, 3, 1, 4]))
        scores = tf.matmul(q, k, transpose_b=True) * depth**-0.5 + mask
        mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), v), [0, 2, 1, 3])
        mixed = tf.reshape(mixed, [sizes.batch, sizes.length, sizes.width])
        x = x + through(mixed, f"{i}_join", sizes.width)
        wide = tf.nn.relu(through(normed(x, f"{i}_middle"), f"{i}_widen", 4 * sizes.width))
        x = x + through(wide, f"{i}_narrow", sizes.width)
    logits = through(x, "out", sizes.vocabulary)
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tokens[:, 1:], logits=logits)
    )


def mask_of(length: int) -> np.ndarray:
    """Return what keeps a token from looking at later ones."""
    return np.triu(np.full((length, length), -1e9, np.float32), 1)
