"""Every op by its own name."""

from __future__ import annotations

import pytest

import tideflow.v1 as tf


def test_an_op_is_called_by_the_names_of_its_inputs() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        product = tf.raw_ops.MatMul(a=[[1.0, 2.0]], b=[[3.0], [4.0]], transpose_a=False, name="p")
        assert product.op.name == "p"
        assert session.run(product).tolist() == [[11.0]]


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(AttributeError, match="NoSuchOp"):
        tf.raw_ops.NoSuchOp  # noqa: B018
    with pytest.raises(TypeError, match="keyword"):
        tf.raw_ops.Neg(1.0)
    with pytest.raises(TypeError, match="'y'"):
        tf.raw_ops.Add(x=1.0)
