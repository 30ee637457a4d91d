"""What is said of a tensor that does not exist yet: its shape and element type."""

from __future__ import annotations

from typing import Any

from tideflow.graph.shapes import Dims, TensorShape
from tideflow.wire.dtypes import DType, as_dtype, float32


class TensorSpec:
    """The shape (in whole or in part), element type and name of a tensor to come."""

    __slots__ = ("_dtype", "_name", "_shape")

    def __init__(self, shape: Any = None, dtype: Any = float32, name: str | None = None) -> None:
        self._shape = TensorShape(shape)
        self._dtype = as_dtype(dtype)
        self._name = name

    @property
    def shape(self) -> TensorShape:
        """The shape."""
        return self._shape

    @property
    def dims(self) -> Dims:
        """The shape as a plain tuple."""
        return self._shape.sizes

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def name(self) -> str | None:
        """The name, or None."""
        return self._name

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """Return the spec of a tensor or array."""
        return cls(tensor.shape, as_dtype(tensor.dtype), name)

    from_spec = from_tensor

    def is_compatible_with(self, spec_or_tensor: Any) -> bool:
        """Whether a tensor (or spec) may stand where this is asked for."""
        other = spec_or_tensor
        dtype = as_dtype(other.dtype)
        return self._dtype.is_compatible_with(dtype) and self._shape.is_compatible_with(other.shape)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorSpec)
            and self._dtype == other._dtype
            and self._shape.sizes == other._shape.sizes
        )

    def __hash__(self) -> int:
        return hash((self._dtype, self._shape.sizes))

    def __repr__(self) -> str:
        name = f", name={self._name!r}"
        dims = self._shape.sizes
        return f"TensorSpec(shape={dims}, dtype=tf.{self._dtype.name}{name})"
