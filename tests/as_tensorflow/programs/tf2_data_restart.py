"""Training that stops and goes on: the state of the pipeline is in the checkpoint of the model."""

import os
import tempfile

import numpy as np
import tensorflow as tf


def numbers():
    yield from range(100, 112)


def pipelines():
    tf.random.set_seed(7)
    counted = tf.data.Dataset.range(20)
    return {
        "mapped": counted.map(lambda x: x * x).filter(lambda x: x % 3 != 0).batch(3),
        "shuffled": counted.shuffle(8, seed=3, reshuffle_each_iteration=True).repeat(2).batch(4),
        "interleaved": counted.interleave(
            lambda x: tf.data.Dataset.from_tensors(x).repeat(3), cycle_length=2, block_length=2
        ),
        "windows": counted.window(4, shift=3).flat_map(lambda window: window.batch(4)),
        "zipped": tf.data.Dataset.zip((counted, counted.skip(3).prefetch(2))),
        "scanned": counted.scan(np.int64(0), lambda total, x: (total + x, total + x)),
        "cached": counted.take(7).cache().repeat(3),
        "mixed": tf.data.Dataset.sample_from_datasets(
            [counted, counted.map(lambda x: -x)], weights=[0.5, 0.5], seed=1
        ),
        "chosen": tf.data.Dataset.choose_from_datasets(
            [counted, counted.map(lambda x: -x)], tf.data.Dataset.range(2).repeat(9)
        ),
        "random": tf.data.Dataset.random(seed=5).take(12).map(lambda x: x % 100),
        "unique": counted.map(lambda x: x % 6).unique().concatenate(counted),
        "options": counted.map(lambda x: x + 1, num_parallel_calls=2).with_options(
            tf.data.Options()
        ),
    }


def shown(element):
    return [part.numpy().tolist() for part in tf.nest.flatten(element)]


with tempfile.TemporaryDirectory() as folder:
    whole = {name: [shown(one) for one in made] for name, made in pipelines().items()}
    for name, elements in whole.items():
        print(name, len(elements), elements[:2])
    walks = {name: iter(made) for name, made in pipelines().items()}
    began = {name: [shown(next(walk)) for _ in range(3)] for name, walk in walks.items()}
    path = tf.train.Checkpoint(**walks).save(os.path.join(folder, "walks"))
    after = {name: [shown(one) for one in walk] for name, walk in walks.items()}
    print(all(began[name] + after[name] == whole[name] for name in whole if name != "random"))
    # Another process would do this: all is made anew, and then restored.
    again = {name: iter(made) for name, made in pipelines().items()}
    tf.train.Checkpoint(**again).restore(path).assert_consumed()
    for name, walk in again.items():
        print(name, [shown(one) for one in walk] == after[name])
    generated = iter(tf.data.Dataset.from_generator(numbers, output_types=tf.int64))
    next(generated)
    try:
        tf.train.Checkpoint(walk=generated).save(os.path.join(folder, "generated"))
        print("saved")
    except tf.errors.OpError as error:
        print(type(error).__name__)

    # ---- a training that is interrupted

    def batches():
        x = np.random.RandomState(2).randn(24, 3).astype("float32")
        data = tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1)))
        return data.shuffle(24, seed=9).repeat().batch(5)

    class Training(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable([0.0, 0.0, 0.0])
            self.steps = tf.Variable(0, dtype=tf.int64)
            self.iterator = iter(batches())
            self.checkpoint = tf.train.Checkpoint(
                w=self.w, steps=self.steps, iterator=self.iterator
            )
            self.manager = tf.train.CheckpointManager(
                self.checkpoint, os.path.join(folder, "training"), max_to_keep=2,
                step_counter=self.steps, checkpoint_interval=3,
                init_fn=lambda: print("begins"),
            )  # fmt: skip
            self.restored = self.manager.restore_or_initialize()

        @tf.function
        def step(self):
            x, y = next(self.iterator)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((tf.linalg.matvec(x, self.w) - y) ** 2)
            self.w.assign_sub(0.1 * tape.gradient(loss, self.w))
            self.steps.assign_add(1)
            return loss

        def run(self, steps):
            losses = []
            for _ in range(steps):
                losses.append(round(float(self.step()), 4))
                self.manager.save(check_interval=True)
            return losses

    first = Training()
    losses = first.run(8)
    print(losses, [os.path.basename(one) for one in first.manager.checkpoints])
    second = Training()
    print(os.path.basename(second.restored), int(second.steps), second.run(1) == losses[7:])
    print(np.allclose(second.w, first.w), second.run(4) == first.run(4))
