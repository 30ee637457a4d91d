"""Trains a classifier of handwritten digits on several devices at once.

    python digits_mirrored.py --replicas 2

The CPU is divided into as many devices.  Each batch is parted among them; each replica computes
gradients on its part, their sum changes the variables, and all copies stay equal.
"""

from __future__ import annotations

import numpy as np
from absl import app, flags

import tideflow as tf
from tideflow.digits import load_digits

REPLICAS = flags.DEFINE_integer("replicas", 2, "how many devices to divide the CPU into")
EPOCHS = flags.DEFINE_integer("epochs", 25, "how often all examples are used")
SEED = flags.DEFINE_integer("seed", 1, "of the initial weights and the order of examples")
BATCH_SIZE = 64


def main(argv: list[str]) -> None:
    del argv
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * REPLICAS.value
    )
    tf.random.set_seed(SEED.value)
    train_images, test_images, train_labels, test_labels = load_digits()
    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        hidden = tf.Variable(tf.random.normal([64, 128], stddev=0.125))
        hidden_bias = tf.Variable(tf.zeros([128]))
        output = tf.Variable(tf.random.normal([128, 10], stddev=0.09))
        output_bias = tf.Variable(tf.zeros([10]))
        optimizer = tf.optimizers.SGD(0.2)
    variables = [hidden, hidden_bias, output, output_bias]

    def logits(images: tf.Tensor) -> tf.Tensor:
        return tf.matmul(tf.nn.relu(tf.matmul(images, hidden) + hidden_bias), output) + output_bias

    def replica_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=labels, logits=logits(images)
            )
            loss = tf.reduce_sum(losses) / BATCH_SIZE
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        losses = strategy.run(replica_step, (images, labels))
        return strategy.reduce("SUM", losses, axis=None)

    for epoch in range(EPOCHS.value):
        order = np.random.default_rng(SEED.value + epoch).permutation(len(train_images))
        data = tf.data.Dataset.from_tensor_slices((train_images[order], train_labels[order]))
        data = data.batch(BATCH_SIZE, drop_remainder=True)
        for images, labels in strategy.experimental_distribute_dataset(data):
            loss = step(images, labels)
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1}: loss {float(loss):.4f}", flush=True)
    found = tf.argmax(logits(tf.constant(test_images)), axis=1).numpy()
    print(f"{strategy.num_replicas_in_sync} replicas")
    print(f"test accuracy {np.mean(found == test_labels):.4f}")


if __name__ == "__main__":
    app.run(main)
