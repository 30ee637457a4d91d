"""Datasets of what is in files: lines, records of one length, TensorFlow's records.

Files are read on threads, some way ahead of who wants their records.

Source: tensorflow/core/kernels/data/{text_line,fixed_length_record,tf_record}_dataset_op.cc,
core/lib/io/{inputbuffer,record_reader,zlib_inputstream}.cc.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from collections.abc import Iterator as PyIterator
from typing import Any

import numpy as np

from tideflow.formats import (
    WINDOW_BITS,
    FileRecords,
    RecordFile,
    check_fixed_length,
    file_errors,
    fixed_length_records,
    matching,
    permitted,
    text_lines,
    tf_records,
)
from tideflow.graph.op_def import declare_like
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.record_stream import RecordStream
from tideflow.ops.data.values import fail
from tideflow.wire import dtypes, errors


def compression_of(compression_type: bytes) -> str:
    """Return a compression_type.  Raises: InvalidArgumentError for one that is not known."""
    found = compression_type.decode("utf-8", "replace")
    if found and found not in WINDOW_BITS:
        raise fail(f"Unsupported compression_type: {found}. It may be ZLIB, GZIP or empty.")
    return found


def paths_of(filenames: Sequence[bytes]) -> list[str]:
    """Return the names of files as Python has them."""
    return [name.decode("utf-8", "surrogateescape") for name in filenames]


def _check_buffer_size(size: int, least: int) -> None:
    if size < least:
        raise fail(f"`buffer_size` must be >= {least}; it is {size}")


def _records(
    filenames: Sequence[bytes],
    compression: str,
    read: Callable[[RecordFile], PyIterator[bytes]],
    check: Callable[[RecordFile], None] = lambda file: None,
) -> Elements:
    paths = paths_of(filenames)
    return Elements(
        lambda: RecordStream(FileRecords(paths, compression, read, check)),
        types=[dtypes.string],
        shapes=[()],
    )


# ---- lines


@dataset_op(
    "TextLineDataset(filenames: string, compression_type: string, buffer_size: int64)",
    structure=False,
    stateful=True,
)
def text_line_dataset(
    filenames: Sequence[bytes], compression_type: bytes, buffer_size: int
) -> Elements:
    """Return the lines of files."""
    _check_buffer_size(buffer_size, 0)
    return _records(filenames, compression_of(compression_type), text_lines)


# ---- records of one length


@dataset_op(
    """
    FixedLengthRecordDataset(
        filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64,
        buffer_size: int64
    )
    """,
    """
    FixedLengthRecordDatasetV2(
        filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64,
        buffer_size: int64, compression_type: string
    )
    """,
    structure=False,
    stateful=True,
)
def fixed_length_record_dataset(
    filenames: Sequence[bytes],
    header_bytes: int,
    record_bytes: int,
    footer_bytes: int,
    buffer_size: int,
    compression_type: bytes = b"",
) -> Elements:
    """Return the records of files in which all have one length."""
    if record_bytes <= 0:
        raise fail("`record_bytes` must be > 0")
    if min(header_bytes, footer_bytes) < 0:
        raise fail("`header_bytes` and `footer_bytes` must be >= 0")
    _check_buffer_size(buffer_size, 0)
    sizes = (header_bytes, record_bytes, footer_bytes)
    return _records(
        filenames,
        compression_of(compression_type),
        lambda file: fixed_length_records(file, *sizes, exact=True),
        lambda file: check_fixed_length(file, *sizes),
    )


# ---- TensorFlow's records


@dataset_op(
    "TFRecordDataset(filenames: string, compression_type: string, buffer_size: int64)",
    """
    TFRecordDatasetV2(
        filenames: string, compression_type: string, buffer_size: int64, byte_offsets: int64
    )
    """,
    structure=False,
    stateful=True,
)
def tf_record_dataset(
    filenames: Sequence[bytes],
    compression_type: bytes,
    buffer_size: int,
    byte_offsets: Sequence[int] = (),
) -> Elements:
    """Return the records of TFRecord files.

    byte_offsets: where the first record of each file is; empty for the beginnings.
    """
    # Records are read with -1 for the default; what is no compression that is known is none.
    _check_buffer_size(buffer_size, -1)
    given = compression_type.decode("utf-8", "replace")
    compression = given if given in WINDOW_BITS else ""
    if not byte_offsets:
        return _records(filenames, compression, tf_records)
    if len(byte_offsets) < len(filenames):
        raise fail(
            f"byte_offsets must have one number for each file; there are {len(byte_offsets)} for "
            f"{len(filenames)} files"
        )

    def iterate() -> RecordStream:
        starts = iter(byte_offsets)
        read = FileRecords(
            paths_of(filenames), compression, lambda file: tf_records(file, next(starts))
        )
        return RecordStream(read)

    return Elements(iterate, types=[dtypes.string], shapes=[()])


# ---- names


_WILDCARD = re.compile(rb"[*?\[]")


def _matches(pattern: bytes) -> list[bytes]:
    """Return the names of the files that a pattern matches, sorted.

    Raises: NotFoundError where the directory to look in is not there; FailedPreconditionError where
    it is no directory.
    """
    directory = os.path.dirname(_WILDCARD.split(pattern, maxsplit=1)[0])
    if not directory:
        directory, pattern = b".", b"./" + pattern
    with file_errors("list", os.fsdecode(directory)):
        os.scandir(permitted(os.fsdecode(directory))).close()
    found = matching(pattern.replace(b"[^", b"[!"))
    return sorted(name for name in found if not os.path.isdir(name))


@dataset_op(
    "MatchingFilesDataset(patterns: string)", structure=False, metadata=False, stateful=True
)
def matching_files_dataset(patterns: Any) -> Elements:
    """Return the names of the files that each pattern matches, in the order of their names.

    Directories are left out, and a file that two patterns match comes twice.
    """
    wanted: list[bytes] = np.asarray(patterns, object).reshape(-1).tolist()

    def names() -> PyIterator[bytes]:
        any_found = False
        for pattern in wanted:
            for name in _matches(pattern):
                any_found = True
                yield name
        if not any_found:
            raise errors.NotFoundError(f"no file matches {b', '.join(wanted).decode()}")

    return Elements(lambda: RecordStream(names()), types=[dtypes.string], shapes=[()])


declare_like("ExperimentalMatchingFilesDataset", "MatchingFilesDataset")
