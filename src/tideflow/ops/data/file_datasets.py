"""Datasets of what is in files and databases, and of random numbers: a class for each source.

Those of TensorFlow 1 stand for those of the TF2 shape.

Source: tensorflow/python/data/ops/readers.py, python/data/experimental/ops/{readers,random_ops}.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.types import TensorLike
from tideflow.ops.data.functions_api import Dataset
from tideflow.ops.data.session_iterators import DatasetV1Adapter
from tideflow.ops.data.sql import sql_parts
from tideflow.ops.data.structure import int64
from tideflow.ops.export import export, export_v2
from tideflow.wire import dtypes


def _lines_or_records(
    op: str,
    filenames: Any,
    compression_type: str | None,
    buffer_size: TensorLike | None,
    num_parallel_reads: int | None,
) -> Dataset:
    """Return what TextLineDataset or TFRecordDataset, the op, makes; arguments as of the class."""

    def read(names: Tensor) -> Dataset:
        size = int64(0 if buffer_size is None else buffer_size)
        inputs = [names, convert_to_tensor(compression_type or ""), size]
        return Dataset._make(op, inputs, TensorSpec((), dtypes.string))

    return _of_files(read, filenames, num_parallel_reads)


def _of_files(read: Callable[[Any], Dataset], filenames: Any, at_once: int | None) -> Dataset:
    if not isinstance(filenames, Dataset):
        names = convert_to_tensor(filenames, dtypes.string)
        # TensorFlow has no other constants in the graph around.
        with get_default_graph().name_scope("flat_filenames") as scope:
            if at_once is None:
                return read(names)
            flat = apply_op("Reshape", names, [-1], name=scope)
        filenames = Dataset.from_tensor_slices(flat)
    made: Dataset = (
        filenames.flat_map(read)
        if at_once is None
        else filenames.interleave(read, cycle_length=at_once)
    )
    return made


@export_v2("data.TextLineDataset")
class TextLineDatasetV2(Dataset):
    r"""The lines of files.

    Args:
      filenames: names of files: a string tensor, a list, or a dataset of names.
      compression_type: "", "ZLIB" or "GZIP"; None for "".
      buffer_size: how many bytes are read at once; None leaves it to the runtime.
      num_parallel_reads: how many files take turns; None for one after the other.
      name: accepted for programs that give it.
    Elements: string scalars, without the ends of lines.
    Raises: NotFoundError, when walked over, for a file that is not there.
    Example:
      >>> import tempfile
      >>> with tempfile.NamedTemporaryFile("w") as file:
      ...     print("one", "two", sep="\n", file=file, flush=True)
      ...     [line.numpy() for line in tf.data.TextLineDataset(file.name)]
      [b'one', b'two']
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: TensorLike | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> None:
        self._stand_for(
            _lines_or_records(
                "TextLineDataset", filenames, compression_type, buffer_size, num_parallel_reads
            )
        )


@export("data.TextLineDataset")
class TextLineDatasetV1(DatasetV1Adapter):
    r"""The lines of files.

    Args:
      filenames: names of files: a string tensor, a list, or a dataset of names.
      compression_type, buffer_size, num_parallel_reads: as of the class of the TF2 shape.
    Example:
      >>> import tempfile
      >>> with tempfile.NamedTemporaryFile("w") as file, tf.Session() as session:
      ...     print("one", "two", sep="\n", file=file, flush=True)
      ...     lines = tf.data.make_initializable_iterator(tf.data.TextLineDataset(file.name))
      ...     session.run(lines.initializer)
      ...     session.run(lines.get_next())
      b'one'
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: TensorLike | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            TextLineDatasetV2(filenames, compression_type, buffer_size, num_parallel_reads)
        )


@export_v2("data.TFRecordDataset")
class TFRecordDatasetV2(Dataset):
    """The records of TFRecord files.

    Args:
      filenames: names of files: a string tensor, a list, or a dataset of names.
      compression_type: "", "ZLIB" or "GZIP"; None for "".
      buffer_size: how many bytes are read at once; None leaves it to the runtime.
      num_parallel_reads: how many files take turns; None for one after the other.
      name: accepted for programs that give it.
    Elements: string scalars.
    Raises: NotFoundError, when walked over, for a file that is not there; DataLossError for a
      record that was changed or cut.
    Example:
      >>> import os, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = os.path.join(folder, "a.tfrecord")
      ...     with tf.io.TFRecordWriter(path) as writer:
      ...         writer.write(b"one")
      ...     [record.numpy() for record in tf.data.TFRecordDataset(path)]
      [b'one']
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: TensorLike | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> None:
        self._stand_for(
            _lines_or_records(
                "TFRecordDataset", filenames, compression_type, buffer_size, num_parallel_reads
            )
        )


