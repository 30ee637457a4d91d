"""Datasets that are saved to files, and read from them.

Below the directory of a saved dataset there is a directory for each run that saved it, in that one
for each shard, and in that files of records; each record is one component of an element as a
TensorProto.  `snapshot.metadata` names the run that counts, and is written last.

Source: tensorflow/core/protobuf/snapshot.proto; files that TensorFlow 2.21 writes.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Callable, Sequence
from collections.abc import Iterator as PyIterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.blocking import Turns
from tideflow.formats import (
    AtomicFile,
    FileRecords,
    RecordFile,
    RecordWriter,
    compressor_of,
    file_errors,
    permitted,
    tf_records,
)
from tideflow.graph.kernel import KernelContext
from tideflow.graph.node import FunctionRef
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import no_outputs
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import Array
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.functions import (
    CapturedFunction,
    Function,
    enter_scope,
)
from tideflow.ops.data.nested import MadeOf
from tideflow.ops.data.record_stream import RecordStream, in_file_thread
from tideflow.ops.data.sources import Listed
from tideflow.ops.data.values import (
    Dataset,
    Element,
    Iterator,
    as_dataset,
    dims_of,
    fail,
    owned,
    scalar,
)
from tideflow.ops.parsing import stored_tensor
from tideflow.platform import clock
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.tensor_codec import decode_tensor

METADATA = "snapshot.metadata"
# Of the files: one record for each component.
VERSION = 2
# Elements that go to the disk in one go.
_AT_ONCE = 64

_COMPRESSIONS = {"": "", "NONE": "", "GZIP": "GZIP", "SNAPPY": "SNAPPY", "ZLIB": "ZLIB"}


def compression_of_files(name: str) -> str:
    """Return the compression of files.  Raises: UnimplementedError for one that is not offered."""
    if name not in _COMPRESSIONS:
        raise errors.UnimplementedError(
            f"compression {name!r} of saved datasets is not supported; use GZIP, ZLIB, SNAPPY or "
            "none"
        )
    return _COMPRESSIONS[name]


# ---- writing


def stored_element(element: Element, types: Sequence[DType]) -> PyIterator[bytes]:
    """Return the records of an element, one for each component."""
    for value, dtype in zip(element, types):
        yield stored_tensor(value, dtype).SerializeToString()


class Run:
    """The files of one run, which count once it is closed."""

    def __init__(
        self, path: Path, types: Sequence[DType], compression: str, graph_hash: str = ""
    ) -> None:
        self._path = path
        self._graph_hash = graph_hash
        self._types = types
        self._compression = compression
        self._name = str(secrets.randbits(64))
        self._shards: dict[int, RecordWriter] = {}
        self._count = 0
        with file_errors("make", str(path)):
            (path / self._name).mkdir(parents=True)

    def write(self, elements: Sequence[tuple[int, Element]]) -> None:
        """Append elements, each to a shard."""
        for shard, element in elements:
            writer = self._shards.get(shard) or self._open(shard)
            for record in stored_element(element, self._types):
                writer.write(record)
            self._count += 1

    def _open(self, shard: int) -> RecordWriter:
        # A shard's number is unsigned in its name.
        directory = self._path / self._name / f"{shard & (2**64 - 1):08d}.shard"
        with file_errors("make", str(directory)):
            directory.mkdir()
        packed = compressor_of(self._compression)
        made = RecordWriter(directory / f"{0:08d}.snapshot", packed)
        self._shards[shard] = made
        return made

    def close(self, is_whole: bool) -> None:
        """Complete the files, and let readers find them if all elements are there."""
        for writer in self._shards.values():
            writer.close()
        if not is_whole:
            return
        publish(self._path, self._name, VERSION, self._types, self._count, self._graph_hash)


def publish(
    path: Path, run: str, version: int, types: Sequence[DType], count: int, graph_hash: str
) -> None:
    """Let readers of a directory find the files of a run.

    version: of the format of the files.
    count: of the elements.
    graph_hash: what names the dataset.
    """
    metadata = pb.SnapshotMetadataRecord(
        graph_hash=graph_hash,
        run_id=run,
        creation_timestamp=int(clock.wall_s() * 1e6),
        version=version,
        dtype=[dtype.number for dtype in types],
        num_elements=count,
        finalized=True,
    )
    with AtomicFile(str(path / METADATA)) as file:
        file.write(metadata.SerializeToString())


class RunOfFiles(Protocol):
    """The files of one run, which count once it is closed."""

    def write(self, elements: Sequence[tuple[int, Element]]) -> None:
        """Append elements, each to a shard."""

    def close(self, is_whole: bool) -> None:
        """Complete the files, and let readers find them if all elements are there."""


class Saving:
    """Gives the elements of a dataset, and saves them on the way.

    What was saved counts once all elements were given, none of which was lost by an error.

    Args:
      begin: begins the files.
      shard_func: tells the shard of an element; None for a single shard.
    """

    def __init__(
        self, dataset: Dataset, begin: Callable[[], RunOfFiles], shard_func: Function | None
    ) -> None:
        self._source = dataset.iterator()
        self._begin = begin
        self._shard_func = shard_func
        self._run: RunOfFiles | None = None
        self._held: list[tuple[int, Element]] = []
        self._ended = False
        self._is_whole = True

    async def next(self) -> Element | None:
        if self._ended:
            return None
        if self._run is None:
            self._run = await in_file_thread(self._begin)
        try:
            return await self._saved(self._run)
        except BaseException:
            self._is_whole = False
            raise

    async def _saved(self, run: RunOfFiles) -> Element | None:
        element = await self._source.next()
        if element is not None:
            element = tuple(owned(value) for value in element)
            self._held.append((await self._shard(element), element))
        if element is None or len(self._held) >= _AT_ONCE:
            held, self._held = self._held, []
            await in_file_thread(lambda: run.write(held))
        if element is None:
            self._ended = True
            await in_file_thread(lambda: run.close(self._is_whole))
        return element

    async def _shard(self, element: Element) -> int:
        if self._shard_func is None:
            return 0
        found = await self._shard_func(*element)
        if len(found) != 1 or np.size(found[0]) != 1 or np.asarray(found[0]).dtype != np.int64:
            raise fail("`shard_func` must return a scalar int64.")
        return int(np.asarray(found[0]).item())


def _saving(
    source: Dataset, path: bytes, compression: str, shard_func: CapturedFunction | None
) -> Callable[[], Iterator]:
    """Return what makes an iterator that saves on the way.

    shard_func: tells the shard of an element; None for a single shard.
    """
    directory, kind = Path(permitted(os.fsdecode(path))), compression_of_files(compression)

    def iterate() -> Iterator:
        function = None if shard_func is None else shard_func.instantiate()
        return Saving(source, lambda: Run(directory, source.types, kind), function)

    return iterate


@op(
    """
    SaveDataset(
        input_dataset: variant, path: string, shard_func_other_args: *Tshard_func_args
    )
    compression: string = ''
    shard_func: func
    use_shard_func: bool = true
    Tshard_func_args: list(type) >= 0
    """,
    shape=no_outputs,
    stateful=True,
)
async def save_dataset(
    ctx: KernelContext,
    input_dataset: object,
    path: Array | bytes,
    shard_func_other_args: list[Any],
    *,
    compression: str,
    shard_func: FunctionRef,
    use_shard_func: bool,
) -> None:
    """Save all elements of a dataset."""
    enter_scope({})
    function = CapturedFunction(ctx, shard_func, shard_func_other_args) if use_shard_func else None
    source = as_dataset(input_dataset)
    saved = _saving(source, scalar(path, "path"), compression, function)()
    turns = Turns()
    while await saved.next() is not None:
        await turns.pause()


@dataset_op(
    """
    SaveDatasetV2(
        input_dataset: variant, path: string, shard_func_other_args: *Tshard_func_args
    )
    compression: string = ''
    shard_func: func
    use_shard_func: bool = true
    """,
    same_elements=True,
    metadata=False,
    stateful=True,
)
def save_dataset_v2(
    input_dataset: Dataset,
    path: bytes,
    compression: str,
    shard_func: CapturedFunction,
    use_shard_func: bool,
) -> Elements:
    """Return the elements of a dataset, which are saved once they were all read."""
    return Elements(
        _saving(input_dataset, path, compression, shard_func if use_shard_func else None)
    )


# ---- reading


def metadata_of(path: Path, version: int = VERSION) -> pb.SnapshotMetadataRecord:
    """Return what a directory says of the elements that were saved to it.

    version: of the format.

    Raises: NotFoundError where nothing was saved; DataLossError for what does not say so;
      UnimplementedError for another version of the format.
    """
    file = path / METADATA
    with file_errors("read", str(file)):
        data = file.read_bytes()
    try:
        found = pb.SnapshotMetadataRecord.FromString(data)
    except DecodeError:
        raise errors.DataLossError(f"{file} does not describe a saved dataset") from None
    if found.version != version:
        raise errors.UnimplementedError(
            f"{path} was saved in version {found.version} of the format; {version} is supported"
        )
    return found


def elements_of(types: Sequence[DType]) -> Callable[[RecordFile], PyIterator[Element]]:
    """Return what reads the elements that are in a file."""

    def read(file: RecordFile) -> PyIterator[Element]:
        records = tf_records(file)
        while parts := list(itertools.islice(records, len(types))):
            if len(parts) < len(types):
                raise errors.DataLossError(f"{file.path} ends within an element")
            yield tuple(_component(part, file.path) for part in parts)

    return read


def _component(record: bytes, path: str) -> Any:
    try:
        return decode_tensor(pb.TensorProto.FromString(record))
    except DecodeError:
        raise errors.DataLossError(f"{path} has a record that is no tensor") from None


@dataset_op(
    """
    LoadDataset(path: string, reader_func_other_args: *Treader_func_args)
    compression: string = ''
    reader_func: func
    """,
    metadata=False,
    stateful=True,
    blocks="files",
)
def load_dataset(
    path: bytes,
    compression: str,
    reader_func: CapturedFunction,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Elements:
    """Return the elements of a saved dataset, as a function reads them from its shards.

    Raises: NotFoundError where nothing was saved.
    """
    directory, kind = Path(permitted(os.fsdecode(path))), compression_of_files(compression)
    metadata = metadata_of(directory)
    shards = shards_of(directory / metadata.run_id, kind, output_types, dims_of(output_shapes))
    return Elements(lambda: MadeOf(reader_func.instantiate(), shards), metadata.num_elements)


def shards_of(
    run: Path, compression: str, types: Sequence[DType], shapes: Sequence[Dims]
) -> Dataset:
    """Return a dataset of the datasets that are the shards of a run."""
    read = elements_of(types)

    def shard(place: Path) -> Dataset:
        files = sorted(str(file) for file in place.glob("*.snapshot"))
        return Dataset(
            "Shard", types, shapes, lambda: RecordStream(FileRecords(files, compression, read))
        )

    places = sorted(run.glob("*.shard"))
    return Dataset(
        "Shards",
        [dtypes.variant],
        [()],
        lambda: Listed((shard(place),) for place in places),
        len(places),
    )
