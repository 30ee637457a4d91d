"""`tf.data.experimental` in the TF2 shape: datasets in files, and walks over them.

Source: tensorflow/python/data/experimental/ops/{io,iterator_model_ops}.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.eager.iterators import OwnedIterator
from tideflow.eager.py_function import py_function
from tideflow.graph.building import apply_op
from tideflow.graph.graph import get_default_graph
from tideflow.ops.data import Dataset
from tideflow.ops.data.debug_mode import debug_mode
from tideflow.ops.data.walked import NumpyIterator
from tideflow.ops.export import export_v2

debug_mode.call = py_function


@export_v2("data.experimental.save")
def save(
    dataset: Dataset,
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
) -> Dataset:
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
    return Dataset.load(path, element_spec, compression, reader_func)


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
