"""tf.experimental.DynamicRaggedShape: the shape of a tensor that may be ragged, as tensors.

The first axes are told by row partitions, the others by a vector of sizes, whose first is the
number of values that the last partition divides.
Source: tensorflow/python/ops/ragged/dynamic_ragged_shape.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import TensorShape
from tideflow.graph.static_value import static_value
from tideflow.graph.type_spec import register_type_spec
from tideflow.graph.types import DTypeLike, ShapeLike
from tideflow.ops.array import getitem
from tideflow.ops.export import export, overload_for
from tideflow.ops.framework import nest
from tideflow.ops.ragged import partition
from tideflow.ops.ragged.dynamic_shape_spec import DynamicShapeSpec
from tideflow.ops.ragged.row_partition import RowPartition, known
from tideflow.ops.ragged.tensor import RaggedTensor, rows_of
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype

_TYPES = (dtypes.int32, dtypes.int64)


def _type_of(partitions: Sequence[RowPartition], sizes: object, dtype: DTypeLike | None) -> DType:
    """Return the type that was asked for, else that of the first part that has one."""
    own: list[Any] = [] if dtype is None else [dtype]
    own += [rows.dtype for rows in partitions]
    if isinstance(sizes, (Tensor, np.ndarray)):
        own.append(sizes.dtype)
    kind = as_dtype(own[0]) if own else dtypes.int64
    if kind not in _TYPES:
        raise ValueError(f"Illegal dtype: {kind!r}")
    return kind


def _known_sizes(sizes: Tensor) -> TensorShape:
    """Return what is known of a vector of sizes."""
    found = known(sizes)
    if found is None and not sizes.graph.is_eager:
        found = static_value(*sizes.edge)
    if found is not None:
        return TensorShape([None if size is None else int(size) for size in found])
    count = (sizes.dims or (None,))[0]
    return TensorShape(None if count is None else [None] * count)


def _vector(sizes: Sequence[Any], dtype: DType) -> Tensor:
    """Return numbers, some of them tensors, as a vector."""
    if all(isinstance(size, int) for size in sizes):
        return convert_to_tensor(list(sizes), dtype)
    packed: Tensor = apply_op("Pack", [partition.number(size, dtype) for size in sizes])
    return packed


def _product(sizes: Sequence[Any], dtype: DType) -> Any:
    """Return the product of numbers, as a tensor where one is."""
    found: Any = 1
    for size in sizes:
        if isinstance(found, int) and isinstance(size, int):
            found *= size
        else:
            both = (partition.number(each, dtype) for each in (found, size))
            found = apply_op("Mul", *both)
    return found


def _is_size(value: object) -> bool:
    if isinstance(value, tuple):
        return all(isinstance(each, int) for each in value)
    return isinstance(value, int)


@export("experimental.DynamicRaggedShape")
class DynamicRaggedShape:
    """The shape of a tensor, ragged or not, whose sizes may be known only when it runs.

    Args:
      row_partitions: how the values are divided into rows, outermost first; none for a dense shape.
      inner_shape: the shape of the innermost values, a vector of sizes.
      dtype: int32 or int64, to which all is converted; that of the parts, or int64, by default.
      validate: whether values that are known only when it runs are checked then.
      static_inner_shape: what is known of inner_shape besides.
    Raises: TypeError for what are no partitions; ValueError for parts that do not go together;
    InvalidArgumentError where that shows when they run.
    """

    __slots__ = ("_inner_shape", "_row_partitions", "_static_inner_shape")

    Spec: type[DynamicShapeSpec]

    def __init__(
        self,
        row_partitions: Sequence[RowPartition],
        inner_shape: Any,
        dtype: DTypeLike | None = None,
        validate: bool = False,
        static_inner_shape: ShapeLike | None = None,
    ) -> None:
        if not isinstance(row_partitions, Iterable):
            raise TypeError(f"row_partitions should be a list; found {row_partitions!r}")
        given = tuple(row_partitions)
        for rows in given:
            if not isinstance(rows, RowPartition):
                raise TypeError(f"row_partitions contains {rows!r}, which is not a RowPartition")
        kind = _type_of(given, inner_shape, dtype)
        sizes = inner_shape
        if not isinstance(sizes, Tensor):
            has_tensors = isinstance(sizes, (list, tuple)) and any(
                isinstance(size, Tensor) for size in sizes
            )
            sizes = _vector(sizes, kind) if has_tensors else convert_to_tensor(sizes, kind)
        sizes = partition.number(sizes, kind)
        if sizes.dims is not None and len(sizes.dims) != 1:
            raise ValueError(f"inner_shape must be a vector; found shape {sizes.shape}")
        self._row_partitions = tuple(rows.with_dtype(kind) for rows in given)
        self._inner_shape = sizes
        self._static_inner_shape = _known_sizes(sizes)
        if static_inner_shape is not None:
            merged = self._static_inner_shape.merge_with(TensorShape(static_inner_shape))
            self._static_inner_shape = merged
        checks = self._checks()
        if checks and validate:
            self._inner_shape = partition.require(sizes, *checks)
            self._row_partitions = tuple(rows.checked(*checks) for rows in self._row_partitions)

    def _checks(self) -> list[tuple[Tensor, str]]:
        """Return what must hold when it runs.  Raises: ValueError for what is known not to."""
        checks = []
        partitions = self._row_partitions
        for axis, (outer, inner) in enumerate(itertools.pairwise(partitions)):
            what = f"RowPartitions in DynamicRaggedShape do not align between {axis} and {axis + 1}"
            values, rows = outer.static_nvals, inner.static_nrows
            if values is None or rows is None:
                checks.append((apply_op("Equal", outer.nvals(), inner.nrows()), what))
            elif values != rows:
                raise ValueError(what)
        if partitions:
            what = "Last row partition does not match inner_shape."
            values = partitions[-1].static_nvals
            first = (self._static_inner_shape.sizes or (None,))[0]
            if values is None or first is None:
                size = getitem(self._inner_shape, 0)
                checks.append((apply_op("Equal", partitions[-1].nvals(), size), what))
            elif values != first:
                raise ValueError(what)
        return checks

    # ---- from other forms

    @classmethod
    def from_lengths(
        cls,
        lengths: Sequence[Sequence[int] | int],
        num_row_partitions: int | None = None,
        dtype: DTypeLike = dtypes.int64,
    ) -> DynamicRaggedShape:
        """Return the shape of those sizes: numbers, and tuples of the lengths of rows.

        num_row_partitions: how many axes after the first are told by row partitions; as few as may
          be by default.
        Raises: ValueError for other sizes, or for lengths of another number of rows.
        """
        if not isinstance(lengths, list):
            raise ValueError("lengths should be a list")
        for each in lengths:
            if not _is_size(each):
                raise ValueError(
                    f"element of lengths should be int or tuple of ints: instead {each!r}"
                )
        count = num_row_partitions
        if count is None:
            count = max((i for i, each in enumerate(lengths) if isinstance(each, tuple)), default=0)
        if not isinstance(count, int):
            raise ValueError("num_row_partitions should be an int or None")
        if count and count >= len(lengths):
            raise ValueError(f"num_row_partitions={count} is not below the rank, {len(lengths)}")
        partitions, values = [], lengths[0] if lengths else 0
        for each in lengths[1 : count + 1]:
            if isinstance(each, int):
                rows, values = values, values * each
                partitions.append(RowPartition.from_uniform_row_length(each, values, rows))
            elif values == len(each):
                partitions.append(RowPartition.from_row_lengths(each))
                values = sum(each)
            else:
                raise ValueError("Shape not consistent.")
        inner = [values, *lengths[count + 1 :]] if lengths else []
        return cls(partitions, inner, dtype=dtype)

    @classmethod
    def from_row_partitions(
        cls, row_partitions: Sequence[RowPartition], dtype: DTypeLike | None = None
    ) -> DynamicRaggedShape:
        """Return the shape of values of rank 1 in rows.  Raises: ValueError for no partitions."""
        if not row_partitions:
            raise ValueError("row_partitions cannot be empty")
        return cls(row_partitions, [row_partitions[-1].nvals()], dtype=dtype)

    @classmethod
    def from_tensor(cls, t: Any, dtype: DTypeLike | None = None) -> DynamicRaggedShape:
        """Return the shape of a tensor, ragged or not."""
        if not isinstance(t, RaggedTensor):
            kind = as_dtype(dtype or dtypes.int32)
            return cls([], apply_op("Shape", convert_to_tensor(t), out_type=kind))
        partitions = []
        level: Any = t
        while isinstance(level, RaggedTensor):
            partitions.append(_partition_of(level))
            level = level.values
        kind = as_dtype(dtype or t.row_splits.dtype)
        return cls(partitions, apply_op("Shape", level, out_type=kind), dtype=kind)

    # ---- what it is

    @property
    def row_partitions(self) -> tuple[RowPartition, ...]:
        """How the first axes are divided."""
        return self._row_partitions

    @property
    def num_row_partitions(self) -> int:
        """How many row partitions there are."""
        return len(self._row_partitions)

    @property
    def dtype(self) -> DType:
        """The type of sizes, int32 or int64."""
        return self._inner_shape.dtype

    @property
    def rank(self) -> int | None:
        """The number of axes, None if it is not known."""
        inner = self.inner_rank
        return None if inner is None else inner + self.num_row_partitions

    @property
    def inner_shape(self) -> Tensor:
        """The shape of the innermost values, a vector."""
        return self._inner_shape

    @property
    def inner_rank(self) -> int | None:
        """The rank of the innermost values, None if it is not known."""
        return self._static_inner_shape.rank

    @property
    def static_inner_shape(self) -> TensorShape:
        """What is known of the shape of the innermost values."""
        return self._static_inner_shape

    def is_uniform(self, axis: int) -> bool:
        """Whether an axis has one size.

        Raises: TypeError for what is no number, IndexError for an axis that is not there.
        """
        if not isinstance(axis, int):
            raise TypeError("axis must be an integer")
        if axis < 0:
            raise IndexError("Negative axis values are not supported")
        if self.rank is not None and axis >= self.rank:
            raise IndexError(f"Expected axis={axis} < rank={self.rank}")
        is_inner = axis == 0 or axis > self.num_row_partitions
        return is_inner or self._row_partitions[axis - 1].is_uniform()

    def static_lengths(self, ragged_lengths: bool = True) -> list[Any]:
        """Return what is known of each axis: a size, a tuple of lengths of rows, or None.

        The list ends with `...` where the rank is not known.
        ragged_lengths: False for None in place of lengths of rows.
        """
        sizes = self._static_inner_shape.sizes
        inner = [...] if sizes is None else list(sizes)
        if not self._row_partitions:
            return inner
        found: list[Any] = [self._row_partitions[0].static_nrows]
        for rows in self._row_partitions:
            lengths: Any = None
            if rows.is_uniform():
                lengths = rows.static_uniform_row_length
            elif ragged_lengths:
                values = known(rows.row_lengths())
                lengths = None if values is None else tuple(values.tolist())
            found.append(lengths)
        return found + (inner if sizes is None else inner[1:])

    def __repr__(self) -> str:
        parts = ["..." if each is ... else str(each) for each in self.static_lengths()]
        return (
            f"<DynamicRaggedShape lengths=[{', '.join(parts)}] "
            f"num_row_partitions={self.num_row_partitions}>"
        )

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, DynamicRaggedShape):
            return False
        if _Spec.from_value(self) != _Spec.from_value(other):
            return False
        alike = [
            apply_op("All", apply_op("Equal", one, two), [0])
            for one, two in zip(_parts(self), _parts(other))
        ]
        return apply_op("All", apply_op("Pack", alike), [0])

    def __ne__(self, other: object) -> Any:
        found = self == other
        return not found if isinstance(found, bool) else apply_op("LogicalNot", found)

    __hash__ = None  # type: ignore[assignment]

    # ---- parts of it

    def __getitem__(self, index: int | slice) -> Any:
        """Return the size of an axis, or the shape of some axes that follow each other.

        Raises: IndexError for what is not there; ValueError for a ragged axis, where its rows are
        not there, too, and where the rank would have to be known; TypeError for other indices.
        """
        if isinstance(index, slice):
            if index.step not in (None, 1):
                raise IndexError("Cannot stride through a shape")
            begin = 0 if index.start is None else self._from_begin(index.start)
            end = self.rank if index.stop is None else self._from_begin(index.stop)
            if end is None:
                raise ValueError("Rank must be known to use __getitem__ without a stop.")
            return self._slice(begin, end if self.rank is None else min(end, self.rank))
        if not isinstance(index, int):
            raise TypeError("Argument is not an int or a slice")
        return self._size(index if index >= 0 else self._from_end(index))

    def _from_begin(self, index: int) -> int:
        return index if index >= 0 else max(self._from_end(index), 0)

    def _from_end(self, index: int) -> int:
        if self.rank is None:
            raise ValueError("Rank must be known to use __getitem__ with a negative index.")
        return self.rank + index

    def _size(self, axis: int) -> Tensor:
        """Return the size of an axis.  Raises: see __getitem__."""
        partitions, rank = self._row_partitions, self.rank
        if not partitions or axis > len(partitions) + 1:
            if rank is None:
                raise ValueError("Rank must be known to use __getitem__ on a large index.")
            if axis >= rank:
                raise IndexError(f"Index is too big: {axis}>={rank}")
        if axis < 0:
            raise IndexError(f"Index must be non-negative: {axis}")
        if not self.is_uniform(axis):
            raise ValueError(f"Index {axis} is not uniform")
        if axis == 0 and partitions:
            return partitions[0].nrows()
        if axis <= len(partitions) and partitions:
            length = partitions[axis - 1].uniform_row_length()
            assert length is not None
            return length
        return partition.number(self._inner_size(axis - len(partitions)), self.dtype)

    def _inner_size(self, axis: int) -> Any:
        """Return a size of the innermost values: a number where it is known, else a tensor."""
        known_sizes = self._static_inner_shape.sizes
        size = None if known_sizes is None else known_sizes[axis]
        return getitem(self._inner_shape, axis) if size is None else size

    def _slice(self, begin: int, end: int) -> DynamicRaggedShape:
        if end <= begin:
            return DynamicRaggedShape([], [])
        if begin == 0:
            return self._first_axes(end)
        first = self._first_axes(end)
        if not all(rows.is_uniform() for rows in first.row_partitions):
            raise ValueError("All relevant dimensions must be uniform")
        sizes = first.with_partitions(0).inner_shape
        return DynamicRaggedShape([], getitem(sizes, slice(begin, None)))

    def _first_axes(self, count: int) -> DynamicRaggedShape:
        partitions = self._row_partitions
        if self.rank is not None and self.rank <= count:
            return self
        if count == 1 and partitions:
            return DynamicRaggedShape([], [partitions[0].nrows()])
        if count <= len(partitions):
            return DynamicRaggedShape.from_row_partitions(partitions[: count - 1])
        sizes = getitem(self._inner_shape, slice(None, count - len(partitions)))
        return DynamicRaggedShape(partitions, sizes)

    # ---- other forms

    def with_dtype(self, dtype: DTypeLike) -> DynamicRaggedShape:
        """Return the same shape with sizes of int32 or int64."""
        if as_dtype(dtype) == self.dtype:
            return self
        return DynamicRaggedShape(self._row_partitions, self._inner_shape, dtype=dtype)

    def with_partitions(self, count: int) -> DynamicRaggedShape:
        """Return the same shape told by so many row partitions.

        Raises: ValueError for an unknown rank, for too many, and where rows of different lengths
        would have to be told by a size.
        """
        partitions, rank = self._row_partitions, self.rank
        if count == len(partitions):
            return self
        if rank is None:
            raise ValueError("Rank must be known to adjust num_row_partitions")
        if not 0 <= count < rank:
            raise ValueError(f"num_row_partitions must be below the rank, {rank}; found {count}")
        kind = self.dtype
        inner = [self._inner_size(axis) for axis in range(rank - len(partitions))]
        if count < len(partitions):
            lengths = [rows.uniform_row_length() for rows in partitions[count:]]
            if any(each is None for each in lengths):
                raise ValueError("Cannot get an inner shape over a ragged dimension")
            first = partitions[count].nrows()
            sizes = [_number(each) for each in (first, *lengths)]
            return DynamicRaggedShape(partitions[:count], [*sizes, *inner[1:]], dtype=kind)
        more = count - len(partitions)
        added = []
        for axis in range(1, more + 1):
            rows = _product(inner[:axis], kind)
            added.append(RowPartition.from_uniform_row_length(inner[axis], nrows=rows, dtype=kind))
        sizes = [_product(inner[: more + 1], kind), *inner[more + 1 :]]
        return DynamicRaggedShape([*partitions, *added], sizes, dtype=kind)

    def add_rows(self, flat_values: Any) -> Any:
        """Return innermost values in the rows of the shape."""
        made = flat_values
        for rows in reversed(self._row_partitions):
            made = rows_of(made, rows.row_splits(), rows.uniform_row_length())
        return made


def _partition_of(ragged: RaggedTensor) -> RowPartition:
    """Return how the values of a ragged tensor are divided into its rows."""
    length = ragged.uniform_row_length
    rows = None if length is None else ragged.nrows()
    return RowPartition(ragged.row_splits, nrows=rows, uniform_row_length=length, internal=True)


def _number(tensor: Any) -> Any:
    """Return a scalar as a number where its value is known."""
    found = known(tensor)
    return tensor if found is None else int(found)


def _parts(shape: DynamicRaggedShape) -> list[Tensor]:
    return [*(rows.row_splits() for rows in shape.row_partitions), shape.inner_shape]


def _rebuilt(like: DynamicRaggedShape, parts: Sequence[Any]) -> DynamicRaggedShape:
    *splits, sizes = parts
    partitions = [RowPartition.from_row_splits(each, validate=False) for each in splits]
    return DynamicRaggedShape(partitions, sizes)


class _Spec(DynamicShapeSpec):
    __doc__ = DynamicShapeSpec.__doc__
    __slots__ = ()

    @property
    def value_type(self) -> type:
        """The class of shapes."""
        return DynamicRaggedShape

    def from_parts(self, parts: Sequence[Any]) -> DynamicRaggedShape:
        """Return the shape of row splits, outermost first, and an inner shape."""
        *splits, sizes = parts
        partitions = [RowPartition.from_row_splits(each, validate=False) for each in splits]
        return DynamicRaggedShape(
            partitions, sizes, self.dtype, static_inner_shape=self._static_inner_shape
        )


_Spec.__name__, _Spec.__qualname__ = "Spec", "DynamicRaggedShape.Spec"
DynamicRaggedShape.Spec = _Spec
register_type_spec(DynamicRaggedShape, _Spec.from_value)
nest.register_composite(DynamicRaggedShape, _parts, _rebuilt)
overload_for(DynamicRaggedShape)
