"""Readers: they take the names of files from a queue, and give their records one by one.

A reader works on one file until its end, then takes the next name.  It belongs to the event loop;
who reads waits behind who came before.

Source: tensorflow/core/framework/reader_base.cc and reader_op_kernel.cc; core/kernels/
{text_line,fixed_length_record,tf_record,whole_file,identity}_reader_op.cc, reader_ops.cc.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from collections.abc import Iterator as PyIterator
from typing import Any, TypeAlias

import numpy as np

from tideflow.formats import (
    RECORD_OVERHEAD_BYTES,
    WINDOW_BITS,
    RecordFile,
    file_errors,
    fixed_length_records,
    open_file,
    text_lines,
    tf_records,
)
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import ShapeContext, no_outputs, scalar
from tideflow.graph.shapes import Dims
from tideflow.graph.types import Array
from tideflow.ops.data import RecordStream, in_file_thread
from tideflow.ops.node_resources import open_resource
from tideflow.ops.queues import Queue
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb

# Opens the file of a name and gives its records; called on a thread, as they are read.
Records: TypeAlias = "Callable[[str], PyIterator[bytes]]"
# Gives, from a record's number (0, 1, ...) and position, what follows the file's name in its key.
Label: TypeAlias = "Callable[[int, int], int]"


class Reader:
    """A reader of one kind of file.

    Args:
      kind: what it is called, as "TextLineReader".
      records: gives the records of a file; None for a reader that gives names only.
      label: None where the file's name is the whole key.
      advance: how far a record of that size takes the position.
      is_whole: whether a file is one record, so that no more is expected after it.
    """

    def __init__(
        self,
        kind: str,
        records: Records | None,
        label: Label | None = None,
        advance: Callable[[int], int] = lambda size: size,
        is_whole: bool = False,
    ) -> None:
        self.kind = kind
        self._records = records
        self._label = label
        self._advance = advance
        self._is_whole = is_whole
        # The state does not tell where in a file a reader is.
        self._can_be_saved = is_whole or records is None
        self._lock = asyncio.Lock()
        self._forget()

    def _forget(self) -> None:
        self.produced = 0
        self.started = 0
        self.finished = 0
        self._work = b""
        self._stream: RecordStream | None = None
        self._damage: errors.OpError | None = None
        self._number = 0
        self._position = 0

    async def read(self, queue: Queue) -> tuple[bytes, bytes]:
        """Return the key and value of the next record.

        Raises: OutOfRangeError when the queue is closed and empty; what the file's reader raises.
        """
        async with self._lock:
            while True:
                await self._begin(queue)
                found = await self._next()
                if found is not None:
                    return found

    async def read_up_to(self, queue: Queue, count: int) -> list[tuple[bytes, bytes]]:
        """Return as many records, or fewer where a file ends."""
        found: list[tuple[bytes, bytes]] = []
        async with self._lock:
            while len(found) < count:
                await self._begin(queue)
                one = await self._next()
                if one is not None:
                    found.append(one)
                if found and self.finished == self.started:
                    break
        return found

    async def reset(self) -> None:
        """Go back to the state at the start."""
        async with self._lock:
            self._forget()

    async def _begin(self, queue: Queue) -> None:
        if self.started > self.finished:
            return
        (name,) = await queue.take()
        self._work = _one_string(name, queue)
        await self._open()
        self.started += 1

    async def _open(self) -> None:
        self._number = self._position = 0
        self._damage = None
        if self._records is not None:
            path = self._work.decode("utf-8", "surrogateescape")
            read = self._records
            self._stream = RecordStream(await in_file_thread(lambda: read(path)))

    async def _next(self) -> tuple[bytes, bytes] | None:
        """Return the next record of the file; None at its end."""
        if self._records is None:
            self.finished = self.started
            self.produced += 1
            return self._work, self._work
        if self._damage is not None:
            raise self._damage
        assert self._stream is not None
        try:
            element = await self._stream.next()
        except errors.OpError as error:
            # A reader does not get past damage, as in TensorFlow: until it is reset.
            self._damage = error
            raise
        if element is None:
            self.finished = self.started
            return None
        value: bytes = element[0].item()
        key = self._work
        if self._label is not None:
            key = b"%s:%d" % (key, self._label(self._number, self._position))
        self._number += 1
        self._position += self._advance(len(value))
        self.produced += 1
        if self._is_whole:
            self.finished = self.started
        return key, value

    def state(self) -> bytes:
        """Return what it has done so far, as a message.  Raises: UnimplementedError."""
        self._require_saved()
        return pb.ReaderBaseState(
            work_started=self.started,
            work_finished=self.finished,
            num_records_produced=self.produced,
            current_work=self._work,
        ).SerializeToString()

    async def restore(self, state: bytes) -> None:
        """Go back to a state that `state` gave.

        Raises: InvalidArgumentError for another thing; UnimplementedError.
        """
        self._require_saved()
        try:
            state_pb = pb.ReaderBaseState.FromString(state)
        except Exception as error:
            raise errors.InvalidArgumentError(f"Could not parse reader state: {error}") from None
        counts = (
            state_pb.work_started, state_pb.work_finished, state_pb.num_records_produced
        )  # fmt: skip
        if min(counts) < 0 or counts[0] < counts[1]:
            raise errors.InvalidArgumentError(f"reader state with impossible counts {counts}")
        async with self._lock:
            self._forget()
            self.started, self.finished, self.produced = counts
            self._work = state_pb.current_work
            if self.started > self.finished:
                await self._open()

    def _require_saved(self) -> None:
        if not self._can_be_saved:
            raise errors.UnimplementedError(f"the state of a {self.kind} cannot be saved")


def _one_string(name: Any, queue: Queue) -> bytes:
    found = name.item() if isinstance(name, np.ndarray) and name.ndim == 0 else name
    if not isinstance(found, bytes):
        raise errors.InvalidArgumentError(
            f"a reader takes one scalar string from its queue; {queue.name!r} gave another thing"
        )
    return found


# ---- kinds of readers


def _make(ctx: KernelContext, container: str, shared_name: str, make: Callable[[], Reader]) -> Any:
    return ctx.memo(lambda: open_resource(ctx, Reader, make, container, shared_name))


def _lines_after(skip: int) -> Records:
    def records(path: str) -> PyIterator[bytes]:
        return itertools.islice(text_lines(RecordFile(path, "")), skip, None)

    return records


@op(
    """
    TextLineReaderV2() -> reader_handle: resource
    skip_header_lines: int = 0
    container: string = ''
    shared_name: string = ''
    """,
    shape=scalar,
    stateful=True,
)
async def text_line_reader_v2(
    ctx: KernelContext, *, skip_header_lines: int, container: str, shared_name: str
) -> Any:
    """Return the handle of a reader of lines; a line's key is "file:number", from 1."""
    if skip_header_lines < 0:
        raise errors.InvalidArgumentError(
            f"skip_header_lines must be >= 0; found {skip_header_lines}"
        )

    def make() -> Reader:
        return Reader(
            "TextLineReader",
            _lines_after(skip_header_lines),
            lambda number, _: skip_header_lines + number + 1,
        )

    return _make(ctx, container, shared_name, make)


