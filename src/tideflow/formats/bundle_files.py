"""The files of a tensor bundle: their names, the index, and how one bundle takes another's place.

Source: tensorflow/core/util/tensor_bundle/tensor_bundle.cc
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from google.protobuf.message import DecodeError

from tideflow.formats.access import open_file, permitted
from tideflow.formats.files import AtomicFile, file_errors
from tideflow.formats.sorted_table import read_table, write_table
from tideflow.wire import errors
from tideflow.wire import messages as pb

# Of the versions that readers and writers may have.
_PRODUCER = 1


def index_path(prefix: str) -> str:
    """Return the name of a bundle's index file."""
    return f"{prefix}.index"


def data_path(prefix: str, shard: int, count: int) -> str:
    """Return the name of one of a bundle's data files."""
    return f"{prefix}.data-{shard:05d}-of-{count:05d}"


@contextlib.contextmanager
def replaced(
    prefix: str, entries: dict[bytes, pb.BundleEntryProto], count: int
) -> Iterator[list[str]]:
    """Put a bundle in place of the one that has its name, if there is one.

    Yields the names that the data files, one for each shard, are to get in the block.  They differ
    from those of the present bundle, so that until the index is replaced, which is one step, that
    one is whole.  Where anything fails it stays, and nothing of the new one does.
    """
    old = _data_files(prefix)
    first, total = 0, count
    places = [data_path(prefix, i, total) for i in range(count)]
    if not old.isdisjoint(places):
        # Names tell the number of shards: one more, of which the first is never used, are others.
        first, total = 1, count + 1
        places = [data_path(prefix, first + i, total) for i in range(count)]
    for entry in entries.values():
        entry.shard_id += first
    index = AtomicFile(index_path(prefix), publish=False)
    with index:
        for piece in write_table(_index_rows(entries, total)):
            index.write(piece)
    try:
        yield places
        index.publish(index_path(prefix))
    except BaseException:
        index.discard()
        for place in places:
            with contextlib.suppress(OSError):
                os.unlink(place)
        raise
    for path in old:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _data_files(prefix: str) -> set[str]:
    """Return the data files of the bundle that has a name, none where it is not there or damaged.

    What is in a directory of parts is not to be kept: it is what a save that failed left.
    """
    if os.path.dirname(prefix).endswith("_temp") or not os.path.exists(index_path(prefix)):
        return set()
    try:
        header, entries = read_index(prefix)
    except errors.OpError:
        return set()
    shards = {entry.shard_id for entry in entries.values()}
    return {data_path(prefix, shard, header.num_shards) for shard in shards}


def _index_rows(
    entries: dict[bytes, pb.BundleEntryProto], shards: int
) -> Iterator[tuple[bytes, bytes]]:
    header = pb.BundleHeaderProto(num_shards=shards)
    header.version.producer = _PRODUCER
    yield b"", header.SerializeToString()
    for key in sorted(entries):
        yield key, entries[key].SerializeToString()


def make_directory(path: str) -> None:
    """Make a directory if it is not there; its parent must be."""
    if path:
        with contextlib.suppress(FileExistsError, FileNotFoundError, PermissionError):
            os.mkdir(permitted(path))


def read_index(prefix: str) -> tuple[pb.BundleHeaderProto, dict[bytes, pb.BundleEntryProto]]:
    path = index_path(prefix)
    with file_errors("read checkpoint", path), open_file(path) as file:
        data = file.read()
    header: pb.BundleHeaderProto | None = None
    entries: dict[bytes, pb.BundleEntryProto] = {}
    for key, value in read_table(data, path):
        try:
            if key:
                entries[key] = pb.BundleEntryProto.FromString(value)
            else:
                header = pb.BundleHeaderProto.FromString(value)
        except DecodeError as error:
            raise errors.DataLossError(f"{path}: the entry of {key!r} is no message") from error
    if header is None:
        raise errors.DataLossError(f"{path} has no header")
    if header.endianness != pb.BundleHeaderProto.LITTLE:
        raise errors.UnimplementedError(f"{path} is of a machine with the other byte order")
    if header.version.min_consumer > _PRODUCER:
        raise errors.InvalidArgumentError(
            f"{path} wants a reader of version {header.version.min_consumer}; this one has "
            f"{_PRODUCER}"
        )
    return header, entries
