"""Batches of records of many files, in random order, without end.

Source: tensorflow/core/kernels/record_input_op.cc, record_yielder.cc for what an epoch is;
TensorFlow's order depends on its threads, and is not this one.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from tideflow.blocking import FILES, StopFlag, run_blocking
from tideflow.formats import WINDOW_BITS, FileRecords, matching, tf_records
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import unknown
from tideflow.wire import errors


class _Records:
    """The records of files, epoch by epoch.

    In each epoch the files come in another order, of which the first shift_ratio comes last;
    records are drawn at random from a buffer of so many.
    """

    def __init__(
        self, pattern: str, seed: int, shift_ratio: float, buffer_size: int, compression: str
    ) -> None:
        self._pattern = pattern
        self._shift_ratio = shift_ratio
        self._buffer_size = buffer_size
        self._compression = compression
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._records: Iterator[bytes] = iter(())

    def batch(self, size: int, flag: StopFlag) -> list[bytes]:
        """Return the next records.  Raises: NotFoundError where no file matches."""
        found: list[bytes] = []
        with self._lock:
            while len(found) < size:
                flag.check()
                record = next(self._records, None)
                if record is None:
                    self._records = self._of_an_epoch()
                    record = next(self._records, None)
                    if record is None:
                        raise errors.NotFoundError(f"Found no records in {self._pattern}")
                found.append(record)
        return found

    def _of_an_epoch(self) -> Iterator[bytes]:
        paths = sorted(matching(self._pattern))
        if not paths:
            raise errors.NotFoundError(f"Found no files at {self._pattern}")
        self._random.shuffle(paths)
        shift = int(self._shift_ratio * len(paths)) % len(paths)
        paths = paths[shift:] + paths[:shift]
        return self._shuffled(FileRecords(paths, self._compression, tf_records))

    def _shuffled(self, records: Iterator[bytes]) -> Iterator[bytes]:
        buffer: list[bytes] = []
        for record in records:
            buffer.append(record)
            if len(buffer) >= self._buffer_size:
                yield self._drawn(buffer)
        while buffer:
            yield self._drawn(buffer)

    def _drawn(self, buffer: list[bytes]) -> bytes:
        at = self._random.randrange(len(buffer))
        buffer[at], buffer[-1] = buffer[-1], buffer[at]
        return buffer.pop()


@op(
    """
    RecordInput() -> records: string
    file_pattern: string
    file_random_seed: int = 301
    file_shuffle_shift_ratio: float = 0
    file_buffer_size: int = 10000
    file_parallelism: int = 16
    batch_size: int = 32
    compression_type: string = ''
    """,
    shape=unknown,
    stateful=True,
)
async def record_input(
    ctx: KernelContext,
    *,
    file_pattern: str,
    file_random_seed: int,
    file_shuffle_shift_ratio: float,
    file_buffer_size: int,
    file_parallelism: int,
    batch_size: int,
    compression_type: str,
) -> Any:
    """Return the next batch_size records of the TFRecord files that match a pattern.

    Each record comes once in an epoch; epochs follow each other, also within a batch.
    Raises: NotFoundError where there are no files; InvalidArgumentError for sizes below one.
    """
    for what, value in (
        ("file_buffer_size", file_buffer_size),
        ("file_parallelism", file_parallelism),
        ("batch_size", batch_size),
    ):
        if value < 1:
            raise errors.InvalidArgumentError(f"{what} must be positive; found {value}")
    if compression_type not in WINDOW_BITS and compression_type:
        raise errors.InvalidArgumentError(f"Unsupported compression_type: {compression_type}")

    def make() -> _Records:
        return _Records(
            file_pattern,
            file_random_seed,
            file_shuffle_shift_ratio,
            file_buffer_size,
            compression_type,
        )

    records: _Records = ctx.memo(make, is_random=True)
    found = await run_blocking(FILES, lambda flag: records.batch(batch_size, flag))
    made = np.empty(batch_size, object)
    made[:] = found
    return made


not_differentiable("RecordInput")
