"""`tf.data` in the TF2 shape: datasets that a program walks over itself.

The transformations are those of graphs; walking pulls elements from an iterator of the context.

Source: tensorflow/python/data/ops/dataset_ops.py, iterator_ops.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.eager.iterators import OwnedIterator
from tideflow.graph.graph import Tensor
from tideflow.ops.data import (
    Dataset,
    fixed_length_records,
    lines_or_records,
    set_default_kind,
    sql_parts,
)
from tideflow.ops.data.walked import walks
from tideflow.ops.export import export_v2
from tideflow.ops.io import batched_features
from tideflow.wire import dtypes


@export_v2("data.Dataset")
class DatasetV2(Dataset):
    """Elements to come, each a structure of tensors, which `for` gives one by one.

    Args:
      variant: a variant scalar that holds the dataset.
      element: the types and shapes of an element.
    Datasets are made by the class methods and by transformations of other datasets, never by the
    constructor.  Nothing is read or computed before somebody walks over them.

    Source: tensorflow/python/data/ops/dataset_ops.py for names and defaults.
    Example:
      >>> dataset = tf.data.Dataset.range(10).filter(lambda x: x % 2 == 0).map(lambda x: x * x)
      >>> [int(x) for x in dataset]
      [0, 4, 16, 36, 64]
    """


set_default_kind(DatasetV2)
walks.over = OwnedIterator.over


@export_v2("data.experimental.from_variant")
def from_variant(variant: Tensor, structure: Any) -> DatasetV2:
    """Return the dataset that a variant tensor holds.

    Args:
      variant: a variant scalar.
      structure: the TypeSpecs of an element, as `Dataset.element_spec` gives them.
    Returns: a dataset.
    Example:
      >>> given = tf.data.Dataset.range(2)
      >>> variant = tf.data.experimental.to_variant(given)
      >>> [int(x) for x in tf.data.experimental.from_variant(variant, given.element_spec)]
      [0, 1]
    """
    return DatasetV2(variant, structure)


@export_v2("data.experimental.Counter")
def counter(start: Any = 0, step: Any = 1, dtype: Any = dtypes.int64) -> DatasetV2:
    """Return numbers without end, as `Dataset.counter` does.

    Args:
      start, step: the first number, and how far numbers are apart.
      dtype: of the numbers.
    Returns: a dataset of scalars.
    Example:
      >>> [int(x) for x in tf.data.experimental.Counter().take(2)]
      [0, 1]
    """
    return DatasetV2.counter(start, step, dtype)


@export_v2("data.TextLineDataset")
def text_line_dataset(
    filenames: Any,
    compression_type: str | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
) -> DatasetV2:
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
      >>> with tempfile.NamedTemporaryFile("w") as file:
      ...     print("one", "two", sep="\n", file=file, flush=True)
      ...     [line.numpy() for line in tf.data.TextLineDataset(file.name)]
      [b'one', b'two']
    """
    return lines_or_records(
        DatasetV2, "TextLineDataset", filenames, compression_type, buffer_size, num_parallel_reads
    )


@export_v2("data.FixedLengthRecordDataset")
def fixed_length_record_dataset(
    filenames: Any,
    record_bytes: Any,
    header_bytes: Any = None,
    footer_bytes: Any = None,
    buffer_size: int | None = None,
    compression_type: str | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
) -> DatasetV2:
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
      >>> with tempfile.NamedTemporaryFile("w") as file:
      ...     print("aabb", end="", file=file, flush=True)
      ...     [x.numpy() for x in tf.data.FixedLengthRecordDataset(file.name, 2)]
      [b'aa', b'bb']
    """
    sizes = [header_bytes, record_bytes, footer_bytes, buffer_size]
    return fixed_length_records(DatasetV2, filenames, sizes, compression_type, num_parallel_reads)


@export_v2("data.TFRecordDataset")
def tf_record_dataset(
    filenames: Any,
    compression_type: str | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    name: str | None = None,
) -> DatasetV2:
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
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = os.path.join(folder, "a.tfrecord")
      ...     with tf.io.TFRecordWriter(path) as writer:
      ...         writer.write(b"one")
      ...     [record.numpy() for record in tf.data.TFRecordDataset(path)]
      [b'one']
    """
    return lines_or_records(
        DatasetV2, "TFRecordDataset", filenames, compression_type, buffer_size, num_parallel_reads
    )


export_v2("data.experimental.make_batched_features_dataset")(
    batched_features(DatasetV2, tf_record_dataset)
)


@export_v2("data.experimental.SqlDataset")
def sql_dataset(
    driver_name: Any, data_source_name: Any, query: Any, output_types: Any
) -> DatasetV2:
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
      >>> types = (tf.int32, tf.string)
      >>> rows = tf.data.experimental.SqlDataset("sqlite", ":memory:", "select 3, 'a'", types)
      >>> [(int(number), text.numpy()) for number, text in rows]
      [(3, b'a')]
    """
    parts = sql_parts(driver_name, data_source_name, query, output_types)
    return DatasetV2._make("SqlDataset", *parts)
