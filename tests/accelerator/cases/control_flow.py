"""Loops, branches and functions on devices."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from accelerator.looks import GPU0, ROWS, place_of
from tideflow.ops.control_flow import while_op
from tideflow.ops.control_flow.functional import if_op


def test_a_loop_runs_its_body_on_the_device():
    start = tf.placeholder(tf.float32, [3])
    with tf.device("/GPU:0"):
        count, value = tf.while_loop(
            lambda i, v: tf.logical_and(i < 7, tf.reduce_sum(v) < 1000.0),
            lambda i, v: (i + 1, v * 2.0),
            [0, start],
        )
        (slope,) = tf.gradients(value, start)
    with tf.Session() as session:
        found = session.run([count, value, slope], {start: [1.0, 2.0, 3.0]})
        assert found[0] == 7
        assert found[1].tolist() == [128, 256, 384]
        assert found[2].tolist() == [128] * 3
        assert session.run(count, {start: [900.0, 0, 0]}) == 1


def test_a_loop_may_cross_devices():
    with tf.device("/GPU:0"):
        start = tf.placeholder_with_default([1.0, 2.0], [2])

    def body(i, v):
        with tf.device("/GPU:1"):
            doubled = v * 2.0
        with tf.device("/CPU:0"):
            return i + 1, doubled + 1.0

    _, value = tf.while_loop(lambda i, v: i < 3, body, [0, start])
    with tf.Session() as session:
        assert session.run(value).tolist() == [15, 23]


@pytest.mark.parametrize(("fed", "expected"), [(1.0, 2.0), (-1.0, 0.0)])
def test_a_branch_is_taken_by_a_tensor_of_the_device(fed, expected):
    x = tf.placeholder(tf.float32, [])
    made = tf.cond(x * 1.0 > 0, lambda: x * 2.0, lambda: x + 1.0)
    with tf.Session() as session:
        assert session.run(made, {x: fed}) == expected


def test_tensor_arrays_and_maps():
    x = tf.placeholder(tf.float32, [4, 3])
    mapped = tf.map_fn(lambda row: tf.reduce_sum(row) * row, x)
    (slope,) = tf.gradients(mapped, x)
    with tf.Session() as session:
        found, grad = session.run([mapped, slope], {x: ROWS})
    sums = ROWS.sum(1, keepdims=True)
    np.testing.assert_allclose(found, sums * ROWS)
    np.testing.assert_allclose(grad, np.broadcast_to(2 * sums, ROWS.shape))


def test_functions_run_where_they_are_called():
    x = tf.placeholder(tf.float32, [2])
    found = while_op(lambda i, v: i < 4, lambda i, v: (i + 1, v * 3.0), [0, x])
    chosen = if_op(tf.reduce_sum(x) > 2, lambda: found[1] * 2.0, lambda: found[1])
    with tf.Session() as session:
        assert session.run(found[1], {x: [1.0, 2.0]}).tolist() == [81, 162]
        assert session.run(chosen, {x: [1.0, 2.0]}).tolist() == [162, 324]
        assert session.run(chosen, {x: [0.0, 1.0]}).tolist() == [0, 81]
        assert place_of(session, found[1], {x: [1.0, 2.0]}) == GPU0
