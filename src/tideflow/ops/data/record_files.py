"""Files of records: lines, and TensorFlow's records; read on threads, some way ahead.

Source: tensorflow/core/lib/io/{inputbuffer,record_reader,zlib_inputstream}.cc.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections import deque
from collections.abc import Callable
from collections.abc import Iterator as PyIterator
from pathlib import Path
from typing import BinaryIO, Generic, TypeAlias, TypeVar

from tideflow.ops.data.functions import data_threads
from tideflow.ops.data.values import Element, text
from tideflow.wire import checksum, errors

T = TypeVar("T")

# What a thread reads of a file at once, and how much it makes ready of what is in it.
_READ_BYTES = 1 << 18
_MOST_READY_BYTES = 1 << 20
_MOST_READY = 256

WINDOW_BITS = {"ZLIB": zlib.MAX_WBITS, "GZIP": zlib.MAX_WBITS | 16}


# What is in a file: bytes, or a whole element, or an error in the place of one.
Record: TypeAlias = "bytes | Element | Exception"


class RecordStream:
    """Gives the records that a Python iterator reads, in the background of the loop."""

    __slots__ = ("_pending", "_ready", "_records")

    def __init__(self, records: PyIterator[Record]) -> None:
        self._records = records
        self._ready: deque[Record | None] = deque()
        self._pending: asyncio.Future[None] | None = None

    async def next(self) -> Element | None:
        if not self._ready:
            if self._pending is None:
                loop = asyncio.get_running_loop()
                self._pending = loop.run_in_executor(
                    data_threads(), _read_some, self._records, self._ready
                )
            # Who is cancelled here leaves what is read to whoever asks next.
            await asyncio.wait([self._pending])
            self._pending.result()
            self._pending = None
        item = self._ready[0]
        if item is None:
            return None
        self._ready.popleft()
        if isinstance(item, Exception):
            raise item
        return (text(item),) if isinstance(item, bytes) else item


def _read_some(records: PyIterator[Record], ready: deque[Record | None]) -> None:
    """Make some records ready; None stands for the end, and an error comes before it."""
    size = 0
    try:
        while len(ready) < _MOST_READY and size < _MOST_READY_BYTES:
            record = next(records, None)
            ready.append(record)
            if record is None:
                return
            size += len(record) if isinstance(record, bytes) else 0
    except Exception as error:
        ready.append(error)


# ---- files


class RecordFile:
    """A file to be read from the front, unpacked where it is compressed.

    Args:
      compression: "", "ZLIB" or "GZIP".
    """

    def __init__(self, path: str, compression: str) -> None:
        self.path = path
        self.compression = compression
        self._file: BinaryIO = _opened(path)
        bits = WINDOW_BITS.get(compression)
        self._bits = bits
        self._unpack = None if bits is None else zlib.decompressobj(bits)
        self._buffer = b""
        self.ended = False

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __del__(self) -> None:
        # Who stops in the middle of a file merely forgets it.
        file = getattr(self, "_file", None)
        if file is not None:
            file.close()

    def read(self, count: int) -> bytes:
        """Return the next bytes, fewer at the end.

        Raises: DataLossError where the file cannot be unpacked.
        """
        parts = [self._buffer]
        size = len(self._buffer)
        while size < count and not self.ended:
            part = self._read_part()
            parts.append(part)
            size += len(part)
        whole = b"".join(parts)
        self._buffer = whole[count:]
        return whole[:count]

    def read_any(self) -> bytes:
        """Return some bytes, none at the end."""
        if self._buffer:
            found, self._buffer = self._buffer, b""
            return found
        while not self.ended:
            found = self._read_part()
            if found:
                return found
        return b""

    def _read_part(self) -> bytes:
        packed = self._file.read(_READ_BYTES)
        if not packed:
            self.ended = True
            if self._unpack is not None and not self._unpack.eof:
                raise errors.DataLossError(f"{self.path}: the compressed file ends too early")
            return b""
        if self._unpack is None:
            return packed
        try:
            return self._unpacked(packed)
        except zlib.error as error:
            self.ended = True
            raise errors.DataLossError(f"{self.path}: inflate() failed: {error}") from None

    def _unpacked(self, packed: bytes) -> bytes:
        assert self._unpack is not None
        assert self._bits is not None
        parts = []
        while packed:
            if self._unpack.eof:
                # Compressed files one after the other are one file.
                self._unpack = zlib.decompressobj(self._bits)
            parts.append(self._unpack.decompress(packed))
            packed = self._unpack.unused_data
        return b"".join(parts)


def _opened(path: str) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except FileNotFoundError:
        raise errors.NotFoundError(f"{path}; No such file or directory") from None
    except IsADirectoryError:
        raise errors.FailedPreconditionError(f"{path}; Is a directory") from None
    except PermissionError:
        raise errors.PermissionDeniedError(f"{path}; Permission denied") from None
    except OSError as error:
        raise errors.UnknownError(f"{path}; {error.strerror}") from None


class FileRecords(Generic[T]):
    """Reads files one after the other.

    A file that cannot be opened stays the next one; one that turns out to be damaged is left.

    Args:
      read: gives the records of an open file.
      check: raises for a file that cannot be read, before its first record is.
    """

    def __init__(
        self,
        paths: list[str],
        compression: str,
        read: Callable[[RecordFile], PyIterator[T]],
        check: Callable[[RecordFile], None] = lambda file: None,
    ) -> None:
        self._check = check
        self._paths = deque(paths)
        self._compression = compression
        self._read = read
        self._file: RecordFile | None = None
        self._current: PyIterator[T] = iter(())

    def __iter__(self) -> FileRecords[T]:
        return self

    def __next__(self) -> T:
        while True:
            try:
                record = next(self._current, None)
            except BaseException:
                self._leave()
                raise
            if record is not None:
                return record
            self._leave()
            if not self._paths:
                raise StopIteration
            self._file = RecordFile(self._paths[0], self._compression)
            try:
                self._check(self._file)
            except errors.OpError:
                self._leave()
                raise
            self._current = self._read(self._file)
            self._paths.popleft()

    def _leave(self) -> None:
        self._current = iter(())
        if self._file is not None:
            self._file.close()
            self._file = None


# ---- lines


def text_lines(file: RecordFile) -> PyIterator[bytes]:
    rest: list[bytes] = []
    while part := file.read_any():
        *whole, last = part.split(b"\n")
        for line in whole:
            rest.append(line)
            yield _line(rest)
            rest = []
        if last:
            rest.append(last)
    if rest:
        yield _line(rest)


def _line(parts: list[bytes]) -> bytes:
    return b"".join(parts).replace(b"\r", b"")


# ---- TensorFlow's records

_LENGTH = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")


def tf_records(file: RecordFile) -> PyIterator[bytes]:
    """Read records: length, its checksum, the bytes, their checksum."""
    at = 0
    while head := file.read(_LENGTH.size):
        if len(head) < _LENGTH.size:
            # TensorFlow takes a length that is cut off for the end, too.
            return
        length, found = _LENGTH.unpack(head)
        if found != checksum.masked(head[:8]):
            raise errors.DataLossError(f"corrupted record at {at}: {file.path}")
        body = file.read(length + _CHECKSUM.size)
        if len(body) < length + _CHECKSUM.size:
            raise errors.DataLossError(f"truncated record at {at}: {file.path}")
        data = body[:length]
        if _CHECKSUM.unpack(body[length:])[0] != checksum.masked(data):
            raise errors.DataLossError(f"corrupted record at {at}: {file.path}")
        yield data
        at += len(head) + len(body)
