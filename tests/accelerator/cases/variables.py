"""Variables on devices, and their updates."""

from __future__ import annotations

import gc
import threading
import weakref

import jax
import numpy as np
import pytest

import tideflow.v1 as tf
from accelerator.looks import NO_GPU, OPTIMIZERS, ROWS, device_of, programs, states, use_both_kinds
from tideflow.graph.building import apply_op
from tideflow.wire import messages as pb


@use_both_kinds
def test_variables_live_on_the_device(use_resource):
    weights = tf.get_variable("weights", initializer=ROWS, use_resource=use_resource)
    with tf.device("/GPU:1"):
        other = tf.get_variable("other", initializer=ROWS, use_resource=use_resource)
    step = [weights.assign_add(tf.ones([4, 3])), other.assign_sub(tf.ones([4, 3]))]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([one.op for one in step])
        first, second = states(session)["weights"], states(session, "GPU:1")["other"]
        assert device_of(first.value) == jax.local_devices(backend="cpu")[1]
        assert device_of(second.value) == jax.local_devices(backend="cpu")[2]
        # What a checkpoint reads.
        found = session.run([weights, other])
        assert (found[0] == ROWS + 1).all()
        assert (found[1] == ROWS - 1).all()
        assert first.describe() == ("float32", "[4,3]", ROWS.nbytes)


@use_both_kinds
def test_updates_are_donated(use_resource):
    weights = tf.get_variable("weights", initializer=ROWS, use_resource=use_resource)
    add = weights.assign_add(tf.ones([4, 3])).op
    with tf.Session() as session:
        session.run(weights.initializer)
        session.run(add)  # the first value came from the host
        state = states(session)["weights"]
        before = state.value.unsafe_buffer_pointer()
        for _ in range(3):
            session.run(add)
        assert state.value.unsafe_buffer_pointer() == before
        old = state.value
        session.run(add)
        # Somebody holds it: it is left alone.
        assert (np.asarray(old) == ROWS + 4).all()
        del old
        before = len(jax.live_arrays())
        for _ in range(5):
            session.run(add)
        gc.collect()
        assert len(jax.live_arrays()) <= before
        assert (session.run(weights) == ROWS + 10).all()


@use_both_kinds
def test_a_variable_without_a_value_names_itself_and_the_node(use_resource):
    weights = tf.get_variable("weights", initializer=ROWS, use_resource=use_resource)
    with (
        tf.Session() as session,
        pytest.raises(
            tf.errors.FailedPreconditionError, match=r"'weights'.* has no value"
        ) as found,
    ):
        session.run(weights * 2.0)
    assert "GPU:0" in found.value.message
    with (
        tf.Session() as session,
        pytest.raises(
            (tf.errors.FailedPreconditionError, tf.errors.NotFoundError), match="weights"
        ),
    ):
        session.run(weights.assign_add(ROWS).op)


@use_both_kinds
def test_an_assignment_keeps_the_shape(use_resource):
    weights = tf.get_variable("weights", initializer=ROWS, use_resource=use_resource)
    value = tf.placeholder(tf.float32, None)
    assign = weights.assign(value).op
    with tf.Session() as session:
        session.run(weights.initializer)
        session.run(assign, {value: ROWS * 2})
        assert (session.run(weights) == ROWS * 2).all()
        if not use_resource:
            with pytest.raises(tf.errors.InvalidArgumentError, match="has shape"):
                session.run(assign, {value: [1.0]})


@use_both_kinds
def test_rows_that_come_twice_are_added_up_first(use_resource):
    found = []
    for config in (pb.ConfigProto(), NO_GPU):
        with tf.Graph().as_default(), tf.device("/GPU:0" if config is not NO_GPU else None):
            table = tf.get_variable("table", initializer=ROWS, use_resource=use_resource)
            rows = tf.placeholder(tf.int32, [None])
            taken = tf.gather(table, rows)
            train = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(taken * taken))
            with tf.Session(config=config) as session:
                session.run(tf.global_variables_initializer())
                for fed in ([1, 1, 3], [0, 2, 0], [3]):
                    session.run(train, {rows: fed})
                found.append(session.run(table))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@use_both_kinds
def test_a_step_that_trains_an_embedding_is_one_region(optimizer, use_resource):
    fed = ([1, 1, 3], [0, 2, 0], [3, 3, 3], [0, 1, 2])
    found = []
    for config in (pb.ConfigProto(), NO_GPU):
        with tf.Graph().as_default():
            table = tf.get_variable("table", initializer=ROWS, use_resource=use_resource)
            rows = tf.placeholder(tf.int32, [None])
            loss = tf.reduce_sum(tf.gather(table, rows) ** 2)
            train = OPTIMIZERS[optimizer]().minimize(loss)
            with tf.Session(config=config) as session:
                session.run(tf.global_variables_initializer())
                losses = [session.run([loss, train], {rows: one})[0] for one in fed]
                found.append((losses, session.run(table)))
                if config is not NO_GPU:
                    step = next(p for p in programs(session) if p.regions)
                    between = [p.instructions for p, _ in step.parts if p not in step.regions]
                    assert {one.node.op for run in between for one in run} <= {"VariableV2"}
                    assert len(step.regions) == 1
                    # Nor does it matter how many rows are distinct.
                    assert step.regions[0].compiled_forms == 1
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-5)


