"""Files of records: lines, records of one length, and TensorFlow's records (TFRecord).

A TFRecord is its length, a checksum of that, the bytes, and a checksum of those.  tensorboardX's
writer was tried in place of this one: it takes 65 ms to import and checksums in Python, where
google-crc32c does it at the speed of memory; TensorBoard's own needs grpcio.

Source: tensorflow/core/lib/io/{inputbuffer,record_reader,record_writer,zlib_inputstream}.cc.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections import deque
from collections.abc import Callable
from collections.abc import Iterator as PyIterator
from typing import Any, Generic, Protocol, Self, TypeVar

from tideflow.formats import snappy
from tideflow.formats.access import open_file
from tideflow.formats.files import file_errors
from tideflow.wire import checksum, errors

T = TypeVar("T")

# What is read of a file at once.
_READ_BYTES = 1 << 18

# The kinds of compression, with what zlib is told for each.
WINDOW_BITS = {"ZLIB": zlib.MAX_WBITS, "GZIP": zlib.MAX_WBITS | 16}


class RecordFile:
    """A file to be read from the front, unpacked where it is compressed.

    Args:
      compression: "", "ZLIB", "GZIP" or "SNAPPY".
    """

    def __init__(self, path: str, compression: str) -> None:
        self.path = path
        self.compression = compression
        with file_errors("read", path):
            self._file = open_file(path)
        self._unpack = self._unpacker()
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
        except errors.DataLossError:
            self.ended = True
            raise

    def _unpacker(self) -> Any:
        if self.compression == "SNAPPY":
            return snappy.BlockUnpacker(self.path)
        bits = WINDOW_BITS.get(self.compression)
        return None if bits is None else zlib.decompressobj(bits)

    def _unpacked(self, packed: bytes) -> bytes:
        assert self._unpack is not None
        parts = []
        while packed:
            if self._unpack.eof:
                # Compressed files one after the other are one file.
                self._unpack = self._unpacker()
            parts.append(self._unpack.decompress(packed))
            packed = self._unpack.unused_data
        return b"".join(parts)


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
    """Read lines without their ends."""
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


# ---- records of one length


def fixed_length_records(
    file: RecordFile, header: int, length: int, footer: int, hop: int = 0, exact: bool = False
) -> PyIterator[bytes]:
    """Read records of one length, which lie between a header and a footer; sizes are in bytes.

    hop: how far a record begins behind the one before; 0 for its length.
    exact: whether what is left over is an error.
    Raises: DataLossError where the body is no multiple of the length, if it has to be.
    """
    file.read(header)
    body = 0
    held = b""
    while True:
        # What may be the footer is held back until more comes.
        held += file.read(max(length + footer - len(held), 0))
        if len(held) < length + footer:
            break
        yield held[:length]
        body += length
        file.read(max((hop or length) - len(held), 0))
        held = held[hop or length :]
    if exact and len(held) != footer:
        body += len(held) - footer
        raise errors.DataLossError(_misfit(file, header, length, footer, body))


def check_fixed_length(file: RecordFile, header: int, length: int, footer: int) -> None:
    """Find a file of the wrong size before its first record is read; sizes are in bytes.

    Raises: InvalidArgumentError.
    """
    body = os.stat(file.path).st_size - header - footer
    if file.compression == "" and body % length:
        raise errors.InvalidArgumentError(_misfit(file, header, length, footer, body))


def _misfit(file: RecordFile, header: int, length: int, footer: int, body: int) -> str:
    return (
        f"Excluding the header ({header} bytes) and footer ({footer} bytes), input file "
        f'"{file.path}" has body length {body} bytes, which is not an exact multiple of the '
        f"record length ({length} bytes)."
    )


# ---- TensorFlow's records

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEAD = struct.Struct("<QI")
# A record's length and two checksums.
RECORD_OVERHEAD_BYTES = _HEAD.size + _CHECKSUM.size


def framed(data: bytes) -> bytes:
    """Return the bytes of a file that hold one record."""
    length = _LENGTH.pack(len(data))
    head = length + _CHECKSUM.pack(checksum.masked(length))
    return head + data + _CHECKSUM.pack(checksum.masked(data))


def tf_records(file: RecordFile, start: int = 0) -> PyIterator[bytes]:
    """Read records: length, its checksum, the bytes, their checksum.

    start: where the first one is, in bytes of the unpacked file.
    Raises: InvalidArgumentError for a negative start; DataLossError for what was changed or cut.
    """
    if start < 0:
        raise errors.InvalidArgumentError(f"Can't skip a negative number of bytes: {start}")
    file.read(start)
    at = start
    while head := file.read(_HEAD.size):
        if len(head) < _HEAD.size:
            # TensorFlow takes a length that is cut off for the end, too.
            return
        length, found = _HEAD.unpack(head)
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


class Compressor(Protocol):
    """What packs the bytes of a file: an object of zlib.compressobj."""

    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self, mode: int = ..., /) -> bytes: ...


def compressor_of(compression: str) -> Compressor | None:
    """Return what packs the bytes of a file; None where it is not compressed.

    compression: "", "ZLIB", "GZIP" or "SNAPPY".
    """
    if compression == "SNAPPY":
        return snappy.BlockPacker()
    return zlib.compressobj(wbits=WINDOW_BITS[compression]) if compression else None


class RecordWriter:
    """Writes TensorFlow's records to a file.  Use as a context manager, or call close.

    Args:
      compressor: packs what is written; None for a file that is not compressed.
    Raises: what the operating system says of the file.
    """

    def __init__(self, path: Any, compressor: Compressor | None = None) -> None:
        self._path = os.fsdecode(path)
        self._compressor = compressor
        with file_errors("write", self._path):
            self._file = open_file(self._path, "wb")
        self._closed = False

    def write(self, record: bytes) -> None:
        """Append a record."""
        if self._closed:
            raise errors.FailedPreconditionError(f"the writer of {self._path} is closed")
        data = framed(record)
        with file_errors("write", self._path):
            self._file.write(data if self._compressor is None else self._compressor.compress(data))

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        with file_errors("write", self._path):
            if self._compressor is not None:
                self._file.write(self._compressor.flush(zlib.Z_SYNC_FLUSH))
            self._file.flush()

    def close(self) -> None:
        """Close the file; further calls do nothing."""
        if self._closed:
            return
        self._closed = True
        with file_errors("write", self._path), self._file:
            if self._compressor is not None:
                self._file.write(self._compressor.flush())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
