"""SessionManager: sessions whose variables are restored, initialized or waited for."""

from __future__ import annotations

import threading

import pytest

import tideflow.v1 as tf
from cluster.servers import LocalCluster


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def cluster():
    made = LocalCluster({"worker": 1})
    yield made
    made.stop()


def variable(value=1.0):
    return tf.get_variable("v", initializer=value)


def test_without_a_checkpoint_the_model_is_initialized(tmp_path):
    v = variable(3.0)
    called = []
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables())
    with manager.prepare_session(
        "",
        init_op=tf.global_variables_initializer(),
        saver=tf.train.Saver(),
        checkpoint_dir=str(tmp_path),
        init_fn=called.append,
    ) as session:
        assert session.run(v) == 3.0
        assert called == [session]


def test_a_checkpoint_is_restored_and_nothing_initialized(tmp_path):
    v = variable()
    saver = tf.train.Saver()
    init = tf.global_variables_initializer()
    with tf.Session() as session:
        session.run(init)
        session.run(v.assign(7.0))
        path = saver.save(session, str(tmp_path / "model"), global_step=5)
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables())
    with manager.prepare_session(
        "", init_op=init, saver=saver, checkpoint_dir=str(tmp_path)
    ) as session:
        assert session.run(v) == 7.0
        assert saver.last_checkpoints == [path]
    with manager.prepare_session(
        "", init_op=init, saver=saver, checkpoint_filename_with_path=path
    ) as session:
        assert session.run(v) == 7.0
    session, is_recovered = manager.recover_session("", saver, str(tmp_path))
    with session:
        assert is_recovered
        assert session.run(v) == 7.0


def test_an_uninitialized_model_is_told_of():
    v = variable()
    w = tf.get_variable("w", initializer=1.0)
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables())
    with pytest.raises(RuntimeError, match="no init_op or init_fn or local_init_op was given"):
        manager.prepare_session("")
    with pytest.raises(RuntimeError, match=r"did not make model ready.*not initialized: w"):
        manager.prepare_session("", init_op=v.initializer)
    needs = tf.train.SessionManager(
        local_init_op=tf.no_op(), ready_for_local_init_op=tf.report_uninitialized_variables()
    )
    with pytest.raises(RuntimeError, match=r"ready for local_init.*not initialized: v, w"):
        needs.prepare_session("")
    session, is_recovered = manager.recover_session("")
    with session:
        assert not is_recovered
        session.run(w.initializer)


def test_a_ready_op_may_fail_while_something_is_uninitialized():
    v = variable()
    manager = tf.train.SessionManager(ready_op=tf.identity(v))
    with pytest.raises(RuntimeError, match="uninitialized"):
        manager.prepare_session("", init_op=tf.no_op())
    table = tf.assert_equal(tf.constant(1), tf.placeholder_with_default(2, []))
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.train.SessionManager(ready_op=table).prepare_session("", init_op=v.initializer)


def test_local_variables_are_initialized_after_the_others():
    v = variable(2.0)
    local = tf.get_variable(
        "local", initializer=lambda: 2 * v.read_value(), collections=[tf.GraphKeys.LOCAL_VARIABLES]
    )
    manager = tf.train.SessionManager(
        local_init_op=tf.local_variables_initializer(),
        ready_op=tf.report_uninitialized_variables(),
        ready_for_local_init_op=tf.report_uninitialized_variables(tf.global_variables()),
    )
    with manager.prepare_session("", init_op=tf.global_variables_initializer()) as session:
        assert session.run(local) == 4.0


def test_others_wait_until_the_chief_has_initialized(cluster, capsys):
    v = variable(5.0)
    init = tf.global_variables_initializer()
    manager = tf.train.SessionManager(
        ready_op=tf.report_uninitialized_variables(), recovery_wait_secs=0.05
    )
    target = cluster.target("worker")
    found = []
    waiting = threading.Thread(target=lambda: found.append(manager.wait_for_session(target)))
    waiting.start()
    with tf.Session(target) as chief:
        chief.run(init)
        waiting.join(30)
        with found[0] as session:
            assert session.run(v) == 5.0


def test_waiting_ends_in_time(cluster):
    variable()
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables())
    with pytest.raises(
        tf.errors.DeadlineExceededError, match=r"not ready after waiting 0.2 secs.*initialized: v"
    ):
        manager.wait_for_session(cluster.target("worker"), max_wait_secs=0.2)


def test_a_checkpoint_can_be_waited_for(tmp_path):
    v = variable()
    saver = tf.train.Saver()
    init = tf.global_variables_initializer()
    manager = tf.train.SessionManager(recovery_wait_secs=0.05)
    found = []

    def wait():
        session = manager.prepare_session(
            "", saver=saver, checkpoint_dir=str(tmp_path), wait_for_checkpoint=True
        )
        found.append(session)

    waiting = threading.Thread(target=wait)
    waiting.start()
    with tf.Session() as session:
        session.run(init)
        session.run(v.assign(9.0))
        saver.save(session, str(tmp_path / "model"))
    waiting.join(30)
    with found[0] as session:
        assert session.run(v) == 9.0


def test_bad_arguments():
    with pytest.raises(ValueError, match="must also pass a local_init_op"):
        tf.train.SessionManager(ready_for_local_init_op=tf.no_op())
    variable()
    with pytest.raises(ValueError, match="Can not provide both"):
        tf.train.SessionManager().prepare_session(
            "", checkpoint_dir="a", checkpoint_filename_with_path="b"
        )
