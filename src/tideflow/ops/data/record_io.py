"""TFRecord files, written and read without a graph.

A record is its length, a checksum of that, the bytes, and a checksum of those.  tensorboardX's
writer was tried in place of this one: it takes 65 ms to import and checksums in Python, where
google-crc32c does it at the speed of memory; TensorBoard's own needs grpcio.

Source: tensorflow/core/lib/io/record_writer.cc; python/lib/io/tf_record.py for names.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar

from tideflow.formats import file_errors
from tideflow.ops.data.record_files import WINDOW_BITS, FileRecords, tf_records
from tideflow.ops.export import export
from tideflow.wire import errors
from tideflow.wire.checksum import masked

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")


def framed(data: bytes) -> bytes:
    """Return the bytes of a file that hold one record."""
    length = _LENGTH.pack(len(data))
    head = length + _CHECKSUM.pack(masked(length))
    return head + data + _CHECKSUM.pack(masked(data))


@export("io.TFRecordCompressionType", "python_io.TFRecordCompressionType")
class TFRecordCompressionType:
    """How a file of records is compressed."""

    NONE: ClassVar[int] = 0
    ZLIB: ClassVar[int] = 1
    GZIP: ClassVar[int] = 2


_COMPRESSIONS = {0: "", 1: "ZLIB", 2: "GZIP", None: "", "": "", "ZLIB": "ZLIB", "GZIP": "GZIP"}


@export("io.TFRecordOptions", "python_io.TFRecordOptions")
class TFRecordOptions:
    """How to write records.

    Args:
      compression_type: "", "ZLIB" or "GZIP", or one of TFRecordCompressionType.
      flush_mode, input_buffer_size, output_buffer_size: accepted; zlib's own are used.
      window_bits, compression_level, compression_method, mem_level, compression_strategy: as zlib
        takes them; its defaults where None.
    """

    def __init__(
        self,
        compression_type: Any = None,
        flush_mode: int | None = None,
        input_buffer_size: int | None = None,
        output_buffer_size: int | None = None,
        window_bits: int | None = None,
        compression_level: int | None = None,
        compression_method: int | None = None,
        mem_level: int | None = None,
        compression_strategy: int | None = None,
    ) -> None:
        if compression_type not in _COMPRESSIONS:
            raise ValueError(
                f'compression_type is {compression_type!r}; it must be "", "ZLIB" or "GZIP"'
            )
        self.compression_type = _COMPRESSIONS[compression_type]
        self.flush_mode = flush_mode
        self.input_buffer_size = input_buffer_size
        self.output_buffer_size = output_buffer_size
        self.window_bits = window_bits
        self.compression_level = compression_level
        self.compression_method = compression_method
        self.mem_level = mem_level
        self.compression_strategy = compression_strategy

    def _compressor(self) -> Any:
        given: dict[str, Any] = {
            "level": self.compression_level,
            "method": self.compression_method,
            "wbits": WINDOW_BITS[self.compression_type] if not self.window_bits else self._wbits(),
            "memLevel": self.mem_level,
            "strategy": self.compression_strategy,
        }
        return zlib.compressobj(**{key: value for key, value in given.items() if value is not None})

    def _wbits(self) -> int:
        """Return the size of the window as zlib takes it; a GZIP header is asked for with it."""
        bits = self.window_bits or zlib.MAX_WBITS
        return bits | 16 if self.compression_type == "GZIP" else bits


class _CompressedFile:
    """The file operations that a writer needs, compressing."""

    def __init__(self, file: BinaryIO, options: TFRecordOptions) -> None:
        self._file = file
        self._compressor = options._compressor()

    def write(self, data: bytes) -> None:
        self._file.write(self._compressor.compress(data))

    def flush(self) -> None:
        self._file.write(self._compressor.flush(zlib.Z_SYNC_FLUSH))
        self._file.flush()

    def close(self) -> None:
        self._file.write(self._compressor.flush())
        self._file.close()


@export("io.TFRecordWriter", "python_io.TFRecordWriter")
class TFRecordWriter:
    """Writes records to a file.  Use as a context manager, or call close.

    Args:
      options: how to compress: TFRecordOptions, or what its first argument takes.
    Raises: what the operating system says of the file.
    """

    def __init__(self, path: Any, options: Any = None) -> None:
        self._path = os.fspath(path)
        chosen = options if isinstance(options, TFRecordOptions) else TFRecordOptions(options)
        with file_errors("write", self._path):
            self._file: Any = open(self._path, "wb")  # noqa: SIM115 - closed by close
        if chosen.compression_type:
            self._file = _CompressedFile(self._file, chosen)
        self._closed = False

    def write(self, record: bytes) -> None:
        """Append a record."""
        if self._closed:
            raise errors.FailedPreconditionError(f"the writer of {self._path} is closed")
        with file_errors("write", self._path):
            self._file.write(framed(record))

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        with file_errors("write", self._path):
            self._file.flush()

    def close(self) -> None:
        """Close the file; further calls do nothing."""
        if not self._closed:
            self._closed = True
            with file_errors("write", self._path):
                self._file.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


@export("io.tf_record_iterator", "python_io.tf_record_iterator")
def tf_record_iterator(path: Any, options: Any = None) -> Iterator[bytes]:
    """Return an iterator over the records of a file.

    options: how it is compressed: TFRecordOptions, or what its first argument takes.
    Raises: NotFoundError; DataLossError where a record is damaged.
    """
    chosen = options if isinstance(options, TFRecordOptions) else TFRecordOptions(options)
    return FileRecords([os.fspath(path)], chosen.compression_type, tf_records)
