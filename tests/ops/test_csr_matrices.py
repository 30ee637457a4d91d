"""Sparse matrices by compressed rows: what goes in comes out, products, gradients, and the wire."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from tideflow.graph.building import apply_op
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor

A = np.float32([[[0, 2], [3, 0]], [[0, 0], [4, 5]]])
B = np.float32([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])


def run(fetches):
    with tf.Session() as session:
        return session.run(fetches)


def sparse(value):
    return apply_op("DenseToCSRSparseMatrix", tf.constant(value), tf.where(tf.not_equal(value, 0)))


def test_a_batch_of_matrices_comes_out_as_it_went_in():
    made = sparse(A)
    dense = apply_op("CSRSparseMatrixToDense", made, type=tf.float32)
    parts = apply_op("CSRSparseMatrixComponents", made, 1, type=tf.float32)
    found, count, (starts, columns, values) = run(
        [dense, apply_op("SparseMatrixNNZ", made), list(parts)]
    )
    assert found.tolist() == A.tolist()
    assert count.tolist() == [2, 2]
    assert starts.tolist() == [0, 0, 2]
    assert columns.tolist() == [0, 1]
    assert values.tolist() == [4.0, 5.0]


@pytest.mark.parametrize("flags", [{}, {"transpose_a": True}, {"adjoint_b": True}], ids=str)
def test_products_and_their_gradients_are_those_of_dense_matrices(flags):
    dense_flags = {"adj_x": "transpose_a" in flags, "adj_y": "adjoint_b" in flags}
    a, b = tf.constant(A), tf.constant(B)
    made = apply_op("DenseToCSRSparseMatrix", a, tf.where(tf.not_equal(a, 0)))
    y = apply_op("SparseMatrixMatMul", made, b, **flags)
    expected = apply_op("BatchMatMulV2", a, b, **dense_flags)
    slopes = [tf.gradients(each * each, [a, b]) for each in (y, expected)]
    found, wanted, (mine, others) = run([y, expected, slopes])
    np.testing.assert_allclose(found, wanted)
    np.testing.assert_allclose(mine[0], others[0] * (A != 0))
    np.testing.assert_allclose(mine[1], others[1])


def test_a_matrix_travels():
    [held] = run([sparse(A)])
    back = decode_tensor(encode_tensor(held))
    assert back.dense().tolist() == A.tolist()


def test_a_matrix_is_factorised_in_an_order_that_keeps_it_sparse():
    value = np.diag(np.full(6, 9.0))
    value[0, 1:] = value[1:, 0] = 1
    made = sparse(value)
    order = apply_op("SparseMatrixOrderingAMD", made)
    found = []
    for one in (order, np.arange(6, dtype=np.int32)):
        factor = apply_op("SparseMatrixSparseCholesky", made, one, type=tf.float64)
        parts = [apply_op("CSRSparseMatrixToDense", factor, type=tf.float64)]
        found.append(run([*parts, apply_op("SparseMatrixNNZ", factor), tf.constant(0) + one]))
    for factor, _, places in found:
        np.testing.assert_allclose(factor, np.linalg.cholesky(value[np.ix_(places, places)]))
    assert [count for _, count, _ in found] == [11, 21]


@pytest.mark.parametrize(
    ("value", "order", "match"),
    [
        (-np.eye(2), [0, 1], "factorization failed for batch index 0"),
        (np.ones([2, 2]), [0, 1], "factorization failed for batch index 0"),
        (np.ones([2, 3]), [0, 1], "must be square"),
        (np.eye(2), [0], "same number of elements"),
        (np.eye(2), [[0, 1]], "same rank as permutation"),
        (np.eye(2), [0, 2], "number of each row once"),
    ],
)
def test_what_has_no_factor_is_refused(value, order, match):
    made = apply_op("SparseMatrixSparseCholesky", sparse(value), np.int32(order), type=tf.float64)
    with pytest.raises(tf.errors.InvalidArgumentError, match=match):
        run(made)
