"""Snapshots that workers of the tf.data service write: begun by an op, and read as they grow.

Source: tensorflow/core/data/service/snapshot/{list_snapshot_chunks_dataset_op,
snapshot_chunk_provider}.cc, core/kernels/data/experimental/distributed_save_op.cc.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from tideflow.blocking import GRAPHS, run_blocking
from tideflow.formats import SnapshotFiles
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import no_outputs
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.record_stream import in_file_thread
from tideflow.ops.data.saved import compression_of_files
from tideflow.ops.data.service import data_service
from tideflow.ops.data.to_graph import graph_of
from tideflow.ops.data.values import INFINITE, UNKNOWN, Element, as_dataset, fail, scalar, text
from tideflow.wire import errors
from tideflow.wire import messages as pb

# The compression of snapshots for which none is chosen.
_AUTO, _CHOSEN = "AUTO", "SNAPPY"
_FIRST_PAUSE_S, _MOST_PAUSE_S = 0.02, 1.0


@op(
    """
    DistributedSave(dataset: variant, directory: string, address: string)
    metadata: string = ''
    """,
    shape=no_outputs,
    stateful=True,
)
async def distributed_save(
    ctx: KernelContext, dataset: object, directory: Any, address: Any, *, metadata: str
) -> None:
    """Have the workers of a tf.data service write a dataset; return before they have.

    Raises: InvalidArgumentError for a dataset without end, for empty names, or for a dispatcher
      that would not survive; AlreadyExistsError for a directory that is there.
    """
    path = os.fsdecode(scalar(directory, "directory"))
    where = scalar(address, "address").decode()
    if not path:
        raise fail("directory must be nonempty")
    if not where:
        raise fail("address must be nonempty")
    request = pb.SnapshotRequest(path=path)
    try:
        request.metadata.ParseFromString(metadata.encode("utf-8", "surrogateescape"))
    except DecodeError:
        raise fail("Failed to parse DistributedSnapshotMetadata from string") from None
    if request.metadata.compression == _AUTO:
        request.metadata.compression = _CHOSEN
    compression_of_files(request.metadata.compression)
    found = as_dataset(dataset)
    if found.cardinality() == INFINITE:
        raise fail(f"Saving an infinite dataset is not allowed: {found.kind}Dataset")
    graph_pb = await graph_of(found)
    await run_blocking(GRAPHS, lambda _: request.dataset.graph.CopyFrom(graph_pb))
    try:
        await data_service().save(where, request)
    except errors.OpError as error:
        raise error.with_message(f"Failed to snapshot: {error.message}") from None


class _Chunks:
    """Gives the names of a snapshot's files, also of those that are yet to come."""

    def __init__(self, files: SnapshotFiles) -> None:
        self._files = files
        self._seen: set[Path] = set()
        self._ready: list[Path] = []
        self._is_complete = False

    async def next(self) -> Element | None:
        pause_s = _FIRST_PAUSE_S
        while not self._ready:
            if self._is_complete:
                return None
            await in_file_thread(self._look)
            if not self._ready and not self._is_complete:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _MOST_PAUSE_S)
        return (text(os.fsencode(self._ready.pop(0))),)

    def _look(self) -> None:
        failure = self._files.read_error()
        if failure is not None:
            raise failure
        # First whether it is complete: files that come after that look would be left out.
        is_complete = self._files.done.exists()
        self._ready = [path for path in self._files.committed() if path not in self._seen]
        self._seen.update(self._ready)
        self._is_complete = is_complete


@dataset_op(
    "ListSnapshotChunksDataset(snapshot_path: string)",
    metadata=False,
    stateful=True,
    blocks="files",
)
def list_snapshot_chunks_dataset(snapshot_path: bytes) -> Elements:
    """Return the dataset of the files of a snapshot, which waits for the end of one being written.

    Raises, when walked over: the error with which writing it failed.
    """
    files = SnapshotFiles(os.fsdecode(snapshot_path))

    def count() -> int:
        return len(files.committed()) if files.done.exists() else UNKNOWN

    return Elements(lambda: _Chunks(files), count)
