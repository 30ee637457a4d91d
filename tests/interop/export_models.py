"""Export training steps of small Keras models: `python export_models.py DIRECTORY`.

Each becomes a graph with its functions (graph.pb) that applies Adam once, the tensor of its loss
(loss.txt), the batch to feed (feeds.npz), and the first values of the variables by the name of the
placeholder that stands for their resource (variables.npz).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

BATCH = 16
Arrays = tuple[np.ndarray, ...]
_random = np.random.default_rng(7)


def _labels(classes: int) -> np.ndarray:
    return _random.integers(0, classes, BATCH).astype(np.int32)


def _tokens(*shape: int) -> np.ndarray:
    return _random.integers(0, 50, (BATCH, *shape)).astype(np.int32)


def mlp() -> tuple[Any, Arrays]:
    """Two dense layers."""
    model = keras.Sequential([layers.Dense(32, activation="relu"), layers.Dense(10)])
    return model, (_random.normal(size=(BATCH, 20)).astype(np.float32), _labels(10))


def cnn() -> tuple[Any, Arrays]:
    """Convolutions with batch normalisation and pooling."""
    model = keras.Sequential(
        [
            layers.Conv2D(8, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.DepthwiseConv2D(3, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(5),
        ]
    )
    return model, (_random.normal(size=(BATCH, 12, 12, 3)).astype(np.float32), _labels(5))


def lstm() -> tuple[Any, Arrays]:
    """A recurrent network over tokens, its loop and the gradient of that."""
    model = keras.Sequential([layers.Embedding(50, 8), layers.LSTM(12), layers.Dense(4)])
    return model, (_tokens(9), _labels(4))


def gru() -> tuple[Any, Arrays]:
    """Two recurrent layers, the first of which hands on every state."""
    model = keras.Sequential(
        [
            layers.Embedding(50, 8),
            layers.GRU(8, return_sequences=True),
            layers.GRU(6),
            layers.Dense(4),
        ]
    )
    return model, (_tokens(7), _labels(4))


def transformer() -> tuple[Any, Arrays]:
    """One block of attention and a feed-forward part, with layer normalisation."""
    tokens = keras.Input((8,), dtype="int32")
    x = layers.Embedding(50, 16)(tokens)
    attended = layers.MultiHeadAttention(2, 8)(x, x, use_causal_mask=True)
    x = layers.LayerNormalization()(x + attended)
    forward = layers.Dense(16)(layers.Dense(32, activation="gelu")(x))
    x = layers.LayerNormalization()(x + forward)
    model = keras.Model(tokens, layers.Dense(6)(layers.GlobalAveragePooling1D()(x)))
    return model, (_tokens(8), _labels(6))


def recommender() -> tuple[Any, Arrays]:
    """Embeddings of users and items, whose gradients are sparse."""
    pair = keras.Input((2,), dtype="int32")
    user = layers.Embedding(50, 8)(pair[:, 0])
    item = layers.Embedding(50, 8)(pair[:, 1])
    both = layers.Concatenate()([user, item, user * item])
    model = keras.Model(pair, layers.Dense(3)(layers.Dense(16, activation="tanh")(both)))
    return model, (_tokens(2), _labels(3))


MODELS: dict[str, Callable[[], tuple[Any, Arrays]]] = {
    one.__name__: one for one in (mlp, cnn, lstm, gru, transformer, recommender)
}


def export(name: str, directory: Path) -> None:
    """Write one step as a graph, and what it is fed with."""
    keras.utils.set_random_seed(3)
    model, (inputs, labels) = MODELS[name]()
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model(inputs)
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)

    @tf.function(autograph=False)
    def train(inputs: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(inputs, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    step = train.get_concrete_function(
        tf.TensorSpec((None, *inputs.shape[1:]), inputs.dtype, "inputs"),
        tf.TensorSpec((None,), labels.dtype, "labels"),
    )
    values = {variable.handle.ref(): variable.numpy() for variable in step.graph.variables}
    pairs = [(inner.name, outer) for outer, inner in step.graph.captures]
    directory.mkdir(parents=True)
    (directory / "graph.pb").write_bytes(step.graph.as_graph_def().SerializeToString())
    np.savez(directory / "feeds.npz", inputs=inputs, labels=labels)
    np.savez(directory / "variables.npz", **{name: values[outer.ref()] for name, outer in pairs})
    (directory / "loss.txt").write_text(step.outputs[0].name)


if __name__ == "__main__":
    for model_name in MODELS:
        export(model_name, Path(sys.argv[1]) / model_name)
