"""Sparse matrices by compressed rows, compared with TensorFlow's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tideflow.v1 as ours
from tideflow.graph.building import apply_op

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(3)
START = RNG.bit_generator.state
FLAGS = ("", "transpose", "adjoint")
KINDS = (np.float32, np.float64, np.complex64, np.complex128)
BOTH = (ours, tensorflow.compat.v1)


@pytest.fixture(autouse=True)
def same_numbers():
    """Each test draws the same: TensorFlow's gradient of products fails for some matrices."""
    RNG.bit_generator.state = START


def op(tf, name, *args, **attrs):
    if tf is ours:
        return apply_op(name, *args, **attrs)
    raw = getattr(tensorflow.raw_ops, name)
    names = [each for each in raw.__signature__.parameters if each not in (*attrs, "name")]
    return raw(**dict(zip(names, args, strict=False)), **attrs)


def matrix(kind, *shape):
    made = RNG.integers(-3, 4, size=shape)
    made = made * (RNG.random(shape) < 0.6)
    return (made * (1 + 0.5j)).astype(kind) if np.dtype(kind).kind == "c" else made.astype(kind)


def sparse(tf, value):
    return op(tf, "DenseToCSRSparseMatrix", value, tf.where(tf.not_equal(value, 0)))


def dense(tf, value, kind):
    return op(tf, "CSRSparseMatrixToDense", value, type=np.dtype(kind).name)


def check(build):
    """Build fetches with each library in a graph of its own, and compare what they give."""
    found = []
    for tf in BOTH:
        with tf.Graph().as_default(), tf.Session() as session:
            try:
                found.append(session.run(list(build(tf))))
            except (ValueError, tf.errors.InvalidArgumentError):
                found.append("InvalidArgumentError")
    if isinstance(found[1], str):
        assert found[0] == found[1]
        return
    assert len(found[0]) == len(found[1])
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (0, 3)])
def test_matrices_come_out_as_they_went_in(kind, shape):
    value = matrix(kind, *shape)
    name = np.dtype(kind).name

    def build(tf):
        made = sparse(tf, tf.constant(value))
        turned = op(tf, "SparseMatrixTranspose", made, conjugate=True, type=name)
        yield dense(tf, made, kind)
        yield dense(tf, turned, kind)
        yield op(tf, "SparseMatrixNNZ", made)
        yield from op(tf, "CSRSparseMatrixToSparseTensor", turned, type=name)
        yield from op(tf, "CSRSparseMatrixComponents", turned, 0, type=name)

    check(build)


@pytest.mark.parametrize(
    ("indices", "values", "shape"),
    [
        ([[0, 1], [1, 0]], [1.0, 2.0], [2, 2]),
        ([[1, 0], [0, 1], [0, 0]], [1.0, 2.0, 3.0], [2, 2]),
        ([[0, 0, 1], [2, 1, 0]], [1.0, 2.0], [3, 2, 2]),
        ([[0, 9]], [1.0], [2, 2]),
        ([[-1, 0]], [1.0], [2, 2]),
        ([[0, 0], [5, 1]], [1.0, 2.0], [2, 2]),
        ([[0, 1], [1, 1]], [1.0], [2, 2]),
        ([[0]], [1.0], [2]),
        ([[0, 1]], [1.0], [2, 2, 2]),
    ],
)
def test_sparse_tensors_become_matrices(indices, values, shape):
    def build(tf):
        given = np.int64(indices), np.float32(values), np.int64(shape)
        made = op(tf, "SparseTensorToCSRSparseMatrix", *given)
        yield from op(tf, "CSRSparseMatrixComponents", made, 0, type="float32")
        yield op(tf, "SparseMatrixNNZ", made)

    check(build)


@pytest.mark.parametrize("flags", list(itertools.product(FLAGS, FLAGS)), ids=str)
@pytest.mark.parametrize("kind", [np.float32, np.complex128])
def test_products_and_their_gradients(flags, kind):
    one, other = (matrix(kind, 2, 3, 3) for _ in range(2))
    attrs = {f"{flag}_{name}": True for flag, name in zip(flags, "ab") if flag}

    def build(tf):
        a, b = tf.constant(one), tf.constant(other)
        y = op(tf, "SparseMatrixMatMul", sparse(tf, a), b, **attrs)
        turned = {"transpose_output": True, "conjugate_output": True}
        yield y
        yield op(tf, "SparseMatrixMatMul", sparse(tf, a), b, **attrs, **turned)
        name = np.dtype(kind).name
        z = op(tf, "SparseMatrixSparseMatMul", sparse(tf, a), sparse(tf, b), type=name, **attrs)
        yield from op(tf, "CSRSparseMatrixComponents", z, 1, type=name)
        if kind is np.float32:
            yield from tf.gradients(y * y, [a, b])
            square = dense(tf, z, kind)
            yield from tf.gradients(square * square, [a, b])

    check(build)


