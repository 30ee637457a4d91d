"""Ragged tensors and crosses of sparse columns, compared with TensorFlow's kernels."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as ours
from ops.outcomes import Call, as_array, check_ends_alike
from tideflow.graph.building import apply_op

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

I64 = np.int64
V = np.float32([1, 2, 3, 4, 5])
SPLITS = I64([0, 2, 2, 5])
IDS = I64([0, 0, 2, 2, 2])


def dense(shape, values, default, partitions, types, **attrs):
    given = [shape, values, default, [np.asarray(p) for p in partitions]]
    name = f"dense-{np.asarray(shape).tolist()}-{np.shape(values)}-{types}-{partitions}"
    return Call(
        "RaggedTensorToTensor", given, {"row_partition_types": types.split(), **attrs}, id=name
    )


def splits(shape, values=V, default=0.0, rows=SPLITS):
    return dense(shape, values, default, [rows], "ROW_SPLITS")


def ids(shape, values=V, default=0.0, rows=IDS, count=3):
    return dense(shape, values, default, [I64(count), rows], "FIRST_DIM_SIZE VALUE_ROWIDS")


TO_DENSE = [
    splits(-1),
    splits(I64(-1)),
    splits([-1, -1]),
    splits([3, 5]),
    splits([2, 2]),
    splits([5, -1], default=9.0),
    splits([-1, 1]),
    splits([0, 0]),
    splits(5),
    splits([5]),
    splits(-1, rows=I64([0, 2, 1, 5])),
    splits(-1, rows=I64([1, 2, 3, 5])),
    splits(-1, values=as_array(["a", "b", "c", "d", "e"]), default="z"),
    splits(-1, values=V.astype(np.int32), default=np.int32(7), rows=SPLITS.astype(np.int32)),
    splits(-1, values=V > 2, default=False),
    splits(-1, values=np.stack([V, -V], 1)),
    splits(-1, values=np.stack([V, -V], 1), default=[7.0, 8.0]),
    splits(-1, values=np.stack([V, -V], 1), default=[7.0]),
    splits(-1, values=np.stack([V, -V], 1), default=[7.0, 8.0, 9.0]),
    splits([3, 4, 2], values=np.stack([V, -V], 1)),
    splits([3, 4, 3], values=np.stack([V, -V], 1)),
    splits(-1, values=V[:0], rows=I64([0, 0])),
    splits(-1, values=V[:0], rows=I64([0])),
    ids(-1),
    ids([2, 2]),
    ids([4, -1]),
    ids(-1, count=5),
    ids(-1, count=2),
    ids(-1, values=V[:0], rows=IDS[:0]),
    dense(-1, V, 0.0, [I64([0, 1, 3]), I64([0, 2, 2, 5])], "ROW_SPLITS ROW_SPLITS"),
    dense([2, 1, 2], V, 0.0, [I64([0, 1, 3]), I64([0, 2, 2, 5])], "ROW_SPLITS ROW_SPLITS"),
    dense(-1, V, 0.0, [I64(2), I64([0, 1, 1]), IDS], "FIRST_DIM_SIZE VALUE_ROWIDS VALUE_ROWIDS"),
    dense(-1, V, 0.0, [IDS], "VALUE_ROWIDS"),
    dense(-1, V, 0.0, [SPLITS], "ROW_SPLITS ROW_SPLITS"),
]

RANGES = [
    Call("RaggedRange", [as_array(s), as_array(e), as_array(d)], attrs)
    for s, e, d, attrs in (
        ([0, 5, 8], [3, 5, 12], 1, {}),
        ([0, 5, 8], [3, 5, 12], [1, 2, 3], {}),
        ([0, 5, 8], [3, 0, 12], -1, {}),
        (0, [3, 4], 1, {"Tsplits": "int32"}),
        (0, 4, 1, {}),
        ([0.0, 1.0], [1.0, 0.0], [0.3, -0.3], {}),
        (I64([0]), I64([4]), I64(2), {}),
        ([0, 5], [3, 5], 0, {}),
        ([0, 5], [3, 5, 9], 1, {}),
        ([[0]], [3], 1, {}),
        (np.zeros(0, np.int32), np.zeros(0, np.int32), 1, {}),
    )
]

TO_SPARSE = [
    Call("RaggedTensorToSparse", [[np.asarray(p) for p in nested], values])
    for nested, values in (
        ([SPLITS], V),
        ([SPLITS.astype(np.int32)], V),
        ([I64([0, 1, 3]), SPLITS], V),
        ([SPLITS], np.stack([V, -V], 1)),
        ([SPLITS], as_array(["a", "b", "c", "d", "e"])),
        ([I64([0])], V[:0]),
        ([I64([1, 5])], V),
        ([I64([0, 3, 1, 5])], V),
        ([I64([0, 9, 9]), SPLITS], V),
    )
]

GATHERS = [
    Call(
        "RaggedGather",
        [[np.asarray(p) for p in nested], values, np.asarray(at)],
        {"OUTPUT_RAGGED_RANK": len(nested) + np.ndim(at) - 1},
        id=f"gather-{len(nested)}-{np.shape(values)}-{at}",
    )
    for nested, values, at in (
        ([SPLITS], V, I64([2, 0, 1, 2])),
        ([SPLITS], V, np.int32([[2, 0], [1, 1]])),
        ([SPLITS.astype(np.int32)], as_array(["a", "b", "c", "d", "e"]), I64([2])),
        ([I64([0, 1, 3]), SPLITS], np.stack([V, -V], 1), I64([1, 0, 1])),
        ([SPLITS], V, I64([])),
        ([SPLITS], V, I64([3])),
        ([SPLITS], V, I64([-1])),
        ([I64([0, 9])], V, I64([0])),
        ([I64([0, 3, 1])], V, I64([0])),
    )
]

A = [I64([[0, 0], [1, 0], [1, 1]]), as_array(["a", "b", "c"]), I64([2, 2])]
B = [I64([[0, 0], [1, 0], [1, 1], [1, 2]]), I64([7, -8, 9, 10]), I64([2, 3])]
E = [I64([[1, 0]]), as_array(["e"]), I64([2, 1])]
D = as_array([["x", "y"], ["z", "w"]])
NUMBERS = I64([[1], [2]])


def cross(op, sparse, dense, *more, **attrs):
    columns = [tuple(p[i] for p in sparse) for i in range(3)]
    name = f"{op}-{len(sparse)}-{len(dense)}-{more}-{sorted(attrs.items())}"
    return Call(op, [*columns, tuple(dense), *more], attrs, id=name)


V1 = {"hash_key": 956888297470, "num_buckets": 0, "out_type": "int64", "internal_type": "string"}
PLAIN = {**V1, "hashed_output": False, "out_type": "string"}
HASHED = {**V1, "hashed_output": True}

CROSSES = [
    cross("SparseCross", [A, B], [], **PLAIN),
    cross("SparseCross", [A, B], [], **{**PLAIN, "internal_type": "int64"}),
    cross("SparseCross", [A, E], [D, NUMBERS], **PLAIN),
    cross("SparseCross", [A], [D], **PLAIN),
    cross("SparseCross", [A, B], [], **HASHED),
    cross("SparseCross", [A, B], [D, NUMBERS], **{**HASHED, "num_buckets": 100}),
    cross("SparseCross", [A, B], [NUMBERS], **{**HASHED, "internal_type": "int64"}),
    cross("SparseCross", [A, [I64([[0, 0]]), B[1][:1], I64([3, 1])]], [], **HASHED),
    cross("SparseCross", [[A[0], A[1][:2], A[2]]], [NUMBERS], **HASHED),
    cross("SparseCross", [A], [NUMBERS[0]], **HASHED),
    cross("SparseCrossV2", [A, B], [NUMBERS, D], as_array("_Y_")),
    cross("SparseCrossV2", [A, E], [], as_array("")),
    cross("SparseCrossV2", [A, E], [], as_array(["-"])),
    *[
        cross("SparseCrossHashed", [A, B], [D], I64(n), np.bool_(strong), I64([3, 9]))
        for n in (0, 10)
        for strong in (True, False)
    ],
    cross("SparseCrossHashed", [A, B], [NUMBERS, D], I64(0), np.bool_(False), I64([3, 9])),
    cross("SparseCrossHashed", [A, B], [NUMBERS], I64(9), np.bool_(False), I64([3])),
]

C = [as_array(["a", "b", "c"]), I64([0, 1, 3])]
N = [I64([7, -8, 9]), I64([0, 2, 3])]


def ragged_cross(ragged, sparse, dense, order, **attrs):
    columns = [tuple(p[i] for p in ragged) for i in range(2)]
    columns += [tuple(p[i] for p in sparse) for i in range(3)]
    name = f"RaggedCross-{order}-{len(ragged)}-{len(sparse)}-{sorted(attrs.items())}"
    wanted = {
        "input_order": order,
        "hashed_output": False,
        "num_buckets": 0,
        "hash_key": 956888297470,
        "out_values_type": "string",
        "out_row_splits_type": "int64",
    }
    return Call("RaggedCross", [*columns, tuple(dense)], {**wanted, **attrs}, id=name)


IN_BUCKETS = {"hashed_output": True, "out_values_type": "int64"}
RAGGED_CROSSES = [
    ragged_cross([C, N], [], [], "RR"),
    ragged_cross([C, N], [A], [D], "RDSR"),
    ragged_cross([C, N], [A], [D], "RDSR", **IN_BUCKETS),
    ragged_cross([N], [B], [NUMBERS], "SRD", num_buckets=13, **IN_BUCKETS),
    ragged_cross([[C[0], np.int32([0, 1, 3])]], [], [], "R", out_row_splits_type="int32"),
    ragged_cross([C], [], [D], "RR"),
    ragged_cross([[C[0], I64([0, 1, 2])]], [], [D], "RD"),
    ragged_cross([[C[0], I64([0, 3])]], [], [D], "RD"),
]

FILLS = [
    Call("RaggedFillEmptyRows", [I64(ids), values, I64(rows), default])
    for ids, values, rows, default in (
        ([0, 0, 2], V[:3], 4, np.float32(9)),
        ([2, 0, 2], as_array(["a", "b", "c"]), 3, as_array("z")),
        ([], V[:0], 2, np.float32(9)),
        ([], V[:0], 0, np.float32(9)),
        ([0, 1], V[:2] > 1, 3, np.bool_(True)),
        ([0, 1], I64([3, 4]), 2, I64(0)),
        ([0, 3], V[:2], 3, np.float32(9)),
        ([0, 1], V[:3], 3, np.float32(9)),
        ([0], V[:1], 0, np.float32(9)),
        ([0, 1], V[:2], 3, np.float32([9])),
    )
] + [
    Call("RaggedFillEmptyRowsGrad", [I64(back), grad])
    for back, grad in (
        ([0, 1, 3], V),
        ([0, 1, 3], I64([1, 2, 3, 4])),
        ([], V),
        ([0, 5], V),
    )
]


@pytest.mark.parametrize(
    "call",
    [*TO_DENSE, *RANGES, *TO_SPARSE, *GATHERS, *CROSSES, *RAGGED_CROSSES, *FILLS],
    ids=str,
)
def test_a_call_ends_alike(call):
    check_ends_alike(tensorflow, call)


def make(tf, name, inputs, **attrs):
    if tf is ours:
        return apply_op(name, *inputs.values(), **attrs)
    return getattr(tensorflow.raw_ops, name)(**inputs, **attrs)


def test_a_dense_tensor_has_the_same_gradients():
    check_gradients([V, np.float32(3)], [[-1, -1], [2, 2], [4, 1]])


def test_a_dense_tensor_of_vectors_has_the_same_gradients():
    check_gradients([np.stack([V, -V], 1), np.float32([3, 4])], [[-1, -1, -1], [2, 2, 2]])


def check_gradients(inputs, all_shapes):
    for shape in all_shapes:
        found = []
        for tf in (ours, tensorflow.compat.v1):
            with tf.Graph().as_default(), tf.Session() as session:
                values, default = (tf.constant(x) for x in inputs)
                given = {
                    "shape": tf.constant(I64(shape)),
                    "values": values,
                    "default_value": default,
                    "row_partition_tensors": [tf.constant(SPLITS)],
                }
                y = make(tf, "RaggedTensorToTensor", given, row_partition_types=["ROW_SPLITS"])
                grads = tf.gradients(y * y * y, [values, default])
                found.append(session.run([tf.convert_to_tensor(g) for g in grads]))
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(one, other)


def test_gathered_and_sparse_values_have_the_same_gradients():
    found = []
    for tf in (ours, tensorflow.compat.v1):
        with tf.Graph().as_default(), tf.Session() as session:
            values, splits = tf.constant(V), tf.constant(SPLITS)
            given = {"params_nested_splits": [splits], "params_dense_values": values}
            at = {"indices": tf.constant([2, 0, 2])}
            y = make(tf, "RaggedGather", {**given, **at}, OUTPUT_RAGGED_RANK=1)[-1]
            given = {"rt_nested_splits": [splits], "rt_dense_values": values}
            z = make(tf, "RaggedTensorToSparse", given)[1]
            gathered = tf.convert_to_tensor(tf.gradients(y * y, [values])[0])
            found.append(session.run([gathered, *tf.gradients(z * z, [values])]))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other)
