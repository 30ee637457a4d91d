"""`tf.data.experimental` in the TF2 shape: sources and files of datasets that are walked over.

Source: tensorflow/python/data/experimental/ops/{readers,io}.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tideflow.eager.data import DatasetV2
from tideflow.eager.iterators import OwnedIterator
from tideflow.eager.py_function import py_function
from tideflow.graph.building import apply_op
from tideflow.graph.graph import get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.data.debug_mode import debug_mode
from tideflow.ops.data.list_sources import elements_of_lists, random_numbers
from tideflow.ops.data.walked import NumpyIterator
from tideflow.ops.export import export_v2
from tideflow.ops.io import csv_batches, csv_rows

debug_mode.call = py_function
export_v2("data.experimental.make_csv_dataset")(csv_batches(DatasetV2))
export_v2("data.experimental.from_list")(elements_of_lists(DatasetV2))
export_v2("data.experimental.RandomDataset")(random_numbers(DatasetV2))


@export_v2("data.experimental.CsvDataset")
def csv_dataset(
    filenames: Any,
    record_defaults: Sequence[Any],
    compression_type: TensorLike | None = None,
    buffer_size: TensorLike | None = None,
    header: TensorLike = False,
    field_delim: TensorLike = ",",
    use_quote_delim: TensorLike = True,
    na_value: TensorLike = "",
    select_cols: TensorLike | None = None,
    exclude_cols: TensorLike | None = None,
) -> DatasetV2:
    """Return a dataset of the rows of files of comma-separated values.

    Args:
      filenames: names of files, a string tensor or a list.
      record_defaults: for each column, a type, where there must be a value, or what stands for a
        missing one, a tensor [1] or a scalar.
      compression_type: "", "ZLIB" or "GZIP"; None for "".
      buffer_size: how many bytes are read at once; None for 4 MiB.
      header: whether the files' first rows are left out.
      field_delim: what parts the fields of a row, one character.
      use_quote_delim: whether fields may stand in double quotes.
      na_value: what means, beside an empty field, that there is no value.
      select_cols, exclude_cols: the numbers of the columns that are wanted, or are not, in
        increasing order; None for all.
    Returns: a dataset of tuples of scalars.
    Raises: InvalidArgumentError, when walked over, for a row that does not fit.
    Example:
      >>> import tempfile
      >>> with tempfile.NamedTemporaryFile("w") as file:
      ...     print("7,a", file=file, flush=True)
      ...     rows = tf.data.experimental.CsvDataset(file.name, [tf.int32, tf.string])
      ...     [(int(number), text.numpy()) for number, text in rows]
      [(7, b'a')]
    """
    made: DatasetV2 = csv_rows(
        DatasetV2,
        filenames,
        record_defaults,
        compression_type,
        buffer_size,
        header,
        field_delim,
        use_quote_delim,
        na_value,
        select_cols,
        exclude_cols,
    )
    return made


@export_v2("data.experimental.save")
def save(
    dataset: DatasetV2,
    path: str,
    compression: str | None = None,
    shard_func: Callable[..., Any] | None = None,
    checkpoint_args: Any = None,
) -> Any:
    """Save all elements of a dataset to files, as `Dataset.save` does.

    Args:
      dataset: a dataset that ends.
      path: the directory of the files, a string.
      compression: "GZIP", "SNAPPY", "AUTO" or None for none.
      shard_func: called with the parts of an element; gives the number of the file that it goes
        into, an int64 scalar.
      checkpoint_args: as of Dataset.save.
    Example:
      >>> import tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     tf.data.experimental.save(tf.data.Dataset.range(3), folder)
      ...     [int(x) for x in tf.data.experimental.load(folder)]
      [0, 1, 2]
    """
    return dataset.save(path, compression, shard_func, checkpoint_args)


@export_v2("data.experimental.load")
def load(
    path: str,
    element_spec: Any = None,
    compression: str | None = None,
    reader_func: Callable[[Any], Any] | None = None,
) -> DatasetV2:
    """Return a dataset that was saved, as `Dataset.load` does.

    Args:
      path: the directory of the files, a string.
      element_spec: the TypeSpecs of an element; None to read them from the files.
      compression: what it was saved with.
      reader_func: called with a dataset of datasets, one for each file; gives the dataset of
        elements.
    Raises: NotFoundError for a directory without a saved dataset.
    Example:
      >>> import tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     tf.data.Dataset.range(3).save(folder)
      ...     [int(x) for x in tf.data.experimental.load(folder)]
      [0, 1, 2]
    """
    return DatasetV2.load(path, element_spec, compression, reader_func)


@export_v2("data.experimental.get_model_proto")
def get_model_proto(iterator: Any) -> Any:
    """Refuse: no iterator of this runtime has a model by which it is tuned.

    Args:
      iterator: a tf.data.Iterator or tf.data.NumpyIterator.
    Raises: NotFoundError, as in TensorFlow where tuning is off; ValueError for what is no iterator,
      and where a graph is built.
    Example:
      >>> tf.data.experimental.get_model_proto(iter(tf.data.Dataset.range(3)))
      Traceback (most recent call last):
      tideflow.wire.errors.NotFoundError: ...
    """
    walk = iterator._iterator if isinstance(iterator, NumpyIterator) else iterator
    if not isinstance(walk, OwnedIterator):
        raise ValueError("Only supports `tf.data.Iterator`-typed `iterator`.")
    if not get_default_graph().is_eager:
        raise ValueError("get_model_proto is not supported in graph mode.")
    return apply_op("IteratorGetModelProto", walk.argument_handle)