@pytest.mark.parametrize(
    ("a", "b", "attrs"),
    [
        ((2, 3), (2, 3), {}),
        ((2, 3), (1, 3, 2), {}),
        ((2, 3, 3), (1, 3, 3), {}),
        ((3, 3), (3, 3), {"transpose_a": True, "adjoint_a": True}),
        ((3, 3), (3, 3), {"transpose_b": True, "adjoint_b": True}),
    ],
)
def test_matrices_that_do_not_fit_are_refused(a, b, attrs):
    def build(tf):
        left, right = tf.constant(matrix(np.float32, *a)), tf.constant(matrix(np.float32, *b))
        yield op(tf, "SparseMatrixMatMul", sparse(tf, left), right, **attrs)

    check(build)


def test_a_matrix_of_tensorflow_is_read():
    with tensorflow.Graph().as_default(), tensorflow.compat.v1.Session() as session:
        made = sparse(tensorflow.compat.v1, tensorflow.constant([[0, 2.0], [3, 0]]))
        text = session.run(tensorflow.io.serialize_tensor(made))
    with ours.Graph().as_default(), ours.Session() as session:
        back = ours.io.parse_tensor(ours.constant(text), ours.variant)
        held = op(ours, "CSRSparseMatrixToDense", back, type="float32")
        assert session.run(held).tolist() == [[0, 2], [3, 0]]


def definite(kind, *shape):
    """Return matrices that have a Cholesky factor, with zeros in them."""
    made = matrix(kind, *shape)
    return (made @ np.conj(np.swapaxes(made, -1, -2)) + 20 * np.eye(shape[-1])).astype(kind)


def order_of(size):
    return np.random.default_rng(size).permutation(size).astype(np.int32)


@pytest.mark.parametrize("kind", KINDS)
def test_cholesky_factors_are_the_same(kind):
    name = np.dtype(kind).name
    one, batch = definite(kind, 6, 6), definite(kind, 2, 5, 5)
    thin = np.diag(np.arange(2, 9)).astype(kind)
    thin[5, 1] = thin[1, 5] = 1
    for value, order in [
        (one, order_of(6)),
        (np.tril(one), order_of(6)),
        (thin, order_of(7)),
        (thin, np.arange(7, dtype=np.int32)),
        (batch, np.stack([order_of(5), np.arange(5, dtype=np.int32)])),
        (np.ones([1, 1], kind), order_of(1)),
        (-one, order_of(6)),
        (one[:4], order_of(4)),
        (one, order_of(5)),
        (batch, order_of(5)),
        (batch, np.stack([order_of(5)] * 3)),
    ]:

        def build(tf, value=value, order=order):
            made = sparse(tf, tf.constant(value))
            factor = op(tf, "SparseMatrixSparseCholesky", made, order, type=name)
            yield dense(tf, factor, kind)
            yield op(tf, "SparseMatrixNNZ", factor)

        check(build)


def test_orders_fill_in_as_little_as_tensorflows():
    rng = np.random.default_rng(5)
    for size, share in [(1, 0), (12, 0.1), (40, 0.05), (40, 0.01), (30, 0.3)]:
        value = (rng.random((2, size, size)) < share) * 1.0
        value = value + np.swapaxes(value, 1, 2) + 2 * size * np.eye(size)
        counts = []
        for tf in BOTH:
            with tf.Graph().as_default(), tf.Session() as session:
                made = sparse(tf, tf.constant(value))
                order = op(tf, "SparseMatrixOrderingAMD", made)
                factor = op(tf, "SparseMatrixSparseCholesky", made, order, type="float64")
                found, count = session.run([order, op(tf, "SparseMatrixNNZ", factor)])
            assert found.dtype == np.int32
            assert (np.sort(found, axis=1) == np.arange(size)).all()
            counts.append(count)
        assert (counts[0] <= 1.05 * counts[1] + 2).all()


def test_orders_of_what_is_not_square_are_refused():
    check(lambda tf: [op(tf, "SparseMatrixOrderingAMD", sparse(tf, tf.ones([2, 3])))])
