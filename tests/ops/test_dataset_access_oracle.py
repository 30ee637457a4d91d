"""Further dataset ops beside TensorFlow: sources, samples, sparse and sliding batches, access."""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.dataset_graphs import (
    INVALID,
    Made,
    check_elements,
    check_refused,
    function,
    int64,
    numbers,
    plain,
    rows,
)
from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op
from tideflow.graph.shapes import TensorShape

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

I64 = np.int64
NUMBERS = {"types": [tf.int64], "shapes": [(None,)]}
SPARSE = {"types": [tf.int64, tf.float32, tf.int64], "shapes": [(None, 1), (None,), (1,)]}


def given(op, *inputs, types, shapes, with_structure=True, **attrs):
    made = Made(None, types, shapes)
    structure = made.structure if with_structure else {}
    made.variant = apply_op(op, *inputs, **structure, **attrs)
    return made


# ---- sources


def test_elements_that_are_listed():
    op = "ListDataset"
    kind = {"types": [tf.int64, tf.string], "shapes": [(), ()]}

    def build():
        values = [int64(1), tf.constant("a"), int64(2), tf.constant("b")]
        return given(op, values, **kind)

    assert check_elements(build, [op]) == [(1, b"a"), (2, b"b")]


def sliced(indices, values, shape):
    inputs = [tf.placeholder_with_default(x, None) for x in (indices, values, shape)]
    return given("SparseTensorSliceDataset", *inputs, **SPARSE, with_structure=False)


def test_rows_of_a_sparse_tensor():
    where = I64([[0, 1], [2, 0], [2, 3]])
    build = lambda: sliced(where, np.float32([1, 2, 3]), I64([4, 5]))  # noqa: E731
    found = check_elements(build, ["SparseTensorSliceDataset"])
    assert [len(values) for _, values, _ in found] == [1, 0, 2, 0]


@pytest.mark.parametrize(
    ("where", "values", "shape", "error"),
    [
        (I64([[2, 1], [0, 0]]), [1, 2], [4, 5], "UnimplementedError"),
        (I64([[0, 1]]), [1, 2], [4, 5], INVALID),
        (I64([[0, 1]]), [1], [4, 5, 6], INVALID),
        (I64([0]), [1], [4], INVALID),
    ],
)
def test_sparse_tensors_that_cannot_be_sliced(where, values, shape, error):
    build = lambda: sliced(where, np.float32(values), I64(shape))  # noqa: E731
    check_refused(build, ["SparseTensorSliceDataset"], error)


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.8, 1.0])
def test_samples(rate):
    def build():
        share = tf.constant(rate, tf.float32)
        made = numbers(200).to("SamplingDataset", share, int64(7), int64(9))
        return numbers(1000, 1001).to("ConcatenateDataset", made.variant)

    check_elements(build, ["SamplingDataset"], 220)


# ---- batches


def lengths(*sizes):
    grown = function(lambda n: tf.fill([n], n), tf.int64)
    return rows(I64(sizes)).to_other("MapDataset", [], f=grown, **NUMBERS)


def sparse_batches(made, size, shape):
    kind = {"types": [tf.variant], "shapes": [(3,)]}
    batches = made.to_other("DenseToSparseBatchDataset", size, shape, **kind)

    def body(x):
        return tuple(apply_op("DeserializeSparse", x, dtype=tf.int64))

    back = function(body, (tf.variant, (3,)))
    kind = {"types": [tf.int64] * 3, "shapes": [(None, 2), (None,), (2,)]}
    return batches.to_other("MapDataset", [], f=back, **kind)


@pytest.mark.parametrize("shape", [[4], [-1]])
def test_sparse_batches(shape):
    build = lambda: sparse_batches(lengths(1, 3, 0, 2, 4), int64(2), int64(shape))  # noqa: E731
    found = check_elements(build, ["DenseToSparseBatchDataset"])
    assert [batch[2][0] for batch in found] == [2, 2, 1]


