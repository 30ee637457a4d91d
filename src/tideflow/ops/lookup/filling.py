"""Filling tables: with keys and values, or from the lines of a file.

Source: tensorflow/core/kernels/lookup_table_init_op.cc, lookup_util.cc; runtime behaviour of
TensorFlow 2.21.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tideflow.blocking import (
    FILES,
    KERNELS,
    OBJECT_BYTES,
    StopFlag,
    Turns,
    run_blocking,
    run_sized,
)
from tideflow.formats import file_errors, open_file, path_of
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import no_outputs
from tideflow.graph.types import Array
from tideflow.ops.data import as_dataset, enter_scope
from tideflow.ops.framework import check_scalar
from tideflow.ops.lookup.ops import LookupTable, items_of, table_of
from tideflow.wire import dtypes, errors
from tideflow.wire.dtypes import DType

_LINE_NUMBER, _WHOLE_LINE = -1, -2


@op(
    """
    InitializeTableV2(table_handle: resource, keys: Tkey, values: Tval)
    Tkey: type
    Tval: type
    """,
    shape=no_outputs,
    stateful=True,
)
def initialize_table(
    ctx: KernelContext, handle: object, keys: Array, values: Array, *, Tkey: DType, Tval: DType
) -> None:
    """Fill a table once."""
    table = table_of(ctx, handle, Tkey, Tval)
    if np.ndim(keys) != 1:
        raise errors.InvalidArgumentError(f"Keys must be a vector, but received {np.shape(keys)}")
    table.check_entries(keys, values, ())
    table.fill(keys, values)


def _column(line: bytes, number: int, index: int, delimiter: bytes, dtype: DType) -> Any:
    """Return what a line gives for an index: its number, the whole of it, or a column."""
    if index == _LINE_NUMBER:
        return number
    if index == _WHOLE_LINE:
        text = line
    else:
        columns = line.split(delimiter)
        if index >= len(columns):
            raise errors.InvalidArgumentError(
                f"Invalid number of columns in line {number}: expected {index + 1} at least, found "
                f"{len(columns)}"
            )
        text = columns[index]
    if dtype is dtypes.string:
        return text
    try:
        return int(text) if dtype.is_integer else float(text)
    except ValueError:
        raise errors.InvalidArgumentError(
            f"Field {text!r} in line {number} is not a valid {dtype.name}"
        ) from None


def _check_types(table: LookupTable, key_index: int, value_index: int) -> None:
    """Refuse line numbers that are no int64, and whole lines of other types than tables have."""
    for what, index, dtype in (
        ("key", key_index, table.key_dtype),
        ("value", value_index, table.value_dtype),
    ):
        if index == _LINE_NUMBER and dtype is not dtypes.int64:
            raise errors.InvalidArgumentError(
                f"{what} index {index} is the line number, an int64; the table's is {dtype.name}"
            )
        if index == _WHOLE_LINE and not (dtype is dtypes.string or dtype.is_integer):
            raise errors.InvalidArgumentError(
                f"{what} index {index} is the whole line, a string; the table's is {dtype.name}"
            )


@op(
    """
    InitializeTableFromTextFileV2(table_handle: resource, filename: string)
    key_index: int >= -2
    value_index: int >= -2
    vocab_size: int >= -1 = -1
    delimiter: string = '\\t'
    offset: int = 0
    """,
    shape=no_outputs,
    stateful=True,
)
async def initialize_table_from_text_file(
    ctx: KernelContext,
    handle: object,
    filename: Array | bytes,
    *,
    key_index: int,
    value_index: int,
    vocab_size: int,
    delimiter: str,
    offset: int,
) -> None:
    """Fill a table once, an entry for each line of a file, or for the first vocab_size."""
    table = table_of(ctx, handle)
    check_scalar(filename, "filename")
    path = path_of(filename, "filename")
    if not path:
        raise errors.InvalidArgumentError("the name of a file of a table must not be empty")
    if len(delimiter) != 1:
        raise errors.InvalidArgumentError(f"delimiter must be one character; found {delimiter!r}")
    _check_types(table, key_index, value_index)
    if table.is_filled:
        return

    def work(flag: StopFlag) -> list[bytes]:
        with file_errors("read", path), open_file(path) as file:
            return file.read().splitlines()

    lines = await run_blocking(FILES, work)
    if not lines:
        raise errors.OutOfRangeError(f"the file {path} of a table has no lines")
    if vocab_size > len(lines):
        raise errors.InvalidArgumentError(
            f"Invalid vocab_size in {path}: expected {vocab_size} lines, found {len(lines)}"
        )
    lines = lines if vocab_size == -1 else lines[:vocab_size]
    mark = delimiter.encode()

    def columns() -> tuple[list[Any], list[Any]]:
        rows = [
            (
                _column(line, number, key_index, mark, table.key_dtype),
                _column(line, number, value_index, mark, table.value_dtype),
            )
            for number, line in enumerate(lines, offset)
        ]
        return [key for key, _ in rows], [value for _, value in rows]

    await _fill(table, len(lines), columns)


async def _fill(
    table: LookupTable, count: int, columns: Callable[[], tuple[list[Any], list[Any]]]
) -> None:
    """Fill a table with two columns of so many entries; the loop goes on where they are many."""

    def work() -> None:
        keys = np.empty(count, table.key_dtype.as_numpy_dtype)
        values = np.empty(count, table.value_dtype.as_numpy_dtype)
        keys[:], values[:] = columns()
        table.fill(keys, values)

    await run_sized(KERNELS, OBJECT_BYTES * count, work)


@op(
    "InitializeTableFromDataset(table_handle: resource, dataset: variant)",
    shape=no_outputs,
    stateful=True,
)
async def initialize_table_from_dataset(
    ctx: KernelContext, handle: object, dataset: object
) -> None:
    """Fill a table once, from a dataset of pairs: keys and values."""
    table = table_of(ctx, handle)
    if not table.is_fixed:
        raise errors.InvalidArgumentError(f"table {table.name!r} is not initializable")
    if table.is_filled:
        return
    source = as_dataset(dataset)
    if tuple(source.types) != (table.key_dtype, table.value_dtype):
        given = ", ".join(dtype.name for dtype in source.types)
        raise errors.InvalidArgumentError(
            f"a dataset of {table.key_dtype.name} and {table.value_dtype.name} fills table "
            f"{table.name!r}; this one has {given}"
        )
    keys: list[Any] = []
    values: list[Any] = []
    enter_scope({})
    iterator, turns = source.iterator(), Turns()
    while (element := await iterator.next()) is not None:
        if any(np.ndim(one) for one in element):
            raise errors.InvalidArgumentError(
                f"each element of a dataset that fills a table is two scalars; table {table.name!r}"
            )
        keys += items_of(element[0])
        values += items_of(element[1])
        await turns.pause()
    if not keys:
        raise errors.OutOfRangeError(f"the dataset that fills table {table.name!r} is empty")
    await _fill(table, len(keys), lambda: (keys, values))


not_differentiable(
    "InitializeTableFromDataset", "InitializeTableFromTextFileV2", "InitializeTableV2"
)
