"""Dataset ops that no client of today makes, one by one, beside TensorFlow: batches and functions.

Each is in one graph that both run: its elements, its end, and what it refuses.
"""

from __future__ import annotations

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.dataset_graphs import (
    END,
    INVALID,
    Made,
    check_elements,
    check_refused,
    function,
    int64,
    numbers,
    plain,
    rows,
    steps,
)
from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

NUMBER = {"types": [tf.int64], "shapes": [()]}
NUMBERS = {"types": [tf.int64], "shapes": [(None,)]}


def fails_at(x, wrong):
    """Return x; a graph function in which one value is refused."""
    divisor = tf.cast(x - wrong, tf.float32)
    with tf.control_dependencies([tf.check_numerics(1 / divisor, "wrong")]):
        return tf.identity(x)


# ---- batches


def test_batches():
    found = check_elements(
        lambda: numbers(7).to_other("BatchDataset", int64(3), **NUMBERS), ["BatchDataset"]
    )
    assert found == [[0, 1, 2], [3, 4, 5], [6]]


@pytest.mark.parametrize("size", [0, -1, [2, 3]])
def test_batches_of_no_size(size):
    def build():
        given = tf.placeholder_with_default(int64(size), None)
        return numbers(7).to_other("BatchDataset", given, **NUMBERS)

    check_refused(build, ["BatchDataset"])


def test_batches_of_another_rank_than_they_are_said_to_have():
    check_refused(lambda: numbers(7).to("BatchDataset", int64(3)), ["BatchDataset"])


def ragged(count):
    """Return a dataset of vectors that grow."""
    f = function(lambda x: tf.fill([x], x), tf.int64)
    return numbers(count).to_other("MapDataset", [], f=f, **NUMBERS)


def test_batches_of_what_does_not_fit():
    pairs = {"types": [tf.int64], "shapes": [(None, None)]}
    check_refused(
        lambda: ragged(4).to_other("BatchDataset", int64(2), **pairs), ["BatchDataset"], at=1
    )


def padded(dataset, size, shape, value, said=(None, None)):
    attrs = {"Toutput_types": [tf.int64], "output_shapes": [tf.TensorShape(said)]}
    made = apply_op(
        "PaddedBatchDataset", dataset.variant, int64(size), [int64(shape)], [int64(value)], **attrs
    )
    return Made(made, [tf.int64], [said])


def test_padded_batches():
    found = check_elements(lambda: padded(ragged(5), 2, [-1], -7), ["PaddedBatchDataset"])
    assert found == [[[-7], [1]], [[2, 2, -7], [3, 3, 3]], [[4, 4, 4, 4]]]


@pytest.mark.parametrize(
    ("size", "shape", "value", "at", "error"),
    [
        (0, [-1], 0, 0, INVALID),
        (2, [[-1]], 0, 0, INVALID),
        (2, [-2], 0, 0, INVALID),
        (2, [-1], [1, 2], 0, INVALID),
        (2, [-1, -1], 0, 1, INVALID),
        (3, [1], 0, 1, "DataLossError"),
    ],
)
def test_padded_batches_that_are_refused(size, shape, value, at, error):
    check_refused(
        lambda: padded(ragged(5), size, shape, value, None), ["PaddedBatchDataset"], error, at
    )


def test_padded_batches_of_another_rank_than_they_are_said_to_have():
    check_refused(lambda: padded(ragged(5), 2, [-1, -1], 0), ["PaddedBatchDataset"])


def test_rows_of_batches():
    def build():
        batches = rows(np.arange(6, dtype=np.int64).reshape(2, 3))
        return batches.to_other("ExperimentalUnbatchDataset", **NUMBER)

    found = check_elements(build, ["ExperimentalUnbatchDataset"])
    assert found == [0, 1, 2, 3, 4, 5]


def test_rows_of_scalars():
    check_refused(
        lambda: numbers(3).to("ExperimentalUnbatchDataset"), ["ExperimentalUnbatchDataset"], at=1
    )


# ---- functions of elements


@pytest.mark.parametrize("sloppy", [False, True])
def test_mapping_in_parallel(sloppy):
    def build():
        f = function(lambda x: x * x, tf.int64)
        calls = tf.constant(1 if sloppy else 3, tf.int32)
        return numbers(6).to("ParallelMapDataset", [], calls, f=f, sloppy=sloppy)

    assert check_elements(build, ["ParallelMapDataset"]) == [0, 1, 4, 9, 16, 25]


def test_mapping_in_parallel_what_is_refused():
    def build():
        f = function(lambda x: fails_at(x, 1), tf.int64)
        return numbers(4).to("ParallelMapDataset", [], tf.constant(2, tf.int32), f=f)

    check_refused(build, ["ParallelMapDataset"], at=2)


@pytest.mark.parametrize("calls", [0, -2, [1, 2]])
def test_mapping_with_no_calls(calls):
    def build():
        f = function(lambda x: x, tf.int64)
        return numbers(4).to("ParallelMapDataset", [], tf.constant(calls, tf.int32), f=f)

    check_refused(build, ["ParallelMapDataset"])


