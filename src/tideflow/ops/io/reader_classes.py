"""tf.TextLineReader and the like: readers as objects that build operations.

Source: tensorflow/python/ops/io_ops.py for names and argument orders.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.wire import dtypes


@export("ReaderBase")
class ReaderBase:
    """A reader of records of the files that a queue names."""

    def __init__(self, reader_ref: Tensor, supports_serialize: bool = False) -> None:
        self._reader_ref = reader_ref
        self._supports_serialize = supports_serialize

    @property
    def reader_ref(self) -> Tensor:
        """The reader's handle."""
        return self._reader_ref

    @property
    def supports_serialize(self) -> bool:
        """Whether the state can be saved."""
        return self._supports_serialize

    def read(self, queue: object, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Return the key and value of the next record, two scalar strings.

        Args:
          queue: a queue of file names, or its handle.
        When run: OutOfRangeError when the queue is closed and empty.
        """
        key, value = apply_op("ReaderReadV2", self._reader_ref, _handle(queue), name=name)
        return key, value

    def read_up_to(
        self, queue: object, num_records: TensorLike, name: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return keys and values [n] of up to num_records records, fewer where a file ends."""
        keys, values = apply_op(
            "ReaderReadUpToV2",
            self._reader_ref,
            _handle(queue),
            convert_to_tensor(num_records, dtypes.int64),
            name=name,
        )
        return keys, values

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """Return how many records were read, an int64 scalar."""
        found: Tensor = apply_op("ReaderNumRecordsProducedV2", self._reader_ref, name=name)
        return found

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """Return how many files were read to their ends, an int64 scalar."""
        found: Tensor = apply_op("ReaderNumWorkUnitsCompletedV2", self._reader_ref, name=name)
        return found

    def serialize_state(self, name: str | None = None) -> Tensor:
        """Return the state as a string.  When run: UnimplementedError where it cannot be saved."""
        found: Tensor = apply_op("ReaderSerializeStateV2", self._reader_ref, name=name)
        return found

    def restore_state(self, state: object, name: str | None = None) -> Operation:
        """Return an operation that brings back a state which serialize_state gave."""
        made: Operation = apply_op("ReaderRestoreStateV2", self._reader_ref, state, name=name)
        return made

    def reset(self, name: str | None = None) -> Operation:
        """Return an operation that brings the reader back to its start."""
        made: Operation = apply_op("ReaderResetV2", self._reader_ref, name=name)
        return made


def _handle(queue: Any) -> Any:
    return queue if isinstance(queue, Tensor) else queue.queue_ref


@export("TextLineReader")
class TextLineReader(ReaderBase):
    """Reads lines, without their ends; keys are "file:line", the first line being 1."""

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        skip = skip_header_lines or 0
        super().__init__(apply_op("TextLineReaderV2", skip_header_lines=skip, name=name))


@export("FixedLengthRecordReader")
class FixedLengthRecordReader(ReaderBase):
    """Reads records of one length; keys are "file:record", the first record being 0.

    Args:
      record_bytes, header_bytes, footer_bytes: sizes of a record, and of what is left out at the
        start and at the end of a file.
      hop_bytes: from the start of a record to the start of the next; record_bytes if left out.
      encoding: "", "ZLIB" or "GZIP".
    """

    def __init__(
        self,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        hop_bytes: int | None = None,
        name: str | None = None,
        encoding: str | None = None,
    ) -> None:
        made = apply_op(
            "FixedLengthRecordReaderV2",
            record_bytes=record_bytes,
            header_bytes=header_bytes or 0,
            footer_bytes=footer_bytes or 0,
            hop_bytes=hop_bytes or 0,
            encoding=encoding or "",
            name=name,
        )
        super().__init__(made)


@export("TFRecordReader")
class TFRecordReader(ReaderBase):
    """Reads the records of TFRecord files; keys are "file:offset".

    Args:
      options: a TFRecordOptions, or what else has or is a compression type.
    """

    def __init__(self, name: str | None = None, options: object | None = None) -> None:
        super().__init__(
            apply_op("TFRecordReaderV2", compression_type=_compression(options), name=name)
        )


def _compression(options: object) -> str:
    """Return "", "ZLIB" or "GZIP"; TFRecordOptions have a number for it, or the name."""
    kind = getattr(options, "compression_type", options) or ""
    return ("", "ZLIB", "GZIP")[kind] if isinstance(kind, int) else str(kind)


@export("WholeFileReader")
class WholeFileReader(ReaderBase):
    """Reads files as a whole; the key is the name, the value all that is in the file."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(apply_op("WholeFileReaderV2", name=name), supports_serialize=True)


@export("IdentityReader")
class IdentityReader(ReaderBase):
    """Gives what it takes from the queue, as key and value."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(apply_op("IdentityReaderV2", name=name), supports_serialize=True)
