"""Datasets of databases and of parts of files, functions of rows, compressed elements."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

import tideflow as tf
import tideflow.v1 as v1
from ops.dataset_graphs import function
from tideflow.graph.building import apply_op

Data = tf.data.Dataset
INT64 = {"output_types": [tf.int64], "output_shapes": [None]}


@pytest.fixture
def database(tmp_path):
    path = str(tmp_path / "a.db")
    made = sqlite3.connect(path)
    made.execute("create table t(number integer, text text)")
    made.executemany("insert into t values(?, ?)", [(1, "a"), (300, None), (None, "7")])
    made.commit()
    made.close()
    return path


def test_rows_of_a_database(database):
    types = {"number": tf.uint8, "text": tf.string}
    columns = tf.data.experimental.SqlDataset("sqlite", database, "select text, number from t", (
        tf.string, types["number"]
    ))  # fmt: skip
    assert [(text.numpy(), int(number)) for text, number in columns] == [
        (b"a", 1), (b"", 44), (b"7", 0)
    ]  # fmt: skip
    named = tf.data.experimental.SqlDataset("sqlite", database, "select * from t", types)
    assert int(next(iter(named))["number"]) == 1


def test_a_text_column_as_a_number(database):
    rows = tf.data.experimental.SqlDataset("sqlite", database, "select text from t", tf.int32)
    assert [int(x) for x in rows] == [0, 0, 7]


def test_databases_that_are_refused(database):
    with pytest.raises(tf.errors.InvalidArgumentError, match="not supported by SqlDataset"):
        tf.data.experimental.SqlDataset("mysql", database, "select 1", tf.int32)
    for query, error in (
        ("select 1, 2", tf.errors.InvalidArgumentError),
        ("selec 1", tf.errors.UnknownError),
    ):
        walk = iter(tf.data.experimental.SqlDataset("sqlite", database, query, tf.int32))
        for _ in range(2):
            with pytest.raises(error):
                next(walk)


def test_records_from_within_a_file(tmp_path):
    path = str(tmp_path / "a")
    with tf.io.TFRecordWriter(path) as writer:
        for record in (b"one", b"two", b"three"):
            writer.write(record)
    made = tf.raw_ops.TFRecordDatasetV2(
        filenames=[path], compression_type="", buffer_size=0, byte_offsets=[19]
    )
    found = tf.data.experimental.from_variant(made, tf.TensorSpec([], tf.string))
    assert [x.numpy() for x in found] == [b"two", b"three"]


def test_a_function_of_rows():
    with v1.Graph().as_default(), v1.Session() as session:
        times = function(lambda x, by: x * by, v1.int64, v1.int64)
        kind = {"output_types": [v1.int64], "output_shapes": [v1.TensorShape([])]}
        given = [v1.constant(np.arange(100))]
        made = apply_op("MapDefun", given, [v1.constant(3, v1.int64)], f=times, **kind)
        [found] = session.run(made)
    assert found.tolist() == list(range(0, 300, 3))


def test_compressed_elements():
    packed = tf.raw_ops.CompressElement(components=[np.arange(1000)])
    [found] = tf.raw_ops.UncompressElement(compressed=packed, **INT64)
    assert found.numpy().tolist() == list(range(1000))
    with pytest.raises(tf.errors.InvalidArgumentError):
        variant = tf.data.experimental.to_variant(Data.range(2))
        tf.raw_ops.UncompressElement(compressed=variant, **INT64)


def test_the_model_of_an_iterator():
    iterator = iter(Data.range(2))
    with pytest.raises(tf.errors.NotFoundError, match="analytical model"):
        tf.raw_ops.IteratorGetModelProto(iterator=iterator.argument_handle)