@op(
    """
    FixedLengthRecordReaderV2() -> reader_handle: resource
    header_bytes: int = 0
    record_bytes: int
    footer_bytes: int = 0
    hop_bytes: int = 0
    container: string = ''
    shared_name: string = ''
    encoding: string = ''
    """,
    shape=scalar,
    stateful=True,
)
async def fixed_length_record_reader_v2(
    ctx: KernelContext,
    *,
    header_bytes: int,
    record_bytes: int,
    footer_bytes: int,
    hop_bytes: int,
    container: str,
    shared_name: str,
    encoding: str,
) -> Any:
    """Return the handle of a reader of records of one length; keys are "file:number", from 0."""
    if min(header_bytes, footer_bytes, hop_bytes) < 0 or record_bytes <= 0:
        raise errors.InvalidArgumentError(
            "header_bytes, footer_bytes and hop_bytes must be >= 0 and record_bytes > 0; found "
            f"{header_bytes}, {footer_bytes}, {hop_bytes}, {record_bytes}"
        )
    _check_packing(encoding, "encoding")
    sizes = (header_bytes, record_bytes, footer_bytes, hop_bytes)

    def records(path: str) -> PyIterator[bytes]:
        return fixed_length_records(RecordFile(path, encoding), *sizes)

    def make() -> Reader:
        return Reader("FixedLengthRecordReader", records, lambda number, _: number)

    return _make(ctx, container, shared_name, make)


def _check_packing(kind: str, what: str) -> None:
    if kind and kind not in WINDOW_BITS:
        raise errors.InvalidArgumentError(f"{what} must be empty, ZLIB or GZIP; found {kind!r}")


@op(
    """
    TFRecordReaderV2() -> reader_handle: resource
    container: string = ''
    shared_name: string = ''
    compression_type: string = ''
    """,
    shape=scalar,
    stateful=True,
)
async def tf_record_reader_v2(
    ctx: KernelContext, *, container: str, shared_name: str, compression_type: str
) -> Any:
    """Return the handle of a reader of TFRecord files; keys are "file:offset"."""
    packed = compression_type if compression_type in WINDOW_BITS else ""

    def make() -> Reader:
        return Reader(
            "TFRecordReader",
            lambda path: tf_records(RecordFile(path, packed)),
            lambda _, position: position,
            lambda size: size + RECORD_OVERHEAD_BYTES,
        )

    return _make(ctx, container, shared_name, make)


def _whole(path: str) -> PyIterator[bytes]:
    def read() -> PyIterator[bytes]:
        with file_errors("read", path), open_file(path) as file:
            contents = file.read()
        yield contents

    return read()


