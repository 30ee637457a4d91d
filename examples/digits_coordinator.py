"""Trains a classifier of handwritten digits by a coordinator, on parameter servers and workers.

    tideflow run --coordinator --ps 2 --workers 2 --restart examples/digits_coordinator.py

Variables lie on the parameter servers.  The chief coordinates: it gives the workers steps to make,
each on its own stream of batches, and does not wait for any of them.  A worker may die: its steps
go to the others until it is back.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import numpy as np
from absl import app, flags

import tideflow as tf
from tideflow.digits import load_digits

EPOCHS = flags.DEFINE_integer("epochs", 60, "how often all examples are used")
SEED = flags.DEFINE_integer("seed", 1, "of the initial weights and the order of examples")
BATCH_SIZE = 64


def coordinate(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Train with the tasks that serve, and test."""
    train_images, test_images, train_labels, test_labels = load_digits()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    tf.random.set_seed(SEED.value)
    with strategy.scope():
        hidden = tf.Variable(tf.random.normal([64, 128], stddev=0.125))
        hidden_bias = tf.Variable(tf.zeros([128]))
        output = tf.Variable(tf.random.normal([128, 10], stddev=0.09))
        output_bias = tf.Variable(tf.zeros([10]))
        optimizer = tf.optimizers.SGD(0.1)
    variables = [hidden, hidden_bias, output, output_bias]
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    seeds = itertools.count(SEED.value)

    def logits(images: tf.Tensor) -> tf.Tensor:
        return tf.matmul(tf.nn.relu(tf.matmul(images, hidden) + hidden_bias), output) + output_bias

    def batches() -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices((train_images, train_labels))
        return data.shuffle(len(train_images), seed=next(seeds)).repeat().batch(BATCH_SIZE)

    @tf.function
    def step(iterator: Iterator[tuple[tf.Tensor, tf.Tensor]]) -> tf.Tensor:
        images, labels = next(iterator)
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=labels, logits=logits(images)
            )
            loss = tf.reduce_mean(losses)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    iterator = iter(coordinator.create_per_worker_dataset(batches))
    steps = len(train_images) // BATCH_SIZE
    began_s = time.monotonic()
    for epoch in range(EPOCHS.value):
        losses = [coordinator.schedule(step, args=(iterator,)) for _ in range(steps)]
        coordinator.join()
        if epoch % 10 == 9:
            loss = np.mean(coordinator.fetch(losses))
            print(f"epoch {epoch + 1}: loss {loss:.4f}", flush=True)
    per_second = EPOCHS.value * steps / (time.monotonic() - began_s)
    found = tf.argmax(logits(tf.constant(test_images)), axis=1).numpy()
    print(f"{len(strategy.workers)} workers, {per_second:.0f} steps per second")
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
