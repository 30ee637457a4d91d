"""A worker's part of a snapshot: the elements of its splits, in files.

A file that is complete gets its name and counts from then on.  A worker that comes back makes the
elements of its splits again and leaves out as many as there are in such files, so what it writes
is right where a dataset gives the same elements for the same splits.

Source: tensorflow/core/data/service/snapshot/{snapshot_stream_writer,snapshot_split_provider}.cc;
files that TensorFlow 2.21 writes.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from collections.abc import Iterator as PyIterator
from pathlib import Path

from google.protobuf.message import DecodeError

from tideflow.blocking import Turns, spawn
from tideflow.data_service.calls import until_reached
from tideflow.data_service.graphs import dataset_of
from tideflow.data_service.services import DispatcherService
from tideflow.formats import (
    RecordFile,
    RecordWriter,
    SnapshotFiles,
    StreamFiles,
    compressor_of,
    file_errors,
    make_directory,
    tf_records,
    write_whole,
)
from tideflow.ops.control_flow import PythonFunction, python_functions_of
from tideflow.ops.data import (
    Element,
    IteratorResource,
    SplitFeed,
    compression_of_files,
    in_file_thread,
    read_splits,
    stored_element,
)
from tideflow.platform import clock
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.tensor_codec import decode_tensor

_LOG = logging.getLogger(__name__)

# When a file is complete, so that those who read while others write have something to read.
_CHUNK_BYTES = 1 << 30
_CHUNK_S = 30.0
# Elements that go to the disk in one go.
_AT_ONCE = 64


class SnapshotWriter:
    """Writes one stream of a snapshot.

    Args:
      worker: the address by which the dispatcher knows who writes.
      tell: called when the writer has ended, however that was.
    """

    def __init__(
        self,
        task: pb.SnapshotTaskDef,
        worker: str,
        dispatcher: DispatcherService,
        tell: Callable[[], None],
    ) -> None:
        self._task = task
        self._worker = worker
        self._dispatcher = dispatcher
        self._tell = tell
        self._is_completed = False
        self._error: errors.OpError | None = None
        self._functions: list[PythonFunction] = []
        self._running = spawn(self._run())

    def progress(self) -> pb.SnapshotTaskProgress:
        """Return how far it is."""
        found = pb.SnapshotTaskProgress(snapshot_task=self._task, completed=self._is_completed)
        if self._error is not None:
            found.status.code = self._error.error_code
            found.status.message = self._error.message
        return found

    async def stop(self) -> None:
        """End what it does; what it has written stays."""
        self._running.cancel()
        await asyncio.wait([self._running])

    async def _run(self) -> None:
        files = SnapshotFiles(self._task.base_path).stream(self._task.stream_index)
        try:
            await self._write(files)
            self._is_completed = True
        except errors.OpError as error:
            self._error = error.with_message(error.message)
        except Exception as error:
            _LOG.exception("a stream of the snapshot at %s failed", self._task.base_path)
            self._error = errors.InternalError(f"{type(error).__name__}: {error}")
        finally:
            self._functions.clear()
        if self._error is not None:
            text = f"{type(self._error).__name__}: {self._error.message}"
            try:
                await in_file_thread(lambda: write_whole(files.error, text.encode()))
            except errors.OpError as error:
                _LOG.error("%s", error.message)
        self._tell()

    async def _write(self, files: StreamFiles) -> None:
        if await in_file_thread(files.done.exists):
            return
        definition = await in_file_thread(lambda: _definition(files))
        self._functions = python_functions_of(definition.graph)
        dataset = await dataset_of(definition)
        feeds = _StreamSplits(files, self._dispatcher, self._worker)
        read_splits(dataset, feeds, self._task.num_sources)
        iterator = IteratorResource(dataset.types, dataset.shapes)
        iterator.start(dataset)
        committed = await in_file_thread(lambda: _clear(files))
        turns = Turns()
        for _ in range(sum(count for _, count in committed)):
            await iterator.next(dataset.types, dataset.shapes)
            await turns.pause()
        chunks = _Chunks(files, len(committed), self._task.metadata.compression, dataset.types)
        try:
            held: list[Element] = []
            while (element := await iterator.next(dataset.types, dataset.shapes)) is not None:
                held.append(element)
                if len(held) >= _AT_ONCE or chunks.is_due:
                    await in_file_thread(lambda: chunks.write(held))
                    held.clear()
                await turns.pause()
            await in_file_thread(lambda: chunks.close(held))
        finally:
            chunks.drop()
        await in_file_thread(lambda: write_whole(files.done, b""))


def _definition(files: StreamFiles) -> pb.DatasetDef:
    path = files.snapshot.definition
    try:
        with file_errors("read", str(path)):
            return pb.DatasetDef.FromString(path.read_bytes())
    except DecodeError:
        raise errors.DataLossError(f"{path} is no DatasetDef") from None


def _clear(files: StreamFiles) -> list[tuple[int, int]]:
    """Remove files that were not completed; return those that were."""
    shutil.rmtree(files.uncommitted, ignore_errors=True)
    make_directory(files.uncommitted)
    return files.committed()


class _Chunks:
    """The files of a stream, one after the other."""

    def __init__(
        self, files: StreamFiles, first: int, compression: str, types: Sequence[DType]
    ) -> None:
        self._files = files
        self._compression = compression_of_files(compression)
        self._types = types
        self._index = first
        self._writer: RecordWriter | None = None
        self._count = self._size = 0
        self._ends_s = clock.monotonic_s() + _CHUNK_S

    @property
    def is_due(self) -> bool:
        """Whether what there is should be made readable."""
        return self._size >= _CHUNK_BYTES or clock.monotonic_s() >= self._ends_s

    @property
    def _path(self) -> Path:
        return self._files.uncommitted / f"chunk_{self._index}"

    def write(self, elements: Sequence[Element]) -> None:
        """Append elements."""
        for element in elements:
            if self._writer is None:
                self._writer = RecordWriter(self._path, compressor_of(self._compression))
            for record in stored_element(element, self._types):
                self._writer.write(record)
                self._size += len(record)
            self._count += 1
        if self.is_due:
            self._commit()

    def close(self, elements: Sequence[Element]) -> None:
        """Append the last elements, and make all readable."""
        self.write(elements)
        self._commit()

    def _commit(self) -> None:
        self._ends_s = clock.monotonic_s() + _CHUNK_S
        if self._writer is None:
            return
        self._writer.close()
        name = f"chunk_{self._files.index}_{self._index}_{self._count}"
        with file_errors("rename", str(self._path)):
            os.replace(self._path, self._files.snapshot.chunks / name)
        self._writer = None
        self._index += 1
        self._count = self._size = 0

    def drop(self) -> None:
        """Close what is open; it does not count."""
        if self._writer is not None:
            self._writer.close()


class _StreamSplits:
    """The splits of a stream: first those that it was given before, then those it is given now."""

    def __init__(self, files: StreamFiles, dispatcher: DispatcherService, worker: str) -> None:
        self._files = files
        self._dispatcher = dispatcher
        self._worker = worker
        self._repetitions: dict[int, int] = {}
        self._taken: dict[int, int] = {}
        # By source: the repetitions and files of splits that were given before, by local index.
        self._known: dict[int, dict[int, tuple[int, Path]]] = {}

    def begin(self, source: int) -> SplitFeed:
        repetition = self._repetitions.get(source, -1) + 1
        self._repetitions[source] = repetition
        return _Feed(self, source, repetition)

    async def next(self, source: int, repetition: int) -> int | None:
        """Return the next split of a repetition of a source."""
        index = self._taken.get(source, 0)
        if source not in self._known:
            await self._look(source)
        place, found = await self._given(source, index)
        if found is None:
            reply = await until_reached(lambda: self._ask(source, repetition))
            if reply.local_split_index == index:
                place, found = repetition, None if reply.end_of_splits else reply.split
            else:
                # An answer was lost, but what it said is in a file.
                await self._look(source)
                place, found = await self._given(source, index)
        if found is None or place > repetition:
            return None
        self._taken[source] = index + 1
        return int(decode_tensor(found))

    async def _ask(self, source: int, repetition: int) -> pb.GetSnapshotSplitResponse:
        return await self._dispatcher.GetSnapshotSplit(
            pb.GetSnapshotSplitRequest(
                worker_address=self._worker,
                base_path=str(self._files.snapshot.path),
                stream_index=self._files.index,
                source_index=source,
                repetition_index=repetition,
            )
        )

    async def _look(self, source: int) -> None:
        found = await in_file_thread(lambda: self._files.splits(source))
        self._known[source] = {
            local: (repetition, path)
            for repetition, splits in found.items()
            for local, path in splits
        }

    async def _given(self, source: int, index: int) -> tuple[int, pb.TensorProto | None]:
        """Return a split that was given before, with its repetition, if there is one."""
        repetition, path = self._known[source].get(index, (0, None))
        return repetition, None if path is None else await in_file_thread(lambda: _read_split(path))


def _read_split(path: Path) -> pb.TensorProto:
    file = RecordFile(str(path), "")
    try:
        records: PyIterator[bytes] = itertools.islice(tf_records(file), 1)
        for record in records:
            return pb.TensorProto.FromString(record)
    finally:
        file.close()
    raise errors.DataLossError(f"{path} has no split")


class _Feed:
    __slots__ = ("_ended", "_repetition", "_source", "_splits")

    def __init__(self, splits: _StreamSplits, source: int, repetition: int) -> None:
        self._splits = splits
        self._source = source
        self._repetition = repetition
        self._ended = False

    async def next(self) -> int | None:
        if self._ended:
            return None
        found = await self._splits.next(self._source, self._repetition)
        self._ended = found is None
        return found