def mapped_and_batched(size, calls, drop):
    f = function(lambda x: x + 1, tf.int64)
    inputs = ([], int64(size), int64(calls), tf.constant(drop))
    return numbers(7).to_other("ExperimentalMapAndBatchDataset", *inputs, f=f, **NUMBERS)


@pytest.mark.parametrize("drop", [False, True])
def test_mapping_and_batching(drop):
    found = check_elements(
        lambda: mapped_and_batched(3, 2, drop), ["ExperimentalMapAndBatchDataset"]
    )
    assert found == [[1, 2, 3], [4, 5, 6], [7]][: 2 if drop else 3]


@pytest.mark.parametrize(("size", "calls"), [(0, 1), (2, 0), (2, -3)])
def test_mapping_and_batching_that_is_refused(size, calls):
    check_refused(
        lambda: mapped_and_batched(size, calls, False), ["ExperimentalMapAndBatchDataset"]
    )


@pytest.mark.parametrize("deterministic", ["true", "default"])
def test_choosing_in_parallel(deterministic):
    def build():
        chosen = function(lambda x, by: tf.equal(x % by, 1), tf.int64, tf.int64)
        inputs = ([int64(3)], int64(2))
        return numbers(9).to(
            "ParallelFilterDataset", *inputs, predicate=chosen, deterministic=deterministic
        )

    assert check_elements(build, ["ParallelFilterDataset"]) == [1, 4, 7]


def test_choosing_by_what_is_no_truth_value():
    def build():
        chosen = function(lambda x: tf.equal(tf.fill([2], x), 1), tf.int64)
        return numbers(9).to("ParallelFilterDataset", [], int64(2), predicate=chosen)

    check_refused(build, ["ParallelFilterDataset"], at=1)


def test_taking_while():
    def build():
        small = function(lambda x, most: x < most, tf.int64, tf.int64)
        return numbers(9).to("ExperimentalTakeWhileDataset", [int64(4)], predicate=small)

    assert check_elements(build, ["ExperimentalTakeWhileDataset"]) == [0, 1, 2, 3]


def test_scanning():
    def build():
        f = function(lambda state, x: (state + x, state, x), tf.int64, tf.int64)
        kinds = {"types": [tf.int64, tf.int64], "shapes": [(), ()]}
        return numbers(5).to_other("ExperimentalScanDataset", [int64(3)], [], f=f, **kinds)

    found = check_elements(build, ["ExperimentalScanDataset"])
    assert found == [(3, 0), (3, 1), (4, 2), (6, 3), (9, 4)]


# ---- groups


def windows(size):
    key = function(lambda x: x % 3, tf.int64)
    made = tf.TensorShape([None])
    attrs = {"output_types": [tf.int64], "output_shapes": [made]}

    def joined(key, window):
        return apply_op("BatchDataset", window, int64(9), **attrs)

    reduce = function(joined, tf.int64, tf.variant)
    window = function(lambda key: tf.fill([], int64(size)) + key, tf.int64)
    return numbers(8).to_other(
        "ExperimentalGroupByWindowDataset", [], [], [], key_func=key, reduce_func=reduce,
        window_size_func=window, **NUMBERS,
    )  # fmt: skip


def test_windows_of_each_key():
    found = check_elements(lambda: windows(1), ["ExperimentalGroupByWindowDataset"])
    assert found == [[0], [3], [1, 4], [6], [7], [2, 5]]


def test_windows_of_no_size():
    check_refused(lambda: windows(0), ["ExperimentalGroupByWindowDataset"], at=1)


def reduced(op, key_of):
    parts = {
        "key_func": function(key_of, tf.int64),
        "init_func": function(lambda key: (key * 100, tf.constant(0.0)), tf.int64),
        "reduce_func": function(
            lambda total, count, x: (total + x, count + 1), tf.int64, tf.float32, tf.int64
        ),
        "finalize_func": function(
            lambda total, count: (total, tf.as_string(count, precision=0)), tf.int64, tf.float32
        ),
    }
    kinds = {"types": [tf.int64, tf.string], "shapes": [(), ()]}
    return numbers(7).to_other(op, [], [], [], [], **parts, **kinds)


@pytest.mark.parametrize("op", ["GroupByReducerDataset", "ExperimentalGroupByReducerDataset"])
def test_reducing_each_key(op):
    found = check_elements(lambda: reduced(op, lambda x: x % 2), [op])
    assert found == [(12, b"4"), (109, b"3")]


@pytest.mark.parametrize("key", [lambda x: tf.fill([2], x), lambda x: tf.cast(x, tf.int32)])
def test_reducing_by_what_is_no_key(key):
    check_refused(lambda: reduced("GroupByReducerDataset", key), ["GroupByReducerDataset"], at=1)


# ---- datasets of datasets


def repeats(x):
    """Return a dataset of x, x times."""
    attrs = {"output_shapes": [tf.TensorShape([])]}
    one = apply_op("TensorDataset", [x], **attrs)
    return apply_op("RepeatDataset", one, x, output_types=[tf.int64], **attrs)


