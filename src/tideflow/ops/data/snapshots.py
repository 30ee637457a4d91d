"""Datasets of what snapshots keep in files, which are those of saved datasets.

Source: tensorflow/core/kernels/data/experimental/snapshot_dataset_op.cc,
core/data/service/snapshot/; runtime behaviour of TensorFlow 2.21.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from tideflow.formats import FileRecords, file_errors
from tideflow.graph.shapes import TensorShape
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.record_stream import RecordStream
from tideflow.ops.data.saved import VERSION, compression_of_files, elements_of
from tideflow.ops.data.values import fail
from tideflow.wire.dtypes import DType


def _of_files(paths: list[str], compression: str, types: list[DType], first: int = 0) -> Elements:
    kind, read = compression_of_files(compression), elements_of(types)
    for path in paths[:1]:
        with file_errors("read", path):
            os.stat(path)
    return Elements(
        lambda: RecordStream(itertools.islice(FileRecords(paths, kind, read), first, None))
    )


@dataset_op(
    """
    SnapshotDatasetReader(shard_dir: string, start_index: int64)
    compression: string = ''
    version: int
    """,
    metadata=False,
    blocks="files",
)
def snapshot_dataset_reader(
    shard_dir: bytes,
    start_index: int,
    compression: str,
    version: int,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Elements:
    """Return the elements of a shard from an index on.

    version: of the format of the files; 2 is known.
    Raises: NotFoundError for a shard that is not there.
    """
    if version != VERSION:
        raise fail(f"Snapshot reader version: {version} is not supported.")
    if start_index < 0:
        raise fail(f"start_index must not be negative; it is {start_index}")
    directory = Path(os.fsdecode(shard_dir))
    first = str(directory / f"{0:08d}.snapshot")
    found = sorted(str(path) for path in directory.glob("*.snapshot"))
    return _of_files(found or [first], compression, output_types, start_index)


@dataset_op(
    """
    SnapshotChunkDataset(chunk_file: string)
    compression: string = ''
    """,
    metadata=False,
    blocks="files",
)
def snapshot_chunk_dataset(
    chunk_file: bytes,
    compression: str,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Elements:
    """Return the elements of one file of a snapshot.

    Raises: NotFoundError for a file that is not there.
    """
    return _of_files([os.fsdecode(chunk_file)], compression, output_types)
