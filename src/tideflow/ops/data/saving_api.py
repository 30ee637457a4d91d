"""Datasets that are saved to files and loaded, with the structure of their elements.

Source: tensorflow/python/data/ops/{save,load}_op.py.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tideflow.formats import AtomicFile, SnapshotFiles, file_errors
from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import get_default_graph
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.ops.data.grouping_api import GroupingTransformations
from tideflow.ops.data.spec_files import structured_value, value_of
from tideflow.ops.data.structure import int64, make
from tideflow.ops.data.traced import Traced
from tideflow.ops.data.type_specs import DatasetSpec
from tideflow.ops.export import export
from tideflow.platform import clock
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb

# How often a saved dataset is looked for.
_LOOK_S = 0.2
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
        made = make(
            "SaveDataset",
            [self._variant, convert_to_tensor(str(directory), dtypes.string), traced.captured],
            compression=compression or "",
            shard_func=traced.ref,
            use_shard_func=shard_func is not None,
        )
        return None if get_default_graph().is_eager else made

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
          wait: whether to wait until something is there.  A snapshot of `distributed_save` is
            read while it is written, also without that.
        Returns: a dataset.
        Raises: NotFoundError where nothing was saved; TypeError for a function that gives no
          dataset; ValueError for a snapshot of `distributed_save` that failed, or that has another
          element_spec or compression.
        Example:
          >>> import tempfile
          >>> with tempfile.TemporaryDirectory() as folder:
          ...     tf.data.Dataset.range(3).save(folder)
          ...     loaded = tf.data.Dataset.load(folder)
          ...     loaded.element_spec.dtype.name, len(loaded)
          ('int64', 3)
        """
        while wait:
            with contextlib.suppress(errors.NotFoundError):
                return cls.load(path, element_spec, compression, reader_func)
            clock.sleep(_LOOK_S)
        directory = Path(os.fspath(path))
        metadata = SnapshotFiles(str(directory)).read_metadata()
        if metadata is not None:
            found = _checked_spec(str(directory), metadata, element_spec, compression)
            return cls._of_snapshot(str(directory), metadata.compression, found, reader_func)
        if element_spec is None:
            with file_errors("read", str(directory / _SPEC)):
                element_spec = value_of(
                    pb.StructuredValue.FromString((directory / _SPEC).read_bytes())
                )
        read = reader_func or (lambda given: given.interleave(lambda shard: shard))
        traced = traced_reader(read, element_spec, cls._kind)
        inputs = [convert_to_tensor(str(directory), dtypes.string), traced.captured]
        attrs: dict[str, Any] = {"compression": compression or "", "reader_func": traced.ref}
        return cls._make("LoadDataset", inputs, element_spec, **attrs)

    @classmethod
    def _of_snapshot(
        cls, path: str, compression: str, element: Any, reader_func: Callable[[Any], Any] | None
    ) -> Self:
        """Return the dataset that workers of the tf.data service have written, or are writing."""
        names: Any = cls._make(
            "ListSnapshotChunksDataset",
            [convert_to_tensor(path, dtypes.string)],
            TensorSpec((), dtypes.string),
        )
        chunks = names.map(
            lambda name: cls._make("SnapshotChunkDataset", [name], element, compression=compression)
        )
        read: Callable[[Any], Self] = reader_func or _in_turn
        return read(chunks)


def _in_turn(chunks: Any) -> Any:
    return chunks.interleave(lambda chunk: chunk)


def _checked_spec(
    path: str, metadata: pb.DistributedSnapshotMetadata, spec: Any, compression: str | None
) -> Any:
    """Return the structure of the elements of a snapshot.

    Raises: ValueError for another one than the given, or another compression.
    """
    error = SnapshotFiles(path).error
    if error.exists():
        raise ValueError(
            f"Failed to load tf.data snapshot at {path}. The save job failed to write it. Status: "
            f"{error.read_text()}"
        )
    found = value_of(pb.StructuredValue.FromString(metadata.element_spec))
    if spec is not None and spec != found:
        raise ValueError(
            f"Failed to load tf.data snapshot at {path}. User specified element_spec {spec}, but "
            f"the actual element_spec is {found}."
        )
    if compression and compression != metadata.compression:
        raise ValueError(
            f"Failed to load tf.data snapshot at {path}. User specified compression {compression}, "
            f"but the actual compression is {metadata.compression}."
        )
    return found


@export("data.experimental.distributed_save")
def distributed_save(
    dataset: Any, path: str, data_service_address: str, compression: str | None = "AUTO"
) -> Any:
    """Have the workers of a tf.data service write a dataset to files; return at once.

    `tf.data.Dataset.load` reads them, also while they are being written.

    Args:
      dataset: has an end; its sources can be shared out, as for "distributed_epoch".
      path: a directory that is not there yet, which dispatcher, workers and readers all see.
      data_service_address: HOST:PORT of a dispatcher in fault_tolerant_mode.
      compression: "AUTO", "SNAPPY", "GZIP", "ZLIB" or None.
    Returns: in a graph, the operation that begins it.
    Raises: ValueError for an address that is no text or empty; InvalidArgumentError for a dataset
      without end, or a dispatcher that is not in fault_tolerant_mode; AlreadyExistsError for a
      directory that is there.
    Example:
      >>> import os, tempfile
      >>> service = tf.data.experimental.service
      >>> folder = tempfile.TemporaryDirectory()
      >>> config = service.DispatcherConfig(work_dir=folder.name, fault_tolerant_mode=True)
      >>> dispatcher = service.DispatchServer(config)
      >>> address = dispatcher.target.split("://")[1]
      >>> asks_often = service.WorkerConfig(dispatcher_address=address, heartbeat_interval_ms=50)
      >>> worker = service.WorkerServer(asks_often)
      >>> path = os.path.join(folder.name, "saved")
      >>> tf.data.experimental.distributed_save(tf.data.Dataset.range(3), path, address)
      >>> sorted(int(x) for x in tf.data.Dataset.load(path))
      [0, 1, 2]
      >>> worker.stop()
      >>> dispatcher.stop()
      >>> folder.cleanup()
    """
    if not isinstance(data_service_address, str):
        raise ValueError(
            "`data_service_address` must be a string, but is a "
            f"{type(data_service_address)} ({data_service_address}"
        )
    if not data_service_address:
        raise ValueError("`data_service_address` must not be empty")
    metadata = pb.DistributedSnapshotMetadata(
        element_spec=structured_value(dataset.element_spec).SerializeToString(),
        compression=compression or "",
    )
    made = make(
        "DistributedSave",
        [
            dataset._variant,
            convert_to_tensor(os.fspath(path), dtypes.string),
            convert_to_tensor(data_service_address, dtypes.string),
        ],
        metadata=metadata.SerializeToString().decode("utf-8", "surrogateescape"),
    )
    return None if get_default_graph().is_eager else made
