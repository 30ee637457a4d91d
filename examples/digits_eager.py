"""Trains a classifier of handwritten digits without a session: `import tideflow as tf`.

    python digits_eager.py                  # the step is a tf.function
    python digits_eager.py --noas_function  # operation by operation
    python digits_eager.py --worker localhost:2222   # variables and steps on another task

For the last one start a task first:

    tideflow serve --cluster '{"worker": ["localhost:2222"]}' --job worker --task 0
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
from absl import app, flags

import tideflow as tf
from tideflow.digits import load_digits

AS_FUNCTION = flags.DEFINE_bool("as_function", True, "trace the step into a graph")
WORKER = flags.DEFINE_string("worker", "", "host:port of a task to train on, instead of here")
EPOCHS = flags.DEFINE_integer("epochs", 25, "how often all examples are used")
SEED = flags.DEFINE_integer("seed", 1, "of the initial weights and the order of examples")
BATCH_SIZE = 64


class Perceptron:
    """A network with one hidden layer."""

    def __init__(self) -> None:
        def weights(rows: int, columns: int) -> tf.Variable:
            return tf.Variable(tf.random.normal([rows, columns], stddev=rows**-0.5))

        self.variables = [
            weights(64, 128),
            tf.Variable(tf.zeros([128])),
            weights(128, 10),
            tf.Variable(tf.zeros([10])),
        ]

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        hidden, hidden_bias, output, output_bias = self.variables
        activations = tf.nn.relu(tf.matmul(images, hidden) + hidden_bias)
        return tf.matmul(activations, output) + output_bias


def batches(images: np.ndarray, labels: np.ndarray, seed: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Give the examples in a new order, in batches of one size."""
    order = np.random.default_rng(seed).permutation(len(images))
    for begin in range(0, len(images) - BATCH_SIZE + 1, BATCH_SIZE):
        chosen = order[begin : begin + BATCH_SIZE]
        yield images[chosen], labels[chosen]


def main(argv: list[str]) -> None:
    del argv
    tf.random.set_seed(SEED.value)
    where: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if WORKER.value:
        tf.config.experimental_connect_to_host(WORKER.value)
        where = tf.device("/job:worker/task:0")
    train_images, test_images, train_labels, test_labels = load_digits()
    with where:
        model = Perceptron()
        optimizer = tf.optimizers.SGD(0.2)

        def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=labels, logits=model(images)
                )
                loss = tf.reduce_mean(losses)
            gradients = tape.gradient(loss, model.variables)
            optimizer.apply_gradients(zip(gradients, model.variables))
            return loss

        train = tf.function(step) if AS_FUNCTION.value else step
        for epoch in range(EPOCHS.value):
            for images, labels in batches(train_images, train_labels, SEED.value + epoch):
                loss = train(tf.constant(images), tf.constant(labels))
            if epoch % 5 == 4:
                print(f"epoch {epoch + 1}: loss {float(loss):.4f}", flush=True)
        found = tf.argmax(model(tf.constant(test_images)), axis=1).numpy()
    print(f"trained on {model.variables[0].device}")
    print(f"test accuracy {np.mean(found == test_labels):.4f}")


if __name__ == "__main__":
    app.run(main)
