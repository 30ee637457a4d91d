"""Arithmetic of sparse tensors, compared with TensorFlow's kernels and gradients."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tideflow.v1 as ours
from ops.outcomes import Call, as_array, check_ends_alike
from tideflow.graph.building import apply_op

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

I64 = np.int64
A = [I64([[0, 1], [1, 0], [2, 3]]), np.float32([1, -2, 3]), I64([3, 4])]
B = [I64([[0, 1], [0, 2], [2, 3]]), np.float32([4, 5, -3]), I64([3, 4])]
CUBE = [
    I64([[0, 0, 1], [0, 1, 2], [1, 0, 1], [1, 1, 0]]),
    np.float32([1, -5, 3, 4]),
    I64([2, 2, 3]),
]
NONE = [np.zeros((0, 2), I64), np.zeros(0, np.float32), I64([3, 4])]
WORDS = [A[0], as_array(["a", "b", "c"]), A[2]]
LONG = [A[0], A[1], I64([3, 5])]
TYPES = ("float32", "float64", "int32", "int64", "complex64", "complex128")


def typed(sparse, kind):
    return [sparse[0], sparse[1].astype(kind), sparse[2]]


def calls(op, *inputs, **attrs):
    return [Call(op, list(given), attrs, id=f"{op}-{i}-{attrs}") for i, given in enumerate(inputs)]


def limit(kind):
    return np.array(1, {"complex64": "float32", "complex128": "float64"}.get(kind, kind))


def split(sparse, axis, count):
    return Call(
        "SparseSplit", [I64(axis), *sparse], {"num_split": count}, id=f"split-{axis}-{count}"
    )


def concat(parts, axis):
    columns = [[p[i] for p in parts] for i in range(3)]
    return Call("SparseConcat", columns, {"concat_dim": axis}, id=f"concat-{axis}-{len(parts)}")


DENSE = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
CALLS = [
    *calls("SparseAdd", *[[*A, *B, np.float32(t)] for t in (0, 0.5, 4)]),
    *calls("SparseAdd", [*A, *NONE, np.float32(0)]),
    *[Call("SparseAdd", [*typed(A, k), *typed(B, k), limit(k)], id=f"add-{k}") for k in TYPES],
    *calls("SparseAdd", [*A, *LONG, np.float32(0)], [*A, *B, np.float32([0])]),
    *calls("SparseTensorDenseAdd", [*A, DENSE], [*NONE, DENSE], [*A, DENSE[:2]], [*A, DENSE[0]]),
    *[Call("SparseTensorDenseAdd", [*typed(A, k), DENSE.astype(k)], id=k) for k in TYPES],
    *calls("SparseSparseMaximum", [*A, *B], [*NONE, *B], [*A, *LONG]),
    *calls("SparseSparseMinimum", [*A, *B], [*NONE, *B], [*A, *LONG]),
    *[
        call
        for op in ("SparseDenseCwiseMul", "SparseDenseCwiseAdd", "SparseDenseCwiseDiv")
        for call in calls(
            op, [*A, DENSE], [*A, DENSE[0]], [*A, DENSE[:, :1]], [*A, np.float32(3)],
            [*NONE, DENSE],
            [*A, DENSE[:2]], [*A, DENSE[None]], [*typed(A, "int32"), np.int32(2)],
        )
    ],
    *[
        call
        for op in ("Sum", "Max", "SumSparse", "MaxSparse")
        for keep in (False, True)
        for call in calls(
            f"SparseReduce{op}",
            *[[*CUBE, np.int32(axes)] for axes in ([0], [1], [-1], [0, 2], [0, 1, 2], 1)],
            [*A, np.int32([2])], [*A, np.int32([0])],
            keep_dims=keep,
        )
    ],
    *calls("SparseSoftmax", CUBE, A, typed(A, "float64")),
    *calls(
        "SparseSlice", [*A, I64([0, 0]), I64([2, 2])], [*A, I64([1, 1]), I64([9, 9])],
        [*A, I64([3, 3]), I64([1, 1])], [*WORDS, I64([0, 1]), I64([3, 2])],
        [*A, I64([0]), I64([2])],
    ),
    concat([A, B], 0), concat([A, B], 1), concat([A, LONG], -1), concat([WORDS, WORDS], 1),
    concat([A, LONG], 0), concat([A, B], 2), concat([A, NONE, B], 1),
    split(A, 0, 2), split(A, 1, 3), split(A, 1, 4), split(A, -1, 2), split(WORDS, 0, 3),
    split(A, 0, 4), split(A, 2, 1),
    *calls("SetSize", typed(CUBE, "int32"), typed(A, "int64"), WORDS, typed(NONE, "int8")),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_call_ends_alike(call):
    check_ends_alike(tensorflow, call)


def test_gradients_are_the_same():
    found = []
    for tf in (ours, tensorflow.compat.v1):

        def make(name, *inputs, tf=tf, **attrs):
            if tf is ours:
                return apply_op(name, *inputs, **attrs)
            raw = getattr(tensorflow.raw_ops, name)
            names = list(inspect.signature(raw).parameters)
            return raw(**dict(zip(names, inputs, strict=False)), **attrs)

        with tf.Graph().as_default(), tf.Session() as session:
            a, b, dense = tf.constant(A[1]), tf.constant(B[1]), tf.constant(DENSE)
            cube = tf.constant(CUBE[1])
            total = make("SparseAdd", A[0], a, A[2], B[0], b, B[2], np.float32(1))[1]
            summed = make("SparseTensorDenseAdd", A[0], a, A[2], dense)
            times = make("SparseDenseCwiseMul", A[0], a, A[2], dense[:1])
            reduced = make("SparseReduceSum", CUBE[0], cube, CUBE[2], np.int32([0, 2]))
            softmax = make("SparseSoftmax", CUBE[0], cube, CUBE[2])
            grads = [
                *tf.gradients(total * total, [a, b]),
                *tf.gradients(summed * summed, [a, dense]),
                *tf.gradients(times * times, [a]),
                *tf.gradients(reduced * reduced, [cube]),
                *tf.gradients(softmax * tf.constant([1.0, 2.0, 3.0, 4.0]), [cube]),
            ]
            found.append(session.run(grads))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
