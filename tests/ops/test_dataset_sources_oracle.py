"""Rows of databases, records from within files, rows of functions, compressed elements and others,
beside TensorFlow, in one graph that both run."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.dataset_graphs import (
    INVALID,
    Made,
    as_written,
    check_elements,
    check_refused,
    function,
    int64,
    numbers,
    plain,
    steps,
)
from ops.one_graph import Run, check_both_run
from tideflow.graph.building import apply_op

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

SQL = ["SqlDataset", "ExperimentalSqlDataset"]
ROWS = [
    (1, "a", 1.5, None, b"x\x00y"),
    (300, "b\u00e9\x00c", 2.0, 70000, None),
    (-1, None, None, 2**40, b""),
    (2**63 - 1, " -12abc", -0.75, -1, b"17"),
    (0, "1e2", 1e300, 0, b"\xff"),
]


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("sql") / "a.db"
    made = sqlite3.connect(path)
    made.execute("create table t(i integer, s text, r real, n integer, b blob)")
    made.executemany("insert into t values(?,?,?,?,?)", ROWS)
    made.commit()
    made.close()
    return str(path)


def query(path, text, types, op="SqlDataset", driver="sqlite", shapes=None):
    made = Made(None, types, [()] * len(types) if shapes is None else shapes)
    parts = [tf.placeholder_with_default(tf.constant(part), None) for part in (driver, path, text)]
    made.variant = apply_op(op, *parts, **made.structure)
    return made


@pytest.mark.parametrize("op", SQL)
def test_rows_of_a_database(database, op):
    types = [tf.int64, tf.string, tf.float64, tf.int64, tf.string]
    found = check_elements(lambda: query(database, "select * from t", types, op), [op])
    assert found[0] == (1, b"a", 1.5, 0, b"x\x00y")
    assert len(found) == len(ROWS)


SQL_TYPES = [
    tf.string, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.bool, tf.float64
]  # fmt: skip


@pytest.mark.parametrize("dtype", SQL_TYPES, ids=lambda dtype: dtype.name)
def test_columns_as_values_of_another_type(database, dtype):
    columns = "irnb" if dtype is not tf.string else "irnsb"
    text = f"select {','.join(columns)} from t where i < 400"
    found = check_elements(lambda: query(database, text, [dtype] * len(columns)), ["SqlDataset"])
    assert len(found) == 4
    if dtype is not tf.string:
        check_elements(lambda: query(database, "select s from t", [dtype]), ["SqlDataset"])


@pytest.mark.parametrize("text", ["select 5; select 6", "select ';', 1/0; ", "select 1 -- ; 2"])
def test_the_first_statement_counts(database, text):
    types = [tf.string] * (text.count(",") + 1)
    assert len(check_elements(lambda: query(database, text, types), ["SqlDataset"])) == 1


def test_no_rows(database):
    found = check_both_run(
        lambda: steps(query(database, "select i from t where i = 7", [tf.int32]), 2), ["SqlDataset"]
    )
    assert found[1] == "OutOfRangeError"


@pytest.mark.parametrize(
    "wrong",
    [
        {"driver": "mysql"}, {"driver": ["sqlite"]}, {"text": ["select 1"]}, {"path": [["a"]]},
        {"types": [tf.float32]}, {"types": [tf.uint32]}, {"shapes": [(1,)]}, {"shapes": [None]},
    ],
    ids=str,
)  # fmt: skip
def test_databases_that_are_refused(database, wrong):
    given = {"path": database, "text": "select 1", "types": [tf.int32]} | wrong
    check_refused(lambda: query(**given), ["SqlDataset"])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("select i, n from t", INVALID),
        ("", INVALID),
        ("insert into t values (1,2,3,4,5)", INVALID),
        ("selec i", "UnknownError"),
        ("select i from nothing", "UnknownError"),
    ],
)
def test_queries_that_are_refused(database, text, error):
    def build():
        return steps(query(database, text, [tf.int32]), 2)[:3]

    found = check_both_run(build, ["SqlDataset"])
    assert found[1:] == [error, error]
    assert len(sqlite3.connect(database).execute("select * from t").fetchall()) == len(ROWS)


def test_a_query_that_fails_at_its_first_row(database):
    check_refused(
        lambda: query(database, "select abs(-9223372036854775808)", [tf.int64]), ["SqlDataset"],
        "UnknownError", 1,
    )  # fmt: skip


# ---- records from within files


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("records") / "a")
    for name, kind in (("", ""), (".gz", "GZIP")):
        options = tf.io.TFRecordOptions(compression_type=kind)
        with tf.io.TFRecordWriter(path + name, options) as writer:
            for record in (b"one", b"two", b"three"):
                writer.write(record)
    return path


def from_within(paths, starts, compression=""):
    made = Made(None, [tf.string])
    inputs = [tf.constant(paths), tf.constant(compression), int64(0)]
    inputs.append(tf.placeholder_with_default(int64(starts), None))
    made.variant = apply_op("TFRecordDatasetV2", *inputs)
    return made


@pytest.mark.parametrize(
    ("count", "starts", "packed", "expected"),
    [
        (1, [19], False, [b"two", b"three"]),
        (2, [19, 38], False, [b"two", b"three", b"three"]),
        (2, [], False, [b"one", b"two", b"three"] * 2),
        (1, [19], True, [b"two", b"three"]),
    ],
)
def test_records_from_within_files(records, count, starts, packed, expected):
    paths = [records + ".gz" * packed] * count
    kind = "GZIP" * packed
    found = check_elements(lambda: from_within(paths, starts, kind), ["TFRecordDatasetV2"])
    assert found == expected


@pytest.mark.parametrize(
    ("start", "error"),
    [(5, "DataLossError"), (-1, INVALID), (1000, "OutOfRangeError")],
)
def test_records_from_where_there_are_none(records, start, error):
    check_refused(lambda: from_within([records], [start]), ["TFRecordDatasetV2"], error, 1)


def test_records_from_a_matrix_of_places(records):
    check_refused(lambda: from_within([records], [[19]]), ["TFRecordDatasetV2"])


# ---- functions of rows


def mapped(arguments, f, types, shapes, captured=()):
    inputs = [tf.placeholder_with_default(tf.constant(value), None) for value in arguments]
    given = [tf.placeholder_with_default(tf.constant(value), None) for value in captured]
    made = apply_op(
        "MapDefun", inputs, given, f=f, output_types=types,
        output_shapes=[tf.TensorShape(dims) for dims in shapes],
    )  # fmt: skip
    return [Run(made)]


@pytest.mark.parametrize(
    ("count", "dims"), [(3, (2,)), (3, (None,)), (100, None), (0, (2,)), (1, (2,))]
)
def test_a_function_of_rows(dims, count):
    def build():
        f = function(lambda x, by: (x * by, tf.fill([2], x)), tf.int64, tf.int64)
        return mapped([np.arange(count)], f, [tf.int64, tf.int64], [(), dims], [np.int64(5)])

    [[first, second]] = check_both_run(build, ["MapDefun"])
    assert first.tolist() == [5 * i for i in range(count)]
    assert len(second) == count


def test_a_function_of_rows_of_several_arguments():
    def build():
        kinds = [(tf.float32, (2,)), (tf.string, ())]
        f = function(lambda x, text: tf.string_join([text, tf.as_string(x[0])]), *kinds)
        given = [np.float32([[1, 2], [3, 4]]), np.array([b"a", b"b"], object)]
        return mapped(given, f, [tf.string], [()])

    [[found]] = check_both_run(build, ["MapDefun"])
    assert found[0].startswith(b"a1")


@pytest.mark.parametrize(
    ("given", "types", "shapes"),
    [
        ([np.int64(3)], [tf.int64], [()]),
        ([np.arange(3)], [tf.int64], [(3,)]),
        ([np.arange(3)], [tf.float32], [()]),
    ],
)
def test_functions_of_rows_that_do_not_fit(given, types, shapes):
    def build():
        return mapped(given, function(lambda x: x + 1, tf.int64), types, shapes)

    assert check_both_run(build, ["MapDefun"]) == [INVALID]


@pytest.mark.parametrize(
    "body",
    [lambda x, y: tf.fill([x], y), lambda x, y: tf.check_numerics(1 / tf.cast(x, tf.float32), "")],
)
def test_functions_that_fail_for_a_row(body):
    def build():
        f = function(lambda x, y: tf.cast(body(x, y), tf.int64), tf.int64, tf.int64)
        return mapped([np.arange(3), np.arange(3)], f, [tf.int64], [None])

    assert check_both_run(build, ["MapDefun"]) == [INVALID]


def test_rows_of_different_numbers():
    def build():
        f = function(lambda x, y: x + y, tf.int64, tf.int64)
        return mapped([np.arange(3), np.arange(2)], f, [tf.int64], [()])

    assert check_both_run(build, ["MapDefun"]) == [INVALID]


# ---- compressed elements


@pytest.mark.parametrize(
    "value",
    [
        np.float32(1.5), np.arange(6).reshape(2, 3), np.zeros((0, 3), np.uint8), np.zeros(5000),
        np.array([[b"a", b""]], object), np.bool_(True), np.complex64([1j]), np.float16([1, 2]),
    ],
    ids=lambda value: f"{np.asarray(value).dtype}-{np.size(value)}",
)  # fmt: skip
def test_compressed_elements(value):
    def build():
        parts = [tf.constant(value), int64(7)]
        packed = apply_op("CompressElement", parts)
        kinds = [part.dtype for part in parts]
        shapes = [tf.TensorShape(None)] * 2
        found = apply_op("UncompressElement", packed, output_types=kinds, output_shapes=shapes)
        return [Run(list(found))]

    [[found, seven]] = check_both_run(build, ["CompressElement", "UncompressElement"])
    assert found.tolist() == np.asarray(value).tolist()
    assert seven == 7


def test_compressed_elements_are_written_as_by_tensorflow():
    def build():
        return [Run([apply_op("SerializeTensor", apply_op("CompressElement", [tf.zeros([0, 3])]))])]

    check_both_run(build, ["CompressElement"])


@pytest.mark.parametrize("types", [[tf.float32], [tf.int64, tf.int64]])
def test_compressed_elements_of_another_kind(types):
    def build():
        packed = apply_op("CompressElement", [int64(7)])
        shapes = [tf.TensorShape(None)] * len(types)
        return [
            Run(apply_op("UncompressElement", packed, output_types=types, output_shapes=shapes))
        ]

    assert check_both_run(build, ["UncompressElement"]) == ["FailedPreconditionError"]


@pytest.mark.parametrize("several", [False, True])
def test_what_is_no_compressed_element(several):
    def build():
        packed = numbers(3).variant
        if several:
            packed = tf.stack([apply_op("CompressElement", [int64(7)])] * 2)
            packed = tf.placeholder_with_default(packed, None)
        kind = {"output_types": [tf.int64], "output_shapes": [tf.TensorShape(None)]}
        return [Run(apply_op("UncompressElement", packed, **kind))]

    assert check_both_run(build, ["UncompressElement"]) == [INVALID]


# ---- the fastest of branches


def branches(numerator=2, denominator=1, lengths=(1, 1), each=2):
    def batched(dataset, size):
        kind = {"output_types": [tf.int64], "output_shapes": [tf.TensorShape([None])]}
        return apply_op("BatchDataset", dataset, size, **kind)

    f = function(batched, tf.variant, tf.int64)
    return numbers(8).to_other(
        "ChooseFastestBranchDataset", int64(numerator), int64(denominator), [int64(2), int64(2)],
        branches=[f, f], other_arguments_lengths=list(lengths),
        num_elements_per_branch=each,
        types=[tf.int64], shapes=[(None,)],
    )  # fmt: skip


def test_the_fastest_of_branches():
    found = check_elements(lambda: branches(), ["ChooseFastestBranchDataset"])
    assert found == [[0, 1], [2, 3], [4, 5], [6, 7]]


@pytest.mark.parametrize(
    "wrong", [{"numerator": 0}, {"denominator": -1}, {"denominator": 3}, {"lengths": [2]}], ids=str
)
def test_branches_of_no_ratio(wrong):
    check_refused(lambda: branches(**wrong), ["ChooseFastestBranchDataset"])


# ---- the model of an iterator


def test_an_iterator_without_a_model():
    def build():
        dataset = as_written(numbers(3))
        handle = apply_op("IteratorV2", shared_name="", container="", **dataset.structure)
        model = apply_op("IteratorGetModelProto", handle)
        begin = apply_op("MakeIterator", dataset.variant, handle)
        return [Run([model]), Run([begin]), Run([model])]

    found = check_both_run(build, ["IteratorGetModelProto"])
    assert [plain(one) for one in found] == ["FailedPreconditionError", (), "NotFoundError"]