@pytest.mark.parametrize(
    ("size", "shape", "error", "at"),
    [
        (2, [2], "DataLossError", 1),
        (2, [4, 4], INVALID, 1),
        (0, [4], INVALID, 0),
        (2, [-2], INVALID, 0),
        (2, 4, INVALID, 0),
    ],
)
def test_what_sparse_batches_refuse(size, shape, error, at):
    def build():
        wanted = tf.placeholder_with_default(int64(shape), None)
        return sparse_batches(lengths(3), int64(size), wanted)

    check_refused(build, ["DenseToSparseBatchDataset"], error, at)


@pytest.mark.parametrize("sizes", [(2, 1, 1), (2, 3, 1), (3, 2, 2), (4, 1, 3), (20, 1, 1)])
@pytest.mark.parametrize("drop", [True, False])
def test_sliding_windows(sizes, drop):
    def build():
        made = numbers(9).to_other(
            "SlidingWindowDataset", *map(int64, sizes), **NUMBERS, drop_remainder=drop
        )
        first = numbers(1).to_other("BatchDataset", int64(1), **NUMBERS)
        return first.to("ConcatenateDataset", made.variant)

    check_elements(build, ["SlidingWindowDataset"], 14)


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_windows_of_nothing(sizes):
    build = lambda: numbers(9).to_other("SlidingWindowDataset", *map(int64, sizes), **NUMBERS)  # noqa: E731
    check_refused(build, ["SlidingWindowDataset"])


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_batches_in_parts(parts):
    def build():
        batches = numbers(10).to_other("BatchDataset", int64(4), **NUMBERS)
        return batches.to("RebatchDataset", int64(parts))

    check_elements(build, ["RebatchDataset"], 24)


# ---- whole datasets


@pytest.mark.parametrize("op", ["ChooseFastestDataset", "ExperimentalChooseFastestDataset"])
def test_the_fastest_of_datasets(op):
    def build():
        both = [numbers(3).variant, numbers(3).variant]
        return given(op, both, types=[tf.int64], shapes=[()], num_experiments=1)

    assert check_elements(build, [op]) == [0, 1, 2]


def test_elements_by_index():
    def build():
        at = tf.placeholder(tf.int64, None)
        kind = {"output_types": [tf.int64], "output_shapes": [TensorShape(None)]}
        chains = [
            numbers(2, 9),
            numbers(9).to("TakeDataset", int64(3)),
            numbers(4).to("RepeatDataset", int64(2)),
            numbers(4).to("RepeatDataset", int64(-1)),
            numbers(7).to_other("BatchDatasetV2", int64(3), False, **NUMBERS),
            numbers(4).to("ConcatenateDataset", numbers(3).variant),
            numbers(9).to("TakeWhileDataset", [], predicate=function(lambda x: x < 3, tf.int64)),
            numbers(9).to("UniqueDataset"),
        ]
        found = [apply_op("GetElementAtIndex", made.variant, at, **kind) for made in chains]
        return [Run(one, {at: I64(i)}) for one in found for i in (0, 2, 6, 99, -1)]

    check_both_run(build, ["GetElementAtIndex"])


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_records_that_are_written(tmp_path, compression):
    def build():
        words = rows(np.array([b"one", b"", b"three"], object))
        path = tf.constant(str(tmp_path / "records"))
        kind = tf.constant(compression)
        write = apply_op("DatasetToTFRecord", words.variant, path, kind)
        read = given(
            "TFRecordDataset", path, kind, int64(0), types=[tf.string], shapes=[()],
            with_structure=False,
        )  # fmt: skip
        state = {"output_types": [tf.string], "output_shapes": [TensorShape([])]}
        handle = apply_op("IteratorV2", shared_name="", container="", **state)
        begin = apply_op("MakeIterator", read.variant, handle)
        element = apply_op("IteratorGetNext", handle, **state)
        return [Run([write]), Run([begin]), *[Run(element)] * 4]

    found = check_both_run(build, ["DatasetToTFRecord"])
    assert [plain(one) for one in found[2:]] == [b"one", b"", b"three", "OutOfRangeError"]
