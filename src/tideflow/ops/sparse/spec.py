"""tf.SparseTensorSpec: what is said of a sparse tensor that does not exist yet.

Source: tensorflow/python/framework/sparse_tensor.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec, register_type_spec
from tideflow.graph.types import DTypeLike, ShapeLike
from tideflow.ops.export import export
from tideflow.ops.sparse.tensor import SparseTensor
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype


@export("SparseTensorSpec")
class SparseTensorSpec(TypeSpec):
    """The dense shape (in whole or in part) and element type of a sparse tensor to come."""

    __slots__ = ("_dtype", "_shape")

    def __init__(self, shape: ShapeLike | None = None, dtype: DTypeLike = dtypes.float32) -> None:
        self._shape = TensorShape(shape)
        self._dtype = as_dtype(dtype)

    @classmethod
    def from_value(cls, value: Any) -> SparseTensorSpec:
        """Return the spec of a sparse tensor."""
        return cls(value.shape, value.dtype)

    @property
    def value_type(self) -> type:
        """The class of sparse tensors."""
        return SparseTensor

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        """The dense shape."""
        return self._shape

    @property
    def told(self) -> Hashable:
        """The class of sparse tensors, and what is known of the dense shape."""
        return SparseTensor, self._shape.sizes

    def _stated(self) -> tuple[Any, ...]:
        return self._shape, self._dtype

    def relaxed(self, other: TypeSpec) -> SparseTensorSpec | None:
        """Return a spec for the sparse tensors of both; None for another element type."""
        if not isinstance(other, SparseTensorSpec) or other.dtype is not self._dtype:
            return None
        return SparseTensorSpec(shapes.relax(self._shape.sizes, other.shape.sizes), self._dtype)

    def _admits(self, other: SparseTensorSpec) -> bool:
        return self._dtype is other.dtype and self._shape.is_compatible_with(other.shape)

    @property
    def parts(self) -> Sequence[TensorSpec]:
        """The specs of indices, values and dense shape."""
        rank = self._shape.rank
        return (
            TensorSpec([None, rank], dtypes.int64),
            TensorSpec([None], self._dtype),
            TensorSpec([rank], dtypes.int64),
        )

    def from_parts(self, parts: Sequence[Any]) -> SparseTensor:
        """Return the sparse tensor of indices, values and dense shape."""
        made = SparseTensor(*parts)
        made.set_shape(self._shape)
        return made

    @property
    def flat(self) -> Sequence[TensorSpec]:
        """Three variants, or rows of them for a batch."""
        return (TensorSpec(None, dtypes.variant),)

    def to_tensors(self, value: SparseTensor) -> list[Any]:
        """Return the sparse tensor as three variants."""
        return [apply_op("SerializeSparse", *value.parts, out_type=dtypes.variant)]

    def to_rows(self, value: SparseTensor) -> list[Any]:
        """Return each row as three variants."""
        return [apply_op("SerializeManySparse", *value.parts, out_type=dtypes.variant)]

    def from_tensors(self, tensors: Sequence[Any]) -> SparseTensor:
        """Return the sparse tensor that variants hold."""
        (held,) = tensors
        indices, values, dense_shape = apply_op("DeserializeSparse", held, dtype=self._dtype)
        if self._shape.rank is not None:
            indices.set_shape([None, self._shape.rank])
            dense_shape.set_shape([self._shape.rank])
        sizes = self._shape.sizes or ()
        if self._shape.is_fully_defined():
            dense_shape = convert_to_tensor(self._shape.as_list(), dtypes.int64, name="shape")
        elif any(size is not None for size in sizes):
            # What is known of the shape goes into that of what is computed of it.
            found = apply_op("Unpack", dense_shape, num=len(sizes))
            pieces = [
                one if size is None else convert_to_tensor(size, dtypes.int64)
                for one, size in zip(found, sizes)
            ]
            dense_shape = apply_op("Pack", pieces)
        return self.from_parts([indices, values, dense_shape])

    def batched(self, size: int | None) -> SparseTensorSpec:
        """Return the spec of a batch of sparse tensors, as large as the largest."""
        return SparseTensorSpec(TensorShape([size]).concatenate(self._shape), self._dtype)

    def unbatched(self) -> SparseTensorSpec:
        """Return the spec of a row.  Raises: ValueError for scalars."""
        if self._shape.rank == 0:
            raise ValueError("Unbatching a sparse tensor is only supported for rank >= 1")
        sizes = self._shape.sizes
        return SparseTensorSpec(None if sizes is None else sizes[1:], self._dtype)


register_type_spec(SparseTensor, SparseTensorSpec.from_value)
