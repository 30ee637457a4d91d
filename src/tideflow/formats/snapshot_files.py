"""Where the files are of a snapshot that workers of the tf.data service write.

    snapshot.metadata          the structure of the elements and the compression, as text
    dataset_spec.pb            that structure again
    dataset_def.proto          the graph of the dataset
    chunks/chunk_S_C_N         the C-th file of stream S, with N elements
    streams/stream_S/          one for each worker that writes
      owner_worker             its address
      splits/source_I/repetition_R/split_L_G
                               the L-th split of the stream, the G-th of all
      uncommitted_chunks/      files that are not complete
      DONE, ERROR              how the stream ended
    DONE, ERROR                how the snapshot ended; ERROR is a StatusProto, as text

Source: files that TensorFlow 2.21 writes; tensorflow/core/data/service/snapshot/path_utils.cc.
"""

from __future__ import annotations

import re
from pathlib import Path

from google.protobuf import text_format

from tideflow.formats.access import permitted
from tideflow.formats.files import AtomicFile, file_errors
from tideflow.wire import errors
from tideflow.wire import messages as pb

_chunk_name = re.compile(r"chunk_(\d+)_(\d+)_(\d+)").fullmatch
_split_name = re.compile(r"split_(\d+)_(\d+)").fullmatch
_number = re.compile(r"[a-z]+_(\d+)").fullmatch


class SnapshotFiles:
    """The files of a snapshot, by its directory."""

    def __init__(self, path: str) -> None:
        self.path = Path(permitted(str(path)))
        self.metadata = self.path / "snapshot.metadata"
        self.element_spec = self.path / "dataset_spec.pb"
        self.definition = self.path / "dataset_def.proto"
        self.done = self.path / "DONE"
        self.error = self.path / "ERROR"
        self.chunks = self.path / "chunks"
        self.streams = self.path / "streams"

    def stream(self, index: int) -> StreamFiles:
        """Return the files of a stream."""
        return StreamFiles(self, index)

    def read_metadata(self) -> pb.DistributedSnapshotMetadata | None:
        """Return what describes the snapshot; None for a directory that has no such snapshot."""
        try:
            text = self.metadata.read_text(encoding="utf-8")
            return text_format.Parse(text, pb.DistributedSnapshotMetadata())
        except (FileNotFoundError, UnicodeDecodeError, text_format.ParseError):
            return None

    def read_error(self) -> errors.OpError | None:
        """Return with what the snapshot ended, if it was an error."""
        try:
            text = self.error.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        status = text_format.Parse(text, pb.StatusProto())
        return errors.error_for_code(status.code or errors.INTERNAL)(status.message)

    def committed(self) -> list[Path]:
        """Return the chunks that are complete, the first of all streams first."""
        found = []
        if self.chunks.is_dir():
            for path in self.chunks.iterdir():
                if name := _chunk_name(path.name):
                    stream, chunk, _ = map(int, name.groups())
                    found.append((chunk, stream, path))
        return [path for _, _, path in sorted(found)]


class StreamFiles:
    """The files of one stream of a snapshot."""

    def __init__(self, snapshot: SnapshotFiles, index: int) -> None:
        self.snapshot = snapshot
        self.index = index
        self.path = snapshot.streams / f"stream_{index}"
        self.owner = self.path / "owner_worker"
        self.done = self.path / "DONE"
        self.error = self.path / "ERROR"
        self.uncommitted = self.path / "uncommitted_chunks"

    def repetition(self, source: int, repetition: int) -> Path:
        """Return the directory of the splits of one repetition of a source."""
        return self.path / "splits" / f"source_{source}" / f"repetition_{repetition}"

    def splits(self, source: int) -> dict[int, list[tuple[int, Path]]]:
        """Return the files of the splits of a source, by repetition, each with its local index."""
        root = self.path / "splits" / f"source_{source}"
        found: dict[int, list[tuple[int, Path]]] = {}
        for place in root.iterdir() if root.is_dir() else ():
            if number := _number(place.name):
                names = ((_split_name(path.name), path) for path in place.iterdir())
                found[int(number[1])] = sorted((int(n[1]), path) for n, path in names if n)
        return found

    def committed(self) -> list[tuple[int, int]]:
        """Return the index and the number of elements of each chunk that is complete."""
        found = []
        for path in self.snapshot.committed():
            stream, chunk, count = map(int, path.name.split("_")[1:])
            if stream == self.index:
                found.append((chunk, count))
        return found


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that others see only once it is complete."""
    with AtomicFile(str(path)) as file:
        file.write(data)


def make_directory(path: Path) -> None:
    """Make a directory, with those around it."""
    with file_errors("make", str(path)):
        path.mkdir(parents=True, exist_ok=True)
