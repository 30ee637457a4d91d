"""Checkpoints of eager objects: saved, restored at once or later, managed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tideflow as tf
from tideflow.distribute.sharded_variable import ShardedVariable


class Model(tf.Module):
    def __init__(self, value: float = 0.0) -> None:
        super().__init__()
        self.w = tf.Variable([value, value])
        self.parts = [tf.Variable(value), {"k": tf.Variable(int(value))}]


class Lazy(tf.Module):
    def build(self, value: float = 0.0) -> None:
        self.w = tf.Variable([value, value])


def values(model: Model) -> list[float]:
    return [*model.w.numpy().tolist(), model.parts[0].numpy(), model.parts[1]["k"].numpy()]


def test_objects_get_back_what_was_saved(tmp_path: Path) -> None:
    path = tf.train.Checkpoint(model=Model(3.0)).save(tmp_path / "ckpt")
    assert path == str(tmp_path / "ckpt-1")
    assert tf.train.latest_checkpoint(str(tmp_path)) == path
    model = Model()
    tf.train.Checkpoint(model=model).restore(path).assert_consumed()
    assert values(model) == [3, 3, 3, 3]


def test_write_numbers_nothing(tmp_path: Path) -> None:
    path = tf.train.Checkpoint(model=Model(3.0)).write(tmp_path / "ckpt")
    assert path == str(tmp_path / "ckpt")
    assert tf.train.latest_checkpoint(str(tmp_path)) is None
    model = Model()
    tf.train.Checkpoint(model=model).read(path).assert_consumed()
    assert values(model) == [3, 3, 3, 3]


def test_what_is_made_later_is_restored_when_it_is_attached(tmp_path: Path) -> None:
    saved = Lazy()
    saved.build(5.0)
    path = tf.train.Checkpoint(model=saved).save(tmp_path / "ckpt")
    model = Lazy()
    status = tf.train.Checkpoint(model=model).restore(path)
    with pytest.raises(AssertionError, match="model/w"):
        status.assert_consumed()
    model.build()
    assert model.w.numpy().tolist() == [5, 5]
    status.assert_consumed()
    model.w.assign([7.0, 7.0])
    model.other = tf.Variable(1.0)
    assert model.w.numpy().tolist() == [7, 7]


def test_a_variable_made_in_a_function_is_restored(tmp_path: Path) -> None:
    saved = Lazy()
    saved.build(5.0)
    path = tf.train.Checkpoint(model=saved).save(tmp_path / "ckpt")
    model = Lazy()
    tf.train.Checkpoint(model=model).restore(path)

    @tf.function
    def call() -> tf.Tensor:
        if not hasattr(model, "w"):
            model.build()
        return model.w + 1.0

    assert call().numpy().tolist() == [6, 6]


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.optimizers.Adam(0.1),
        lambda: tf.optimizers.SGD(0.1, momentum=0.9),
        lambda: tf.optimizers.RMSprop(0.1, momentum=0.5, centered=True),
    ],
)
def test_training_goes_on_as_if_it_had_not_been_cut(tmp_path: Path, make) -> None:
    def train(model: Model, optimizer: tf.optimizers.Optimizer, steps: int) -> None:
        for _ in range(steps):
            optimizer.minimize(lambda: tf.reduce_sum((model.w - 3.0) ** 2), [model.w])

    model, optimizer = Model(), make()
    train(model, optimizer, 2)
    path = tf.train.Checkpoint(model=model, optimizer=optimizer).save(tmp_path / "ckpt")
    train(model, optimizer, 2)
    again, other = Model(), make()
    status = tf.train.Checkpoint(model=again, optimizer=other).restore(path)
    train(again, other, 2)
    status.assert_consumed()
    np.testing.assert_array_equal(again.w.numpy(), model.w.numpy())
    assert other.iterations.numpy() == 4


def test_differences_are_told(tmp_path: Path) -> None:
    path = tf.train.Checkpoint(model=Model(3.0)).save(tmp_path / "ckpt")
    more = tf.train.Checkpoint(model=Model(), step=tf.Variable(0))
    status = more.restore(path)
    with pytest.raises(AssertionError, match="step"):
        status.assert_existing_objects_matched()
    less = tf.train.Checkpoint(step=tf.Variable(0)).restore(path).expect_partial()
    with pytest.raises(AssertionError, match="no object takes"):
        tf.train.Checkpoint().restore(path).assert_consumed()
    assert less is not None
    wide = Model()
    wide.w = tf.Variable([0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="shape"):
        tf.train.Checkpoint(model=wide).restore(path)
    with pytest.raises(tf.errors.NotFoundError):
        tf.train.Checkpoint(model=Model()).restore(tmp_path / "none")
    with pytest.raises(ValueError, match="trackable"):
        tf.train.Checkpoint(model=3)


def test_a_root_is_saved_as_the_checkpoint_itself(tmp_path: Path) -> None:
    path = tf.train.Checkpoint(Model(3.0)).write(tmp_path / "ckpt")
    assert "w/.ATTRIBUTES/VARIABLE_VALUE" in dict(tf.train.list_variables(path))
    model = Model()
    tf.train.Checkpoint(root=model).read(path).assert_consumed()
    assert values(model) == [3, 3, 3, 3]


def test_a_manager_keeps_the_last_ones(tmp_path: Path) -> None:
    model = Model(1.0)
    checkpoint = tf.train.Checkpoint(model=model)
    manager = tf.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=2)
    assert manager.restore_or_initialize() is None
    for value in (1.0, 2.0, 3.0):
        model.w.assign([value, value])
        manager.save()
    assert [Path(p).name for p in manager.checkpoints] == ["ckpt-2", "ckpt-3"]
    again = Model()
    other = tf.train.CheckpointManager(tf.train.Checkpoint(model=again), tmp_path, max_to_keep=2)
    assert other.restore_or_initialize() == manager.latest_checkpoint
    assert again.w.numpy().tolist() == [3, 3]


def test_copies_of_a_variable_are_saved_as_one(tmp_path: Path) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:0"][:1])
    with strategy.scope():
        v = tf.Variable([1.0, 2.0])
    path = tf.train.Checkpoint(v=v).save(tmp_path / "ckpt")
    plain = tf.Variable([0.0, 0.0])
    tf.train.Checkpoint(v=plain).restore(path).assert_consumed()
    assert plain.numpy().tolist() == [1, 2]
    plain.assign([5.0, 6.0])
    path = tf.train.Checkpoint(v=plain).save(tmp_path / "plain")
    tf.train.Checkpoint(v=v).restore(path).assert_consumed()
    assert v.numpy().tolist() == [5, 6]


def test_parts_of_a_variable_are_saved_as_one(tmp_path: Path) -> None:
    whole = ShardedVariable([tf.Variable([[1.0], [2.0]]), tf.Variable([[3.0]])])
    path = tf.train.Checkpoint(v=whole).save(tmp_path / "ckpt")
    plain = tf.Variable(tf.zeros([3, 1]))
    tf.train.Checkpoint(v=plain).restore(path).assert_consumed()
    assert plain.numpy().tolist() == [[1], [2], [3]]
    other = ShardedVariable([tf.Variable([[0.0]]), tf.Variable([[0.0], [0.0]])])
    tf.train.Checkpoint(v=other).restore(path).assert_consumed()
    assert other.numpy().tolist() == [[1], [2], [3]]
