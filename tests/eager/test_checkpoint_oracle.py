"""Checkpoints of objects, written by one library and read by the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tideflow as ours

theirs = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda tf: tf.optimizers.SGD(0.1),
    "momentum": lambda tf: tf.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda tf: tf.optimizers.Adam(0.1),
    "adamw": lambda tf: tf.optimizers.AdamW(0.1),
    "adagrad": lambda tf: tf.optimizers.Adagrad(0.1),
    "rmsprop": lambda tf: tf.optimizers.RMSprop(0.1),
    "centered": lambda tf: tf.optimizers.RMSprop(0.1, momentum=0.5, centered=True),
    "ftrl": lambda tf: tf.optimizers.Ftrl(0.1),
}


def objects(tf: Any, optimizer: str, value: float) -> tuple[Any, Any]:
    model = tf.Module(name="model")
    model.w = tf.Variable([value, value])
    model.parts = [tf.Variable(value), {"k": (tf.Variable(int(value)),)}]
    made = OPTIMIZERS[optimizer](tf)
    checkpoint = tf.train.Checkpoint(
        model=model, optimizer=made, step=tf.Variable(int(value), dtype=tf.int64)
    )
    return checkpoint, model


def train(tf: Any, checkpoint: Any, steps: int) -> Any:
    for _ in range(steps):
        model = checkpoint.model
        variables = [model.w, model.parts[0]]
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((model.w - 3.0) ** 2) + model.parts[0] ** 2
        checkpoint.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return checkpoint.model.w.numpy()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("writes", "reads"), [(ours, theirs), (theirs, ours)], ids=["out", "in"])
def test_training_goes_on_in_the_other_library(
    tmp_path: Path, optimizer: str, writes: Any, reads: Any
) -> None:
    first, model = objects(writes, optimizer, 2.0)
    train(writes, first, 2)
    path = first.save(str(tmp_path / "ckpt"))
    expected = train(writes, first, 2)
    second, other = objects(reads, optimizer, 0.0)
    status = second.restore(path)
    found = train(reads, second, 2)
    status.assert_consumed()
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert [int(second.step.numpy()), int(other.parts[1]["k"][0].numpy())] == [2, 2]
    assert int(second.save_counter.numpy()) == 1
    assert reads.train.list_variables(path) == writes.train.list_variables(path)
    assert model.w.numpy().shape == (2,)


V1_OPTIMIZERS: dict[str, Any] = {
    "adam": lambda tf: tf.compat.v1.train.AdamOptimizer(0.1),
    "momentum": lambda tf: tf.compat.v1.train.MomentumOptimizer(0.1, 0.9),
    "rmsprop": lambda tf: tf.compat.v1.train.RMSPropOptimizer(0.1, centered=True),
    "adagrad": lambda tf: tf.compat.v1.train.AdagradOptimizer(0.1),
    "ftrl": lambda tf: tf.compat.v1.train.FtrlOptimizer(0.1),
    "adadelta": lambda tf: tf.compat.v1.train.AdadeltaOptimizer(0.1),
}


def v1_objects(tf: Any, optimizer: str, value: float) -> Any:
    return tf.train.Checkpoint(
        o=V1_OPTIMIZERS[optimizer](tf),
        l=[tf.Variable([value, value]), {"k": tf.Variable([value])}],
    )


def v1_train(tf: Any, checkpoint: Any) -> list[list[float]]:
    v, w = checkpoint.l[0], checkpoint.l[1]["k"]
    checkpoint.o.minimize(lambda: tf.reduce_sum(v * v) + tf.reduce_sum(w), var_list=[v, w])
    return [v.numpy().tolist(), w.numpy().tolist()]


@pytest.mark.parametrize("optimizer", V1_OPTIMIZERS)
@pytest.mark.parametrize(("writes", "reads"), [(ours, theirs), (theirs, ours)], ids=["out", "in"])
def test_slots_of_v1_optimizers_are_read_by_the_other_library(
    tmp_path: Path, optimizer: str, writes: Any, reads: Any
) -> None:
    first = v1_objects(writes, optimizer, 2.0)
    v1_train(writes, first)
    path = first.save(str(tmp_path / "ckpt"))
    expected = v1_train(writes, first)
    second = v1_objects(reads, optimizer, 0.0)
    status = second.restore(path)
    found = v1_train(reads, second)
    status.assert_consumed()
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5)


@pytest.mark.parametrize(("writes", "reads"), [(ours, theirs), (theirs, ours)], ids=["out", "in"])
def test_savers_of_eager_variables_read_each_others_files(
    tmp_path: Path, writes: Any, reads: Any
) -> None:
    saved = [writes.Variable([1.0, 2.0], name="v"), writes.Variable(3, name="w")]
    path = writes.compat.v1.train.Saver(saved).save(None, str(tmp_path / "m"), global_step=5)
    into = [reads.Variable([0.0, 0.0], name="v"), reads.Variable(0, name="w")]
    reads.compat.v1.train.Saver(into).restore(None, path)
    assert [into[0].numpy().tolist(), int(into[1].numpy())] == [[1, 2], 3]


@pytest.mark.parametrize(("writes", "reads"), [(ours, theirs), (theirs, ours)], ids=["out", "in"])
def test_tables_go_on_in_the_other_library(tmp_path: Path, writes: Any, reads: Any) -> None:
    def tables(tf: Any) -> tuple[Any, Any, Any]:
        dense = tf.lookup.experimental.DenseHashTable(
            tf.string, tf.int64, [0, -1], "", "-", initial_num_buckets=8
        )
        vectors = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, [0.0, -1.0])
        return dense, vectors, tf.train.Checkpoint(dense=dense, vectors=vectors)

    dense, vectors, checkpoint = tables(writes)
    dense.insert(
        writes.constant(["a", "b", "c"]), writes.constant([[1, 2], [3, 4], [5, 6]], "int64")
    )
    dense.remove(writes.constant(["b"]))
    vectors.insert(writes.constant([7], "int64"), [[1.5, 2.5]])
    path = checkpoint.save(str(tmp_path / "ckpt"))
    dense, vectors, checkpoint = tables(reads)
    checkpoint.restore(path).assert_consumed()
    assert dense.lookup(reads.constant(["a", "b", "c"])).numpy().tolist() == [
        [1, 2],
        [0, -1],
        [5, 6],
    ]
    assert int(dense.size()) == 2
    dense.insert(reads.constant(["d"]), reads.constant([[7, 8]], "int64"))
    assert dense.lookup(reads.constant(["d", "a"])).numpy().tolist() == [[7, 8], [1, 2]]
    assert vectors.lookup(reads.constant([7, 8], "int64")).numpy().tolist() == [[1.5, 2.5], [0, -1]]
