"""What goes wrong names the node and spoils nothing."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from accelerator.looks import ROWS, programs


def test_inputs_that_do_not_fit_name_the_node_and_spoil_nothing():
    x = tf.placeholder(tf.float32)
    product = tf.matmul(x, tf.constant(ROWS), name="product")
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"'product' on .*GPU:0"):
            session.run(product, {x: np.ones((2, 5))})
        assert session.run(product, {x: np.ones((2, 4))}).shape == (2, 3)
        (program,) = programs(session)
        assert len(program.regions) == 1


def test_a_failing_part_ends_the_others():
    x = tf.placeholder(tf.float32, [2])

    def fail(value):
        raise ValueError("no")

    broken = tf.py_func(fail, [x * 2.0], tf.float32)
    with tf.device("/GPU:1"):
        never = tf.reduce_sum(broken * 2.0)
    with tf.Session() as session, pytest.raises(tf.errors.OpError, match="no"):
        session.run(never, {x: [1.0, 2.0]})


def test_partial_runs_cross_devices():
    a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    first, second = a * 2.0, (a * 2.0) + b
    with tf.Session() as session:
        handle = session.partial_run_setup([first, second], [a, b])
        assert session.partial_run(handle, first, {a: 3.0}) == 6
        assert session.partial_run(handle, second, {b: 1.0}) == 7
