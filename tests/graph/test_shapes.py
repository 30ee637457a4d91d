"""Shapes as users see them, in both behaviours."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf


def test_sizes_are_numbers_unless_a_program_asks_for_dimensions():
    shape = tf.TensorShape([None, 3])
    assert (shape[0], shape[1], list(shape), str(shape)) == (None, 3, [None, 3], "(None, 3)")
    assert repr(shape) == "TensorShape([None, 3])"
    tf.disable_v2_tensorshape()
    assert (shape[0].value, shape[1].value, str(shape)) == (None, 3, "(?, 3)")
    assert repr(shape) == "TensorShape([Dimension(None), Dimension(3)])"
    tf.enable_v2_tensorshape()
    assert shape[1] == 3
    assert type(shape[1]) is int


def test_dimensions_calculate():
    three, unknown = tf.Dimension(3), tf.Dimension(None)
    assert [repr(one) for one in (three + 1, 7 - three, 2 * three, 7 // three, three % 2)] == [
        "Dimension(4)", "Dimension(4)", "Dimension(6)", "Dimension(2)", "Dimension(1)",
    ]  # fmt: skip
    assert (three * unknown).value is None
    assert (three == unknown) is None
    assert three == 3
    assert np.zeros([three, 1]).shape == (3, 1)
    with pytest.raises(TypeError):
        three / 2
    with pytest.raises(ValueError, match="at least 0"):
        tf.Dimension(-1)


@pytest.mark.parametrize("shape", [None, [], [3], [None, 2]])
def test_a_shape_survives_dimensions(shape):
    tf.disable_v2_tensorshape()
    given = tf.TensorShape(shape)
    assert tf.TensorShape(given.dims) == given
    if shape is not None:
        assert tf.TensorShape(list(given)) == given


def test_all_layers_work_with_dimensions():
    tf.disable_v2_behavior()
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 4])
        n = x.get_shape()[1]
        w = tf.get_variable("w", [n, 2], initializer=tf.ones_initializer())
        parts = tf.split(tf.reshape(tf.matmul(x, w), [-1, n // 2]), 2, axis=1)
        session.run(w.initializer)
        assert session.run(parts[0], {x: np.ones((1, 4))}).tolist() == [[4.0]]


def test_variables_are_references_after_disable_v2_behavior():
    tf.disable_v2_behavior()
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(5.0)
        doubled = v * 2
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(doubled)
        session.run(v.initializer)
        assert v.op.type == "VariableV2"
        assert (session.run(doubled, {v: 1.5}), session.run(doubled)) == (3.0, 10.0)
        tf.enable_resource_variables()
        assert tf.Variable(1.0).op.type == "VarHandleOp"
