"""Snapshots that workers write, carried out by their dispatcher: what SnapshotState decides.

Source: tensorflow/core/data/service/snapshot/snapshot_manager.cc; files of TensorFlow 2.21.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from google.protobuf import text_format

from tideflow.data_service.graphs import dataset_of
from tideflow.data_service.snapshot_state import SnapshotState
from tideflow.formats import SnapshotFiles, file_errors, framed, make_directory, write_whole
from tideflow.ops.control_flow import PythonFunction, python_functions_of
from tideflow.ops.data import in_file_thread, split_sources
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import int64
from tideflow.wire.tensor_codec import encode_tensor

_LOG = logging.getLogger(__name__)


class DistributedSnapshot:
    """A snapshot, as its dispatcher sees it.

    Args:
      functions: that the dataset calls in workers of this process; held until the snapshot is over.
    """

    def __init__(
        self,
        path: str,
        metadata: pb.DistributedSnapshotMetadata,
        state: SnapshotState,
        functions: list[PythonFunction],
    ) -> None:
        self._path = path
        self._files = SnapshotFiles(path)
        self._metadata = metadata
        self._state = state
        self._functions = functions
        self._turn = asyncio.Lock()

    # ---- beginning

    @classmethod
    async def begin(cls, request: pb.SnapshotRequest) -> DistributedSnapshot:
        """Begin a snapshot in a new directory.

        Raises: AlreadyExistsError for a directory that is there; UnimplementedError for a dataset
        that cannot be shared out; what the file system says.
        """
        files = SnapshotFiles(request.path)
        if await in_file_thread(files.path.exists):
            raise errors.AlreadyExistsError(f"tf.data snapshot at {request.path} already exists.")
        sources = split_sources(await dataset_of(request.dataset))

        def write() -> None:
            for directory in (files.path, files.chunks, files.streams):
                make_directory(directory)
            write_whole(files.metadata, text_format.MessageToString(request.metadata).encode())
            write_whole(files.element_spec, request.metadata.element_spec)
            write_whole(files.definition, request.dataset.SerializeToString())

        await in_file_thread(write)
        _LOG.info("the snapshot at %s has begun", request.path)
        functions = python_functions_of(request.dataset.graph)
        return cls(request.path, request.metadata, SnapshotState(sources), functions)

    @classmethod
    async def resume(cls, path: str) -> DistributedSnapshot:
        """Go on with a snapshot that an earlier process of the dispatcher began.

        Raises: DataLossError for files that do not describe one.
        """
        files = SnapshotFiles(path)
        metadata, ended = await in_file_thread(
            lambda: (files.read_metadata(), files.done.exists() or files.error.exists())
        )
        if ended:
            state = SnapshotState(())
            state.fail()
            return cls(path, metadata or pb.DistributedSnapshotMetadata(), state, [])
        if metadata is None:
            raise errors.DataLossError(f"there is no snapshot at {path} to go on with")
        definition = await in_file_thread(
            lambda: pb.DatasetDef.FromString(files.definition.read_bytes())
        )
        state = SnapshotState(split_sources(await dataset_of(definition)))
        await in_file_thread(lambda: _restore(files, state))
        if state.streams and all(stream.is_done for stream in state.streams):
            state.fail()
            await in_file_thread(lambda: write_whole(files.done, b""))
        return cls(path, metadata, state, python_functions_of(definition.graph))

    # ---- workers

    def is_writing(self, worker: str) -> bool:
        """Whether a worker has a stream to write."""
        return self._state.is_writing(worker)

    async def heard_of_worker(
        self, worker: str, progress: pb.SnapshotTaskProgress | None, may_begin: bool
    ) -> pb.SnapshotTaskDef | None:
        """Return what a worker is to write, if anything.

        progress: what it says of what it has been writing.
        may_begin: whether it has room for one more stream.
        Raises: InternalError for a stream that is not the worker's.
        """
        async with self._turn:
            state = self._state
            if state.is_over:
                return None
            if progress is not None and (progress.completed or progress.status.code):
                await self._end(worker, progress)
                return None
            index = state.stream_of(worker)
            if index is None and may_begin:
                index = state.begin(worker)
                if index is not None:
                    await in_file_thread(lambda: self._make_stream(worker))
            if index is None or state.streams[index].is_done:
                return None
            return pb.SnapshotTaskDef(
                base_path=self._path,
                stream_index=index,
                num_sources=len(state.sources),
                metadata=self._metadata,
            )

    async def _end(self, worker: str, progress: pb.SnapshotTaskProgress) -> None:
        state, stream = self._state, progress.snapshot_task.stream_index
        state.check(worker, stream)
        if progress.completed:
            if state.finish(stream):
                await in_file_thread(lambda: write_whole(self._files.done, b""))
                self._functions.clear()
                _LOG.info("the snapshot at %s is complete", self._path)
            return
        status = progress.status
        state.fail()
        self._functions.clear()
        text = text_format.MessageToString(status).encode()
        await in_file_thread(lambda: write_whole(self._files.error, text))
        _LOG.error("the snapshot at %s failed at %s: %s", self._path, worker, status.message)

    def _make_stream(self, worker: str) -> None:
        files = self._files.stream(len(self._state.streams) - 1)
        for number, source in enumerate(self._state.sources):
            for repetition in range(source.repetition + 1):
                make_directory(files.repetition(number, repetition))
        write_whole(files.owner, worker.encode())

    def _make_repetitions(self, source: int, begun: Sequence[int]) -> None:
        for repetition in begun:
            for index in range(len(self._state.streams)):
                make_directory(self._files.stream(index).repetition(source, repetition))

    async def split(self, request: pb.GetSnapshotSplitRequest) -> pb.GetSnapshotSplitResponse:
        """Return the next split of a source for a worker.

        Raises: as SnapshotState.next_split.
        """
        stream, source = request.stream_index, request.source_index
        repetition = request.repetition_index
        async with self._turn:
            found = self._state.next_split(request.worker_address, stream, source, repetition)
            reply = pb.GetSnapshotSplitResponse(local_split_index=found.local)
            if found.begun:
                await in_file_thread(lambda: self._make_repetitions(source, found.begun))
            if found.key is None:
                reply.end_of_splits = True
            else:
                reply.split.CopyFrom(encode_tensor(found.key, int64))
                place = self._files.stream(stream).repetition(source, repetition)
                path = place / f"split_{found.local}_{found.overall}"
                data = framed(reply.split.SerializeToString())
                await in_file_thread(lambda: write_whole(path, data))
            self._state.take(stream, source, repetition, found)
            return reply

    def streams(self) -> pb.GetSnapshotStreamsResponse:
        """Return which streams there are."""
        reply = pb.GetSnapshotStreamsResponse()
        for index, stream in enumerate(self._state.streams):
            kind = pb.SnapshotStreamInfo.DONE if stream.is_done else pb.SnapshotStreamInfo.ASSIGNED
            reply.streams.add(index=index, state=kind)
        return reply


def _restore(files: SnapshotFiles, state: SnapshotState) -> None:
    """Read which streams were begun, and which splits they were given."""
    index = 0
    while (stream := files.stream(index)).owner.exists():
        with file_errors("read", str(stream.path)):
            worker = stream.owner.read_text()
            given = [
                {repetition: len(found) for repetition, found in stream.splits(source).items()}
                for source in range(len(state.sources))
            ]
            state.restore(worker, stream.done.exists(), given)
        index += 1
