"""Datasets of what is in files: lines, records of one length, TensorFlow's records.

Files are read on threads, some way ahead of who wants their records.

Source: tensorflow/core/kernels/data/{text_line,fixed_length_record,tf_record}_dataset_op.cc,
core/lib/io/{inputbuffer,record_reader,zlib_inputstream}.cc.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable
from collections.abc import Iterator as PyIterator
from pathlib import Path
from typing import Any

import numpy as np

from tideflow.formats import file_errors
from tideflow.graph.op_def import declare_like, op
from tideflow.graph.shape_rules import scalar as scalar_shape
from tideflow.ops.data.record_files import (
    WINDOW_BITS,
    FileRecords,
    RecordFile,
    RecordStream,
    text_lines,
    tf_records,
)
from tideflow.ops.data.values import Dataset, fail, scalar, vector
from tideflow.wire import dtypes, errors


def compression_of(value: Any) -> str:
    """Return a compression_type.  Raises: InvalidArgumentError for one that is not known."""
    found = str(scalar(value, "`compression_type`").decode("utf-8", "replace"))
    if found and found not in WINDOW_BITS:
        raise fail(f"Unsupported compression_type: {found}. It may be ZLIB, GZIP or empty.")
    return found


def _file_dataset(
    kind: str,
    filenames: Any,
    compression_type: Any,
    buffer_size: Any,
    read: Callable[[RecordFile], PyIterator[bytes]],
    check: Callable[[RecordFile], None] = lambda file: None,
) -> Dataset:
    paths = [name.decode("utf-8", "surrogateescape") for name in vector(filenames, "`filenames`")]
    size = int(scalar(buffer_size, "`buffer_size`"))
    if kind == "TFRecord":
        # Records are read with -1 for the default; what is no compression that is known is none.
        given = str(scalar(compression_type, "`compression_type`").decode("utf-8", "replace"))
        compression, least = given if given in WINDOW_BITS else "", -1
    else:
        compression, least = compression_of(compression_type), 0
    if size < least:
        raise fail(f"`buffer_size` must be >= {least}; it is {size}")
    return Dataset(
        kind,
        [dtypes.string],
        [()],
        lambda: RecordStream(FileRecords(paths, compression, read, check)),
    )


# ---- lines


@op(
    """
    TextLineDataset(
        filenames: string, compression_type: string, buffer_size: int64
    ) -> handle: variant
    metadata: string = ''
    """,
    shape=scalar_shape,
    stateful=True,
)
def text_line_dataset(ctx: Any, filenames: Any, compression_type: Any, buffer_size: Any) -> Any:
    """Return the lines of files."""
    return _file_dataset("TextLine", filenames, compression_type, buffer_size, text_lines)


# ---- records of one length


def _misfit(file: RecordFile, header: int, length: int, footer: int, body: int) -> str:
    return (
        f"Excluding the header ({header} bytes) and footer ({footer} bytes), input file "
        f'"{file.path}" has body length {body} bytes, which is not an exact multiple of the '
        f"record length ({length} bytes)."
    )


def _fixed(header: int, length: int, footer: int) -> Callable[[RecordFile], PyIterator[bytes]]:
    def read(file: RecordFile) -> PyIterator[bytes]:
        file.read(header)
        body = 0
        held = file.read(footer)
        while True:
            # What may be the footer is held back until more comes.
            held += file.read(length)
            if len(held) < length + footer:
                break
            record, held = held[:length], held[length:]
            body += length
            yield record
        if len(held) != footer:
            body += len(held) - footer
            raise errors.DataLossError(_misfit(file, header, length, footer, body))

    return read


def _check_fixed(header: int, length: int, footer: int) -> Callable[[RecordFile], None]:
    def check(file: RecordFile) -> None:
        """Find a file of the wrong size before its first record is read."""
        body = Path(file.path).stat().st_size - header - footer
        if file.compression == "" and body % length:
            raise fail(_misfit(file, header, length, footer, body))

    return check


def _fixed_dataset(
    filenames: Any, header: Any, length: Any, footer: Any, buffer_size: Any, compression: Any
) -> Dataset:
    sizes = [
        int(scalar(value, f"`{what}`"))
        for value, what in (
            (header, "header_bytes"), (length, "record_bytes"), (footer, "footer_bytes")
        )
    ]  # fmt: skip
    if sizes[1] <= 0:
        raise fail("`record_bytes` must be > 0")
    if min(sizes) < 0:
        raise fail("`header_bytes` and `footer_bytes` must be >= 0")
    return _file_dataset(
        "FixedLengthRecord", filenames, compression, buffer_size, _fixed(*sizes),
        _check_fixed(*sizes),
    )  # fmt: skip


@op(
    """
    FixedLengthRecordDataset(
        filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64,
        buffer_size: int64
    ) -> handle: variant
    metadata: string = ''
    """,
    shape=scalar_shape,
    stateful=True,
)
def fixed_length_record_dataset(
    ctx: Any,
    filenames: Any,
    header_bytes: Any,
    record_bytes: Any,
    footer_bytes: Any,
    buffer_size: Any,
) -> Any:
    """Return the records of files in which all have one length."""
    return _fixed_dataset(filenames, header_bytes, record_bytes, footer_bytes, buffer_size, b"")


@op(
    """
    FixedLengthRecordDatasetV2(
        filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64,
        buffer_size: int64, compression_type: string
    ) -> handle: variant
    metadata: string = ''
    """,
    shape=scalar_shape,
    stateful=True,
)
def fixed_length_record_dataset_v2(
    ctx: Any,
    filenames: Any,
    header_bytes: Any,
    record_bytes: Any,
    footer_bytes: Any,
    buffer_size: Any,
    compression_type: Any,
) -> Any:
    """Return the records of files, compressed or not, in which all have one length."""
    return _fixed_dataset(
        filenames, header_bytes, record_bytes, footer_bytes, buffer_size, compression_type
    )


# ---- TensorFlow's records


@op(
    """
    TFRecordDataset(
        filenames: string, compression_type: string, buffer_size: int64
    ) -> handle: variant
    metadata: string = ''
    """,
    shape=scalar_shape,
    stateful=True,
)
def tf_record_dataset(ctx: Any, filenames: Any, compression_type: Any, buffer_size: Any) -> Any:
    """Return the records of TFRecord files."""
    return _file_dataset("TFRecord", filenames, compression_type, buffer_size, tf_records)


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
        os.scandir(directory).close()
    found = glob.glob(pattern.replace(b"[^", b"[!"), include_hidden=True)
    return sorted(name for name in found if not os.path.isdir(name))


@op(
    """
    MatchingFilesDataset(patterns: string) -> handle: variant
    """,
    shape=scalar_shape,
    stateful=True,
)
def matching_files_dataset(ctx: Any, patterns: Any) -> Any:
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

    return Dataset("MatchingFiles", [dtypes.string], [()], lambda: RecordStream(names()))


declare_like("ExperimentalMatchingFilesDataset", "MatchingFilesDataset")
