"""Sparse tensors, compared with TensorFlow's kernels and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as ours
from ops.outcomes import Call, as_array, check_ends_alike
from tideflow.graph.building import apply_op

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

I64 = np.int64
AT = I64([[0, 1], [1, 0], [2, 3]])
F = np.float32([1, 2, 3])
B = np.arange(8, dtype=np.float32).reshape(4, 2)


def dense(indices, shape, values, default=0.0, **attrs):
    index = I64(indices)
    return Call("SparseToDense", [index, I64(shape), values, default], attrs)


def matmul(values, b, at=AT, shape=(3, 4), **attrs):
    return Call("SparseTensorDenseMatMul", [at, values, I64(shape), b], attrs)


def reshape(shape, new, at=AT):
    return Call("SparseReshape", [at, I64(shape), I64(new)], id=f"reshape-{shape}-{new}")


def fill(indices, values, shape, default):
    at = I64(indices).reshape(len(indices), -1) if len(indices) else np.zeros((0, 2), I64)
    return Call("SparseFillEmptyRows", [at, values, I64(shape), default], id=f"fill-{indices}")


CALLS = [
    dense(AT, [3, 4], F),
    dense(AT, [3, 4], np.float32(7), -1.0),
    dense([1, 3], [5], np.float32([1, 2])),
    dense(2, [5], np.float32(1)),
    dense([[1], [3]], [5], as_array(["a", "b"]), "c"),
    dense(np.zeros((0, 2)), [2, 2], np.zeros(0, np.float32)),
    dense([3, 1], [5], np.float32([1, 2])),
    dense([1, 1], [5], np.float32([1, 2])),
    dense([3, 1], [5], np.float32([1, 2]), validate_indices=False),
    dense([1, 9], [5], np.float32([1, 2])),
    dense([-1, 1], [5], np.float32([1, 2])),
    dense([1, 2], [5], np.float32([1, 2, 3])),
    dense([1, 2], [5, 5], np.float32([1, 2])),
    dense([[[1]]], [5], np.float32([1])),
    dense([1, 2], [[5]], np.float32([1, 2])),
    dense([1, 2], [5], np.float32([1, 2]), [0.0, 1.0]),
    *[
        matmul(F.astype(t), B.astype(t))
        for t in ("float32", "float64", "int32", "complex64", "complex128")
    ],
    matmul(F, B[:3], adjoint_a=True),
    matmul(F, B.T, adjoint_b=True),
    matmul(np.complex64([1j, 2, 3 + 1j]), (B[:3] * 1j).astype(np.complex64), adjoint_a=True),
    matmul(np.complex64([1j, 2, 3 + 1j]), (B.T * 1j).astype(np.complex64), adjoint_b=True),
    matmul(F, B[:3]),
    matmul(F, B, at=I64([[0, 1], [1, 0], [3, 3]])),
    matmul(F, B, at=I64([[0, 1], [1, 0], [2, 4]])),
    matmul(F[:2], B),
    matmul(F, B[0]),
    matmul(F, B, shape=(3, 4, 1)),
    matmul(F[:0], B, at=AT[:0]),
    reshape([3, 4], [4, 3]),
    reshape([3, 4], [2, -1]),
    reshape([3, 4], [12]),
    reshape([3, 4], [1, 12, 1]),
    reshape([3, 4], [5, -1]),
    reshape([3, 4], [-1, -1]),
    reshape([3, 4], [5, 2]),
    reshape([3, 4, 5], [60]),
    reshape([3, 4], [-2, 6]),
    reshape([0, 4], [4, 0], AT[:0]),
    Call("SparseReorder", [AT[::-1], F, I64([3, 4])]),
    Call("SparseReorder", [I64([[1, 1], [0, 2], [1, 0]]), as_array(["a", "b", "c"]), I64([3, 4])]),
    Call("SparseReorder", [AT[0], F, I64([3, 4])]),
    fill([[0, 1], [2, 0], [2, 3]], F, [5, 4], 9.0),
    fill([[2, 1], [0, 0], [2, 0]], F, [3, 4], 9.0),
    fill([], np.zeros(0, np.float32), [2, 4], 9.0),
    fill([], np.zeros(0, np.float32), [0, 4], 9.0),
    fill([[0, 1]], as_array(["a"]), [2, 2], "z"),
    fill([[0, 1]], F[:1], [0, 2], 1.0),
    fill([[5, 1]], F[:1], [2, 2], 1.0),
    fill([[-1, 1]], F[:1], [2, 2], 1.0),
    fill([[0, 1]], F, [2, 2], 1.0),
    fill([[0, 1]], F[:1], [2, 2], [1.0]),
    Call("SparseFillEmptyRowsGrad", [I64([0, 2]), np.float32([1, 2, 3, 4])]),
    Call("SparseFillEmptyRowsGrad", [I64([0, 4]), np.float32([1, 2, 3, 4])]),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_call_ends_alike(call):
    check_ends_alike(tensorflow, call)


def make(tf, name, inputs, **attrs):
    if tf is ours:
        return apply_op(name, *inputs.values(), **attrs)
    return getattr(tensorflow.raw_ops, name)(**inputs, **attrs)


@pytest.mark.parametrize("adjoint_a", [False, True])
@pytest.mark.parametrize("adjoint_b", [False, True])
def test_a_product_has_the_same_gradients(adjoint_a, adjoint_b):
    found = []
    for tf in (ours, tensorflow.compat.v1):
        with tf.Graph().as_default(), tf.Session() as session:
            values = tf.constant(F)
            b = B[:3] if adjoint_a else B
            b = tf.constant(b.T if adjoint_b else b)
            shape = tf.constant([3, 4], "int64")
            inputs = {"a_indices": AT, "a_values": values, "a_shape": shape, "b": b}
            y = make(
                tf, "SparseTensorDenseMatMul", inputs, adjoint_a=adjoint_a, adjoint_b=adjoint_b
            )
            found.append(session.run(tf.gradients(y * y, [values, b])))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other)


def test_other_gradients_are_the_same():
    found = []
    for tf in (ours, tensorflow.compat.v1):
        with tf.Graph().as_default(), tf.Session() as session:
            values, default = tf.constant(F), tf.constant(2.0)
            shape = tf.constant([5, 4], "int64")
            inputs = {"indices": AT, "values": values, "dense_shape": shape}
            filled = make(tf, "SparseFillEmptyRows", {**inputs, "default_value": default})[1]
            inputs = {"sparse_indices": AT, "output_shape": shape, "sparse_values": values}
            made = make(tf, "SparseToDense", {**inputs, "default_value": default})
            inputs = {"input_indices": AT[::-1], "input_values": values, "input_shape": shape}
            ordered = make(tf, "SparseReorder", inputs)[1] * tf.constant([1.0, 5.0, 7.0])
            grads = [
                *tf.gradients(filled * filled, [values, default]),
                *tf.gradients(made * made * made, [values, default]),
                *tf.gradients(ordered, [values]),
            ]
            found.append(session.run(grads))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other)
