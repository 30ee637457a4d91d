"""Datasets of what is in files, for sessions.

Source: tensorflow/python/data/ops/readers.py.
"""

from __future__ import annotations

from tideflow.graph.building import convert_to_tensor
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.types import TensorLike
from tideflow.ops.data.session_iterators import DatasetV1
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


def _of_files(op: str, filenames: TensorLike, compression_type: str | None) -> DatasetV1:
    names = convert_to_tensor(filenames, dtypes.string)
    inputs = [names, convert_to_tensor(compression_type or ""), int64(0)]
    return DatasetV1._make(op, inputs, TensorSpec((), dtypes.string))
