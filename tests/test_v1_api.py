"""What programs written for TensorFlow 1 rely on at the front door."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tideflow.v1 as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def test_choosing_the_old_behaviour_changes_nothing():
    tf.disable_v2_behavior()
    tf.disable_eager_execution()
    assert not tf.executing_eagerly()
    x = tf.constant([1.0, 2.0])
    assert x[:, tf.newaxis].shape.as_list() == [2, 1]


def test_an_error_takes_tensorflows_order_of_arguments():
    error = tf.errors.OutOfRangeError(None, None, "end of sequence")
    assert error.message == "end of sequence"
    assert error.error_code == 11
    op = tf.no_op()
    error = tf.errors.OpError(tf.NodeDef(name="n"), op, "text", 5)
    assert (error.node, error.op, error.message, error.error_code) == ("n", op, "text", 5)


def test_a_users_class_becomes_a_tensor():
    class Celsius:
        def __init__(self, degrees):
            self.degrees = degrees

    def convert(value, dtype=None, name=None, as_ref=False):
        return tf.constant(value.degrees, dtype, name=name)

    tf.register_tensor_conversion_function(Celsius, convert, priority=50)
    with tf.Session() as session:
        assert session.run(tf.add(tf.constant(1.0), Celsius(2.0))) == 3.0


def test_a_scalar_variable_gets_the_default_initializer():
    variable = tf.get_variable("w", [])
    with tf.Session() as session:
        session.run(variable.initializer)
        assert np.shape(session.run(variable)) == ()


def test_labels_and_logits_may_go_without_names():
    found = tf.nn.softmax_cross_entropy_with_logits([[0.0, 1.0]], [[1.0, 1.0]])
    with tf.Session() as session:
        assert session.run(found) == pytest.approx([np.log(2.0)])


def test_a_missing_device_is_named_with_the_operation_and_those_that_exist():
    with tf.device("/gpu:0"):
        x = tf.constant(1, name="x") + 2
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match=r"operation '.*GPU:0.*CPU:0"),
    ):
        session.run(x)


def test_libraries_that_few_programs_need_are_not_imported_with_the_package() -> None:
    program = "import sys, tideflow.v1; print(*sorted({'jax', 'scipy', 'grpc'} & set(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100
    )
    assert found.stdout.split() == []
