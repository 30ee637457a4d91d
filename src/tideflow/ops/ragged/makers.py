"""Ragged tensors from rows of other kinds: RaggedTensor.from_*, tf.ragged.constant and range.

Source: tensorflow/python/ops/ragged/ragged_tensor.py, ragged_factory_ops.py, ragged_math_ops.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.static_value import static_value
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.array import getitem
from tideflow.ops.export import export
from tideflow.ops.ragged import partition
from tideflow.ops.ragged.tensor import RaggedTensor, rows_of
from tideflow.ops.sparse import SparseTensor
from tideflow.wire import dtypes
from tideflow.wire.dtypes import as_dtype
from tideflow.wire.errors import InvalidArgumentError


def _values(values: object) -> Tensor | RaggedTensor:
    if isinstance(values, RaggedTensor):
        return values
    given = convert_to_tensor(values, name="values")
    if given.dims == ():
        kind = InvalidArgumentError if get_default_graph().is_eager else ValueError
        raise kind("the values of a ragged tensor have rank 1 at least; found a scalar")
    return given


def _count(values: Tensor | RaggedTensor, kind: Any) -> Tensor:
    if isinstance(values, RaggedTensor):
        return values.nrows(kind)
    return partition.count_of(values, kind)


def _same(a: Tensor, b: Tensor) -> Tensor:
    found: Tensor = apply_op("Equal", a, b)
    return found


def from_row_splits(
    values: TensorLike, row_splits: TensorLike, name: str | None = None, validate: bool = True
) -> RaggedTensor:
    """Return rows that begin and end at row_splits: from 0 to the number of values, never falling.

    Raises: ValueError for splits that are no vector; InvalidArgumentError for others.
    """
    given, splits = _values(values), partition.as_partition(row_splits)
    if splits.dims == (0,):
        raise ValueError("row_splits must not be empty")
    if validate:
        lengths = partition.lengths_of(splits)
        splits = partition.require(
            splits,
            (_same(getitem(splits, 0), partition.number(0, splits.dtype)), "splits begin with 0"),
            (apply_op("GreaterEqual", lengths, partition.number(0, splits.dtype)), "splits rise"),
            (_same(getitem(splits, -1), _count(given, splits.dtype)), "splits end with all values"),
        )
    return rows_of(given, splits)


def from_row_lengths(
    values: TensorLike, row_lengths: TensorLike, name: str | None = None, validate: bool = True
) -> RaggedTensor:
    """Return rows of lengths that add up to the number of values.

    Raises: ValueError for lengths that are no vector; InvalidArgumentError for others.
    """
    lengths = partition.as_partition(row_lengths)
    return from_row_splits(values, partition.splits_of_lengths(lengths), name, validate)


def from_value_rowids(
    values: object,
    value_rowids: object,
    nrows: object | None = None,
    name: str | None = None,
    validate: bool = True,
) -> RaggedTensor:
    """Return rows by the row that each value is in: ids that never fall, below nrows.

    Raises: ValueError for ids that are no vector; InvalidArgumentError for others.
    """
    given, ids = _values(values), partition.as_partition(value_rowids)
    kind = ids.dtype
    if isinstance(nrows, int) and nrows < 0:
        raise ValueError(f"nrows must not be negative; found {nrows}")
    rows = partition.rows_by_ids(ids) if nrows is None else partition.number(nrows, kind)
    last, limit = (static_value(*x.edge) for x in (ids, rows))
    if last is not None and limit is not None and np.size(last) and last[-1] >= limit:
        raise ValueError(f"nrows is {limit}; the last row id is {last[-1]}")
    if validate:
        steps = apply_op("Sub", getitem(ids, slice(1, None)), getitem(ids, slice(None, -1)))
        zero = partition.number(0, kind)
        ids = partition.require(
            ids,
            (
                _same(_count(given, kind), partition.count_of(ids, kind)),
                "a row id for each value",
            ),
            (apply_op("GreaterEqual", ids, zero), "row ids are not negative"),
            (apply_op("Less", ids, rows), "row ids are below nrows"),
            (apply_op("GreaterEqual", steps, zero), "row ids never fall"),
        )
    return rows_of(given, partition.splits_of_ids(ids, rows))


def from_row_starts(
    values: TensorLike, row_starts: TensorLike, name: str | None = None, validate: bool = True
) -> RaggedTensor:
    """Return rows that begin at row_starts, the first at 0, and end where the next one begins."""
    given, starts = _values(values), partition.as_partition(row_starts)
    end = apply_op("ExpandDims", _count(given, starts.dtype), 0)
    return from_row_splits(given, apply_op("ConcatV2", [starts, end], 0), name, validate)


def from_row_limits(
    values: TensorLike, row_limits: TensorLike, name: str | None = None, validate: bool = True
) -> RaggedTensor:
    """Return rows that end at row_limits, the last with the values, and begin at the one before."""
    limits = partition.as_partition(row_limits)
    zero = convert_to_tensor([0], limits.dtype)
    return from_row_splits(values, apply_op("ConcatV2", [zero, limits], 0), name, validate)


def from_uniform_row_length(
    values: TensorLike,
    uniform_row_length: TensorLike,
    nrows: TensorLike | None = None,
    validate: bool = True,
    name: str | None = None,
) -> RaggedTensor:
    """Return rows that all have one length.

    nrows: how many; needed where the length is 0.
    """
    given = _values(values)
    kind = getattr(uniform_row_length, "dtype", dtypes.int64)
    length = partition.number(uniform_row_length, as_dtype(kind))
    kind = length.dtype
    count = _count(given, kind)
    if nrows is None:
        known, size = static_value(*length.edge), given.shape.as_list()[0]
        if validate and known and size is not None and size % int(known):
            raise ValueError(f"{size} values do not make up rows of length {int(known)}")
        least = apply_op("Maximum", length, partition.number(1, kind))
        rows = apply_op("FloorDiv", count, least)
    else:
        rows = partition.number(nrows, kind)
    splits = partition.uniform_splits(rows, length)
    if validate:
        whole = _same(getitem(splits, -1), count)
        splits = partition.require(splits, (whole, "rows of that length take all values"))
    return rows_of(given, splits, length)


def _nested(make: Any, values: Any, partitions: Sequence[Any], validate: bool) -> Any:
    if isinstance(partitions, Tensor):
        raise TypeError("a list of tensors is wanted, one for each ragged dimension")
    for each in reversed(list(partitions)):
        values = make(values, each, validate=validate)
    return values


def from_nested_row_splits(
    flat_values: Any, nested_row_splits: Any, name: str | None = None, validate: bool = True
) -> Any:
    """Return rows of rows by row splits of each ragged dimension, outermost first."""
    return _nested(from_row_splits, flat_values, nested_row_splits, validate)


def from_nested_row_lengths(
    flat_values: Any, nested_row_lengths: Any, name: str | None = None, validate: bool = True
) -> Any:
    """Return rows of rows by row lengths of each ragged dimension, outermost first."""
    return _nested(from_row_lengths, flat_values, nested_row_lengths, validate)


def from_nested_value_rowids(
    flat_values: TensorLike,
    nested_value_rowids: Any,
    nested_nrows: Any = None,
    name: str | None = None,
    validate: bool = True,
) -> Any:
    """Return rows of rows by row ids of each ragged dimension, outermost first."""
    ids = list(nested_value_rowids)
    counts = [None] * len(ids) if nested_nrows is None else list(nested_nrows)
    if len(counts) != len(ids):
        raise ValueError(f"there are {len(ids)} lists of row ids, and {len(counts)} of nrows")
    for each, rows in zip(reversed(ids), reversed(counts)):
        flat_values = from_value_rowids(flat_values, each, rows, validate=validate)
    return flat_values


# ---- from tensors


def from_tensor(
    tensor: object,
    lengths: TensorLike | None = None,
    padding: object | None = None,
    ragged_rank: int = 1,
    name: str | None = None,
    row_splits_dtype: object = dtypes.int64,
) -> RaggedTensor:
    """Return the rows of a dense tensor, whole or in part.

    Args:
      lengths: how much of each row is kept; or a list of such, for several ragged dimensions.
      padding: what is left out at the end of rows.
      ragged_rank: how many dimensions become ragged.
    Raises: ValueError for both lengths and padding, or for a tensor of too low a rank.
    """
    kind = as_dtype(row_splits_dtype)
    given = convert_to_tensor(tensor, name="tensor")
    if lengths is not None and padding is not None:
        raise ValueError("give either lengths or padding, not both")
    if ragged_rank < 1:
        raise ValueError(f"ragged_rank must be at least 1; found {ragged_rank}")
    if given.dims is None or len(given.dims) <= ragged_rank:
        raise ValueError(f"the tensor must have a rank above {ragged_rank}; found {given.shape}")
    if (
        isinstance(lengths, (list, tuple))
        and lengths
        and isinstance(lengths[0], (list, tuple, Tensor, np.ndarray))
        and getattr(lengths[0], "dims", (None,)) != ()
    ):
        return _from_nested_lengths(given, list(lengths), kind)
    if ragged_rank > 1:
        return _of_inner_rows(given, padding, ragged_rank, kind)
    shape = apply_op("Shape", given, out_type=kind)
    rows, width = getitem(shape, 0), getitem(shape, 1)
    inner = apply_op("ConcatV2", [[-1], getitem(apply_op("Shape", given), slice(2, None))], 0)
    flat = apply_op("Reshape", given, inner)
    if lengths is None and padding is None:
        known = given.dims[1]
        length = width if known is None else partition.number(known, kind)
        return from_uniform_row_length(flat, length, rows, validate=False)
    if padding is not None:
        kept = _kept_lengths(given, padding, kind)
    else:
        kept = partition.as_partition(lengths, kind)
        kept = apply_op("Minimum", apply_op("Maximum", kept, partition.number(0, kind)), width)
    mask = apply_op(
        "Less",
        apply_op("ExpandDims", partition.up_to(width), 0),
        apply_op("ExpandDims", kept, 1),
    )
    places = apply_op("Where", apply_op("Reshape", mask, [-1]))
    values = apply_op("GatherV2", flat, apply_op("Squeeze", places, squeeze_dims=[1]), 0)
    return rows_of(values, partition.splits_of_lengths(kept))


def _kept_lengths(given: Tensor, padding: object, kind: Any) -> Tensor:
    """Return the lengths of rows without what equals the padding at their ends."""
    filling = convert_to_tensor(padding, given.dtype, name="padding")
    differs = apply_op("NotEqual", given, filling)
    if len(given.dims or ()) > 2:
        axes = list(range(2, len(given.dims or ())))
        differs = apply_op("Any", differs, axes)
    width = getitem(apply_op("Shape", differs, out_type=kind), 1)
    one = partition.number(1, kind)
    places = apply_op("Range", one, apply_op("AddV2", width, one), one)
    counted = apply_op("Mul", apply_op("Cast", differs, DstT=kind), places)
    found: Tensor = apply_op("Maximum", apply_op("Max", counted, [1]), partition.number(0, kind))
    return found


def _from_nested_lengths(given: Tensor, lengths: list[Any], kind: object) -> RaggedTensor:
    """Return the tensor with the first lengths for its rows, the next for those within."""
    outer = from_tensor(given, lengths[0], row_splits_dtype=kind)
    if len(lengths) == 1:
        return outer
    return outer.with_values(_from_nested_lengths(outer.flat_values, lengths[1:], kind))


def _of_inner_rows(given: Tensor, padding: object, ragged_rank: int, kind: object) -> RaggedTensor:
    shape = apply_op("Shape", given, out_type=kind)
    joined = apply_op("ConcatV2", [[-1], getitem(apply_op("Shape", given), slice(2, None))], 0)
    rest = apply_op("Reshape", given, joined)
    if given.dims is not None:
        rest.set_shape((None, *given.dims[2:]))
    values = from_tensor(rest, None, padding, ragged_rank - 1, None, kind)
    return from_uniform_row_length(values, getitem(shape, 1), getitem(shape, 0), validate=False)


def from_sparse(
    st_input: SparseTensor, name: str | None = None, row_splits_dtype: DTypeLike = dtypes.int64
) -> RaggedTensor:
    """Return the rows of a sparse matrix, in which values must stand at the beginning of rows.

    Raises: TypeError for another kind; ValueError for another rank; InvalidArgumentError for gaps.
    """
    if not isinstance(st_input, SparseTensor):
        raise TypeError(f"a SparseTensor is wanted; found {type(st_input).__name__}")
    if st_input.shape.rank not in (2, None):
        raise ValueError(f"a sparse tensor of rank 2 is wanted; found {st_input.shape}")
    kind = as_dtype(row_splits_dtype)
    ids = partition.number(getitem(st_input.indices, (slice(None), 0)), kind)
    columns = partition.number(getitem(st_input.indices, (slice(None), 1)), kind)
    rows = partition.number(getitem(st_input.dense_shape, 0), kind)
    made = rows_of(st_input.values, partition.splits_of_ids(ids, rows))
    starts = apply_op("GatherV2", made.row_starts(), ids, 0)
    count = partition.count_of(made.flat_values, kind)
    fits = _same(apply_op("Sub", partition.up_to(count), starts), columns)
    values = partition.require(
        made.flat_values, (fits, "a sparse tensor is not right-ragged: its rows have gaps")
    )
    return made.with_values(values)


for _make in (
    from_row_splits,
    from_row_lengths,
    from_value_rowids,
    from_row_starts,
    from_row_limits,
    from_uniform_row_length,
    from_nested_row_splits,
    from_nested_row_lengths,
    from_nested_value_rowids,
    from_tensor,
    from_sparse,
):
    setattr(RaggedTensor, _make.__name__, staticmethod(_make))


# ---- from Python's lists


def _depths(value: object) -> tuple[int | None, int]:
    """Return how deep scalars lie in nested lists, None where there are none; and how deep lists.

    Raises: ValueError where scalars lie at several depths.
    """
    if isinstance(value, np.ndarray) and value.dtype != object:
        return (value.ndim if value.size else None), value.ndim
    if not isinstance(value, (list, tuple, np.ndarray)):
        return 0, 0
    found = [_depths(item) for item in value]
    scalars = {depth for depth, _ in found if depth is not None}
    deepest = max((depth for _, depth in found), default=0)
    if len(scalars) > 1 or (scalars and scalars != {deepest}):
        raise ValueError("all scalar values in a ragged constant must lie at the same depth")
    return (scalars.pop() + 1 if scalars else None), deepest + 1


def taken_apart(
    pylist: Any, ragged_rank: int | None, inner_shape: Any
) -> tuple[list[Any], Any, tuple[int, ...] | None]:
    """Return what nested lists are made of, as a ragged tensor.

    Returns: row splits, outermost first; the innermost values; and the shape of one of them, None
      where the values tell it.
    Raises: ValueError for scalars at several depths, or a rank that does not fit.
    """
    scalars, deepest = _depths(pylist)
    inner = None if inner_shape is None else tuple(np.atleast_1d(inner_shape).tolist())
    if scalars == 0:
        if ragged_rank:
            raise ValueError(f"a scalar cannot have ragged_rank {ragged_rank}")
        return [], pylist, None
    rank = _ragged_rank(scalars, deepest, ragged_rank, inner)
    if rank == 0:
        return [], pylist, inner or None
    nested, rows = [], pylist
    for _ in range(rank):
        nested.append(np.cumsum([0, *(len(row) for row in rows)]))
        rows = [item for row in rows for item in row]
    depth = deepest - rank - 1
    shape = inner if inner is not None else (0,) * max(depth, 0) if scalars is None else None
    return nested, rows, shape


@export("ragged.constant")
def constant(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = dtypes.int64,
) -> Any:
    """Return nested lists as a ragged tensor; as a dense one where nothing is nested.

    Args:
      dtype: the element type; by default what tf.constant would take, float32 where there is none.
      ragged_rank: how many dimensions are ragged; by default all but the first.
      inner_shape: the shape of the innermost values.
    Raises: ValueError for scalars at several depths, or a rank that does not fit.
    """
    wanted, kind = None if dtype is None else as_dtype(dtype), as_dtype(row_splits_dtype)
    nested, rows, shape = taken_apart(pylist, ragged_rank, inner_shape)
    if not isinstance(rows, (list, tuple, np.ndarray)):
        return convert_to_tensor(rows, wanted)
    made: Any = _dense(rows, wanted, shape)
    if not nested:
        return made
    with get_default_graph().name_scope(name or "RaggedConstant"):
        for splits in reversed(nested):
            made = rows_of(made, convert_to_tensor(splits.astype(kind.as_numpy_dtype)))
    return made


def _ragged_rank(
    scalars: int | None, deepest: int, given: int | None, inner: tuple[int, ...] | None
) -> int:
    if given is None:
        if inner is not None:
            return max(0, deepest - 1 - len(inner))
        return max(1 if scalars is None and deepest > 1 else 0, deepest - 1)
    if scalars is not None and given >= scalars:
        raise ValueError(f"ragged_rank {given} is not below the depth of the scalars, {scalars}")
    return given


def _dense(rows: Any, dtype: Any, inner: tuple[int, ...] | None) -> Tensor:
    kind = dtypes.float32 if dtype is None and not np.size(np.array(rows, object)) else dtype
    made = convert_to_tensor(rows, kind)
    if inner is None:
        return made
    shaped: Tensor = apply_op("Reshape", made, [len(rows), *inner])
    return shaped


@export("ragged.range")
def ragged_range(
    starts: TensorLike,
    limits: TensorLike | None = None,
    deltas: TensorLike = 1,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    row_splits_dtype: DTypeLike = dtypes.int64,
) -> RaggedTensor:
    """Return a row for each start, limit and delta: start, start + delta ... below the limit.

    Each is a scalar or a vector; starts alone are limits, from 0.
    Raises: InvalidArgumentError for a delta of 0.
    """
    if limits is None:
        starts, limits = 0, starts
    given = [convert_to_tensor(x, dtype) for x in (starts, limits, deltas)]
    order = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64]
    kind = max((x.dtype for x in given), key=order.index) if dtype is None else as_dtype(dtype)
    columns = [x if x.dtype == kind else apply_op("Cast", x, DstT=kind) for x in given]
    splits, values = apply_op(
        "RaggedRange", *columns, Tsplits=as_dtype(row_splits_dtype), name=name
    )
    return rows_of(values, splits)
