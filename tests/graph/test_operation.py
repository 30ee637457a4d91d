"""Operations as a user's own code meets them: gradient functions, device functions."""

from __future__ import annotations

import pytest

import tideflow.v1 as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def test_the_inputs_of_an_operation_are_tensors():
    a, b = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    op = tf.multiply(a, b).op
    assert [tensor.name for tensor in op.inputs] == [a.name, b.name]
    assert op.inputs[0] is a


def test_a_gradient_function_of_the_user_reads_inputs_and_outputs(graph):
    @tf.RegisterGradient("TwiceTheInput")
    def grad(op, dy):
        return dy * 2.0 * op.inputs[0]

    x = tf.placeholder(tf.float32)
    with graph.gradient_override_map({"Identity": "TwiceTheInput"}):
        y = tf.identity(x)
    (dx,) = tf.gradients(y, x)
    with tf.Session() as session:
        assert session.run(dx, {x: 3.0}) == 6.0


def test_a_device_function_sees_type_and_inputs():
    def device_of(op):
        return "/cpu:1" if op.type == "Neg" and op.inputs[0].dtype == tf.float32 else "/cpu:0"

    with tf.device(device_of):
        x = tf.constant(1.0)
        y = tf.negative(x)
    assert y.device.endswith("1")
    assert x.device.endswith("0")


def test_a_graph_inside_itself_leaves_the_one_between_as_the_default():
    around, between = tf.Graph(), tf.Graph()
    with around.as_default(), between.as_default():
        with around.as_default():
            assert tf.get_default_graph() is around
        assert tf.get_default_graph() is between
