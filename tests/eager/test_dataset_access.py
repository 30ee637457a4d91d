"""Elements of datasets by their index, and datasets of what is listed."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow as tf

Data = tf.data.Dataset


def test_an_element_by_its_index():
    data = Data.range(5).map(lambda x: {"a": x, "b": tf.ragged.range([x])}).batch(2)
    found = tf.data.experimental.at(data, 1)
    assert found["a"].numpy().tolist() == [2, 3]
    assert found["b"].to_list() == [[[0, 1]], [[0, 1, 2]]]
    with pytest.raises(tf.errors.OutOfRangeError):
        tf.data.experimental.at(data, 3)
    with pytest.raises(tf.errors.FailedPreconditionError):
        tf.data.experimental.at(Data.range(3).repeat(), 0)
    with pytest.raises(tf.errors.UnimplementedError):
        tf.data.experimental.at(Data.range(3).filter(lambda x: x > 0), 0)


@pytest.mark.parametrize("op", ["WindowOp", "ListDataset"])
def test_what_is_listed(op):
    values = [np.int64(1), b"a", np.int64(2), b"b"]
    kind = {"output_types": [tf.int64, tf.string], "output_shapes": [[], []]}
    name = "inputs" if op == "WindowOp" else "tensors"
    made = getattr(tf.raw_ops, op)(**{name: values}, **kind)
    spec = (tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.string))
    found = tf.data.experimental.from_variant(made, spec)
    assert [(int(a), b.numpy()) for a, b in found] == [(1, b"a"), (2, b"b")]


def test_sparse_batches():
    rows = Data.range(1, 4).map(lambda n: tf.fill([n], n))
    found = [tf.sparse.to_dense(x).numpy().tolist() for x in rows.sparse_batch(2, [3])]
    assert found == [[[1, 0, 0], [2, 2, 0]], [[3, 3, 3]]]
    again = rows.apply(tf.data.experimental.dense_to_sparse_batch(2, [3]))
    assert again.element_spec == tf.SparseTensorSpec([None, 3], tf.int64)
    with pytest.raises(tf.errors.DataLossError):
        list(rows.sparse_batch(2, [1]))


def test_a_dataset_prints_the_op_that_makes_it():
    assert repr(Data.range(2).batch(2)) == (
        "<_BatchDataset element_spec=TensorSpec(shape=(None,), dtype=tf.int64, name=None)>"
    )
