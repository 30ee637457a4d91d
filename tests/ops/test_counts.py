"""Counts of rows, gradients of rows alone, and draws that move a state on."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.graph.building import apply_op

I32, I64 = np.int32, np.int64
NO_WEIGHTS = np.float32([])
SPLITS, VALUES = I64([0, 2, 2, 3]), I32([1, 1, 4])


def run(*fetches):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run(fetch) for fetch in fetches]


def test_ragged_rows_are_counted_densely_and_sparsely():
    dense = apply_op("RaggedBincount", SPLITS, VALUES, I32(5), NO_WEIGHTS)
    sparse = apply_op("RaggedCountSparseOutput", SPLITS, VALUES, NO_WEIGHTS, binary_output=False)
    bins, (indices, values, shape) = run(dense, list(sparse))
    assert bins.tolist() == [[0, 2, 0, 0, 0], [0] * 5, [0, 0, 0, 0, 1]]
    assert indices.tolist() == [[0, 1], [2, 4]]
    assert values.tolist() == [2, 1]
    assert shape.tolist() == [3, 5]


def test_splits_that_do_not_fit_are_refused():
    dense = apply_op("RaggedBincount", I64([0, 2]), VALUES, I32(5), NO_WEIGHTS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="number of values"):
        run(dense)


def test_a_gradient_of_segments_may_be_of_the_rows_alone():
    data = tf.constant(np.ones((5, 2), np.float32))
    rows = tf.sparse.segment_sum(data, [4, 1, 1], [0, 0, 1], sparse_gradient=True)
    slope = tf.gradients(rows, data)[0]
    assert isinstance(slope, tf.IndexedSlices)
    indices, values = run(slope.indices, slope.values)
    assert indices.tolist() == [1, 4]
    assert values.tolist() == [[2, 2], [1, 1]]


def test_a_state_moves_on_by_256_for_each_element():
    state = tf.Variable(I64([1, 2, 3]), use_resource=True)
    drawn = apply_op("StatefulUniform", state.handle, I64(1), I32([3]), dtype="float32")
    found, after, _, read, moved = run(
        drawn,
        state.value(),
        apply_op("RngSkip", state.handle, I64(1), I64(2)),
        apply_op("RngReadAndSkip", state.handle, I32(1), np.uint64(1)),
        state.value(),
    )
    np.testing.assert_allclose(found, [0.45901167, 0.53342485, 0.9627732], rtol=1e-6)
    assert after.tolist() == [1 + 3 * 256, 2, 3]
    assert read.tolist() == [1 + 5 * 256, 2, 3]
    assert moved.tolist() == [1 + 6 * 256, 2, 3]


def test_a_whole_file_is_read_by_reference(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"text")
    queue = apply_op("FIFOQueue", component_types=[tf.string], shapes=[[]], capacity=9)
    put = apply_op("QueueEnqueue", queue, [tf.constant(str(path))])
    read = apply_op("ReaderRead", apply_op("WholeFileReader"), queue)
    _, (name, text) = run(put, list(read))
    assert (name.decode(), text) == (str(path), b"text")


def test_a_part_of_a_sparse_tensor_hands_its_gradient_back():
    values = tf.constant(np.float32([1, 2, 3]))
    whole = tf.SparseTensor([[0, 0], [0, 2], [1, 1]], values, [2, 3])
    part = tf.sparse.slice(whole, [0, 1], [2, 2])
    assert run(tf.gradients(part.values * part.values, values)[0])[0].tolist() == [0, 4, 6]
