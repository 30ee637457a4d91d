"""tf.IndexedSlicesSpec: what is said of a sparse gradient that does not exist yet.

Source: tensorflow/python/framework/indexed_slices.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec, register_type_spec
from tideflow.graph.types import DTypeLike, ShapeLike
from tideflow.ops.export import export
from tideflow.ops.framework.indexed_slices import IndexedSlices
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype


@export("IndexedSlicesSpec")
class IndexedSlicesSpec(TypeSpec):
    """The whole shape, types and number of the slices of a tensor to come.

    Args:
      shape: of the whole tensor, in whole or in part.
      dtype: of the values.
      indices_dtype: of the indices.
      dense_shape_dtype: of the dense shape; None for slices without one.
      indices_shape: how many slices there are, a vector's shape.
    Example:
      >>> tf.IndexedSlicesSpec([None, 2]).is_compatible_with(
      ...     tf.IndexedSlices(tf.ones([1, 2]), tf.constant([5], tf.int64)))
      True
    """

    __slots__ = ("_dense_shape_dtype", "_dtype", "_indices_dtype", "_indices_shape", "_shape")

    def __init__(
        self,
        shape: ShapeLike | None = None,
        dtype: DTypeLike = dtypes.float32,
        indices_dtype: DTypeLike = dtypes.int64,
        dense_shape_dtype: DTypeLike | None = None,
        indices_shape: ShapeLike | None = None,
    ) -> None:
        self._shape = TensorShape(shape)
        self._dtype = as_dtype(dtype)
        self._indices_dtype = as_dtype(indices_dtype)
        self._dense_shape_dtype: DType | None = (
            None if dense_shape_dtype is None else as_dtype(dense_shape_dtype)
        )
        self._indices_shape = TensorShape([None] if indices_shape is None else indices_shape)

    @classmethod
    def from_value(cls, value: IndexedSlices) -> IndexedSlicesSpec:
        """Return the spec of slices."""
        whole = value.dense_shape
        sizes = value.shape.sizes
        if sizes is None and value.values.dims is not None:
            sizes = (None, *value.values.dims[1:])
        shape_dtype = None if whole is None else whole.dtype
        return cls(sizes, value.dtype, value.indices.dtype, shape_dtype, value.indices.shape)

    @property
    def value_type(self) -> type:
        """The class of slices."""
        return IndexedSlices

    def _stated(self) -> tuple[Any, ...]:
        types = (self._dtype, self._indices_dtype, self._dense_shape_dtype)
        return self._shape, *types, self._indices_shape

    @property
    def parts(self) -> Sequence[TensorSpec]:
        """The specs of values, indices and, where there is one, dense shape."""
        sizes = self._shape.sizes
        count = self._indices_shape.sizes
        rows = None if sizes is None else ((None,) if count is None else count) + sizes[1:]
        found = [
            TensorSpec(rows, self._dtype),
            TensorSpec(self._indices_shape, self._indices_dtype),
        ]
        if self._dense_shape_dtype is not None:
            found.append(TensorSpec([self._shape.rank], self._dense_shape_dtype))
        return found

    def from_parts(self, parts: Sequence[Any]) -> IndexedSlices:
        """Return the slices of values, indices and dense shape."""
        return IndexedSlices(*parts)


register_type_spec(IndexedSlices, IndexedSlicesSpec.from_value)
