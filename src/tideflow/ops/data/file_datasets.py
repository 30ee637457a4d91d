"""Datasets of what is in files, for sessions.

Source: tensorflow/python/data/ops/readers.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import convert_to_tensor
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.types import TensorLike
from tideflow.ops.data.session_iterators import DatasetV1
from tideflow.ops.data.sql import sql_parts
from tideflow.ops.data.structure import int64
from tideflow.ops.export import export
from tideflow.wire import dtypes


@export("data.TextLineDataset")
def text_line_dataset(filenames: TensorLike, compression_type: str | None = None) -> DatasetV1:
    r"""Return a dataset of the lines of files.

    Args:
      filenames: names of files, a string scalar or vector.
      compression_type: "", "ZLIB" or "GZIP"; None for "".
    Returns: a dataset of string scalars, without the ends of lines.
    Raises: NotFoundError, when walked over, for a file that is not there.
    Example:
      >>> import tempfile
      >>> with tempfile.NamedTemporaryFile("w") as file, tf.Session() as session:
      ...     print("one", "two", sep="\n", file=file, flush=True)
      ...     lines = tf.data.make_initializable_iterator(tf.data.TextLineDataset(file.name))
      ...     session.run(lines.initializer)
      ...     session.run(lines.get_next())
      b'one'
    """
    return _of_files("TextLineDataset", filenames, compression_type)


@export("data.TFRecordDataset")
def tf_record_dataset(filenames: TensorLike, compression_type: str | None = None) -> DatasetV1:
    """Return a dataset of the records of TFRecord files.

    Args:
      filenames: names of files, a string scalar or vector.
      compression_type: "", "ZLIB" or "GZIP"; None for "".
    Returns: a dataset of string scalars.
    Raises: NotFoundError, when walked over, for a file that is not there; DataLossError for a
      record that
      was changed or cut.
    Example:
      >>> import os, tempfile
      >>> with tempfile.TemporaryDirectory() as folder, tf.Session() as session:
      ...     path = os.path.join(folder, "a.tfrecord")
      ...     with tf.io.TFRecordWriter(path) as writer:
      ...         writer.write(b"one")
      ...     records = tf.data.make_initializable_iterator(tf.data.TFRecordDataset(path))
      ...     session.run(records.initializer)
      ...     session.run(records.get_next())
      b'one'
    """
    return _of_files("TFRecordDataset", filenames, compression_type)


@export("data.experimental.SqlDataset")
def sql_dataset(
    driver_name: TensorLike, data_source_name: TensorLike, query: TensorLike, output_types: Any
) -> DatasetV1:
    """Return a dataset of the rows that a query of a database gives.

    Args:
      driver_name: the kind of database, "sqlite".
      data_source_name: the database's file.
      query: what is asked of it, in SQL; of several statements the first counts.
      output_types: the structure of the types of a row's columns.
    Returns: a dataset of scalars.
    Raises: InvalidArgumentError for another kind of database and for types that columns cannot
      have; when walked over, for another number of columns; UnknownError, when walked over, for
      what the database refuses.
    Example:
      >>> rows = tf.data.experimental.SqlDataset("sqlite", ":memory:", "select 3", tf.int32)
      >>> with tf.Session() as session:
      ...     print(session.run(tf.data.make_one_shot_iterator(rows).get_next()))
      3
    """
    return DatasetV1._make(
        "SqlDataset", *sql_parts(driver_name, data_source_name, query, output_types)
    )


def _of_files(op: str, filenames: TensorLike, compression_type: str | None) -> DatasetV1:
    names = convert_to_tensor(filenames, dtypes.string)
    inputs = [names, convert_to_tensor(compression_type or ""), int64(0)]
    return DatasetV1._make(op, inputs, TensorSpec((), dtypes.string))
