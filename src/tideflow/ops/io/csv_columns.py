"""What files of comma-separated values say of their columns: names, and types by the first rows.

Source: tensorflow/python/data/experimental/ops/readers.py (make_csv_dataset).
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import numpy as np

from tideflow.formats import file_errors
from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType

# From the least general to the most; a column has the first that takes all of its values.
_TYPES = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.string)


class CsvText:
    """Files of comma-separated values as text.

    Args:
      paths: the files.
      delimiter: what parts the fields of a row.
      quotes: whether fields may stand in double quotes.
      header: whether each file begins with the names of its columns.
      compression: None, "" or "GZIP".
      encoding: of the text.
    Raises: ValueError for a compression that is not read here.
    """

    def __init__(
        self,
        paths: Sequence[str],
        delimiter: str,
        quotes: bool,
        header: bool,
        compression: str | None,
        encoding: str,
    ) -> None:
        if compression == "ZLIB":
            raise ValueError("`compression_type` ZLIB is not supported for probing columns.")
        if compression not in (None, "", "GZIP"):
            raise ValueError(
                f"Received unknown `compression_type` {compression}. Expected: GZIP, ZLIB or "
                "(empty string)."
            )
        self._paths = paths
        self._form: dict[str, Any] = {
            "delimiter": delimiter,
            "quoting": csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
        }
        self._header = header
        self._compressed = compression == "GZIP"
        self._encoding = encoding

    def _open(self, path: str) -> TextIO:
        with file_errors("read", path):
            if self._compressed:
                return gzip.open(path, "rt", encoding=self._encoding, newline="")
            return open(path, encoding=self._encoding, newline="")

    def names(self) -> list[str]:
        """Return the names of the columns.

        Raises: ValueError for an empty file, and for files with different names.
        """
        found = [self._first_row(path) for path in self._paths]
        for path, row in zip(self._paths, found):
            if row != found[0]:
                raise ValueError(
                    "All input CSV files should have the same column names in the header row. File "
                    f"{path} has different column names."
                )
        return found[0]

    def _first_row(self, path: str) -> list[str]:
        with self._open(path) as file:
            for row in csv.reader(file, **self._form):
                return row
        raise ValueError(f"Failed when reading the header line of {path}. Is it an empty file?")

    def _rows(self, width: int) -> Iterator[list[str]]:
        for path in self._paths:
            with self._open(path) as file:
                for number, row in enumerate(csv.reader(file, **self._form), 1):
                    if number == 1 and self._header:
                        continue
                    if len(row) != width:
                        raise ValueError(
                            f"Problem inferring types: CSV row {number} has {len(row)} number of "
                            f"fields. Expected: {width}."
                        )
                    yield row

    def defaults(
        self, width: int, missing: str, most_rows: int | None, chosen: Sequence[int] | None
    ) -> list[Tensor]:
        """Return what stands for missing values in each column: zeros and empty strings.

        Args:
          width: how many columns there are.
          missing: what means, beside an empty field, that there is no value.
          most_rows: how many rows say which types the columns have; None for all.
          chosen: the columns; None for all.
        Raises: ValueError for a row with another number of fields.
        """
        columns = range(width) if chosen is None else chosen
        types: list[DType | None] = [None] * len(columns)
        for number, row in enumerate(self._rows(width)):
            if number == most_rows:
                break
            types = [
                known if row[at] in ("", missing) else _type_of(row[at], known)
                for at, known in zip(columns, types)
            ]
        found = (dtypes.string if dtype is None else dtype for dtype in types)
        return [convert_to_tensor(["" if dtype is dtypes.string else 0], dtype) for dtype in found]


def _type_of(text: str, known: DType | None) -> DType:
    """Return the first type, from the one that is known on, that takes a value."""
    first = 0 if known is None else _TYPES.index(known)
    return next(dtype for dtype in _TYPES[first:] if _takes(dtype, text))


def _takes(dtype: DType, text: str) -> bool:
    if dtype is dtypes.string:
        return True
    try:
        with np.errstate(over="ignore"):
            value = dtype.as_numpy_dtype(text)
    except (ValueError, OverflowError):
        return False
    # "nan" is none, and what is infinite in float32 may be a float64.
    return bool(dtype.is_integer or value < np.inf)
