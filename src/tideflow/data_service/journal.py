"""The journal of a dispatcher: what it knows, in files from which its next process goes on.

Below the work directory there is a file of records, each one Update, and a directory with the graph
of each dataset.  What is told goes to the disk in order, in batches; an answer that relies on it
leaves the dispatcher after that.

Source: tensorflow/core/data/service/{journal,dataset_store}.cc.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.message import DecodeError

from tideflow.blocking import FILES, run_blocking, spawn
from tideflow.formats import (
    RECORD_OVERHEAD_BYTES,
    AtomicFile,
    RecordFile,
    file_errors,
    framed,
    tf_records,
)
from tideflow.wire import errors
from tideflow.wire import messages as pb

_JOURNAL = "tf_data_dispatcher_journal"
_DATASETS = "datasets"


class Journal:
    """Keeps updates, and the graphs of datasets, in a directory.

    The directory must be that of one dispatcher alone.
    """

    def __init__(self, work_dir: str) -> None:
        self._path = Path(work_dir) / _JOURNAL / "journal_0"
        self._datasets = Path(work_dir) / _DATASETS
        # Graphs by the names of their files, which are written there; updates without a name.
        self._waiting: list[tuple[str, bytes | pb.DatasetDef]] = []
        self._turn = asyncio.Lock()
        self._error: errors.OpError | None = None

    # ---- what was kept

    async def read(self) -> list[pb.Update]:
        """Return all updates, and be ready for more."""
        return await run_blocking(FILES, lambda _: list(self._read()))

    def _read(self) -> Iterator[pb.Update]:
        for directory in (self._path.parent, self._datasets):
            with file_errors("make", str(directory)):
                directory.mkdir(parents=True, exist_ok=True)
        if not self._path.exists():
            return
        with file_errors("read", str(self._path)):
            _cut_unfinished(self._path)
        file = RecordFile(str(self._path), "")
        try:
            for record in tf_records(file):
                yield pb.Update.FromString(record)
        except DecodeError:
            raise errors.DataLossError(f"{self._path} has a record that is no Update") from None
        finally:
            file.close()

    async def dataset(self, dataset_id: str) -> pb.DatasetDef:
        """Return the graph of a dataset.  Raises: NotFoundError, DataLossError."""
        path = self._datasets / _file_name(dataset_id)

        def read(_: object) -> pb.DatasetDef:
            with file_errors("read", str(path)):
                return pb.DatasetDef.FromString(path.read_bytes())

        try:
            return await run_blocking(FILES, read)
        except DecodeError:
            raise errors.DataLossError(f"{path} is no DatasetDef") from None

    # ---- what is to be kept

    def keep(self, dataset_id: str, definition: pb.DatasetDef) -> None:
        """Take the graph of a dataset, for the next `flush`."""
        self._waiting.append((_file_name(dataset_id), definition))

    def record(self, update: pb.Update) -> None:
        """Take an update, for the next `flush`."""
        self._waiting.append(("", framed(update.SerializeToString())))

    async def flush(self) -> None:
        """Return when all that was taken so far is on the disk.

        Raises: what the file system says, now and ever after: what is kept must have no gaps.
        """
        # Who asked may go meanwhile; what others have told is written all the same.
        await asyncio.shield(spawn(self._flush()))

    async def _flush(self) -> None:
        async with self._turn:
            if self._error is not None:
                raise self._error.with_message(self._error.message)
            waiting, self._waiting = self._waiting, []
            if not waiting:
                return
            try:
                await run_blocking(FILES, lambda _: self._write(waiting))
            except errors.OpError as error:
                self._error = error
                raise

    def _write(self, waiting: list[tuple[str, bytes | pb.DatasetDef]]) -> None:
        for name, given in waiting:
            if isinstance(given, pb.DatasetDef):
                with AtomicFile(str(self._datasets / name)) as kept:
                    kept.write(given.SerializeToString())
        with file_errors("write", str(self._path)), open(self._path, "ab") as file:
            file.writelines(given for _, given in waiting if isinstance(given, bytes))
            file.flush()
            os.fsync(file.fileno())


def _file_name(dataset_id: str) -> str:
    """Return the name of a dataset's file; an id may be any text."""
    return "".join(
        char if (char.isalnum() and char.isascii()) or char in "-_" else f"%{ord(char):x}"
        for char in dataset_id
    )


def _cut_unfinished(path: Path) -> None:
    """Drop a record in the middle of which the process ended; no answer relied on it yet."""
    with open(path, "r+b") as file:
        size, at = os.fstat(file.fileno()).st_size, 0
        while head := os.pread(file.fileno(), 8, at):
            length = struct.unpack("<Q", head)[0] if len(head) == 8 else size
            if at + length + RECORD_OVERHEAD_BYTES > size:
                file.truncate(at)
                return
            at += length + RECORD_OVERHEAD_BYTES