@op(
    """
    WholeFileReaderV2() -> reader_handle: resource
    container: string = ''
    shared_name: string = ''
    """,
    shape=scalar,
    stateful=True,
)
async def whole_file_reader_v2(ctx: KernelContext, *, container: str, shared_name: str) -> Any:
    """Return the handle of a reader of files as a whole; a file's name is the key."""
    return _make(
        ctx, container, shared_name, lambda: Reader("WholeFileReader", _whole, is_whole=True)
    )


@op(
    """
    IdentityReaderV2() -> reader_handle: resource
    container: string = ''
    shared_name: string = ''
    """,
    shape=scalar,
    stateful=True,
)
async def identity_reader_v2(ctx: KernelContext, *, container: str, shared_name: str) -> Any:
    """Return the handle of a reader that gives what it takes from the queue."""
    return _make(ctx, container, shared_name, lambda: Reader("IdentityReader", None))


# ---- what is done with readers


def _reader(ctx: KernelContext, handle: object) -> Reader:
    found: Reader = ctx.resources.lookup(handle, Reader)
    return found


def _queue(ctx: KernelContext, handle: object) -> Queue:
    found: Queue = ctx.resources.lookup(handle, Queue)
    if found.types != (dtypes.string,):
        names = ", ".join(dtype.name for dtype in found.types)
        raise errors.InvalidArgumentError(
            f"a reader takes names from a queue of strings; {found.name!r} holds ({names})"
        )
    return found


def _strings(items: list[bytes]) -> Any:
    made = np.empty(len(items), object)
    made[:] = items
    return made


@op(
    "ReaderReadV2(reader_handle: resource, queue_handle: resource) -> key: string, value: string",
    shape=scalar,
    stateful=True,
)
async def reader_read_v2(ctx: KernelContext, reader: object, queue: object) -> Any:
    """Return the next record, taking names of files from the queue as they are needed."""
    return await _reader(ctx, reader).read(_queue(ctx, queue))


def _vectors(c: ShapeContext) -> list[Dims]:
    return [(None,), (None,)]


@op(
    """
    ReaderReadUpToV2(reader_handle: resource, queue_handle: resource, num_records: int64)
    -> keys: string, values: string
    """,
    shape=_vectors,
    stateful=True,
)
async def reader_read_up_to_v2(
    ctx: KernelContext, reader: object, queue: object, num_records: Array
) -> Any:
    """Return the next records, up to a number of them; those of a call are of one file."""
    found = await _reader(ctx, reader).read_up_to(_queue(ctx, queue), int(num_records))
    return _strings([key for key, _ in found]), _strings([value for _, value in found])


@op(
    "ReaderNumRecordsProducedV2(reader_handle: resource) -> records_produced: int64",
    shape=scalar,
    stateful=True,
)
async def reader_num_records_produced_v2(ctx: KernelContext, reader: object) -> Any:
    """Return how many records a reader has given."""
    return np.int64(_reader(ctx, reader).produced)


@op(
    "ReaderNumWorkUnitsCompletedV2(reader_handle: resource) -> units_completed: int64",
    shape=scalar,
    stateful=True,
)
async def reader_num_work_units_completed_v2(ctx: KernelContext, reader: object) -> Any:
    """Return how many files a reader has read to their ends."""
    return np.int64(_reader(ctx, reader).finished)


@op("ReaderSerializeStateV2(reader_handle: resource) -> state: string", shape=scalar, stateful=True)
async def reader_serialize_state_v2(ctx: KernelContext, reader: object) -> Any:
    """Return a reader's state, where its kind can tell it."""
    return _reader(ctx, reader).state()


@op("ReaderRestoreStateV2(reader_handle: resource, state: string)", shape=no_outputs, stateful=True)
async def reader_restore_state_v2(ctx: KernelContext, reader: object, state: Array | bytes) -> None:
    """Put a reader into a state that it was in before."""
    if np.ndim(state):
        raise errors.InvalidArgumentError(
            f"a reader's state must be a scalar; it has rank {np.ndim(state)}"
        )
    given = state.item() if isinstance(state, np.ndarray) else state
    await _reader(ctx, reader).restore(given)


@op("ReaderResetV2(reader_handle: resource)", shape=no_outputs, stateful=True)
async def reader_reset_v2(ctx: KernelContext, reader: object) -> None:
    """Put a reader back to its start."""
    await _reader(ctx, reader).reset()


not_differentiable(
    "TextLineReaderV2",
    "FixedLengthRecordReaderV2",
    "TFRecordReaderV2",
    "WholeFileReaderV2",
    "IdentityReaderV2",
    "ReaderReadV2",
    "ReaderReadUpToV2",
    "ReaderNumRecordsProducedV2",
    "ReaderNumWorkUnitsCompletedV2",
    "ReaderSerializeStateV2",
    "ReaderRestoreStateV2",
    "ReaderResetV2",
)
