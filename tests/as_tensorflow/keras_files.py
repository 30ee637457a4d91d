"""Files of one engine, which the other one reads: run with `tensorflow` or `tideflow`.

    python tests/as_tensorflow/keras_files.py ENGINE write|read FOLDER

Writing trains a model and saves it in each format; reading prints, as JSON, what the model computes
and how training goes on from each file.  Who reads its own files prints what is expected.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np

X = np.random.RandomState(0).randn(12, 4).astype("float32")
Y = X.sum(axis=1, keepdims=True)


def make(tf: Any) -> Any:
    """Return a model that is compiled, with a layer of each kind that holds variables otherwise."""
    layers = tf.keras.layers
    tf.keras.utils.set_random_seed(1)
    inputs = tf.keras.Input((4,))
    hidden = layers.Dense(5, activation="tanh")(inputs)
    hidden = layers.BatchNormalization()(hidden)
    hidden = layers.Reshape((5, 1))(hidden)
    hidden = layers.Bidirectional(layers.GRU(2))(hidden)
    model = tf.keras.Model(inputs, layers.Dense(1)(hidden))
    model.compile(tf.keras.optimizers.Adam(0.02), tf.keras.losses.MeanSquaredError())
    return model


def train(model: Any) -> list[float]:
    """Return the losses of one epoch."""
    history = model.fit(X, Y, batch_size=4, shuffle=False, verbose=0).history
    return [round(float(loss), 3) for loss in history["loss"]]


def write(tf: Any, folder: str) -> None:
    """Save a trained model in all formats."""
    model = make(tf)
    train(model)
    tf.train.Checkpoint(model=model, optimizer=model.optimizer).write(f"{folder}/checkpoint")
    model.save(f"{folder}/model.keras")
    model.save(f"{folder}/model.h5")
    model.save_weights(f"{folder}/model.weights.h5")


def read(tf: Any, folder: str) -> dict[str, Any]:
    """Return what a model computes that is read from each file, and how it trains from there."""
    found: dict[str, Any] = {}

    def look(name: str, model: Any) -> None:
        computed = np.round(model.predict(X[:3], verbose=0), 3).tolist()
        found[name] = [computed, train(model)]

    model = make(tf)
    train(model)
    status = tf.train.Checkpoint(model=model, optimizer=model.optimizer).read(
        f"{folder}/checkpoint"
    )
    status.assert_consumed()
    look("checkpoint", model)
    look("model.keras", tf.keras.models.load_model(f"{folder}/model.keras"))
    # Keras itself does not train on with the optimizer of such a file.
    model = tf.keras.models.load_model(f"{folder}/model.h5", compile=False)
    model.compile("sgd", "mse")
    look("model.h5", model)
    model = make(tf)
    model.load_weights(f"{folder}/model.weights.h5")
    look("model.weights.h5", model)
    return found


def main(engine: str, action: str, folder: str) -> None:
    """Write or read."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if engine == "tideflow":
        from tideflow.as_tensorflow import install  # noqa: PLC0415  (the other engine does without)

        install()
    import tensorflow as tf  # noqa: PLC0415

    if action == "write":
        write(tf, folder)
    print(json.dumps(read(tf, folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