@export("data.TFRecordDataset")
class TFRecordDatasetV1(DatasetV1Adapter):
    """The records of TFRecord files.

    Args:
      filenames: names of files: a string tensor, a list, or a dataset of names.
      compression_type, buffer_size, num_parallel_reads: as of the class of the TF2 shape.
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

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: TensorLike | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            TFRecordDatasetV2(filenames, compression_type, buffer_size, num_parallel_reads)
        )


@export_v2("data.FixedLengthRecordDataset")
class FixedLengthRecordDatasetV2(Dataset):
    """The records of files in which all have one length.

    Args:
      filenames: names of files: a string tensor, a list, or a dataset of names.
      record_bytes, header_bytes, footer_bytes: how many bytes a record has, and how many lie before
        the first and after the last; None for 0.
      buffer_size: how many bytes are read at once; None leaves it to the runtime.
      compression_type: "", "ZLIB" or "GZIP"; None for "".
      num_parallel_reads: how many files take turns; None for one after the other.
      name: accepted for programs that give it.
    Elements: string scalars.
    Raises: InvalidArgumentError, when walked over, for a file that has another length.
    Example:
      >>> import tempfile
      >>> with tempfile.NamedTemporaryFile("w") as file:
      ...     print("aabb", end="", file=file, flush=True)
      ...     [x.numpy() for x in tf.data.FixedLengthRecordDataset(file.name, 2)]
      [b'aa', b'bb']
    """

    def __init__(
        self,
        filenames: Any,
        record_bytes: TensorLike,
        header_bytes: TensorLike | None = None,
        footer_bytes: TensorLike | None = None,
        buffer_size: TensorLike | None = None,
        compression_type: str | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> None:
        sizes = [header_bytes, record_bytes, footer_bytes, buffer_size]

        def read(names: Tensor) -> Dataset:
            numbers = [int64(0 if size is None else size) for size in sizes]
            inputs = [names, *numbers, convert_to_tensor(compression_type or "")]
            return Dataset._make(
                "FixedLengthRecordDatasetV2", inputs, TensorSpec((), dtypes.string)
            )

        self._stand_for(_of_files(read, filenames, num_parallel_reads))


@export("data.FixedLengthRecordDataset")
class FixedLengthRecordDatasetV1(DatasetV1Adapter):
    """The records of files in which all have one length.

    Args:
      filenames: names of files: a string tensor, a list, or a dataset of names.
      record_bytes, header_bytes, footer_bytes: int64 scalars; no header and footer if None.
      compression_type, buffer_size, num_parallel_reads: as of the class of the TF2 shape.
    Example:
      >>> import tempfile
      >>> with tempfile.NamedTemporaryFile("w") as file, tf.Session() as session:
      ...     print("aabb", end="", file=file, flush=True)
      ...     records = tf.data.FixedLengthRecordDataset(file.name, 2)
      ...     session.run(tf.data.make_one_shot_iterator(records).get_next())
      b'aa'
    """

    def __init__(
        self,
        filenames: Any,
        record_bytes: TensorLike,
        header_bytes: TensorLike | None = None,
        footer_bytes: TensorLike | None = None,
        buffer_size: TensorLike | None = None,
        compression_type: str | None = None,
        num_parallel_reads: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            FixedLengthRecordDatasetV2(
                filenames, record_bytes, header_bytes, footer_bytes, buffer_size, compression_type,
                num_parallel_reads,
            )
        )  # fmt: skip


@export_v2("data.experimental.SqlDataset")
class SqlDatasetV2(Dataset):
    """The rows that a query of a database gives.

    Args:
      driver_name: the kind of database, "sqlite".
      data_source_name: the database's file.
      query: what is asked of it, in SQL; of several statements the first counts.
      output_types: the structure of the types of a row's columns.
    Elements: structures of scalars.
    Raises: InvalidArgumentError for another kind of database and for types that columns cannot
      have; when walked over, for another number of columns; UnknownError, when walked over, for
      what the database refuses.
    Example:
      >>> types = (tf.int32, tf.string)
      >>> rows = tf.data.experimental.SqlDataset("sqlite", ":memory:", "select 3, 'a'", types)
      >>> [(int(number), text.numpy()) for number, text in rows]
      [(3, b'a')]
    """

    def __init__(
        self,
        driver_name: TensorLike,
        data_source_name: TensorLike,
        query: TensorLike,
        output_types: Any,
    ) -> None:
        parts = sql_parts(driver_name, data_source_name, query, output_types)
        self._stand_for(Dataset._make("SqlDataset", *parts))


@export("data.experimental.SqlDataset")
class SqlDatasetV1(DatasetV1Adapter):
    """The rows that a query of a database gives.

    Args:
      driver_name, data_source_name, query: string scalars; the driver is "sqlite".
      output_types: the types of the columns.
    Example:
      >>> rows = tf.data.experimental.SqlDataset("sqlite", ":memory:", "select 3", tf.int32)
      >>> with tf.Session() as session:
      ...     print(session.run(tf.data.make_one_shot_iterator(rows).get_next()))
      3
    """

    def __init__(
        self,
        driver_name: TensorLike,
        data_source_name: TensorLike,
        query: TensorLike,
        output_types: Any,
    ) -> None:
        super().__init__(SqlDatasetV2(driver_name, data_source_name, query, output_types))


@export_v2("data.experimental.RandomDataset")
class RandomDatasetV2(Dataset):
    """Random numbers without end, as of `Dataset.random`.

    Args:
      seed: an integer, for the same numbers in each run of the program.
      rerandomize_each_iteration: whether each walk has numbers of its own; None for no.
      name: accepted for programs that give it.
    Elements: int64 scalars.
    Example:
      >>> numbers = tf.data.experimental.RandomDataset(seed=4).take(2)
      >>> [int(x) for x in numbers] == [int(x) for x in numbers]
      True
    """

    def __init__(
        self,
        seed: int | None = None,
        rerandomize_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> None:
        self._stand_for(Dataset.random(seed, rerandomize_each_iteration))


@export("data.experimental.RandomDataset")
class RandomDatasetV1(DatasetV1Adapter):
    """Random numbers without end, as of `Dataset.random`.

    Args:
      seed: an integer, for the same numbers in each run of the program.
    Example:
      >>> numbers = tf.data.experimental.RandomDataset(seed=4).take(2)
      >>> following = tf.data.make_one_shot_iterator(numbers).get_next()
      >>> with tf.Session() as session:
      ...     bool(session.run(following) >= 0)
      True
    """

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(RandomDatasetV2(seed))
