"""Datasets that keep their elements in files once they were read, and what reads such files.

The files are those of saved datasets, in a directory that is named by the dataset's fingerprint.

Source: tensorflow/core/kernels/data/experimental/snapshot_dataset_op.cc,
core/data/service/snapshot/; runtime behaviour of TensorFlow 2.21.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from tideflow.formats import FileRecords, file_errors, permitted
from tideflow.graph.shapes import TensorShape
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.fingerprints import combined, fingerprint_of
from tideflow.ops.data.functions import CapturedFunction
from tideflow.ops.data.nested import MadeOf
from tideflow.ops.data.record_stream import RecordStream, in_file_thread
from tideflow.ops.data.saved import (
    METADATA,
    VERSION,
    Run,
    Saving,
    compression_of_files,
    elements_of,
    metadata_of,
    shards_of,
)
from tideflow.ops.data.values import Dataset, Element, Iterator, fail
from tideflow.wire.dtypes import DType

# The compression of snapshots for which none is chosen.
_AUTO = "AUTO"


class _Snapshot:
    """Reads what another iterator has written to the end, or else writes.

    Args:
      hash_of: gives the name of the directory.
      paths: where that directory is read and written.
    """

    def __init__(
        self,
        source: Dataset,
        hash_of: Callable[[], Awaitable[int]],
        paths: tuple[str, str],
        compression: str,
        reader_func: CapturedFunction,
        shard_func: CapturedFunction,
    ) -> None:
        self._source = source
        self._hash_of = hash_of
        self._paths = paths
        self._compression = compression
        self._reader_func = reader_func
        self._shard_func = shard_func
        self._elements: Iterator | None = None

    async def next(self) -> Element | None:
        if self._elements is None:
            self._elements = await self._begin()
        return await self._elements.next()

    async def _begin(self) -> Iterator:
        name = str(await self._hash_of())
        read, written = (Path(permitted(path)) / name for path in self._paths)
        shards = await in_file_thread(lambda: self._shards(read))
        if shards is not None:
            return MadeOf(self._reader_func.instantiate(), shards)
        types, kind = self._source.types, self._compression
        function = self._shard_func.instantiate()
        return Saving(self._source, lambda: Run(written, types, kind, name), function)

    def _shards(self, directory: Path) -> Dataset | None:
        """Return the shards of what was written to the end; None where nothing was."""
        if not (directory / METADATA).exists():
            return None
        metadata = metadata_of(directory)
        if not metadata.finalized:
            return None
        source = self._source
        return shards_of(
            directory / metadata.run_id, self._compression, source.types, source.shapes
        )


@dataset_op(
    """
    SnapshotDatasetV2(
        input_dataset: variant, path: string, reader_func_other_args: *Treader_func_args,
        shard_func_other_args: *Tshard_func_args
    )
    compression: string = ''
    reader_prefix: string = ''
    writer_prefix: string = ''
    hash_valid: bool = false
    hash: int = 0
    reader_func: func
    shard_func: func
    """,
    same_elements=True,
)
def snapshot_dataset_v2(
    input_dataset: Dataset,
    path: bytes,
    compression: str,
    reader_prefix: str,
    writer_prefix: str,
    hash_valid: bool,
    hash: int,
    reader_func: CapturedFunction,
    shard_func: CapturedFunction,
) -> Elements:
    """Return the elements of a dataset; once they were all read, they come from files.

    path: below it is a directory for each dataset and compression.
    reader_prefix, writer_prefix: stand in front of the path where it is read and written.
    hash_valid, hash: the name of the directory, where it is not made of the dataset's fingerprint.
    reader_func: gives the elements of a dataset of datasets, one for each shard.
    shard_func: tells the shard of an element, an int64 scalar.
    Raises, when walked over: UnimplementedError for a dataset that has no fingerprint.
    """
    kind = compression_of_files("SNAPPY" if compression == _AUTO else compression)
    bare = os.fsdecode(path)

    async def hash_of() -> int:
        if hash_valid:
            return hash % 2**64
        return combined(await fingerprint_of(input_dataset), kind)

    paths = reader_prefix + bare, writer_prefix + bare
    return Elements(lambda: _Snapshot(input_dataset, hash_of, paths, kind, reader_func, shard_func))


# ---- parts of snapshots


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
    directory = Path(permitted(os.fsdecode(shard_dir)))
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
