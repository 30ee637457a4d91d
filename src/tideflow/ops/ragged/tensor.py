"""tf.RaggedTensor: values, and row splits that divide them into rows.

The values of a tensor with several ragged dimensions are ragged themselves.
Source: tensorflow/python/ops/ragged/ragged_tensor.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from tideflow.graph.building import apply_op, convert_to_tensor, register_tensor_conversion
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.static_value import static_value
from tideflow.graph.types import DTypeLike, ShapeLike, TensorLike
from tideflow.ops.array import getitem
from tideflow.ops.export import export, overload_for
from tideflow.ops.framework import nest
from tideflow.ops.ragged import partition
from tideflow.ops.sparse import SparseTensor
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype


@export("RaggedTensor")
class RaggedTensor:
    """Rows of values: row i is values[row_splits[i]:row_splits[i + 1]].

    Made by the methods from_*, by tf.ragged.constant and others.

    Attributes:
      values: the rows, one after the other: a tensor, or another ragged one.
      row_splits: vector of int32 or int64, one element more than there are rows.
      uniform_row_length: the length of all rows where they were made so, as a tensor; else None.
    """

    __slots__ = ("row_splits", "uniform_row_length", "values")
    # NumPy's arrays leave operators to this class.
    __array_priority__ = 101

    def __init__(
        self,
        values: Any,
        row_partition: Tensor,
        internal: bool = False,
    ) -> None:
        if not internal:
            raise ValueError(
                "RaggedTensor constructor is private; please use one of the factory methods "
                "instead, such as RaggedTensor.from_row_lengths"
            )
        self.values = values
        self.row_splits = row_partition
        self.uniform_row_length: Tensor | None = None

    # ---- what it is

    @property
    def dtype(self) -> DType:
        """The element type."""
        found: DType = self.values.dtype
        return found

    @property
    def shape(self) -> TensorShape:
        """The static shape; None for ragged dimensions."""
        rows = (self.row_splits.dims or (None,))[0]
        width = None
        if self.uniform_row_length is not None:
            known = static_value(*self.uniform_row_length.edge)
            width = None if known is None else int(known)
        inner = self.values.shape
        if inner.rank is None:
            return TensorShape(None)
        return TensorShape([None if rows is None else rows - 1, width, *inner.as_list()[1:]])

    def get_shape(self) -> TensorShape:
        """Return the static shape."""
        return self.shape

    @property
    def ragged_rank(self) -> int:
        """How many dimensions are divided by row splits."""
        return len(self.nested_row_splits)

    @property
    def flat_values(self) -> Tensor:
        """The innermost values, a tensor."""
        return self.values.flat_values if isinstance(self.values, RaggedTensor) else self.values

    @property
    def nested_row_splits(self) -> tuple[Tensor, ...]:
        """The row splits of all ragged dimensions, outermost first."""
        inner = self.values
        return (
            self.row_splits,
            *(inner.nested_row_splits if isinstance(inner, RaggedTensor) else ()),
        )

    def nested_row_lengths(self, name: str | None = None) -> tuple[Tensor, ...]:
        """Return the lengths of rows of all ragged dimensions, outermost first."""
        return tuple(partition.lengths_of(splits) for splits in self.nested_row_splits)

    def nested_value_rowids(self, name: str | None = None) -> tuple[Tensor, ...]:
        """Return the rows of values in all ragged dimensions, outermost first."""
        return tuple(partition.ids_of(splits) for splits in self.nested_row_splits)

    def value_rowids(self, name: str | None = None) -> Tensor:
        """Return for each value which row it is in."""
        return partition.ids_of(self.row_splits)

    def nrows(self, out_type: Any = None, name: str | None = None) -> Tensor:
        """Return how many rows there are."""
        kind = self.row_splits.dtype if out_type is None else as_dtype(out_type)
        count = partition.count_of(self.row_splits, kind)
        found: Tensor = apply_op("Sub", count, partition.number(1, kind))
        return found

    def row_starts(self, name: str | None = None) -> Tensor:
        """Return where in values each row begins."""
        return getitem(self.row_splits, slice(None, -1))

    def row_limits(self, name: str | None = None) -> Tensor:
        """Return where in values each row ends."""
        return getitem(self.row_splits, slice(1, None))

    def row_lengths(self, axis: int = 1, name: str | None = None) -> Any:
        """Return the lengths of rows along an axis; ragged themselves for axes above 1.

        Raises: ValueError for axis 0 or one that is not there.
        """
        rank = self.shape.rank
        at = axis if axis >= 0 or rank is None else axis + rank
        if at == 0:
            return self.nrows()
        if at == 1:
            return partition.lengths_of(self.row_splits)
        if isinstance(self.values, RaggedTensor):
            return self.with_values(self.values.row_lengths(at - 1))
        if at < 0 or (rank is not None and at >= rank):
            raise ValueError(f"axis={axis} is out of bounds for rank {rank}")
        shape = apply_op("Shape", self.values, out_type=self.row_splits.dtype)
        outer = getitem(shape, slice(None, at - 1))
        return self.with_values(apply_op("Fill", outer, getitem(shape, at - 1)))

    def bounding_shape(
        self, axis: int | None = None, name: str | None = None, out_type: DTypeLike | None = None
    ) -> Tensor:
        """Return the smallest dense shape that holds all rows, or its size along an axis."""
        kind = self.row_splits.dtype if out_type is None else as_dtype(out_type)
        longest = [
            apply_op("Maximum", apply_op("Max", lengths, [0]), partition.number(0, lengths.dtype))
            for lengths in self.nested_row_lengths()
        ]
        inner = getitem(apply_op("Shape", self.flat_values, out_type=kind), slice(1, None))
        ragged = [partition.number(size, kind) for size in (self.nrows(), *longest)]
        shape: Tensor = apply_op("ConcatV2", [apply_op("Pack", ragged), inner], 0)
        return shape if axis is None else getitem(shape, axis)

    # ---- with other parts

    def with_values(self, new_values: object) -> RaggedTensor:
        """Return the same rows of other values."""
        values = (
            new_values if isinstance(new_values, RaggedTensor) else convert_to_tensor(new_values)
        )
        return rows_of(values, self.row_splits, self.uniform_row_length)

    def with_flat_values(self, new_values: object) -> RaggedTensor:
        """Return the same rows of other innermost values."""
        inner = self.values
        if isinstance(inner, RaggedTensor):
            return self.with_values(inner.with_flat_values(new_values))
        return self.with_values(new_values)

    def with_row_splits_dtype(self, dtype: DTypeLike) -> RaggedTensor:
        """Return the tensor with row splits of int32 or int64.  Raises: ValueError."""
        kind = as_dtype(dtype)
        if kind not in (dtypes.int32, dtypes.int64):
            raise ValueError(f"row splits are of int32 or int64; found {kind.name}")
        splits = [partition.number(each, kind) for each in self.nested_row_splits]
        return rebuilt(self, [self.flat_values, *splits])

    def merge_dims(self, outer_axis: int, inner_axis: int) -> Any:
        """Return the tensor with the axes from outer to inner made one.

        Raises: ValueError for axes in another order.
        """
        rank = self.shape.rank or 0
        first, last = (axis + rank if axis < 0 else axis for axis in (outer_axis, inner_axis))
        if not 0 <= first <= last < rank:
            raise ValueError(f"axes {outer_axis} to {inner_axis} cannot be merged at rank {rank}")
        merged: Any = self
        for _ in range(last - first):
            merged = _merged(merged, first)
        return merged

    # ---- other forms

    def to_tensor(
        self,
        default_value: TensorLike | None = None,
        name: str | None = None,
        shape: ShapeLike | None = None,
    ) -> Tensor:
        """Return a dense tensor: shorter rows filled up with default_value, longer ones cut.

        shape: sizes, with None for what follows from the rows.
        """
        kind = self.dtype
        empty = "" if kind is dtypes.string else False if kind.is_bool else 0
        default = convert_to_tensor(empty if default_value is None else default_value, kind)
        wanted: Any = -1
        if shape is not None:
            dims = None if isinstance(shape, Tensor) else TensorShape(shape).as_list()
            wanted = shape if dims is None else [-1 if size is None else size for size in dims]
        splits = self.nested_row_splits
        made: Tensor = apply_op(
            "RaggedTensorToTensor",
            convert_to_tensor(wanted, None if isinstance(wanted, Tensor) else dtypes.int64),
            self.flat_values,
            default,
            list(splits),
            row_partition_types=["ROW_SPLITS"] * len(splits),
            name=name,
        )
        return made

    def to_sparse(self, name: str | None = None) -> SparseTensor:
        """Return a sparse tensor of the same values."""
        parts = apply_op(
            "RaggedTensorToSparse", list(self.nested_row_splits), self.flat_values, name=name
        )
        return SparseTensor(*parts)

    def to_list(self) -> list[Any]:
        """Return rows as nested lists.  Raises: ValueError where nothing has a value yet."""
        if not get_default_graph().is_eager:
            raise ValueError("to_list can only be used in eager mode")
        inner = self.values
        is_ragged = isinstance(inner, RaggedTensor)
        return _cut(inner.to_list() if is_ragged else inner.numpy().tolist(), self.row_splits)

    def numpy(self) -> Any:
        """Return an array; of arrays, where rows differ in length.

        Raises: ValueError where nothing has a value yet.
        """
        if not get_default_graph().is_eager:
            raise ValueError("numpy can only be used in eager mode")
        flat = self.values.numpy()
        rows = _cut(flat, self.row_splits)
        if not rows:
            return np.zeros((0, 0, *np.shape(flat)[1:]), getattr(flat, "dtype", None))
        if len({np.shape(row) for row in rows}) == 1:
            return np.stack(rows)
        made = np.empty(len(rows), object)
        for at, row in enumerate(rows):
            made[at] = row
        return made

    def _as_graph_element(self) -> Tensor:
        """Return what stands for it where one tensor of a graph is wanted."""
        return self.flat_values

    def consumers(self) -> list[Any]:
        """Return the operations that take the values or the row splits."""
        return [*self.values.consumers(), *self.row_splits.consumers()]

    def __bool__(self) -> NoReturn:
        raise TypeError("RaggedTensor may not be used as a boolean")

    def __repr__(self) -> str:
        if get_default_graph().is_eager and hasattr(self.row_splits, "numpy"):
            return f"<tf.RaggedTensor {_shown(self.numpy())}>"
        return f"tf.RaggedTensor(values={self.values}, row_splits={self.row_splits})"


def rows_of(
    values: Any, row_splits: Tensor, uniform_row_length: Tensor | None = None
) -> RaggedTensor:
    """Return the rows of values that splits tell, without a check."""
    made = RaggedTensor(values, row_splits, internal=True)
    made.uniform_row_length = uniform_row_length
    return made


def _cut(flat: Any, splits: Any) -> list[Any]:
    return [flat[begin:end] for begin, end in itertools.pairwise(splits.numpy().tolist())]


def _shown(value: object) -> str:
    """Return rows in brackets, as NumPy breaks and shortens them."""
    if not isinstance(value, np.ndarray):
        if isinstance(value, np.floating):
            return str(value)
        return repr(value.item()) if isinstance(value, np.generic) else repr(value)
    if not value.size:
        return repr(value.tolist())
    with np.printoptions(formatter={"all": _shown}):
        return np.array2string(value, separator=", ")


def _merged(value: object, axis: int) -> Any:
    """Return a ragged tensor with an axis and the one after it made one."""
    if not isinstance(value, RaggedTensor):
        shape = apply_op("Shape", value)
        before, after = getitem(shape, slice(None, axis)), getitem(shape, slice(axis + 2, None))
        return apply_op("Reshape", value, apply_op("ConcatV2", [before, [-1], after], 0))
    if axis > 1:
        return value.with_values(_merged(value.values, axis - 1))
    inner = value.values
    if axis == 0:
        return inner
    if isinstance(inner, RaggedTensor):
        splits = apply_op("GatherV2", inner.row_splits, value.row_splits, 0)
        return rows_of(inner.values, splits)
    width = partition.number(getitem(apply_op("Shape", inner), 1), value.row_splits.dtype)
    return rows_of(_merged(inner, 0), apply_op("Mul", value.row_splits, width))


def rebuilt(like: RaggedTensor, parts: Sequence[Any]) -> RaggedTensor:
    """Return a tensor of other innermost values and row splits, outermost first."""
    values, outer, *rest = parts
    inner = like.values
    made = rebuilt(inner, [values, *rest]) if isinstance(inner, RaggedTensor) else values
    width = like.uniform_row_length
    known = None if width is None else static_value(*width.edge)
    return rows_of(
        made, outer, None if known is None else partition.number(int(known), like.row_splits.dtype)
    )


nest.register_composite(
    RaggedTensor, lambda ragged: [ragged.flat_values, *ragged.nested_row_splits], rebuilt
)


def _refused(value: RaggedTensor, dtype: DType | None, name: str | None) -> NoReturn:
    raise ValueError(f"{value!r:.60} is ragged, where a dense tensor is wanted; see to_tensor")


register_tensor_conversion(RaggedTensor, _refused)
overload_for(RaggedTensor)
