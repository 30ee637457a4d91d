"""A sparse gradient: rows of a large tensor, with the index of each row.

Source: tensorflow/python/framework/indexed_slices.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor, register_tensor_conversion
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.operation import OperationGraph
from tideflow.graph.shapes import TensorShape
from tideflow.graph.static_value import static_value
from tideflow.graph.types import DTypeLike, TensorLike
from tideflow.ops.export import export
from tideflow.wire.dtypes import DType


@export("IndexedSlices")
class IndexedSlices:
    """Slices of a tensor: `dense[indices[i]]` is the sum of all `values[i]` with that index.

    Attributes:
      values: [n, ...], the slices.
      indices: [n], where each belongs along the first dimension; may repeat.
      dense_shape: vector of the whole tensor's sizes, or None if they are not known.
    """

    __slots__ = ("dense_shape", "indices", "values")

    def __init__(self, values: Tensor, indices: Tensor, dense_shape: Tensor | None = None) -> None:
        self.values = values
        self.indices = indices
        self.dense_shape: Any = dense_shape

    @property
    def dtype(self) -> DType:
        """The element type of the values."""
        return self.values.dtype

    @property
    def name(self) -> str:
        """The name of the values."""
        return self.values.name

    @property
    def op(self) -> Operation:
        """The operation that gives the values."""
        return self.values.op

    @property
    def graph(self) -> OperationGraph:
        """The graph of the values."""
        return self.values.graph

    @property
    def device(self) -> str:
        """The device requested for the values."""
        return self.values.device

    @property
    def shape(self) -> TensorShape:
        """The static shape of the whole tensor, as far as it is known."""
        if self.dense_shape is None:
            return TensorShape(None)
        if not isinstance(self.dense_shape, Tensor):
            return TensorShape(self.dense_shape)
        known = static_value(*self.dense_shape.edge)
        if known is not None:
            return TensorShape([None if size is None else int(size) for size in known])
        rows = self.values.dims
        return TensorShape(None if rows is None else (None, *rows[1:]))

    def get_shape(self) -> TensorShape:
        """Return the static shape."""
        return self.shape

    def consumers(self) -> list[Operation]:
        """Return the operations that take the values."""
        return self.values.consumers()

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(apply_op("Neg", self.values), self.indices, self.dense_shape)

    def __repr__(self) -> str:
        whole = "" if self.dense_shape is None else f", dense_shape={self.dense_shape!s}"
        return f"IndexedSlices(indices={self.indices!s}, values={self.values!s}{whole})"


def to_dense(value: IndexedSlices, dtype: DType | None = None, name: str | None = None) -> Tensor:
    """Return the whole tensor, zero where there is no slice.

    Raises: ValueError for another dtype than that of the values, or an unknown dense_shape.
    """
    if dtype is not None and not dtype.is_compatible_with(value.dtype):
        raise ValueError(
            f"{value!r} has type {value.dtype.name}; {dtype.name} is wanted (tf.cast converts)"
        )
    if value.dense_shape is None:
        raise ValueError(f"{value!r} cannot become a tensor: its dense_shape is not known")
    rows = apply_op("StridedSlice", value.dense_shape, [0], [1], [1], shrink_axis_mask=1)
    made: Tensor = apply_op("UnsortedSegmentSum", value.values, value.indices, rows, name=name)
    made.set_shape(shapes.merge(made.dims, value.shape.sizes))
    return made


register_tensor_conversion(IndexedSlices, to_dense)


@export("convert_to_tensor_or_indexed_slices")
def convert_to_tensor_or_indexed_slices(
    value: TensorLike, dtype: DTypeLike | None = None, name: str | None = None
) -> Tensor | IndexedSlices:
    """Return value as it is if it is an IndexedSlices, otherwise as a tensor."""
    if isinstance(value, IndexedSlices):
        return value
    return convert_to_tensor(value, dtype, name)
