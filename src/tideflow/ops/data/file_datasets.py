"""Datasets of what is in files: how both shapes make them, and the functions of sessions.

Source: tensorflow/python/data/ops/readers.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.types import TensorLike
from tideflow.ops.data.functions_api import Dataset
from tideflow.ops.data.session_iterators import DatasetV1
from tideflow.ops.data.sql import sql_parts
from tideflow.ops.data.structure import int64
from tideflow.ops.export import export
from tideflow.wire import dtypes

Kind = TypeVar("Kind", bound=Dataset)


def lines_or_records(
    kind: type[Kind],
    op: str,
    filenames: Any,
    compression_type: str | None,
    buffer_size: Any,
    num_parallel_reads: int | None,
) -> Kind:
    """Return the dataset of a class that TextLineDataset or TFRecordDataset, the op, makes.

    Args: as those of the public functions.
    """

    def read(names: Tensor) -> Kind:
        size = int64(0 if buffer_size is None else buffer_size)
        inputs = [names, convert_to_tensor(compression_type or ""), size]
        return kind._make(op, inputs, TensorSpec((), dtypes.string))

    return _of_files(kind, read, filenames, num_parallel_reads)


def fixed_length_records(
    kind: type[Kind],
    filenames: Any,
    sizes: list[Any],
    compression_type: str | None,
    num_parallel_reads: int | None,
) -> Kind:
    """Return a dataset, of a class, of records that have one length.

    Args:
      sizes: the bytes of the header, of a record, of the footer and of the buffer; None for 0.
      filenames, compression_type, num_parallel_reads: as those of the public functions.
    """

    def read(names: Tensor) -> Kind:
        numbers = [int64(0 if size is None else size) for size in sizes]
        inputs = [names, *numbers, convert_to_tensor(compression_type or "")]
        return kind._make("FixedLengthRecordDatasetV2", inputs, TensorSpec((), dtypes.string))

    return _of_files(kind, read, filenames, num_parallel_reads)


def _of_files(
    kind: type[Kind], read: Callable[[Any], Kind], filenames: Any, at_once: int | None
) -> Kind:
    if not isinstance(filenames, Dataset):
        names = convert_to_tensor(filenames, dtypes.string)
        # TensorFlow has no other constants in the graph around.
        with get_default_graph().name_scope("flat_filenames") as scope:
            if at_once is None:
                return read(names)
            flat = apply_op("Reshape", names, [-1], name=scope)
        filenames = kind.from_tensor_slices(flat)
    made: Kind = (
        filenames.flat_map(read)
        if at_once is None
        else filenames.interleave(read, cycle_length=at_once)
    )
    return made


@export("data.TextLineDataset")
def text_line_dataset(
    filenames: Any,
    compression_type: str | None = None,
    buffer_size: TensorLike | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
) -> DatasetV1:
    r"""Return a dataset of the lines of files.

    Args:
      filenames: names of files: a string tensor, a list, or a dataset of names.
      compression_type: "", "ZLIB" or "GZIP"; None for "".
      buffer_size: how many bytes are read at once; None leaves it to the runtime.
      num_parallel_reads: how many files take turns; None for one after the other.
      name: accepted for programs that give it.
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
    return lines_or_records(
        DatasetV1, "TextLineDataset", filenames, compression_type, buffer_size, num_parallel_reads
    )


@export("data.TFRecordDataset")
def tf_record_dataset(
    filenames: Any,
    compression_type: str | None = None,
    buffer_size: TensorLike | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
) -> DatasetV1:
    """Return a dataset of the records of TFRecord files.

    Args:
      filenames: names of files: a string tensor, a list, or a dataset of names.
      compression_type: "", "ZLIB" or "GZIP"; None for "".
      buffer_size: how many bytes are read at once; None leaves it to the runtime.
      num_parallel_reads: how many files take turns; None for one after the other.
      name: accepted for programs that give it.
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
    return lines_or_records(
        DatasetV1, "TFRecordDataset", filenames, compression_type, buffer_size, num_parallel_reads
    )


@export("data.FixedLengthRecordDataset")
def fixed_length_record_dataset(
    filenames: Any,
    record_bytes: TensorLike,
    header_bytes: TensorLike | None = None,
    footer_bytes: TensorLike | None = None,
    buffer_size: TensorLike | None = None,
    compression_type: str | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
) -> DatasetV1:
    """Return a dataset of the records of files in which all have one length.

    Args:
      filenames: names of files: a string tensor, a list, or a dataset of names.
      record_bytes, header_bytes, footer_bytes: how many bytes a record has, and how many lie before
        the first and after the last; None for 0.
      buffer_size: how many bytes are read at once; None leaves it to the runtime.
      compression_type: "", "ZLIB" or "GZIP"; None for "".
      num_parallel_reads: how many files take turns; None for one after the other.
      name: accepted for programs that give it.
    Returns: a dataset of string scalars.
    Raises: InvalidArgumentError, when walked over, for a file that has another length.
    Example:
      >>> import tempfile
      >>> with tempfile.NamedTemporaryFile("w") as file, tf.Session() as session:
      ...     print("aabb", end="", file=file, flush=True)
      ...     records = tf.data.FixedLengthRecordDataset(file.name, 2)
      ...     session.run(tf.data.make_one_shot_iterator(records).get_next())
      b'aa'
    """
    sizes = [header_bytes, record_bytes, footer_bytes, buffer_size]
    return fixed_length_records(DatasetV1, filenames, sizes, compression_type, num_parallel_reads)


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
