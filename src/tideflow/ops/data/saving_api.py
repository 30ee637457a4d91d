"""Datasets that are saved to files and loaded, with the structure of their elements.

Source: tensorflow/python/data/ops/{save,load}_op.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tideflow.formats import AtomicFile, file_errors
from tideflow.graph.building import convert_to_tensor
from tideflow.ops.data.grouping_api import GroupingTransformations
from tideflow.ops.data.spec_files import structured_value, value_of
from tideflow.ops.data.structure import int64, make
from tideflow.ops.data.traced import Traced
from tideflow.ops.data.type_specs import DatasetSpec
from tideflow.wire import dtypes
from tideflow.wire import messages as pb

# Beside the files of a saved dataset: the structure of its elements.
_SPEC = "dataset_spec.pb"


def traced_reader(read: Callable[[Any], Any], element: Any, kind: Any) -> Traced:
    """Trace what makes a dataset of the shards of a saved one.

    Args:
      read: called with a dataset of datasets.
      element: the structure of the elements.
      kind: the class of datasets.
    Raises: TypeError for a function that gives no dataset.
    """
    shards: Any = DatasetSpec._of(DatasetSpec._of(element, kind), kind)
    traced = Traced(read, shards, "Dataset_reader")
    if traced.dataset is None:
        raise TypeError(f"`reader_func` must return a dataset; it gave {traced.result!r}")
    return traced


class SavedTransformations(GroupingTransformations):
    """A dataset that can be saved, and loaded."""

    def save(
        self,
        path: str,
        compression: str | None = None,
        shard_func: Callable[..., Any] | None = None,
        checkpoint_args: Any = None,
    ) -> Any:
        """Save all elements to files, which TensorFlow reads, too.

        Args:
          path: the directory to save to.
          compression: None or "GZIP".
          shard_func: called with the parts of an element; gives an int64 scalar, which of the
            shards the element goes to.  None for one shard.
          checkpoint_args: accepted; what was saved in part is saved anew.
        Returns: in a graph, the operation that saves.
        Example:
          >>> import tempfile
          >>> with tempfile.TemporaryDirectory() as folder:
          ...     tf.data.Dataset.range(3).save(folder)
          ...     [int(x) for x in tf.data.Dataset.load(folder)]
          [0, 1, 2]
        """
        directory = Path(os.fspath(path))
        with file_errors("make", str(directory)):
            directory.mkdir(parents=True, exist_ok=True)
        with AtomicFile(str(directory / _SPEC)) as file:
            file.write(structured_value(self._element).SerializeToString())
        traced = Traced(shard_func or (lambda *_: int64(0)), self._element, "Dataset_shard")
        return make(
            "SaveDataset",
            [self._variant, convert_to_tensor(str(directory), dtypes.string), traced.captured],
            compression=compression or "",
            shard_func=traced.ref,
            use_shard_func=shard_func is not None,
        )

    @classmethod
    def load(
        cls,
        path: str,
        element_spec: Any = None,
        compression: str | None = None,
        reader_func: Callable[[Any], Any] | None = None,
        wait: bool = False,
    ) -> Self:
        """Return a dataset that was saved.

        Args:
          path: the directory that it was saved to.
          element_spec: the structure of its elements; None for what was saved with them.
          compression: what it was saved with.
          reader_func: called with a dataset of datasets, one for each shard; gives the dataset
            that is returned.  None to let the shards take turns.
          wait: accepted; what is not there is an error at once.
        Returns: a dataset.
        Raises: NotFoundError where nothing was saved; TypeError for a function that gives no
          dataset.
        Example:
          >>> import tempfile
          >>> with tempfile.TemporaryDirectory() as folder:
          ...     tf.data.Dataset.range(3).save(folder)
          ...     loaded = tf.data.Dataset.load(folder)
          ...     loaded.element_spec.dtype.name, len(loaded)
          ('int64', 3)
        """
        directory = Path(os.fspath(path))
        if element_spec is None:
            with file_errors("read", str(directory / _SPEC)):
                element_spec = value_of(
                    pb.StructuredValue.FromString((directory / _SPEC).read_bytes())
                )
        read = reader_func or (lambda given: given.interleave(lambda shard: shard))
        traced = traced_reader(read, element_spec, cls)
        inputs = [convert_to_tensor(str(directory), dtypes.string), traced.captured]
        attrs: dict[str, Any] = {"compression": compression or "", "reader_func": traced.ref}
        return cls._make("LoadDataset", inputs, element_spec, **attrs)
