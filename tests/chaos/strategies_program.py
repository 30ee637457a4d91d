"""What the programs of strategy runs do: coordinate training, or train in step with another.

TF_CONFIG says which task it is; CHAOS says what to do and when to end.  Each step is told in a line
of JSON.  The same step has the same batch in every run, so that losses can be compared.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

import tideflow as tf

SIZE, BATCH, RATE = 8, 16, 0.05
TRUTH = np.linspace(-1.0, 1.0, SIZE, dtype=np.float32)[:, None]
BULK_SIZE = 100_000
SAVE_STEPS = 10
# Scheduled and not yet fetched, so that some wait for a worker when one dies.
_AHEAD = 8


def tell(**facts: Any) -> None:
    """Tell the run something; t is the same clock in all processes."""
    # In one piece: what other threads log goes to the same pipe.
    os.write(1, f"{json.dumps({'t': time.monotonic(), **facts})}\n".encode())


def batch_of(step: int) -> np.ndarray:
    """Return the inputs of a step, [BATCH, SIZE]."""
    return np.random.RandomState(step).standard_normal([BATCH, SIZE]).astype(np.float32)


def coordinate(chaos: dict[str, Any]) -> None:
    """Schedule steps until there were enough and the file may_end is there.

    Each time a worker makes its dataset, that has the next number: a worker that is back tells of a
    number that nobody had before.
    """
    strategy = tf.distribute.ParameterServerStrategy(
        tf.distribute.cluster_resolver.TFConfigClusterResolver()
    )
    with strategy.scope():
        weights = tf.Variable(tf.zeros([SIZE, 1]))
        applied = tf.Variable(tf.zeros([], tf.int64))
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    lock, streams = threading.Lock(), iter(range(1000))

    def batches() -> tf.data.Dataset:
        with lock:
            stream = next(streams)
        inputs = np.concatenate([batch_of(1000 * stream + i) for i in range(10)])
        numbers = np.full(len(inputs), stream)
        data = tf.data.Dataset.from_tensor_slices((inputs, inputs @ TRUTH, numbers))
        return data.repeat().batch(BATCH)

    @tf.function
    def make_step(iterator: Any) -> Any:
        x, y, numbers = next(iterator)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.matmul(x, weights) - y) ** 2)
        weights.assign_sub(RATE * tape.gradient(loss, weights))
        applied.assign_add(1)
        return loss, numbers[0]

    iterator = iter(coordinator.create_per_worker_dataset(batches))
    may_end = Path(chaos["may_end"])
    waiting: deque[Any] = deque()
    scheduled = 0
    try:
        while scheduled < chaos["steps"] or not may_end.exists():
            waiting.append(coordinator.schedule(make_step, args=(iterator,)))
            scheduled += 1
            if len(waiting) >= _AHEAD:
                loss, stream = waiting.popleft().fetch()
                tell(step=scheduled - len(waiting), loss=float(loss), stream=int(stream))
        coordinator.join()
    except tf.errors.OpError as error:
        tell(failed=type(error).__name__, text=str(error))
        raise
    for value in waiting:
        loss, _ = value.fetch()
    tell(
        scheduled=scheduled,
        applied=int(applied.numpy()),
        loss=float(loss),
        error=float(abs(weights.numpy() - TRUTH).max()),
    )


def train_in_step(chaos: dict[str, Any]) -> None:
    """Train from the last checkpoint to the last step; die by SIGKILL at a step if told so."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weights = tf.Variable(tf.zeros([SIZE, 1]))
        applied = tf.Variable(tf.zeros([], tf.int64))
        bulk = tf.Variable(tf.zeros([BULK_SIZE if chaos["has_bulk"] else 1]))
    checkpoint = tf.train.Checkpoint(weights=weights, applied=applied, bulk=bulk)
    manager = tf.train.CheckpointManager(checkpoint, chaos["checkpoints"], max_to_keep=2)
    # Nobody writes while another reads: the writer's next step waits for all.
    checkpoint.restore(manager.latest_checkpoint)
    first = int(applied.numpy())
    tell(begins_at=first)

    def replica_step(x: Any) -> Any:
        replica = tf.distribute.get_replica_context()
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.matmul(x, weights) - tf.matmul(x, TRUTH)) ** 2)
        gradient = replica.all_reduce("MEAN", tape.gradient(loss, weights))
        bulk.assign_add(replica.all_reduce("SUM", tf.ones_like(bulk)))
        weights.assign_sub(RATE * gradient)
        applied.assign_add(1)
        return loss

    @tf.function
    def make_step(x: Any) -> Any:
        return strategy.reduce("MEAN", strategy.run(replica_step, (x,)), axis=None)

    batches = [batch_of(step) for step in range(first, chaos["steps"])]
    # None are left where the steps have been taken.
    data = tf.data.Dataset.from_tensor_slices(np.reshape(batches, (-1, *batch_of(0).shape)))
    try:
        for step, x in enumerate(strategy.experimental_distribute_dataset(data), first):
            if step == chaos["dies_at"]:
                tell(dies_at=step)
                end = (os.getpid(), signal.SIGKILL)
                threading.Timer(chaos["dies_after_s"], os.kill, end).start()
            loss = float(make_step(x))
            tell(step=step, loss=loss)
            if step == chaos["dies_at"]:
                threading.Event().wait()  # it dies before it begins another step
            if strategy.extended.should_checkpoint and (step + 1) % SAVE_STEPS == 0:
                manager.save()
    except tf.errors.OpError as error:
        tell(failed=type(error).__name__, text=str(error))
        raise
    tell(
        applied=int(applied.numpy()),
        bulk=[float(bulk.numpy().min()), float(bulk.numpy().max())],
        error=float(abs(weights.numpy() - TRUTH).max()),
    )


def main() -> None:
    chaos = json.loads(os.environ["CHAOS"])
    is_chief = json.loads(os.environ["TF_CONFIG"])["task"]["type"] == "chief"
    (coordinate if is_chief else train_in_step)(chaos)


if __name__ == "__main__":
    main()
