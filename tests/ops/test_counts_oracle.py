"""Counts of sparse and ragged rows, gradients of segments, draws from states and from seeds."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.one_graph import Run, check_both_run
from ops.outcomes import Call, check_ends_alike
from tideflow.graph.building import apply_op

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

F, I32, I64 = np.float32, np.int32, np.int64
NO_WEIGHTS = F([])
INDICES, SHAPE = I64([[0, 0], [0, 2], [1, 1]]), I64([2, 3])
VALUES, SPLITS = I32([1, 1, 4]), I64([0, 2, 2, 3])
WEIGHTS = F([0.5, 1, 2])
BINARY, COUNTS = {"binary_output": True}, {"binary_output": False}


def sparse_bins(indices=INDICES, values=VALUES, shape=SHAPE, size=5, weights=NO_WEIGHTS, **attrs):
    kind = values.dtype
    return Call("SparseBincount", [indices, values, shape, np.asarray(size, kind), weights], attrs)


def ragged_bins(splits=SPLITS, values=VALUES, size=5, weights=NO_WEIGHTS, **attrs):
    return Call("RaggedBincount", [splits, values, np.asarray(size, values.dtype), weights], attrs)


def sparse_counts(indices=INDICES, values=VALUES, shape=SHAPE, weights=NO_WEIGHTS, **attrs):
    return Call("SparseCountSparseOutput", [indices, values, shape, weights], COUNTS | attrs)


def ragged_counts(splits=SPLITS, values=VALUES, weights=NO_WEIGHTS, **attrs):
    return Call("RaggedCountSparseOutput", [splits, values, weights], COUNTS | attrs)


def dense_counts(values, weights=NO_WEIGHTS, **attrs):
    return Call("DenseCountSparseOutput", [values, weights], COUNTS | attrs)


ROWS = I32([[1, 1, 4], [0, 0, 0]])
BAD_SPLITS = [I64([1, 2, 2, 3]), I64([0, 2, 2, 2]), I64([]), I64([0, 2, 2, 4]), I64([0, 2, 1, 3])]
BAD_SPARSE = [
    {"indices": I64([[5, 0], [0, 1], [0, 2]])},
    {"values": I32([1, 1])},
    {"indices": I64([0, 1, 2])},
    {"shape": I64([2, 3, 4])},
    {"shape": I64([])},
]
ONE_ROW = {"indices": I64([[0], [2]]), "values": I32([1, 1]), "shape": I64([3])}
NO_VALUES = {"indices": np.zeros((0, 2), I64), "values": I32([]), "shape": I64([2, 3])}
BOUNDS = [
    {"minlength": 7},
    {"maxlength": 3},
    {"maxlength": 9},
    {"minlength": 7, "maxlength": 3},
    {"maxlength": 0},
]

CALLS = [
    sparse_bins(),
    sparse_bins(size=3),
    sparse_bins(**BINARY),
    sparse_bins(weights=WEIGHTS),
    sparse_bins(weights=WEIGHTS, **BINARY),
    sparse_bins(values=I64([1, 1, -4]), weights=I64([])),
    sparse_bins(size=-1),
    sparse_bins(size=[5]),
    sparse_bins(**ONE_ROW),
    sparse_bins(**NO_VALUES),
    *(sparse_bins(**bad) for bad in BAD_SPARSE),
    ragged_bins(),
    ragged_bins(size=3, weights=WEIGHTS),
    ragged_bins(**BINARY),
    ragged_bins(values=I64([1, 1, 4]), weights=np.float64([1, 2, 3])),
    ragged_bins(values=I32([1, 1, -4])),
    ragged_bins(size=-5),
    *(ragged_bins(splits) for splits in BAD_SPLITS),
    *(dense_counts(values) for values in (ROWS, ROWS[0], ROWS.astype(I64), ROWS[0, :0])),
    *(dense_counts(values) for values in (I32(1), ROWS[None], -ROWS)),
    *(dense_counts(ROWS, **bounds) for bounds in BOUNDS),
    dense_counts(ROWS, F([[1, 2, 3], [4, 5, 6]])),
    dense_counts(ROWS, I32([[1, 2, 3], [4, 5, 6]])),
    dense_counts(ROWS, WEIGHTS),
    dense_counts(ROWS[0], WEIGHTS, **BINARY),
    sparse_counts(),
    sparse_counts(weights=WEIGHTS),
    sparse_counts(weights=WEIGHTS[:2]),
    sparse_counts(**BINARY),
    sparse_counts(**ONE_ROW),
    sparse_counts(**NO_VALUES),
    sparse_counts(values=I32([1, -1, 4])),
    *(sparse_counts(**bounds) for bounds in BOUNDS),
    *(sparse_counts(**bad) for bad in BAD_SPARSE),
    ragged_counts(),
    ragged_counts(weights=WEIGHTS),
    ragged_counts(weights=WEIGHTS[:2]),
    ragged_counts(values=I32([1, -1, 4])),
    *(ragged_counts(splits) for splits in [*BAD_SPLITS, I64([0])]),
    *(ragged_counts(**bounds) for bounds in BOUNDS),
    *(
        Call(f"SparseSegment{kind}GradV2", [grad, indices, ids, I32(5)])
        for kind in ("Sum", "Mean", "SqrtN")
        for grad in (F([[1, 2], [3, 4]]), np.float64([1, 2]))
        for indices, ids in [
            (I32([0, 1, 2]), I32([0, 0, 1])),
            (I64([4, 1, 1, 4]), I64([0, 0, 1, 1])),
            (I32([]), I32([])),
        ]
    ),
    *(
        Call("SparseSegmentSumGradV2", [F([[1, 2], [3, 4]]), I32(indices), I32(ids), I32(3)])
        for indices, ids in [([0, 7], [0, 1]), ([0, 1], [0, 2]), ([0, 1], [0]), ([0, 1], [1, 0])]
    ),
    *(
        Call("StatelessTruncatedNormal", [I32([9]), I64([1, 2])], {"dtype": kind})
        for kind in ("float32", "float64", "half")
    ),
    *(
        Call("StatelessRandomUniformFullInt", [I64([2, 3]), I32([1, 2])], {"dtype": kind})
        for kind in ("int32", "int64", "uint32", "uint64")
    ),
    *(
        Call("StatelessRandomUniformInt", [I32([2, 3]), I64(seed), kind(low), kind(90)])
        for kind in (I32, I64)
        for seed, low in [([1, 2], -5), ([1, 2, 3], 0), ([3, 4], 90)]
    ),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_ends_as_on_tensorflow(call: Call) -> None:
    check_ends_alike(tensorflow, call)


DRAWS = {
    "StatefulUniform": ["float32", "float64", "half"],
    "StatefulStandardNormalV2": ["float32", "float64", "half"],
    "StatefulTruncatedNormal": ["float32", "float64", "half"],
    "StatefulUniformFullInt": ["int32", "int64", "uint32", "uint64"],
    "StatefulUniformInt": ["int32", "int64"],
}


@pytest.mark.parametrize("op", DRAWS)
def test_draws_move_a_state_on(op):
    def build():
        state = tf.Variable(I64([1, -2, 3]), use_resource=True)
        algorithm, shape = tf.placeholder(tf.int64, []), tf.placeholder(tf.int32, None)
        runs = [Run([state.initializer])]
        for kind in DRAWS[op]:
            number = tf.as_dtype(kind).as_numpy_dtype
            bounds = [number(-7), number(91)] if op == "StatefulUniformInt" else []
            drawn = apply_op(op, state.handle, algorithm, shape, *bounds, dtype=kind)
            for given, sizes in [(1, [2, 3]), (3, [5]), (1, [0]), (2, [1]), (0, [1]), (1, 3)]:
                runs += [Run([drawn], {algorithm: given, shape: I32(sizes)}), Run([state.value()])]
        return runs

    check_both_run(build, [op])


@pytest.mark.parametrize("start", [[1, 2, 3], [-1, -1, 3], [1280, 5, 6]])
def test_a_state_is_read_and_moved_on(start):
    def build():
        state = tf.Variable(I64(start), use_resource=True)
        algorithm, delta = tf.placeholder(tf.int64, []), tf.placeholder(tf.int64, [])
        skip = apply_op("RngSkip", state.handle, algorithm, delta)
        read = apply_op(
            "RngReadAndSkip",
            state.handle,
            tf.cast(algorithm, tf.int32),
            tf.bitcast(delta, tf.uint64),
        )
        runs = [Run([state.initializer])]
        for given, count in [(1, 5), (3, 2**40), (1, -5), (1, -1), (2, 5), (0, 5)]:
            feeds = {algorithm: given, delta: count}
            runs += [Run([skip], feeds), Run([state.value()]), Run([read], feeds)]
        return [*runs, Run([state.value()])]

    check_both_run(build, ["RngSkip", "RngReadAndSkip"])


@pytest.mark.parametrize("start", [I64([1, 2]), I32([1, 2, 3]), I64([[1, 2, 3]])], ids=str)
def test_what_is_no_state_is_refused(start):
    def build():
        state = tf.Variable(start, use_resource=True)
        drawn = apply_op("StatefulUniform", state.handle, I64(1), I32([2]))
        read = apply_op("RngReadAndSkip", state.handle, I32(1), np.uint64(3))
        return [Run([drawn]), Run([state.initializer]), Run([drawn]), Run([read])]

    check_both_run(build, ["StatefulUniform", "RngReadAndSkip"])


@pytest.mark.parametrize("kind", ["Sum", "Mean", "SqrtN"])
@pytest.mark.parametrize("sized", ["", "WithNumSegments"])
def test_a_gradient_is_of_the_rows_alone_where_that_is_asked_for(kind, sized):
    found = []
    for library in (tf, tensorflow.compat.v1):
        with library.Graph().as_default(), library.Session() as session:
            data = library.constant(np.arange(10, dtype=F).reshape(5, 2))
            segment = getattr(library.sparse, f"segment_{kind.lower()}".replace("sqrtn", "sqrt_n"))
            more = {"num_segments": 3} if sized else {}
            rows = segment(data, [4, 1, 1, 4], [0, 0, 1, 1], sparse_gradient=True, **more)
            slope = library.gradients(rows * rows, data)[0]
            found.append(session.run([slope.values, slope.indices, slope.dense_shape]))
    for one, other in zip(*found):
        np.testing.assert_allclose(one, other, rtol=1e-6)
        assert one.dtype == other.dtype


def test_nobody_knows_which_integers_come():
    def build():
        drawn = [
            apply_op("NonDeterministicInts", I32([2, 3]), dtype=kind)
            for kind in ("int32", "int64", "uint32", "uint64")
        ]
        return [Run([apply_op("Shape", x) for x in drawn])]

    check_both_run(build, ["NonDeterministicInts"])


SLICE = [F([1, 2]), I64([[0, 1], [1, 1], [2, 3]]), I64([1, 1]), I64([[0, 0], [1, 2]])]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {0: I32([1, 2])},
        {0: F([1])},
        {0: F([[1], [2]])},
        {2: I64([1])},
        {3: I64([[0, 0], [1, 1]])},
        {3: I64([[1, 2], [0, 0]])},
    ],
)
def test_a_gradient_of_a_part_ends_as_on_tensorflow(changed):
    given = [changed.get(at, value) for at, value in enumerate(SLICE)]
    check_ends_alike(tensorflow, Call("SparseSliceGrad", given))


def test_a_part_of_a_sparse_tensor_has_a_gradient():
    found = []
    for library in (tf, tensorflow.compat.v1):
        with library.Graph().as_default(), library.Session() as session:
            values = library.constant(F([1, 2, 3]))
            whole = library.SparseTensor(INDICES, values, SHAPE)
            part = library.sparse.slice(whole, I64([0, 1]), I64([2, 2]))
            squares = part.values * part.values
            found.append(session.run(library.gradients(squares, values)[0]))
    assert found[0].tolist() == found[1].tolist() == [0, 4, 6]
