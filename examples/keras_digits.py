"""Trains a convolutional network of Keras on handwritten digits, on one device or several.

    python -m tideflow.as_tensorflow examples/keras_digits.py
    python -m tideflow.as_tensorflow examples/keras_digits.py --replicas 2

It is written for TensorFlow: `python examples/keras_digits.py` runs it there.  With several
replicas the CPU is divided into as many devices, and each batch among them.  The model is saved,
loaded again, and tested.
"""

from __future__ import annotations

import os
import tempfile

import numpy as np
import tensorflow as tf
from absl import app, flags

from tideflow.digits import load_digits

REPLICAS = flags.DEFINE_integer("replicas", 1, "how many devices to divide the CPU into")
EPOCHS = flags.DEFINE_integer("epochs", 6, "how often all examples are used")
SEED = flags.DEFINE_integer("seed", 1, "of the initial weights and the order of examples")
BATCH_SIZE = 64


def make_strategy() -> tf.distribute.Strategy:
    """Return what trains on as many devices as are wanted."""
    if REPLICAS.value == 1:
        return tf.distribute.get_strategy()
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * REPLICAS.value
    )
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(REPLICAS.value)])


def make_model() -> tf.keras.Model:
    """Return a network that is ready to be trained."""
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            tf.keras.Input((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dropout(0.2),
            layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=tf.keras.optimizers.Adam(0.003),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def main(argv: list[str]) -> None:
    del argv
    strategy = make_strategy()
    tf.keras.utils.set_random_seed(SEED.value)
    train_images, test_images, train_labels, test_labels = load_digits()
    images = train_images.reshape(-1, 8, 8, 1)
    data = tf.data.Dataset.from_tensor_slices((images, train_labels))
    data = data.shuffle(len(images), seed=SEED.value).batch(BATCH_SIZE, drop_remainder=True)
    with strategy.scope():
        model = make_model()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "best.keras")
        best = tf.keras.callbacks.ModelCheckpoint(path, monitor="loss", save_best_only=True)
        history = model.fit(data, epochs=EPOCHS.value, shuffle=False, verbose=0, callbacks=[best])
        for epoch, loss in enumerate(history.history["loss"], 1):
            print(f"epoch {epoch}: loss {loss:.4f}", flush=True)
        loaded = tf.keras.models.load_model(path)
    found = loaded.predict(test_images.reshape(-1, 8, 8, 1), verbose=0).argmax(axis=1)
    print(f"{strategy.num_replicas_in_sync} replicas")
    print(f"test accuracy {np.mean(found == test_labels):.4f}")


if __name__ == "__main__":
    app.run(main)
