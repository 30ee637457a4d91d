"""How values pass to devices, from them, and between regions."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from accelerator.looks import NO_GPU, ROWS, programs
from tideflow.runtime.device_program import DeviceProgram
from tideflow.runtime.jit_program import JitProgram


def test_values_between_regions_stay_on_the_device():
    x = tf.placeholder(tf.float32, [4, 3])
    doubled = x * 2.0
    with tf.control_dependencies([tf.Assert(tf.reduce_all(doubled < 100.0), [doubled])]):
        result = tf.identity(doubled) + 1.0
    with tf.Session() as session:
        assert (session.run(result, {x: ROWS}) == 2 * ROWS + 1).all()
        (program,) = programs(session)
        assert isinstance(program, DeviceProgram)
        assert len(program.regions) == 2
        with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
            session.run(result, {x: ROWS + 100})


def test_nothing_pure_is_run_by_numpy(monkeypatch):
    x = tf.placeholder(tf.float32, [4, 3])
    made = tf.reduce_sum(tf.matmul(tf.nn.relu(x), x, transpose_b=True))
    with tf.Session() as session:
        session.run(made, {x: ROWS})
        (program,) = programs(session)
        assert not isinstance(program, JitProgram)
        assert [type(part).__name__ for part, _ in program.parts] == ["DeviceRegion"]


@pytest.mark.parametrize(
    "fed", [np.float32, np.float64, np.int32, np.int64, np.bool_, np.complex64]
)
def test_types_and_values_pass_both_ways(fed):
    value = np.array([[0, 1], [2, 3]]).astype(fed)
    with tf.device("/CPU:0"):
        before = tf.identity(tf.placeholder(value.dtype, [2, 2], name="fed"))
    with tf.device("/GPU:0"):
        turned = tf.transpose(before)
    with tf.device("/GPU:1"):
        again = tf.transpose(turned)
    with tf.device("/CPU:0"):
        after = tf.identity(again)
    with tf.Session() as session:
        found = session.run([turned, after], {"fed:0": value})
    assert [f.dtype for f in found] == [fed, fed]
    assert (found[0] == value.T).all()
    assert (found[1] == value).all()


def test_fed_arrays_may_change_after_the_step_and_fetched_ones_are_ours():
    x = tf.placeholder(tf.float32, [None])
    kept = tf.get_variable("kept", [400_000], initializer=tf.zeros_initializer())
    keep = kept.assign(x)
    with tf.Session() as session:
        mine = np.ones(400_000, np.float32)
        session.run(keep.op, {x: mine})
        mine[:] = 7
        found = session.run(kept)
        assert (found == 1).all()
        found[:] = 5
        assert (session.run(kept) == 1).all()


def test_a_mixed_graph_gives_what_the_cpu_gives():
    x = tf.placeholder(tf.float32, [4, 3])
    shifted = tf.py_func(lambda value: value + 1, [x * 2.0], tf.float32)
    shifted.set_shape([4, 3])
    result = tf.reduce_sum(tf.matmul(shifted, x, transpose_b=True), 0)
    with tf.Session() as session:
        ours = session.run(result, {x: ROWS})
    with tf.Session(config=NO_GPU) as session:
        expected = session.run(result, {x: ROWS})
    np.testing.assert_allclose(ours, expected, rtol=1e-6)


def test_a_tensor_may_decide_the_shape_of_another():
    count = tf.placeholder(tf.int32, [])
    wide = tf.fill([count * 2, 3], 1.5)
    total = tf.reduce_sum(wide) + 1.0
    with tf.Session() as session:
        for n in (1, 4, 2, 4):
            found, summed = session.run([wide, total], {count: n})
            assert found.shape == (2 * n, 3)
            assert summed == 9 * n + 1


def test_shapes_may_change_from_step_to_step():
    x = tf.placeholder(tf.float32, [None, 3])
    flat = tf.reshape(x, [-1])
    with tf.Session() as session:
        for n in range(1, 6):
            assert session.run(flat, {x: np.ones((n, 3))}).shape == (3 * n,)


def test_large_constants_keep_their_own_values():
    x = tf.placeholder(tf.float32, [2000])
    first = x * 2 + tf.constant(np.full(2000, 1, np.float32))
    other = x * 2 + tf.constant(np.full(2000, 5, np.float32))
    with tf.Session() as session:
        zeros = np.zeros(2000, np.float32)
        assert session.run(first, {x: zeros})[0] == 1
        assert session.run(other, {x: zeros})[0] == 5


def test_rows_outside_are_zeros_and_labels_outside_give_no_number():
    indices = tf.placeholder(tf.int32, [None])
    taken = tf.gather(tf.constant(ROWS), indices)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=indices, logits=ROWS[:2])
    with tf.Session() as session:
        found = session.run(taken, {indices: [1, 9]})
        assert (found == [ROWS[1], [0, 0, 0]]).all()
        lost = session.run(loss, {indices: [1, 9]})
    assert np.isfinite(lost[0])
    assert np.isnan(lost[1])