def test_whoever_sees_distinct_values_sees_only_these():
    given = tf.placeholder(tf.int32, [None])
    distinct, numbers = tf.unique(given)
    summed = tf.unsorted_segment_sum(tf.cast(given, tf.float32), numbers, tf.size(distinct))
    largest = tf.reduce_max(summed)
    weighted = summed * tf.constant([1.0, 10.0])
    with tf.Session() as session:
        feeds = {given: [7, 5, 7, 5, 5]}
        assert session.run([largest, distinct], feeds)[0] == 15.0
        assert (session.run(summed, feeds) == [14.0, 15.0]).all()
        assert (session.run(weighted, feeds) == [14.0, 150.0]).all()
        assert session.run(tf.size(distinct), feeds) == 2
        assert session.run([numbers, tf.shape(distinct)], feeds)[1] == 2
        assert session.run(largest, {given: [-5, -7]}) == -5.0


@pytest.mark.parametrize("fed", [[], [2], [3, 0, 3, 0]])
def test_any_number_of_rows_may_be_summed_up_and_scattered(fed):
    table = tf.get_variable("table", initializer=ROWS, use_resource=True)
    given = tf.placeholder(tf.int64, [None])
    distinct, numbers = tf.unique(given)
    summed = tf.unsorted_segment_sum(tf.ones([tf.size(given), 3]), numbers, tf.size(distinct))
    changed = table.scatter_sub(tf.IndexedSlices(summed, distinct))
    with tf.Session() as session:
        session.run(table.initializer)
        session.run(changed, {given: fed})
        expected = ROWS.copy()
        np.subtract.at(expected, np.array(fed, np.int64), 1.0)
        assert (session.run(table) == expected).all()


@use_both_kinds
def test_an_assignment_after_a_read_may_change_the_shape(use_resource):
    weights = tf.get_variable(
        "weights", initializer=ROWS, validate_shape=False, use_resource=use_resource
    )
    fed = tf.placeholder(tf.float32, None)
    value = weights.read_value() if use_resource else weights + 0.0
    with tf.control_dependencies([value]):
        assign = tf.assign(weights, fed, validate_shape=False)
    with tf.Session() as session:
        session.run(weights.initializer)
        for given in (ROWS * 2, [1.0, 2.0], [3.0, 4.0], ROWS):
            before = session.run(weights)
            assert (session.run([value, assign.op], {fed: given})[0] == before).all()
            assert (session.run(weights) == given).all()


def test_the_shape_of_a_variable_is_part_of_a_region():
    weights = tf.get_variable("weights", initializer=ROWS, use_resource=True)
    size = apply_op("VariableShape", weights.handle)
    flat = tf.reshape(weights * 2.0, [tf.reduce_prod(size)])
    with tf.Session() as session:
        with pytest.raises(tf.errors.OpError, match="weights"):
            session.run(size)
        session.run(weights.initializer)
        assert (session.run(flat) == ROWS.ravel() * 2).all()
        assert (session.run(size) == [4, 3]).all()
        last = programs(session)[-1]
        assert len(last.parts) == 1


@use_both_kinds
def test_rows_of_a_variable_are_read_and_changed_there(use_resource):
    table = tf.get_variable("table", initializer=ROWS, use_resource=use_resource)
    taken = tf.gather(table, [1, 1, 3])
    loss = tf.reduce_sum(taken * taken)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as session:
        session.run(table.initializer)
        assert (session.run(taken) == ROWS[[1, 1, 3]]).all()
        session.run(train)
        found = session.run(table)
        assert isinstance(states(session)["table"].value, jax.Array)
    expected = ROWS.copy()
    expected[1] -= 0.4 * ROWS[1]
    expected[3] -= 0.2 * ROWS[3]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_variable_that_was_dropped_is_found_no_more():
    weights = tf.get_variable("weights", initializer=ROWS, use_resource=True)
    step = weights.assign_add(tf.ones([4, 3])).op
    drop = apply_op("DestroyResourceOp", weights.handle)
    with tf.Session() as session:
        session.run(weights.initializer)
        session.run(step)
        first = weakref.ref(states(session)["weights"])
        session.run(drop)
        gc.collect()
        assert first() is None
        with pytest.raises(tf.errors.OpError, match="weights"):
            session.run(step)
        session.run(weights.initializer)
        session.run(step)
        assert (session.run(weights) == ROWS + 1).all()


def test_random_initial_values_are_those_of_the_cpu():
    weights = tf.get_variable("w", [50, 3], initializer=tf.random_normal_initializer(seed=3))
    found = []
    for config in (pb.ConfigProto(), NO_GPU):
        with tf.Session(config=config) as session:
            session.run(weights.initializer)
            found.append(session.run(weights))
    assert (found[0] == found[1]).all()


def test_steps_of_several_threads_lose_no_update():
    total = tf.get_variable("total", [64], initializer=tf.zeros_initializer())
    add = total.assign_add(tf.ones([64])).op
    double = total * 2.0
    with tf.Session() as session:
        session.run(total.initializer)

        def work():
            for _ in range(40):
                session.run(add)
                session.run(double)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (session.run(total) == 160).all()
