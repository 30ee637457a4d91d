"""Snapshots in the first version of their format, which only the op itself makes any more.

Below the directory of a dataset is one for each walk that kept its elements; in that are files,
each of which goes on where the one before has ended.  An element is one record: its length, and its
components.  With Snappy it is two: what the components are, and their bytes packed together.

Source: tensorflow/core/protobuf/snapshot.proto; files that TensorFlow 2.21 writes.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import struct
from collections.abc import Callable, Sequence
from collections.abc import Iterator as PyIterator
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.formats import (
    FileRecords,
    RecordFile,
    compressor_of,
    file_errors,
    open_file,
    permitted,
    snappy,
)
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.fingerprints import combined, fingerprint_of
from tideflow.ops.data.record_stream import RecordStream, in_file_thread
from tideflow.ops.data.saved import METADATA, Saving, metadata_of, publish
from tideflow.ops.data.values import Dataset, Element, Iterator, fail
from tideflow.ops.parsing import stored_tensor
from tideflow.platform import clock
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.shapes import decode_shape, encode_shape
from tideflow.wire.tensor_codec import decode_tensor

_VERSION = 1
_LENGTH = struct.Struct("<Q")
_SNAPPY = "SNAPPY"
_MODES = ("auto", "read", "write", "passthrough")
_SHARD_BYTES = 10 << 30
_EXPIRY_S = 86400
# What is in front of names that are given, and where TensorFlow looks for the files then.
_NAMED = "custom-"
_NAMED_RUN = "custom"


# ---- records


def _record(element: Element, types: Sequence[DType], compression: str) -> bytes:
    """Return the bytes of a file that hold an element."""
    tensors = [stored_tensor(value, dtype) for value, dtype in zip(element, types)]
    if compression != _SNAPPY:
        return _framed(pb.SnapshotRecord(tensor=tensors).SerializeToString())
    parts = [
        np.ascontiguousarray(value).tobytes() if _is_plain(dtype) else tensor.SerializeToString()
        for value, tensor, dtype in zip(element, tensors, types)
    ]
    about = pb.SnapshotTensorMetadata()
    for value, part in zip(element, parts):
        shape = encode_shape(np.shape(value))
        about.tensor_metadata.add(tensor_shape=shape, tensor_size_bytes=len(part))
    return _framed(about.SerializeToString()) + _framed(snappy.compress(b"".join(parts)))


def _framed(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def _is_plain(dtype: DType) -> bool:
    """Whether values are in memory as they are in a file."""
    return dtype.as_numpy_dtype is not object


def _records(file: RecordFile) -> PyIterator[bytes]:
    while head := file.read(_LENGTH.size):
        if len(head) < _LENGTH.size:
            raise errors.DataLossError(f"truncated record in {file.path}")
        (length,) = _LENGTH.unpack(head)
        data = file.read(length)
        if len(data) < length:
            raise errors.DataLossError(f"truncated record in {file.path}")
        yield data


def _reader(
    types: Sequence[DType], compression: str
) -> Callable[[RecordFile], PyIterator[Element]]:
    def read(file: RecordFile) -> PyIterator[Element]:
        records = _records(file)
        for record in records:
            try:
                if compression == _SNAPPY:
                    element = _unpacked(record, next(records, b""), types, file.path)
                else:
                    found = pb.SnapshotRecord.FromString(record)
                    element = tuple(decode_tensor(one) for one in found.tensor)
            except (DecodeError, ValueError):
                raise errors.DataLossError(f"{file.path} has a damaged record") from None
            if len(element) != len(types):
                raise errors.DataLossError(f"{file.path} has elements of other components")
            yield element

    return read


def _unpacked(about: bytes, packed: bytes, types: Sequence[DType], path: str) -> Element:
    """Return an element of its two records."""
    found = pb.SnapshotTensorMetadata.FromString(about).tensor_metadata
    data, at, values = snappy.decompress(packed, path), 0, list[Any]()
    for one, dtype in zip(found, types):
        part = data[at : at + one.tensor_size_bytes]
        at += one.tensor_size_bytes
        if _is_plain(dtype):
            dims = decode_shape(one.tensor_shape) or ()
            values.append(np.frombuffer(part, dtype.as_numpy_dtype).reshape(dims))
        else:
            values.append(decode_tensor(pb.TensorProto.FromString(part)))
    return tuple(values)


# ---- writing


class _RunFiles:
    """The files of one walk, which count once it is closed.

    Args:
      most_bytes: after how many a new file begins.
    """

    def __init__(
        self, path: Path, types: Sequence[DType], compression: str, name: str, most_bytes: int
    ) -> None:
        self._path = path
        self._types = types
        self._compression = compression
        self._graph_hash = name
        self._most_bytes = most_bytes
        self._name = f"{secrets.randbits(64):x}"
        self._count = self._files = self._written = 0
        with file_errors("make", str(path)):
            (path / self._name).mkdir(parents=True)
        self._open()

    def _open(self) -> None:
        path = str(self._path / self._name / f"{self._files:08d}.snapshot")
        self._packer = compressor_of("" if self._compression == _SNAPPY else self._compression)
        with file_errors("write", path):
            self._file = open_file(path, "wb")
        self._files += 1
        self._written = 0

    def __del__(self) -> None:
        # Who stops in the middle merely forgets the files.
        file = getattr(self, "_file", None)
        if file is not None:
            file.close()

    def _end(self) -> None:
        with file_errors("write", self._file.name), self._file:
            if self._packer is not None:
                self._file.write(self._packer.flush())

    def write(self, elements: Sequence[tuple[int, Element]]) -> None:
        """Append elements."""
        for _, element in elements:
            if self._written >= self._most_bytes:
                self._end()
                self._open()
            data = _record(element, self._types, self._compression)
            self._written += len(data)
            with file_errors("write", self._file.name):
                self._file.write(data if self._packer is None else self._packer.compress(data))
            self._count += 1

    def close(self, is_whole: bool) -> None:
        """Complete the files, and let readers find them if all elements are there."""
        self._end()
        if is_whole:
            run = _NAMED_RUN if self._graph_hash.startswith(_NAMED) else self._name
            if run != self._name:
                with file_errors("make", str(self._path / run)):
                    shutil.rmtree(self._path / run, ignore_errors=True)
                    (self._path / self._name).rename(self._path / run)
            publish(self._path, run, _VERSION, self._types, self._count, self._graph_hash)


# ---- the dataset


class _Choice:
    """What a dataset is told about its files.

    Attributes:
      directories: where they are read and written, without the dataset's own directory.
      name: of that directory; empty for the fingerprint.
    """

    def __init__(self, paths: tuple[str, str], name: str, compression: str, mode: str) -> None:
        self.read_path, self.write_path = paths
        self.name = name
        self.compression = compression
        self.mode = mode
        self.most_bytes = _SHARD_BYTES
        self.expiry_s = float(_EXPIRY_S)
        self.order: random.Random | None = None


class _Snapshot:
    """Reads what another iterator has written to the end, or else writes."""

    def __init__(self, source: Dataset, choice: _Choice) -> None:
        self._source = source
        self._choice = choice
        self._elements: Iterator | None = None

    async def next(self) -> Element | None:
        if self._elements is None:
            self._elements = await self._begin()
        return await self._elements.next()

    async def _begin(self) -> Iterator:
        source, choice = self._source, self._choice
        if choice.mode == "passthrough":
            return source.iterator()
        name = choice.name
        if not name:
            name = f"{combined(await fingerprint_of(source), choice.compression):x}"
        if choice.mode != "write":
            directory = Path(permitted(choice.read_path)) / name
            found = await in_file_thread(lambda: self._metadata(directory))
            if choice.mode == "read" or (found is not None and found.finalized):
                return self._reading(directory, found)
            if found is not None and not self._is_expired(found):
                # Another program is writing it.
                return source.iterator()
        written = Path(permitted(choice.write_path)) / name
        return Saving(
            source,
            lambda: _RunFiles(written, source.types, choice.compression, name, choice.most_bytes),
            None,
        )

    def _metadata(self, directory: Path) -> pb.SnapshotMetadataRecord | None:
        if not (directory / METADATA).exists():
            return None
        return metadata_of(directory, _VERSION)

    def _is_expired(self, found: pb.SnapshotMetadataRecord) -> bool:
        return clock.wall_s() - found.creation_timestamp / 1e6 > self._choice.expiry_s

    def _reading(self, directory: Path, found: pb.SnapshotMetadataRecord | None) -> Iterator:
        if found is None:
            raise errors.NotFoundError(f"Metadata file does not exist. ({directory / METADATA})")
        types, compression = self._source.types, self._choice.compression
        if list(found.dtype) != [dtype.number for dtype in types]:
            raise errors.DataLossError(f"{directory} has elements of other types")
        files = sorted(str(file) for file in (directory / found.run_id).glob("*.snapshot"))
        if self._choice.order is not None:
            self._choice.order.shuffle(files)
        packed = "" if compression == _SNAPPY else compression
        return RecordStream(FileRecords(files, packed, _reader(types, compression)))


@dataset_op(
    """
    SnapshotDataset(input_dataset: variant, path: string)
    compression: string = ''
    reader_path_prefix: string = ''
    writer_path_prefix: string = ''
    shard_size_bytes: int = 10737418240
    pending_snapshot_expiry_seconds: int = 86400
    num_reader_threads: int = 1
    reader_buffer_size: int = 1
    num_writer_threads: int = 1
    writer_buffer_size: int = 1
    shuffle_on_read: bool = false
    seed: int = 0
    seed2: int = 0
    mode: string = 'auto'
    snapshot_name: string = ''
    """,
    same_elements=True,
    metadata=False,
)
def snapshot_dataset(
    input_dataset: Dataset,
    path: bytes,
    compression: str,
    reader_path_prefix: str,
    writer_path_prefix: str,
    shard_size_bytes: int,
    pending_snapshot_expiry_seconds: int,
    shuffle_on_read: bool,
    seed: int,
    seed2: int,
    mode: str,
    snapshot_name: str,
) -> Elements:
    """Return the elements of a dataset; once they were all read, they come from files.

    path: below it is a directory for each dataset and compression.
    reader_path_prefix, writer_path_prefix: stand in front of the path where it is read and written.
    shard_size_bytes: after how many a new file begins; -1 for TensorFlow's default.
    pending_snapshot_expiry_seconds: how long others that write are trusted to come to an end.
    shuffle_on_read, seed, seed2: whether the files are read in a random order.
    mode: auto to read what is there and write what is not; or read, write or passthrough.
    snapshot_name: names the directory in place of the dataset's fingerprint.
    Raises: InvalidArgumentError for what is none of these; when walked over, NotFoundError where
      nothing is to be read, and UnimplementedError for a dataset that has no fingerprint.
    """
    if compression not in ("", "GZIP", _SNAPPY):
        raise fail("compression must be either '', 'GZIP' or 'SNAPPY'.")
    if mode not in _MODES:
        raise fail("mode must be either 'auto', 'read', 'write', or 'passthrough'.")
    if pending_snapshot_expiry_seconds == 0:
        raise fail("pending_snapshot_expiry_seconds must be at least 1 second.")
    bare = os.fsdecode(path)
    paths = reader_path_prefix + bare, writer_path_prefix + bare
    name = f"{_NAMED}{snapshot_name}" if snapshot_name else ""
    choice = _Choice(paths, name, compression, mode)
    if shard_size_bytes >= 0:
        choice.most_bytes = shard_size_bytes
    if pending_snapshot_expiry_seconds > 0:
        choice.expiry_s = pending_snapshot_expiry_seconds
    if shuffle_on_read:
        seeds = f"{seed} {seed2}"
        choice.order = random.Random(seeds if seed or seed2 else None)
    return Elements(lambda: _Snapshot(input_dataset, choice))
