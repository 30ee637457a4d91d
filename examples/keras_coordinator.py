"""Trains a network of Keras on handwritten digits with parameter servers and workers.

    tideflow run --as-tensorflow --coordinator --ps 1 --workers 2 examples/keras_coordinator.py

It is written for TensorFlow.  The chief makes the model, whose variables lie on the parameter
servers, and gives the workers steps to make; a worker may die, and its steps go to others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from absl import app, flags

from tideflow.digits import load_digits

EPOCHS = flags.DEFINE_integer("epochs", 12, "how often all examples are used")
SEED = flags.DEFINE_integer("seed", 1, "of the initial weights and the order of examples")
BATCH_SIZE = 64


def make_model() -> tf.keras.Model:
    """Return a convolutional network."""
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            tf.keras.Input((64,)),
            layers.Reshape((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )


def coordinate(resolver: Any) -> None:
    """Train with the tasks that serve, and test."""
    train_images, test_images, train_labels, test_labels = load_digits()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    tf.keras.utils.set_random_seed(SEED.value)
    with strategy.scope():
        model = make_model()
        optimizer = tf.keras.optimizers.Adam(0.005)
        optimizer.build(model.trainable_variables)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    def batches() -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices((train_images, train_labels))
        return data.shuffle(len(train_images)).repeat().batch(BATCH_SIZE)

    @tf.function
    def step(iterator: Iterator[tuple[tf.Tensor, tf.Tensor]]) -> tf.Tensor:
        def replica_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = loss_of(labels, model(images, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            return loss

        losses = strategy.run(replica_step, args=next(iterator))
        return strategy.reduce("SUM", losses, axis=None)

    iterator = iter(coordinator.create_per_worker_dataset(batches))
    steps = len(train_images) // BATCH_SIZE
    for epoch in range(EPOCHS.value):
        losses = [coordinator.schedule(step, args=(iterator,)) for _ in range(steps)]
        coordinator.join()
        if epoch % 4 == 3:
            print(f"epoch {epoch + 1}: loss {np.mean(coordinator.fetch(losses)):.4f}", flush=True)
    found = np.argmax(model(test_images), axis=1)
    print(f"variables on {model.trainable_variables[0].value.device}")
    print(f"test accuracy {np.mean(found == test_labels):.4f}")


def main(argv: list[str]) -> None:
    del argv
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "chief":
        coordinate(resolver)
    else:
        server = tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id)
        server.join()


if __name__ == "__main__":
    app.run(main)