def legacy_interleaved(op, cycle=2, block=2, sloppy=False, buffer=2, ahead=1):
    rest = (int64(cycle), int64(block), tf.constant(sloppy), int64(buffer), int64(ahead))
    return numbers(1, 4).to(op, [], *rest, f=function(repeats, tf.int64))


def interleaved(op, cycle=2, block=2, calls=2, **attrs):
    rest = (int64(cycle), int64(block), int64(calls))
    return numbers(1, 4).to(op, [], *rest, f=function(repeats, tf.int64), **attrs)


@pytest.mark.parametrize(
    "op", ["ParallelInterleaveDataset", "ExperimentalParallelInterleaveDataset"]
)
def test_interleaving_with_buffers(op):
    assert check_elements(lambda: legacy_interleaved(op), [op]) == [1, 2, 2, 3, 3, 3]


@pytest.mark.parametrize(
    "wrong", [{"cycle": 0}, {"block": 0}, {"buffer": 0}, {"ahead": -1}, {"cycle": [1]}], ids=str
)
def test_interleaving_with_buffers_of_wrong_sizes(wrong):
    op = "ParallelInterleaveDataset"
    check_refused(lambda: legacy_interleaved(op, **wrong), [op])


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("ParallelInterleaveDatasetV2", {"sloppy": False}),
        ("ParallelInterleaveDatasetV3", {"deterministic": "true"}),
    ],
)
@pytest.mark.parametrize("block", [1, 2])
def test_interleaving_in_parallel(op, attrs, block):
    found = check_elements(lambda: interleaved(op, block=block, **attrs), [op])
    assert sorted(found) == [1, 2, 2, 3, 3, 3]


@pytest.mark.parametrize("op", ["ParallelInterleaveDatasetV2", "ParallelInterleaveDatasetV3"])
@pytest.mark.parametrize("wrong", [{"cycle": 0}, {"block": 0}, {"calls": 0}, {"calls": 3}], ids=str)
def test_interleaving_in_parallel_that_is_refused(op, wrong):
    check_refused(lambda: interleaved(op, **wrong), [op])


# ---- without functions


@pytest.mark.parametrize("op", ["UniqueDataset", "ExperimentalUniqueDataset"])
def test_each_element_once(op):
    found = check_elements(lambda: rows(np.int64([3, 1, 3, 2, 1])).to(op), [op])
    assert found == [3, 1, 2]


@pytest.mark.parametrize("op", ["IgnoreErrorsDataset", "ExperimentalIgnoreErrorsDataset"])
def test_elements_without_those_that_are_refused(op):
    def build():
        f = function(lambda x: fails_at(x, 1), tf.int64)
        return numbers(4).to("MapDataset", [], f=f).to(op)

    assert check_elements(build, [op]) == [0, 2, 3]


@pytest.mark.parametrize(
    "op", ["DirectedInterleaveDataset", "ExperimentalDirectedInterleaveDataset"]
)
def test_taking_turns_as_told(op):
    def build():
        selector = rows(np.int64([1, 0, 0, 1, 0, 1]))
        return selector.to(op, [numbers(2).variant, numbers(10, 19).variant])

    assert check_elements(build, [op]) == [10, 0, 1, 11, 12]


@pytest.mark.parametrize("wrong", [-1, 2])
def test_taking_turns_of_what_is_not_there(wrong):
    op = "ExperimentalDirectedInterleaveDataset"

    def build():
        selector = rows(np.int64([1, wrong]))
        return selector.to(op, [numbers(2).variant, numbers(10, 19).variant])

    check_refused(build, [op], at=2)


# ---- generators


def generated():
    """Return what counts up to two in a variable, and a runner of that variable's value."""

    def counter():
        return apply_op("VarHandleOp", dtype=tf.int64, shape=[], shared_name="counter")

    def begin(first):
        with tf.control_dependencies([apply_op("AssignVariableOp", counter(), int64(0))]):
            return tf.identity(first)

    def following(first):
        return apply_op("ResourceCountUpTo", counter(), limit=2, T=tf.int64) + first

    def end(first):
        with tf.control_dependencies([apply_op("AssignVariableOp", counter(), first)]):
            return tf.identity(first)

    parts = dict(zip(("init_func", "next_func", "finalize_func"), (begin, following, end)))
    made = Made(None)
    made.variant = apply_op(
        "GeneratorDataset", [int64(40)], [], [],
        **{name: function(part, tf.int64) for name, part in parts.items()}, **made.structure,
    )  # fmt: skip
    return made, apply_op("ReadVariableOp", counter(), dtype=tf.int64)


def test_generating():
    found = check_elements(lambda: generated()[0], ["GeneratorDataset"])
    assert found == [40, 41]


def test_the_last_function_of_a_generator_is_called_at_the_end():
    def build():
        made, counted = generated()
        first, *others = steps(made, 3)
        return [first, *(run for one in others for run in (one, Run([counted])))][:7]

    found = check_both_run(build, ["GeneratorDataset"])
    assert [plain(one) for one in found] == [(), 40, 1, 41, 2, END, 40]
