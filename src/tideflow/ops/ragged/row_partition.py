"""tf.experimental.RowPartition: how a sequence of values is divided into rows, without the values.

Source: tensorflow/python/ops/ragged/row_partition.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec, register_type_spec
from tideflow.graph.types import DTypeLike
from tideflow.ops.array import getitem
from tideflow.ops.export import export
from tideflow.ops.framework import get_static_value, nest
from tideflow.ops.ragged import partition
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype

_TYPES = (dtypes.int32, dtypes.int64)
# Splits of more rows are computed when the graph runs, and not held in it.
_MOST_KNOWN_SPLITS = 4096


def known(tensor: Tensor | None) -> Any:
    """Return the value of a tensor where it is known now, else None."""
    if tensor is None:
        return None
    return np.asarray(tensor) if tensor.graph.is_eager else get_static_value(tensor)


def _known_size(tensor: Tensor | None) -> int | None:
    found = known(tensor)
    return None if found is None else int(found)


def _encoding(
    value: object, what: str, dtype: DTypeLike | None, dtype_hint: DTypeLike | None, rank: int = 1
) -> Tensor:
    """Return splits, lengths, ids or a number as a tensor of int32 or int64.

    Raises: ValueError for other types and ranks.
    """
    if dtype is not None or isinstance(value, Tensor):
        given = convert_to_tensor(value, None if dtype is None else as_dtype(dtype))
    else:
        is_int32 = isinstance(value, np.ndarray) and value.dtype == np.int32
        kind = dtypes.int32 if is_int32 else as_dtype(dtype_hint or dtypes.int64)
        try:
            given = convert_to_tensor(value, kind)
        except (TypeError, ValueError):
            given = convert_to_tensor(value)
    if given.dtype not in _TYPES:
        raise ValueError(f"{what} must have dtype int32 or int64; found {given.dtype.name}")
    if given.dims is not None and len(given.dims) != rank:
        raise ValueError(f"{what} must have rank {rank}; found shape {given.shape}")
    return given


def _alike(
    values: Sequence[object], dtype: DTypeLike | None, dtype_hint: DTypeLike | None
) -> list[Tensor | None]:
    """Return numbers, and None for None, as scalars of one type: that of the first tensor."""
    if dtype is not None:
        kind = as_dtype(dtype)
        return [None if x is None else partition.number(x, kind) for x in values]
    own = [x.dtype for x in values if isinstance(x, Tensor)]
    own += [as_dtype(x.dtype) for x in values if isinstance(x, np.ndarray)]
    kind = own[0] if own else as_dtype(dtype_hint or dtypes.int64)
    return [None if x is None else convert_to_tensor(x, kind) for x in values]


def _require_flag(validate: object) -> None:
    if not isinstance(validate, bool):
        raise TypeError("validate must have type bool")


def _rising(values: Tensor) -> Tensor:
    """Return for each value and the next one whether it is not above that."""
    found: Tensor = apply_op(
        "LessEqual", getitem(values, slice(None, -1)), getitem(values, slice(1, None))
    )
    return found


@export("experimental.RowPartition")
class RowPartition:
    """Rows that follow each other: row i has the values row_splits[i] to row_splits[i + 1].

    Made by the methods from_*, each from another encoding of the same:

        RowPartition.from_row_lengths([4, 0, 3, 1, 0])
        RowPartition.from_row_splits([0, 4, 4, 7, 8, 8])
        RowPartition.from_row_starts([0, 4, 4, 7, 8], nvals=8)
        RowPartition.from_row_limits([4, 4, 7, 8, 8])
        RowPartition.from_value_rowids([0, 0, 0, 0, 2, 2, 2, 3], nrows=5)

    They take `validate` (whether values are checked, when they are known), `dtype` (int32 or
    int64) and `dtype_hint` (the type of what has none, int64 by default).
    Raises: ValueError for other types and ranks, TypeError for a `validate` that is no bool,
    InvalidArgumentError for values that divide nothing into rows.
    """

    __slots__ = (
        "_nrows",
        "_nvals",
        "_row_lengths",
        "_row_splits",
        "_uniform_row_length",
        "_value_rowids",
    )

    def __init__(
        self,
        row_splits: Tensor,
        row_lengths: Tensor | None = None,
        value_rowids: Tensor | None = None,
        nrows: Tensor | None = None,
        uniform_row_length: Tensor | None = None,
        nvals: Tensor | None = None,
        internal: bool = False,
    ) -> None:
        if not internal:
            raise ValueError(
                "RowPartition constructor is private; please use one of the factory methods "
                "instead, such as RowPartition.from_row_lengths"
            )
        self._row_splits = row_splits
        self._row_lengths = row_lengths
        self._value_rowids = value_rowids
        self._nrows = nrows
        self._uniform_row_length = uniform_row_length
        self._nvals = nvals

    # ---- from other encodings

    @classmethod
    def from_value_rowids(
        cls,
        value_rowids: object,
        nrows: object | None = None,
        validate: bool = True,
        dtype: DTypeLike | None = None,
        dtype_hint: DTypeLike | None = None,
    ) -> RowPartition:
        """Return rows by the row of each value: ids that never fall, below nrows.

        Raises: ValueError where nrows is known to be negative, or not above all ids.
        """
        _require_flag(validate)
        ids = _encoding(value_rowids, "value_rowids", dtype, dtype_hint)
        rows = partition.rows_by_ids(ids) if nrows is None else partition.number(nrows, ids.dtype)
        if rows.dims not in (None, ()):
            raise ValueError(f"nrows must be a scalar; found shape {rows.shape}")
        count, all_ids = _known_size(rows), known(ids)
        if count is not None and count < 0:
            raise ValueError(f"Expected nrows >= 0; got {count}")
        if count is not None and np.size(all_ids) and all_ids is not None and count <= all_ids[-1]:
            raise ValueError(
                "Expected nrows >= value_rowids[-1] + 1; "
                f"got nrows={count}, value_rowids[-1]={all_ids[-1]}"
            )
        if validate:
            zero = partition.number(0, ids.dtype)
            ids = partition.require(
                ids,
                (apply_op("GreaterEqual", ids, zero), "value_rowids are not negative"),
                (apply_op("Less", ids, rows), "value_rowids are below nrows"),
                (_rising(ids), "value_rowids never fall"),
            )
        lengths = apply_op("UnsortedSegmentSum", apply_op("OnesLike", ids), ids, rows)
        splits = partition.splits_of_lengths(lengths)
        return cls(splits, lengths, value_rowids=ids, nrows=rows, internal=True)

    @classmethod
    def from_row_splits(
        cls,
        row_splits: object,
        validate: bool = True,
        dtype: DTypeLike | None = None,
        dtype_hint: DTypeLike | None = None,
    ) -> RowPartition:
        """Return rows that begin and end at row_splits: from 0, never falling."""
        _require_flag(validate)
        if isinstance(row_splits, (list, tuple)) and not row_splits:
            raise ValueError("row_splits tensor may not be empty.")
        splits = _encoding(row_splits, "row_splits", dtype, dtype_hint)
        if validate:
            begins = apply_op("Equal", getitem(splits, 0), partition.number(0, splits.dtype))
            splits = partition.require(
                splits,
                (begins, "row_splits begin with zero"),
                (_rising(splits), "row_splits never fall"),
            )
        return cls(splits, internal=True)

    @classmethod
    def from_row_lengths(
        cls,
        row_lengths: object,
        validate: bool = True,
        dtype: DTypeLike | None = None,
        dtype_hint: DTypeLike | None = None,
    ) -> RowPartition:
        """Return rows of those lengths."""
        _require_flag(validate)
        lengths = _encoding(row_lengths, "row_lengths", dtype, dtype_hint)
        if validate:
            zero = partition.number(0, lengths.dtype)
            fits = apply_op("GreaterEqual", lengths, zero)
            lengths = partition.require(lengths, (fits, "row_lengths are not negative"))
        return cls(partition.splits_of_lengths(lengths), lengths, internal=True)

    @classmethod
    def from_row_starts(
        cls,
        row_starts: object,
        nvals: object,
        validate: bool = True,
        dtype: DTypeLike | None = None,
        dtype_hint: DTypeLike | None = None,
    ) -> RowPartition:
        """Return rows that begin at row_starts, the first at 0; nvals: the number of values."""
        _require_flag(validate)
        starts = _encoding(row_starts, "row_starts", dtype, dtype_hint)
        values = partition.number(nvals, starts.dtype)
        if validate:
            first = apply_op(
                "Equal", getitem(starts, slice(None, 1)), partition.number(0, starts.dtype)
            )
            starts = partition.require(
                starts,
                (first, "row_starts begin with zero"),
                (_rising(starts), "row_starts never fall"),
                (apply_op("LessEqual", starts, values), "row_starts are not above nvals"),
            )
        splits = apply_op("ConcatV2", [starts, apply_op("ExpandDims", values, 0)], 0)
        return cls(splits, nvals=values, internal=True)

    @classmethod
    def from_row_limits(
        cls,
        row_limits: object,
        validate: bool = True,
        dtype: DTypeLike | None = None,
        dtype_hint: DTypeLike | None = None,
    ) -> RowPartition:
        """Return rows that end at row_limits, and begin where the one before ends."""
        _require_flag(validate)
        limits = _encoding(row_limits, "row_limits", dtype, dtype_hint)
        if validate:
            fits = apply_op("GreaterEqual", limits, partition.number(0, limits.dtype))
            limits = partition.require(
                limits,
                (fits, "row_limits are not negative"),
                (_rising(limits), "row_limits never fall"),
            )
        splits = apply_op("ConcatV2", [convert_to_tensor([0], limits.dtype), limits], 0)
        return cls(splits, internal=True)

    @classmethod
    def from_uniform_row_length(
        cls,
        uniform_row_length: object,
        nvals: object | None = None,
        nrows: object | None = None,
        validate: bool = True,
        dtype: DTypeLike | None = None,
        dtype_hint: DTypeLike | None = None,
    ) -> RowPartition:
        """Return rows that all have one length; of nvals values, or nrows rows, or both.

        Raises: ValueError for neither, for a negative length, and for values that do not fill rows.
        """
        _require_flag(validate)
        if nrows is None and nvals is None:
            raise ValueError("Either (or both) of nvals and nrows must be specified")
        length, values, rows = _alike([uniform_row_length, nvals, nrows], dtype, dtype_hint)
        assert length is not None
        if length.dtype not in _TYPES or length.dims not in (None, ()):
            raise ValueError(f"uniform_row_length must be a scalar of integers; found {length!r}")
        kind, size = length.dtype, _known_size(length)
        if rows is None:
            least = apply_op("Maximum", length, partition.number(1, kind))
            is_empty = size == 0
            rows = partition.number(0, kind) if is_empty else apply_op("FloorDiv", values, least)
        if validate and size is not None and size < 0:
            raise ValueError("uniform_row_length must be >= 0.")
        count, total = _known_size(rows), _known_size(values)
        if values is None:
            is_known = size is not None and count is not None
            values = (
                partition.number(size * count, kind)  # type: ignore[operator]
                if is_known
                else apply_op("Mul", rows, length)
            )
        splits = _uniform_splits(rows, length, count, size)
        if validate and None not in (size, count, total):
            if size * count != total:  # type: ignore[operator]
                raise ValueError(
                    f"uniform_row_length={size} times nrows={count} must equal nvals={total}"
                )
        elif validate:
            splits = partition.require(
                splits,
                (apply_op("Equal", apply_op("Mul", rows, length), values), "rows take all values"),
                (
                    apply_op("GreaterEqual", length, partition.number(0, kind)),
                    "uniform_row_length must be >= 0.",
                ),
            )
        return cls(splits, nrows=rows, uniform_row_length=length, nvals=values, internal=True)

    # ---- encodings

    @property
    def dtype(self) -> DType:
        """The type of the encodings, int32 or int64."""
        return self._row_splits.dtype

    def row_splits(self) -> Tensor:
        """Return where rows begin and end: [nrows + 1]."""
        return self._row_splits

    def value_rowids(self) -> Tensor:
        """Return for each value which row it is in: [nvals]."""
        kept = self._value_rowids
        return partition.ids_of(self._row_splits) if kept is None else kept

    def nvals(self) -> Tensor:
        """Return how many values there are."""
        return getitem(self._row_splits, -1)

    def nrows(self) -> Tensor:
        """Return how many rows there are."""
        if self._nrows is not None:
            return self._nrows
        dims = self._row_splits.dims
        if dims is not None and dims[0] is not None:
            return partition.number(dims[0] - 1, self.dtype)
        count = partition.count_of(self._row_splits, self.dtype)
        found: Tensor = apply_op("Sub", count, partition.number(1, self.dtype))
        return found

    def uniform_row_length(self) -> Tensor | None:
        """Return the length of all rows where the partition was made so, else None."""
        return self._uniform_row_length

    def row_starts(self) -> Tensor:
        """Return where each row begins: [nrows]."""
        return getitem(self._row_splits, slice(None, -1))

    def row_limits(self) -> Tensor:
        """Return where each row ends: [nrows]."""
        return getitem(self._row_splits, slice(1, None))

    def row_lengths(self) -> Tensor:
        """Return the length of each row: [nrows]."""
        kept = self._row_lengths
        return partition.lengths_of(self._row_splits) if kept is None else kept

    def offsets_in_rows(self) -> Tensor:
        """Return for each value which one of its row it is: [nvals]."""
        kind = self.dtype
        zero, one = partition.number(0, kind), partition.number(1, kind)
        offsets: Tensor = apply_op("RaggedRange", zero, self.row_lengths(), one, Tsplits=kind)[1]
        return offsets

    # ---- what is known before anything runs

    @property
    def static_nrows(self) -> int | None:
        """How many rows there are, where that is known."""
        for encoding, more in ((self._row_splits, 1), (self._row_lengths, 0)):
            dims = None if encoding is None else encoding.dims
            if dims and dims[0] is not None:
                return dims[0] - more
        return _known_size(self._nrows)

    @property
    def static_nvals(self) -> int | None:
        """How many values there are, where that was said and is known."""
        found = _known_size(self._nvals)
        dims = None if self._value_rowids is None else self._value_rowids.dims
        return dims[0] if found is None and dims else found

    @property
    def static_uniform_row_length(self) -> int | None:
        """The length of all rows, where the partition was made so and it is known."""
        return _known_size(self._uniform_row_length)

    def is_uniform(self) -> bool:
        """Whether the partition was made of rows of one length."""
        return self._uniform_row_length is not None

    # ---- others

    def with_dtype(self, dtype: DTypeLike) -> RowPartition:
        """Return the same rows in encodings of int32 or int64.  Raises: ValueError."""
        kind = as_dtype(dtype)
        if kind not in _TYPES:
            raise ValueError("dtype must be int32 or int64")
        if kind == self.dtype:
            return self
        parts = {
            "row_lengths": self._row_lengths,
            "value_rowids": self._value_rowids,
            "nrows": self._nrows,
            "uniform_row_length": self._uniform_row_length,
        }
        cast = {k: None if x is None else partition.number(x, kind) for k, x in parts.items()}
        return RowPartition(partition.number(self._row_splits, kind), **cast, internal=True)

    def checked(self, *conditions: tuple[Tensor, str]) -> RowPartition:
        """Return the same rows, there only where conditions hold.  Raises: InvalidArgumentError."""
        return RowPartition(
            partition.require(self._row_splits, *conditions),
            self._row_lengths,
            self._value_rowids,
            self._nrows,
            self._uniform_row_length,
            internal=True,
        )

    def __repr__(self) -> str:
        if self._uniform_row_length is None:
            return f"tf.RowPartition(row_splits={self._row_splits})"
        return (
            f"tf.RowPartition(nrows={self._nrows}, uniform_row_length={self._uniform_row_length})"
        )


def _uniform_splits(rows: Tensor, length: Tensor, count: int | None, size: int | None) -> Tensor:
    if count is None or size is None or count > _MOST_KNOWN_SPLITS:
        return partition.uniform_splits(rows, length)
    kind = length.dtype.as_numpy_dtype
    return convert_to_tensor(np.arange(count + 1, dtype=kind) * size, length.dtype)


class RowPartitionSpec(TypeSpec):
    """What is known of a RowPartition: how many rows and values it has, and of what length.

    Args:
      nrows, nvals, uniform_row_length: None where it is not known, or rows differ.
      dtype: of the encodings, int32 or int64.
    Raises: ValueError for numbers that do not go together, or another type.
    """

    __slots__ = ("_dtype", "_nrows", "_nvals", "_uniform_row_length")

    def __init__(
        self,
        nrows: int | None = None,
        nvals: int | None = None,
        uniform_row_length: int | None = None,
        dtype: DTypeLike = dtypes.int64,
    ) -> None:
        self._dtype = as_dtype(dtype)
        if self._dtype not in _TYPES:
            raise ValueError("dtype must be tf.int32 or tf.int64")
        if not _go_together(nrows, nvals, uniform_row_length):
            raise ValueError(
                f"nvals={nvals} is not compatible with nrows={nrows} and "
                f"uniform_row_length={uniform_row_length}"
            )
        if nvals is None and (nrows == 0 or uniform_row_length == 0):
            nvals = 0
        if uniform_row_length is not None:
            if nrows is None and nvals is not None and uniform_row_length:
                nrows = nvals // uniform_row_length
            if nvals is None and nrows is not None:
                nvals = uniform_row_length * nrows
        self._nrows, self._nvals, self._uniform_row_length = nrows, nvals, uniform_row_length

    @classmethod
    def from_value(cls, value: RowPartition) -> RowPartitionSpec:
        """Return the spec of a partition."""
        return cls(
            value.static_nrows, value.static_nvals, value.static_uniform_row_length, value.dtype
        )

    @property
    def value_type(self) -> type:
        """The class of partitions."""
        return RowPartition

    @property
    def nrows(self) -> int | None:
        """How many rows there are."""
        return self._nrows

    @property
    def nvals(self) -> int | None:
        """How many values there are."""
        return self._nvals

    @property
    def uniform_row_length(self) -> int | None:
        """The length of all rows."""
        return self._uniform_row_length

    @property
    def dtype(self) -> DType:
        """The type of the encodings."""
        return self._dtype

    def with_dtype(self, dtype: DTypeLike) -> RowPartitionSpec:
        """Return the spec of the same rows in encodings of another type."""
        return RowPartitionSpec(self._nrows, self._nvals, self._uniform_row_length, dtype)

    def _stated(self) -> tuple[Any, ...]:
        sizes = (self._nrows, self._nvals, self._uniform_row_length)
        return *(TensorShape([size]) for size in sizes), self._dtype

    def _restated(self, stated: Sequence[Any]) -> RowPartitionSpec:
        nrows, nvals, length = ((each.sizes or (None,))[0] for each in stated[:3])
        return RowPartitionSpec(nrows, nvals, length, stated[3])

    def _admits(self, other: RowPartitionSpec) -> bool:
        merged = [
            mine if theirs is None else theirs
            for mine, theirs in (
                (self._nrows, other.nrows),
                (self._nvals, other.nvals),
                (self._uniform_row_length, other.uniform_row_length),
            )
        ]
        return super()._admits(other) and _go_together(*merged)

    def __repr__(self) -> str:
        return (
            f"RowPartitionSpec(nrows={self._nrows}, nvals={self._nvals}, "
            f"uniform_row_length={self._uniform_row_length}, dtype={self._dtype!r})"
        )

    @property
    def parts(self) -> Sequence[TensorSpec]:
        """The spec of the row splits."""
        return (TensorSpec([None if self._nrows is None else self._nrows + 1], self._dtype),)

    def from_parts(self, parts: Sequence[Any]) -> RowPartition:
        """Return the partition of row splits."""
        return RowPartition.from_row_splits(parts[0], validate=False)

    def to_tensors(self, value: RowPartition) -> list[Any]:
        """Return the row splits."""
        return [value.row_splits()]


def _go_together(nrows: int | None, nvals: int | None, length: int | None) -> bool:
    """Whether numbers of rows and values, and a length of rows, may be those of one partition."""
    if (nrows == 0 or length == 0) and nvals not in (0, None):
        return False
    if length is None or nvals is None:
        return True
    return nvals == length * nrows if nrows is not None else not length or nvals % length == 0


register_type_spec(RowPartition, RowPartitionSpec.from_value)
nest.register_composite(
    RowPartition,
    lambda rows: [rows.row_splits()],
    lambda _, parts: RowPartition.from_row_splits(parts[0], validate=False),
)
