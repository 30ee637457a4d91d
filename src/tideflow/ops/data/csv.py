"""Datasets of the rows of files of comma-separated values.

A row ends with LF, CRLF or CR outside of quotes.  What is wrong with one row is said in its place,
and the next row follows.

Source: tensorflow/core/ops/experimental_dataset_ops.cc (CSVDataset, CSVDatasetV2); runtime
behaviour of TensorFlow 2.21; RFC 4180.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from collections.abc import Iterator as PyIterator
from typing import Any, TypeAlias

import numpy as np

from tideflow.formats import FileRecords, RecordFile
from tideflow.graph import shapes as static_shapes
from tideflow.graph.graph import Tensor
from tideflow.graph.op_def import declare_like
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.readers import compression_of, paths_of
from tideflow.ops.data.record_stream import RecordStream
from tideflow.ops.data.values import Element, check_positive, fail, text, vector
from tideflow.ops.parsing import csv_value
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType

# A row: its fields, or what is wrong with it.
_Row: TypeAlias = "list[bytes] | errors.OpError"

# Inputs in front of the defaults.
_FIXED_INPUTS = 8


# ---- rows


def _lines(file: RecordFile) -> PyIterator[bytes]:
    """Return the lines of a file with their ends."""
    rest = b""
    while part := file.read_any():
        lines = (rest + part).splitlines(keepends=True)
        # A CR may be half of an end.
        rest = b"" if lines[-1].endswith(b"\n") else lines.pop()
        yield from lines
    if rest:
        yield rest


def _rows(file: RecordFile, delimiter: bytes, use_quotes: bool) -> PyIterator[_Row]:
    lines = _lines(file)
    for line in lines:
        if use_quotes and b'"' in line:
            yield _quoted_row(line, lines, delimiter)
        else:
            yield line.rstrip(b"\r\n").split(delimiter)


def _quoted_row(line: bytes, lines: PyIterator[bytes], delimiter: bytes) -> _Row:
    """Return a row that has quotes; it may go on in the lines that follow."""
    fields: list[bytes] = []
    wrong = ""
    at = 0
    while True:
        if line[at : at + 1] == b'"':
            field, line, at, found = _quoted_field(line, at + 1, lines, delimiter)
            wrong = wrong or found
        else:
            end = line.find(delimiter, at)
            field = line[at:].rstrip(b"\r\n") if end < 0 else line[at:end]
            at = end + 1
            if b'"' in field:
                wrong = wrong or "Unquoted fields cannot have quotes inside"
        fields.append(field)
        if not at:
            return fail(wrong) if wrong else fields


def _quoted_field(
    line: bytes, at: int, lines: PyIterator[bytes], delimiter: bytes
) -> tuple[bytes, bytes, int, str]:
    """Return a field that began with a quote before `at`.

    Returns: the field; the line in which it ends; where the next field begins there, 0 for none;
    and what is wrong with it, if anything is.
    """
    parts: list[bytes] = []
    wrong = ""
    while True:
        end = line.find(b'"', at)
        if end < 0:
            parts.append(line[at:])
            line, at = next(lines, b""), 0
            if not line:
                return b"", line, 0, "Reached end of file without closing quoted field in record"
            continue
        parts.append(line[at:end])
        after = line[end + 1 : end + 2]
        if after == delimiter:
            return b"".join(parts), line, end + 2, wrong
        if after in (b"", b"\r", b"\n"):
            return b"".join(parts), line, 0, wrong
        if after == b'"':
            parts.append(b'"')
        else:
            wrong = wrong or "Quote inside a string has to be escaped by another quote"
        at = end + 2 if after == b'"' else end + 1


# ---- columns


class _Columns:
    """Makes an element of the fields of a row.

    Args:
      chosen: which fields are wanted; all for none.
      excluded: which fields are not.
      defaults: what stands for a missing value; None where there must be a value.
    """

    __slots__ = ("_chosen", "_defaults", "_excluded", "_missing", "_types")

    def __init__(
        self,
        types: Sequence[DType],
        defaults: Sequence[Any],
        missing: bytes,
        chosen: Sequence[int],
        excluded: Sequence[int],
    ) -> None:
        self._types = types
        self._defaults = defaults
        self._missing = missing
        self._chosen = chosen
        self._excluded = frozenset(excluded)

    def element(self, fields: list[bytes]) -> Element:
        """Return the values of a row.  Raises: InvalidArgumentError for one that does not fit."""
        if self._chosen:
            fields = [fields[at] for at in self._chosen if at < len(fields)]
        elif self._excluded:
            fields = [field for at, field in enumerate(fields) if at not in self._excluded]
        expected = len(self._types)
        if len(fields) != expected:
            found = "more" if len(fields) > expected else str(len(fields))
            raise fail(f"Expect {expected} fields but have {found} in record")
        # A number that is too large for float32 is infinite.
        with np.errstate(over="ignore"):
            return tuple(map(self._value, range(expected), fields))

    def _value(self, at: int, field: bytes) -> Any:
        if not field or field == self._missing:
            if self._defaults[at] is None:
                raise fail(f"Field {at} is required but missing in record!")
            return self._defaults[at]
        dtype = self._types[at]
        if dtype is dtypes.string:
            return text(field)
        value = csv_value(field, dtype)
        if value is None:
            raise fail(f"Field {at} in record is not a valid {dtype.name}: {field[:60]!r}")
        return dtype.as_numpy_dtype(value)


def _elements(
    rows: Callable[[RecordFile], PyIterator[_Row]], columns: _Columns, header: bool
) -> Callable[[RecordFile], PyIterator[Element | errors.OpError]]:
    """Return what reads the elements of a file, with errors in place of those that cannot be."""

    def read(file: RecordFile) -> PyIterator[Element | errors.OpError]:
        found = rows(file)
        if header and not isinstance(next(found, None), list):
            yield fail(f"Can't read header of file {file.path}")
        for row in found:
            if isinstance(row, errors.OpError):
                yield row
                continue
            try:
                yield columns.element(row)
            except errors.OpError as error:
                yield error

    return read


# ---- the op


def _check_indices(found: Sequence[int], what: str) -> None:
    if any(index < 0 for index in found):
        raise fail(f"{what} should be non-negative indices; they are {list(found)}")
    if any(a >= b for a, b in itertools.pairwise(found)):
        raise fail(f"{what} should be strictly increasing indices; they are {list(found)}")


def _default(value: Tensor, at: int, dtype: DType) -> Any:
    given = vector(value, f"the default of field {at}")
    if len(given) > 1:
        raise fail(f"There should only be 1 default per field but field {at} has {len(given)}")
    if not given:
        return None
    return text(given[0]) if dtype is dtypes.string else dtype.as_numpy_dtype(given[0])


def _csv_shape(c: ShapeContext) -> list[Dims]:
    for dims in c.inputs[_FIXED_INPUTS : _FIXED_INPUTS + len(c.attrs["output_types"])]:
        if dims is not None and (len(dims) > 1 or (dims and dims[0] not in (None, 0, 1))):
            raise ValueError(
                "a default must be a scalar, or a vector of one element or none; found shape "
                f"{static_shapes.format_dims(dims)}"
            )
    return [()]


@dataset_op(
    """
    CSVDataset(
        filenames: string, compression_type: string, buffer_size: int64, header: bool,
        field_delim: string, use_quote_delim: bool, na_value: string, select_cols: int64,
        record_defaults: *output_types
    )
    output_types: list(type) in {float, double, int32, int64, string} >= 1
    """,
    """
    CSVDatasetV2(
        filenames: string, compression_type: string, buffer_size: int64, header: bool,
        field_delim: string, use_quote_delim: bool, na_value: string, select_cols: int64,
        record_defaults: *output_types, exclude_cols: int64
    )
    output_types: list(type) in {float, double, int32, int64, string} >= 1
    """,
    metadata=False,
    stateful=True,
    shape=_csv_shape,
)
def csv_dataset(
    filenames: Sequence[bytes], compression_type: bytes, buffer_size: int, header: bool,
    field_delim: bytes, use_quote_delim: bool, na_value: bytes, select_cols: Sequence[int],
    record_defaults: list[Any], output_types: list[DType], exclude_cols: Sequence[int] = (),
) -> Elements:  # fmt: skip
    """Return the rows of files of comma-separated values, one component for each column.

    select_cols, exclude_cols: which columns there are; all where both are empty.
    """
    paths, compression = paths_of(filenames), compression_of(compression_type)
    check_positive(buffer_size, "buffer_size")
    if len(field_delim) != 1:
        raise fail(f"field_delim should be only 1 char; it is {field_delim!r}")
    _check_indices(select_cols, "select_cols")
    _check_indices(exclude_cols, "exclude_cols")
    if select_cols and exclude_cols:
        raise fail("Either select_cols or exclude_cols should be empty")
    if select_cols and len(select_cols) != len(output_types):
        raise fail(
            f"select_cols should match output size; they are {len(select_cols)} and "
            f"{len(output_types)}"
        )
    defaults = [_default(one, at, output_types[at]) for at, one in enumerate(record_defaults)]
    columns = _Columns(output_types, defaults, na_value, select_cols, exclude_cols)
    read = _elements(lambda file: _rows(file, field_delim, use_quote_delim), columns, header)
    return Elements(lambda: RecordStream(FileRecords(paths, compression, read)))


declare_like("ExperimentalCSVDataset", "CSVDataset")
