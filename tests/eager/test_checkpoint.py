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


V1_OPTIMIZERS = {
    "adam": lambda tf: tf.compat.v1.train.AdamOptimizer(0.1),
    "momentum": lambda tf: tf.compat.v1.train.MomentumOptimizer(0.1, 0.9),
    "rmsprop": lambda tf: tf.compat.v1.train.RMSPropOptimizer(0.1, centered=True),
    "adagrad": lambda tf: tf.compat.v1.train.AdagradOptimizer(0.1),
    "ftrl": lambda tf: tf.compat.v1.train.FtrlOptimizer(0.1),
}


def slots_of(optimizer, variable) -> list[list[float]]:
    names = optimizer.get_slot_names()
    return [optimizer.get_slot(variable, name).numpy().tolist() for name in names]


@pytest.mark.parametrize("name", V1_OPTIMIZERS)
def test_slots_of_v1_optimizers_belong_to_their_own_variables(tmp_path: Path, name: str) -> None:
    v, w = tf.Variable([1.0, 2.0]), tf.Variable([3.0])  # which have the same name
    optimizer = V1_OPTIMIZERS[name](tf)
    loss = lambda: tf.reduce_sum(v * v) + tf.reduce_sum(w)  # noqa: E731
    optimizer.minimize(loss)
    assert slots_of(optimizer, v) != slots_of(optimizer, w)
    path = tf.train.Checkpoint(o=optimizer, l=[v, {"w": w}]).save(tmp_path / "ckpt")
    keys = [key for key, _ in tf.train.list_variables(path)]
    for slot in optimizer.get_slot_names():
        assert f"l/0/.OPTIMIZER_SLOT/o/{slot}/.ATTRIBUTES/VARIABLE_VALUE" in keys
        assert f"l/1/w/.OPTIMIZER_SLOT/o/{slot}/.ATTRIBUTES/VARIABLE_VALUE" in keys
    saved = slots_of(optimizer, v), slots_of(optimizer, w)
    optimizer.minimize(loss, var_list=[v, w])
    expected = [v.numpy().tolist(), w.numpy().tolist()]

    other = V1_OPTIMIZERS[name](tf)
    a, b = tf.Variable([0.0, 0.0]), tf.Variable([0.0])
    status = tf.train.Checkpoint(o=other, l=[a, {"w": b}]).restore(path)
    # Before any step, since the checkpoint says which there are.
    assert (slots_of(other, a), slots_of(other, b)) == saved
    other.minimize(lambda: tf.reduce_sum(a * a) + tf.reduce_sum(b))
    status.assert_consumed()
    assert [a.numpy().tolist(), b.numpy().tolist()] == expected


def test_slots_are_restored_when_their_optimizer_or_variable_comes(tmp_path: Path) -> None:
    v, optimizer = tf.Variable([1.0, 2.0]), V1_OPTIMIZERS["adam"](tf)
    optimizer.minimize(lambda: tf.reduce_sum(v * v))
    path = tf.train.Checkpoint(o=optimizer, v=v).save(tmp_path / "ckpt")
    w, late = tf.Variable([0.0, 0.0]), V1_OPTIMIZERS["adam"](tf)
    checkpoint = tf.train.Checkpoint(v=w)
    status = checkpoint.restore(path)
    checkpoint.o = late
    assert slots_of(late, w) == slots_of(optimizer, v)
    late.apply_gradients([(tf.constant([0.0, 0.0]), w)])
    status.assert_consumed()
    assert [x.name for x in late.variables()][-2:] == ["beta1_power:0", "beta2_power:0"]
    np.testing.assert_allclose(late.variables()[-2].numpy(), 0.9**3, rtol=1e-6)


def test_v1_optimizers_train_in_functions_and_by_functions_of_losses() -> None:
    v, step = tf.Variable([1.0, 2.0]), tf.Variable(0, dtype=tf.int64)
    optimizer = V1_OPTIMIZERS["adam"](tf)

    @tf.function
    def train() -> None:
        optimizer.minimize(lambda: tf.reduce_sum(v), global_step=step)

    train()
    train()
    assert int(step) == 2
    np.testing.assert_allclose(v.numpy(), [0.8, 1.8], rtol=1e-5)
    assert optimizer.get_slot(tf.Variable([1.0, 2.0]), "m") is None
    with pytest.raises(RuntimeError, match="should be a function when eager"):
        optimizer.minimize(tf.reduce_sum(v), var_list=[v])


def test_a_v1_saver_saves_and_restores_eager_variables_by_name(tmp_path: Path) -> None:
    v, w = tf.Variable([1.0, 2.0], name="v"), tf.Variable(3, name="w")
    saver = tf.compat.v1.train.Saver([v, w], max_to_keep=1)
    saver.save(None, tmp_path / "m", global_step=1)
    path = saver.save(None, tmp_path / "m", global_step=tf.constant(2))
    assert path == str(tmp_path / "m-2")
    assert [p.name for p in sorted(tmp_path.iterdir())] == [
        "checkpoint",
        "m-2.data-00000-of-00001",
        "m-2.index",
    ]
    v.assign([0.0, 0.0])
    saver.restore(None, path)
    assert v.numpy().tolist() == [1, 2]
    other = tf.Variable([0.0, 0.0])
    tf.compat.v1.train.Saver({"v": other}).restore(None, path)
    assert other.numpy().tolist() == [1, 2]
    with tf.compat.v1.Graph().as_default(), tf.compat.v1.Session() as session:
        read = tf.compat.v1.get_variable("v", [2])
        tf.compat.v1.train.Saver().restore(session, path)
        assert session.run(read).tolist() == [1, 2]
    named = tf.train.Checkpoint(q=v).save(tmp_path / "objects")
    v.assign([0.0, 0.0])
    saver = tf.compat.v1.train.Saver([v])
    saver.restore(None, named)
    assert v.numpy().tolist() == [1, 2]


def test_a_v1_saver_refuses_what_does_not_fit_eager_variables(tmp_path: Path) -> None:
    saver_of = tf.compat.v1.train.Saver
    saver = saver_of([tf.Variable([1.0, 2.0], name="v")])
    path = saver.save(None, tmp_path / "m")
    with pytest.raises(tf.errors.NotFoundError, match="Key z not found in checkpoint"):
        saver_of([tf.Variable(1.0, name="z")]).restore(None, path)
    with pytest.raises(tf.errors.InvalidArgumentError):
        saver_of([tf.Variable([1, 2], name="v")]).restore(None, path)
    with pytest.raises(ValueError, match="shape"):
        saver_of([tf.Variable([1.0], name="v")]).restore(None, path)
    with pytest.raises(ValueError, match="same shared_name 'a'"):
        saver_of([tf.Variable(1.0, name="a"), tf.Variable(1.0, name="a")]).save(None, path)
    with pytest.raises(RuntimeError, match="must specify a list or dict"):
        saver_of()
    with pytest.raises(RuntimeError, match="Use save/restore instead of build"):
        saver.build()
    with pytest.raises(RuntimeError, match="not supported when eager execution"):
        saver.export_meta_graph()
