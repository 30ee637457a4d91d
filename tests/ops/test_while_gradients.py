"""Gradients of While ops: the same as those of the loops of Switch and Merge."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.ops.control_flow import while_op
from tideflow.ops.control_flow.functional import defun, if_op


def run(fetches, feeds=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def powers(loop, x, n):
    _, y = loop(lambda i, _: i < n, lambda i, a: (i + 1, a * x), [tf.constant(0), tf.ones_like(x)])
    return y


def changing(loop, x, n):
    _, y = loop(
        lambda i, _: i < n, lambda i, a: (i + 1, tf.sin(a) * tf.cos(a * a)), [tf.constant(0), x]
    )
    return y


def two(loop, x, n):
    _, a, b = loop(
        lambda i, *_: i < n,
        lambda i, a, b: (i + 1, tf.tanh(b * a), a + b * tf.cast(i, tf.float32)),
        [tf.constant(0), x, x * 2.0],
    )
    return a * b


def unused(loop, x, n):
    _, a, _ = loop(
        lambda i, *_: i < n,
        lambda i, a, b: (i + 1, a * 2.0, a + 1.0),
        [tf.constant(0), x, x * 3.0],
    )
    return a


PROGRAMS = [powers, changing, two, unused]


@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_while_op_has_the_gradient_of_while_loop(program, n):
    x = tf.constant([0.7, -0.3])
    count = tf.placeholder(tf.int32, [])
    ours = program(while_op, x, count)
    plain = program(tf.while_loop, x, count)
    pairs = [tf.gradients(y, [x])[0] for y in (ours, plain)]
    one, other = run(pairs, {count: n})
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_gradients_of_gradients():
    x = tf.constant(1.3)
    y = powers(while_op, x, tf.constant(4))
    (first,) = tf.gradients(y, [x])
    (second,) = tf.gradients(first, [x])
    np.testing.assert_allclose(run([first, second]), [4 * 1.3**3, 12 * 1.3**2], rtol=1e-5)


def test_gradients_are_taken_twice_of_one_loop():
    x, w = tf.constant(1.5), tf.constant(2.0)
    _, a = while_op(lambda i, _: i < 3, lambda i, a: (i + 1, a * w), [tf.constant(0), x])
    first = tf.gradients(a, [x, w])
    second = tf.gradients(a * a, [x, w])
    np.testing.assert_allclose(run(first), [8, 1.5 * 12])
    np.testing.assert_allclose(run(second), [24 * 8, 24 * 18])


def test_a_variable_that_the_body_reads_gets_its_gradient():
    w = tf.get_variable("w", initializer=[2.0, 3.0], use_resource=True)
    _, a = while_op(
        lambda i, _: i < 3, lambda i, a: (i + 1, a * w), [tf.constant(0), tf.constant([1.0, 1.0])]
    )
    found = tf.gradients(a, [w])
    np.testing.assert_allclose(run(found)[0], [12, 27])


def test_a_loop_in_a_function_and_a_branch_in_a_loop():
    x = tf.constant(1.2)

    def body(i, a):
        return i + 1, if_op(a > 2.0, lambda: a * a, lambda: a * x * 2.0)

    def call(x0):
        return while_op(lambda i, _: i < 3, body, [tf.constant(0), x0])[1]

    function = defun(call, [x], "looping")
    (grad,) = tf.gradients(function(x), [x])

    def plain(v):
        a = v
        for _ in range(3):
            a = a * a if a > 2.0 else a * v * 2.0
        return a

    wanted = (plain(1.2 + 1e-6) - plain(1.2 - 1e-6)) / 2e-6
    np.testing.assert_allclose(run(grad), wanted, rtol=1e-4)


def test_shapes_that_grow():
    x = tf.constant([[1.0, 2.0]])
    n = tf.placeholder(tf.int32, [])
    start = tf.placeholder_with_default(x, [None, 2])
    _, a = while_op(
        lambda i, _: i < n, lambda i, a: (i + 1, tf.concat([a, a * x], 0)), [tf.constant(0), start]
    )
    (grad,) = tf.gradients(tf.reduce_sum(a), [start])
    np.testing.assert_allclose(run(grad, {n: 2}), [[4.0, 9.0]])


def test_a_loop_in_a_loop():
    x = tf.constant(1.1)

    def inner(a):
        return while_op(lambda j, _: j < 2, lambda j, b: (j + 1, b * x), [tf.constant(0), a])[1]

    _, y = while_op(lambda i, _: i < 3, lambda i, a: (i + 1, inner(a)), [tf.constant(0), x])
    (grad,) = tf.gradients(y, [x])
    np.testing.assert_allclose(run(grad), 7 * 1.1**6, rtol=1e-5)
