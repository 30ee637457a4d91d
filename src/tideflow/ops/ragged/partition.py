"""How values are divided into rows: row splits [rows + 1], lengths [rows], or row ids [values].

Source: tensorflow/python/ops/ragged/row_partition.py, segment_id_ops.py.
"""

from __future__ import annotations

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.array import getitem
from tideflow.ops.control_flow import with_dependencies
from tideflow.ops.export import export
from tideflow.ops.framework import Assert
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype


def as_partition(value: object, dtype: DTypeLike | None = None) -> Tensor:
    """Return splits, lengths or ids as a vector of int32 or int64; numbers become int64.

    Raises: ValueError for other types and ranks.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        given = convert_to_tensor(value)
        if given.dtype not in (dtypes.int32, dtypes.int64):
            raise ValueError(f"a row partition is of int32 or int64; found {given.dtype.name}")
    else:
        try:
            given = convert_to_tensor(value, dtypes.int64)
        except TypeError as error:
            raise ValueError(f"a row partition is of int32 or int64: {error}") from None
    if given.dims is not None and len(given.dims) != 1:
        raise ValueError(f"a row partition is a vector; found shape {given.shape}")
    return given if wanted in (None, given.dtype) else apply_op("Cast", given, DstT=wanted)


def number(value: object, dtype: DType) -> Tensor:
    """Return an integer as a scalar of a type."""
    given = value if isinstance(value, Tensor) else convert_to_tensor(value, dtype)
    found: Tensor = given if given.dtype == dtype else apply_op("Cast", given, DstT=dtype)
    return found


def require(value: Tensor, *conditions: tuple[Tensor, str]) -> Tensor:
    """Return a value that is there only where conditions hold.  Raises: InvalidArgumentError."""
    asserts = [Assert(_whole(condition), [what]) for condition, what in conditions]
    found: Tensor = with_dependencies([made for made in asserts if made is not None], value)
    return found


def _whole(condition: Tensor) -> Tensor:
    if condition.dims == ():
        return condition
    found: Tensor = apply_op("All", condition, apply_op("Range", 0, apply_op("Rank", condition), 1))
    return found


def count_of(values: Tensor, dtype: DType) -> Tensor:
    """Return how many rows a dense tensor has."""
    found: Tensor = getitem(apply_op("Shape", values, out_type=dtype), 0)
    return found


def lengths_of(splits: Tensor) -> Tensor:
    """Return the length of each row."""
    ends, starts = getitem(splits, slice(1, None)), getitem(splits, slice(None, -1))
    found: Tensor = apply_op("Sub", ends, starts)
    return found


def up_to(count: Tensor) -> Tensor:
    """Return the numbers from 0 to below a count."""
    found: Tensor = apply_op("Range", number(0, count.dtype), count, number(1, count.dtype))
    return found


def uniform_splits(rows: Tensor, length: Tensor) -> Tensor:
    """Return row splits of that many rows of one length."""
    each = up_to(apply_op("AddV2", rows, number(1, rows.dtype)))
    found: Tensor = apply_op("Mul", each, length)
    return found


def splits_of_lengths(lengths: Tensor) -> Tensor:
    """Return row splits of rows of those lengths."""
    zero = convert_to_tensor([0], lengths.dtype)
    found: Tensor = apply_op("ConcatV2", [zero, apply_op("Cumsum", lengths, 0)], 0)
    return found


def ids_of(splits: Tensor) -> Tensor:
    """Return for each value which row it is in."""
    kind = splits.dtype
    values = up_to(getitem(splits, -1))
    ends = apply_op("ExpandDims", getitem(splits, slice(1, None)), 0)
    found = apply_op("UpperBound", ends, apply_op("ExpandDims", values, 0), out_type=kind)
    made: Tensor = apply_op("Squeeze", found, squeeze_dims=[0])
    return made


def splits_of_ids(ids: Tensor, rows: Tensor) -> Tensor:
    """Return row splits of values in rows of those ids, which never fall."""
    ones = apply_op("OnesLike", ids)
    return splits_of_lengths(apply_op("UnsortedSegmentSum", ones, ids, rows))


def rows_by_ids(ids: Tensor) -> Tensor:
    """Return how many rows there are where the last has a value: the highest id and 1."""
    kind = ids.dtype
    given = apply_op("ConcatV2", [convert_to_tensor([-1], kind), ids], 0)
    found: Tensor = apply_op("AddV2", apply_op("Max", given, [0]), number(1, kind))
    return found


@export("ragged.row_splits_to_segment_ids")
def row_splits_to_segment_ids(
    splits: TensorLike, name: str | None = None, out_type: DTypeLike | None = None
) -> Tensor:
    """Return for each value which row it is in, from row splits.

    Raises: ValueError for splits that are no vector of integers.
    """
    with get_default_graph().name_scope(name or "RaggedSplitsToSegmentIds"):
        given = as_partition(splits)
        if given.dims == (0,):
            raise ValueError("row splits have at least one element, 0")
        found = ids_of(given)
        return found if out_type is None else number(found, as_dtype(out_type))


@export("ragged.segment_ids_to_row_splits")
def segment_ids_to_row_splits(
    segment_ids: TensorLike,
    num_segments: TensorLike | None = None,
    out_type: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Return row splits, from ids of rows that never fall; num_segments counts empty rows too.

    Raises: ValueError for ids that are no vector of integers.
    """
    with get_default_graph().name_scope(name or "SegmentIdsToRowSplits"):
        ids = as_partition(segment_ids, out_type)
        rows = rows_by_ids(ids) if num_segments is None else number(num_segments, ids.dtype)
        return splits_of_ids(ids, rows)
