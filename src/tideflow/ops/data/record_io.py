"""TFRecord files, written and read without a graph: the names of the API.

Source: tensorflow/python/lib/io/tf_record.py.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import Any, ClassVar

from tideflow.formats import WINDOW_BITS, FileRecords, RecordWriter, tf_records
from tideflow.ops.export import export


@export("io.TFRecordCompressionType", "python_io.TFRecordCompressionType")
class TFRecordCompressionType:
    """Name the ways in which a file of records is compressed: NONE, ZLIB and GZIP.

    Example:
      >>> kinds = tf.io.TFRecordCompressionType
      >>> tf.io.TFRecordOptions(kinds.GZIP).compression_type
      'GZIP'
    """

    NONE: ClassVar[int] = 0
    ZLIB: ClassVar[int] = 1
    GZIP: ClassVar[int] = 2


_COMPRESSIONS = {0: "", 1: "ZLIB", 2: "GZIP", None: "", "": "", "ZLIB": "ZLIB", "GZIP": "GZIP"}


@export("io.TFRecordOptions", "python_io.TFRecordOptions")
class TFRecordOptions:
    """Hold how to write records.

    Args:
      compression_type: "", "ZLIB" or "GZIP", or one of TFRecordCompressionType; None for "".
      flush_mode, input_buffer_size, output_buffer_size: accepted; zlib's own are used.
      window_bits, compression_level, compression_method, mem_level, compression_strategy: ints as
        zlib takes them; its defaults where None.
    Raises: ValueError for another compression.
    Example:
      >>> tf.io.TFRecordOptions("ZLIB", compression_level=9).compression_type
      'ZLIB'
    """

    def __init__(
        self,
        compression_type: object | None = None,
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
        if not self.compression_type:
            return None
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


@export("io.TFRecordWriter", "python_io.TFRecordWriter")
class TFRecordWriter(RecordWriter):
    """Writes records to a file.  Use as a context manager, or call close.

    Args:
      path: the file, which is written anew.
      options: how to compress: TFRecordOptions, or what its first argument takes.
    Raises: what the operating system says of the file.
    Example:
      >>> import os, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = os.path.join(folder, "a.tfrecord")
      ...     with tf.io.TFRecordWriter(path, "GZIP") as writer:
      ...         writer.write(b"one")
      ...     [x.numpy() for x in tf.data.TFRecordDataset(path, compression_type="GZIP")]
      [b'one']
    """

    def __init__(self, path: object, options: object | None = None) -> None:
        chosen = options if isinstance(options, TFRecordOptions) else TFRecordOptions(options)
        super().__init__(path, chosen._compressor())


@export("io.tf_record_iterator", "python_io.tf_record_iterator")
def tf_record_iterator(path: Any, options: object | None = None) -> Iterator[bytes]:
    """Return an iterator over the records of a file, each bytes.

    Args:
      path: the file.
      options: how it is compressed: TFRecordOptions, or what its first argument takes.
    Raises: NotFoundError; DataLossError where a record is damaged.
    Example:
      >>> import os, tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = os.path.join(folder, "a.tfrecord")
      ...     with tf.io.TFRecordWriter(path) as writer:
      ...         writer.write(b"one")
      ...     list(tf.io.tf_record_iterator(path))
      [b'one']
    """
    chosen = options if isinstance(options, TFRecordOptions) else TFRecordOptions(options)
    return FileRecords([os.fspath(path)], chosen.compression_type, tf_records)
