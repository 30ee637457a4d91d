"""Datasets of the rows that a query of a SQLite database gives.

Source: tensorflow/core/kernels/data/experimental/sql_dataset_op.cc; runtime behaviour of
TensorFlow 2.21.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator as PyIterator
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from tideflow.graph.building import convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.op_def import declare_like
from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.types import TensorLike
from tideflow.ops.data.declaration import Elements, dataset_op
from tideflow.ops.data.record_stream import RecordStream
from tideflow.ops.data.values import Element, dims_of, fail, text
from tideflow.ops.framework import nest
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType

# In the order in which TensorFlow names them.
_TYPES = (
    dtypes.string, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8,
    dtypes.uint16, dtypes.bool_, dtypes.float64,
)  # fmt: skip
_DRIVER = b"sqlite"


def _first_statement(query: str) -> str:
    """Return a query without what follows its first statement."""
    end = query.find(";")
    while end >= 0:
        if sqlite3.complete_statement(query[: end + 1]):
            return query[: end + 1]
        end = query.find(";", end + 1)
    return query


class _Rows:
    """Gives the rows of a query.

    A query that is refused is refused again each time; one that fails on its way has ended.  Values
    converted as SQLite's own functions for columns do: what is no number is 0, and what is null
    is 0 or empty.
    """

    def __init__(self, path: bytes, query: bytes, types: Sequence[DType]) -> None:
        self._path = os.fsdecode(path)
        self._query = _first_statement(query.decode("utf-8", "surrogateescape"))
        self._types = types
        self._database: sqlite3.Connection | None = None
        self._rows: PyIterator[tuple[Any, ...]] = iter(())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Element:
        return tuple(
            self._converted(value, dtype) for value, dtype in zip(self._row(), self._types)
        )

    def _row(self) -> tuple[Any, ...]:
        if self._database is None:
            self._database = self._open()
        rows, self._rows = self._rows, iter(())
        with _database_errors(self._query):
            found = next(rows)
        self._rows = rows
        return found

    def _open(self) -> sqlite3.Connection:
        # The threads that read files take turns.
        with _database_errors(self._path):
            database = sqlite3.connect(self._path, check_same_thread=False)
        database.text_factory = bytes
        try:
            self._rows = self._executed(database)
        except errors.OpError:
            database.close()
            raise
        return database

    def _executed(self, database: sqlite3.Connection) -> PyIterator[tuple[Any, ...]]:
        """Return the rows of the query; where only the first one fails, what fails then."""
        try:
            rows = database.execute(self._query)
        except sqlite3.Error as error:
            with _database_errors(self._query):
                database.execute(f"explain {self._query}")
            return _Failing(error)
        found, wanted = len(rows.description or ()), len(self._types)
        if found != wanted:
            raise fail(
                f"The number of columns in query ({found}) must match the number of elements "
                f"in output_types ({wanted})."
            )
        return rows

    def _converted(self, value: Any, dtype: DType) -> Any:
        if dtype is dtypes.string:
            return text(self._cast(value, bytes, "text", b""))
        if dtype is dtypes.float64:
            return np.float64(self._cast(value, float, "real", 0.0))
        number = self._cast(value, int, "integer", 0)
        if dtype is dtypes.bool_:
            return np.bool_(number)
        kind = dtype.as_numpy_dtype
        # What does not fit keeps its lowest bits.
        return np.array(number, np.int64).astype(kind)[()]

    def _cast(self, value: Any, kind: type, name: str, default: Any) -> Any:
        """Return a value as SQLite converts it."""
        if value is None:
            return default
        if isinstance(value, kind):
            return value
        assert self._database is not None
        ((found,),) = self._database.execute(f"select cast(? as {name})", [_bound(value)])
        return found

    def __del__(self) -> None:
        if self._database is not None:
            self._database.close()


class _Failing:
    """Fails once, and has ended then."""

    def __init__(self, error: sqlite3.Error) -> None:
        self._errors = [error]

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Any, ...]:
        if self._errors:
            raise self._errors.pop()
        raise StopIteration


def _bound(value: Any) -> Any:
    """Return what a statement is given for a value that another one gave."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


@contextlib.contextmanager
def _database_errors(where: str) -> PyIterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise errors.UnknownError(f"{error}: {where}") from None


@dataset_op(
    "SqlDataset(driver_name: string, data_source_name: string, query: string)",
    metadata=False,
    stateful=True,
)
def sql_dataset(
    driver_name: bytes,
    data_source_name: bytes,
    query: bytes,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Elements:
    """Return the rows that a query gives, with one component for each column.

    driver_name: "sqlite".
    Raises: InvalidArgumentError for another driver, for types that are no columns' and for shapes
      that are no scalars'; when walked over, for another number of columns; UnknownError, when
      walked over, for what SQLite refuses.
    """
    for dtype in output_types:
        if dtype not in _TYPES:
            known = ", ".join(f"DT_{one.name.upper()}" for one in _TYPES)
            raise fail(f"Each element of `output_types_` must be one of: {known}")
    if any(dims != () for dims in dims_of(output_shapes)):
        raise fail("Each element of `output_shapes_` must be a scalar.")
    if driver_name != _DRIVER:
        name = driver_name.decode("utf-8", "replace")
        raise fail(
            f"The database type, {name}, is not supported by SqlDataset. The set of supported "
            "databases is: {'sqlite'}."
        )
    return Elements(lambda: RecordStream(_Rows(data_source_name, query, output_types)))


declare_like("ExperimentalSqlDataset", "SqlDataset")


def sql_parts(
    driver_name: TensorLike, data_source_name: TensorLike, query: TensorLike, output_types: Any
) -> tuple[list[Tensor], Any]:
    """Return the inputs of SqlDataset, and the structure of its elements."""
    inputs = [
        convert_to_tensor(part, dtypes.string) for part in (driver_name, data_source_name, query)
    ]
    return inputs, nest.map_structure(lambda dtype: TensorSpec((), dtype), output_types)
