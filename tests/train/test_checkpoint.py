"""Checkpoints of objects: saved, restored, matched, kept and deleted."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def make_objects(value):
    w = tf.get_variable("w", initializer=np.float32([value, 2]))
    b = tf.get_variable("b", initializer=np.float32(value))
    optimizer = tf.train.AdamOptimizer(0.1)
    step = tf.train.get_or_create_global_step()
    train = optimizer.minimize(tf.reduce_sum(w * w) + b * b, global_step=step)
    net = {"layers": [w, b], "same": w, "name": "not saved", "rate": 0.1}
    return tf.train.Checkpoint(net=net, optimizer=optimizer, step=step), train


def test_objects_come_back_with_their_optimizer(tmp_path):
    checkpoint, train = make_objects(1.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([train] * 1)
        session.run(train)
        path = checkpoint.save(tmp_path / "c", session=session)
        wanted = session.run(tf.global_variables()[:-1])
    assert path == str(tmp_path / "c-1")
    assert tf.train.latest_checkpoint(str(tmp_path)) == path
    with tf.Graph().as_default(), tf.Session() as session:
        other, _ = make_objects(9.0)
        status = other.restore(path).assert_consumed()
        status.run_restore_ops(session)
        for found, value in zip(session.run(tf.global_variables()[: len(wanted)]), wanted):
            np.testing.assert_array_equal(found, value)
        assert other.save(tmp_path / "c", session=session) == str(tmp_path / "c-2")


def test_a_saver_restores_objects_by_the_names_of_variables(tmp_path):
    checkpoint, _ = make_objects(1.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = checkpoint.write(str(tmp_path / "c"), session=session)
    assert path == str(tmp_path / "c")
    with tf.Graph().as_default(), tf.Session() as session:
        make_objects(9.0)
        tf.train.Saver().restore(session, path)
        assert session.run("b/Read/ReadVariableOp:0") == 1.0
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("new", [1])
        with pytest.raises(tf.errors.NotFoundError, match=r"lacks variables of the graph: new"):
            tf.train.Saver().restore(session, path)


def test_objects_are_restored_from_a_savers_checkpoint(tmp_path):
    make_objects(1.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "m"))
    with tf.Graph().as_default(), tf.Session() as session:
        other, _ = make_objects(9.0)
        other.restore(path).assert_existing_objects_matched().run_restore_ops(session)
        assert session.run("b/Read/ReadVariableOp:0") == 1.0


def test_what_does_not_fit_is_told_and_the_rest_is_initialized(tmp_path):
    with tf.Session() as session:
        a = tf.get_variable("a", initializer=1.0)
        session.run(a.initializer)
        path = tf.train.Checkpoint(a=a, gone=[a]).save(tmp_path / "c", session=session)
    with tf.Graph().as_default(), tf.Session() as session:
        a = tf.get_variable("a", initializer=5.0)
        b = tf.get_variable("b", initializer=6.0)
        status = tf.train.Checkpoint(a=a, b=b).restore(path)
        with pytest.raises(AssertionError, match=r"b/\.ATTRIBUTES"):
            status.assert_existing_objects_matched()
        status.expect_partial().initialize_or_restore(session)
        assert session.run([a, b]) == [1.0, 6.0]
        with pytest.raises(AssertionError, match="nothing in"):
            tf.train.Checkpoint(x=[b]).read(path).assert_nontrivial_match()
    with pytest.raises(tf.errors.NotFoundError):
        tf.train.Checkpoint(a=a).restore(str(tmp_path / "nothing"))


def test_tables_come_back_beside_variables(tmp_path):
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    variable = tf.get_variable("v", initializer=1.0)
    checkpoint = tf.train.Checkpoint(table=table, variable=variable)
    filled = table.insert(tf.constant(["a", "b"]), tf.constant([1, 2], tf.int64))
    found = table.lookup(tf.constant(["a", "c"]))
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), filled])
        path = checkpoint.save(tmp_path / "objects", session=session)
    with tf.Session() as session:
        status = checkpoint.restore(path).assert_consumed()
        status.initialize_or_restore(session)
        assert session.run(found).tolist() == [1, -1]
    with tf.Session() as session:
        checkpoint.restore(None).initialize_or_restore(session)
        assert session.run([found, variable])[0].tolist() == [-1, -1]


def test_without_a_checkpoint_objects_are_initialized():
    with tf.Session() as session:
        a = tf.get_variable("a", initializer=5.0)
        status = tf.train.Checkpoint(a=a).restore(None)
        status.initialize_or_restore(session)
        assert session.run(a) == 5.0
        with pytest.raises(AssertionError, match="no checkpoint"):
            status.run_restore_ops(session)


def test_names_with_dots_and_slashes_stay_apart(tmp_path):
    with tf.Session() as session:
        a, b = (tf.get_variable(n, initializer=v) for n, v in (("a", 1.0), ("b", 2.0)))
        session.run([a.initializer, b.initializer])
        path = tf.train.Checkpoint(d={"x.y/z": a, "x": {"y": b}}).save(tmp_path / "c", session)
    names = [name for name, _ in tf.train.list_variables(path)]
    assert "d/x..y.Sz/.ATTRIBUTES/VARIABLE_VALUE" in names
    assert "d/x/y/.ATTRIBUTES/VARIABLE_VALUE" in names


def test_a_manager_numbers_keeps_and_deletes(tmp_path):
    a = tf.get_variable("a", initializer=0.0)
    checkpoint = tf.train.Checkpoint(a=a)
    manager = tf.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=2)
    assert manager.restore_or_initialize() is None
    with tf.Session() as session:
        session.run(a.initializer)
        saved = []
        for value in (1.0, 2.0, 3.0):
            session.run(a.assign(value))
            saved.append(manager.save())
        assert saved == [str(tmp_path / f"ckpt-{i}") for i in (1, 2, 3)]
        assert manager.checkpoints == saved[1:]
        assert not (tmp_path / "ckpt-1.index").exists()
        state = (tmp_path / "checkpoint").read_text()
        assert 'model_checkpoint_path: "ckpt-3"' in state
        assert state.count("all_model_checkpoint_timestamps") == 2
        again = tf.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=1)
        assert (again.latest_checkpoint, again.checkpoints) == (saved[2], saved[1:])
        session.run(a.assign(0.0))
        assert again.restore_or_initialize() == saved[2]
        assert session.run(a) == 3.0
        assert again.save(checkpoint_number=10) == str(tmp_path / "ckpt-10")
        assert again.checkpoints == [str(tmp_path / "ckpt-10")]


def test_a_manager_waits_until_the_step_has_grown(tmp_path):
    step = tf.train.get_or_create_global_step()
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(step=step), tmp_path, 3, step_counter=step, checkpoint_interval=2
    )
    with tf.Session() as session:
        session.run(step.initializer)
        found = []
        for _ in range(4):
            session.run(step.assign_add(1))
            found.append(manager.save() is not None)
        assert found == [True, False, True, False]
        assert manager.save(check_interval=False) is not None
    with pytest.raises(ValueError, match="max_to_keep"):
        tf.train.CheckpointManager(None, tmp_path, 0)
    with pytest.raises(ValueError, match="step_counter"):
        tf.train.CheckpointManager(None, tmp_path, 1, checkpoint_interval=2)
