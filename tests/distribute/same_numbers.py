"""Train one model on one way of distribution: `python same_numbers.py LIBRARY WAY STEPS`.

LIBRARY: tensorflow or tideflow.  WAY: one, mirrored, remote (mirrored on devices of other
processes), workers, or servers (with updates that wait for all); TF_CONFIG tells of the others.
Prints the loss of each step as JSON, behind "losses ".
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

import numpy as np

BATCH = 16


def make_data() -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Return inputs, labels and the first weights."""
    random = np.random.RandomState(0)
    x = random.rand(4 * BATCH, 6).astype(np.float32)
    y = (x @ random.randn(6, 3)).argmax(1).astype(np.int64)
    weights = [random.randn(6, 8) * 0.4, np.zeros(8), random.randn(8, 3) * 0.4, np.zeros(3)]
    return x, y, [w.astype(np.float32) for w in weights]


def make_strategy(tf: Any, way: str) -> Any:
    if way == "workers":
        return tf.distribute.MultiWorkerMirroredStrategy()
    if way == "mirrored":
        cpu = tf.config.list_physical_devices("CPU")[0]
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, two)
        return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    if way == "remote":
        workers = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]
        tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec({"worker": workers}))
        tasks = [0, len(workers) - 1]
        return tf.distribute.MirroredStrategy(
            [f"/job:worker/task:{tasks[i]}/device:CPU:{i}" for i in range(2)]
        )
    if way == "servers":
        return tf.distribute.ParameterServerStrategy(
            tf.distribute.cluster_resolver.TFConfigClusterResolver()
        )
    return tf.distribute.get_strategy()


def train(tf: Any, way: str, steps: int) -> list[float]:
    strategy = make_strategy(tf, way)
    x, y, initial = make_data()
    with strategy.scope():
        weights = [tf.Variable(w) for w in initial]

    def loss_of(images: Any, labels: Any) -> Any:
        hidden = tf.nn.relu(tf.matmul(images, weights[0]) + weights[1])
        logits = tf.matmul(hidden, weights[2]) + weights[3]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return tf.reduce_sum(losses) / BATCH

    def gradients(images: Any, labels: Any) -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            loss = loss_of(images, labels)
        return loss, tape.gradient(loss, weights)

    def apply(summed: list[Any]) -> None:
        for weight, gradient in zip(weights, summed):
            weight.assign_sub(0.5 * gradient)

    def replica_step(images: Any, labels: Any) -> Any:
        loss, found = gradients(images, labels)
        context = tf.distribute.get_replica_context()
        apply(context.all_reduce(tf.distribute.ReduceOp.SUM, found))
        return loss

    @tf.function
    def step(images: Any, labels: Any) -> Any:
        losses = strategy.run(replica_step, args=(images, labels))
        return strategy.reduce("SUM", losses, axis=None)

    batches = [(x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, len(x), BATCH)]
    if way == "servers":
        return train_in_step(tf, strategy, tf.function(gradients), apply, batches, steps)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH).repeat()
    if way != "one":
        data = strategy.experimental_distribute_dataset(data)
    elements = iter(data)
    return [float(step(*next(elements))) for _ in range(steps)]


def train_in_step(
    tf: Any, strategy: Any, gradients: Any, apply: Any, batches: list[Any], steps: int
) -> list[float]:
    """Let two workers compute the gradients of a half each; apply their sum when both are there."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    losses = []
    for number in range(steps):
        images, labels = batches[number % len(batches)]
        half = BATCH // 2
        parts = [
            coordinator.schedule(gradients, args=(tf.constant(a), tf.constant(b)))
            for a, b in ((images[:half], labels[:half]), (images[half:], labels[half:]))
        ]
        coordinator.join()
        (first, some), (second, others) = coordinator.fetch(parts)
        apply([a + b for a, b in zip(some, others)])
        losses.append(float(first + second))
    return losses


def main() -> None:
    library, way, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    losses = train(importlib.import_module(library), way, steps)
    print("losses", json.dumps(losses), flush=True)
    if library == "tensorflow":
        os._exit(0)  # its threads may not end


if __name__ == "__main__":
    main()
