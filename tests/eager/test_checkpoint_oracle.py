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
