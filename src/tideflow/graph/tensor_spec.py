"""What is said of a tensor that does not exist yet: its shape and element type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph import shapes
from tideflow.graph.graph import Tensor
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.type_spec import TypeSpec, register_type_spec
from tideflow.wire.dtypes import DType, as_dtype, float32


class TensorSpec(TypeSpec):
    """The shape (in whole or in part), element type and name of a tensor to come."""

    __slots__ = ("_dtype", "_name", "_shape")

    def __init__(self, shape: Any = None, dtype: Any = float32, name: str | None = None) -> None:
        self._shape = TensorShape(shape)
        self._dtype = as_dtype(dtype)
        self._name = name

    @property
    def value_type(self) -> type:
        """The class of tensors."""
        return Tensor

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
    def from_tensor(cls, tensor: Tensor, name: str | None = None) -> TensorSpec:
        """Return the spec of a tensor or array."""
        return cls(tensor.shape, as_dtype(tensor.dtype), name)

    from_spec = from_tensor

    def _stated(self) -> tuple[Any, ...]:
        return self.dims, self._dtype, self._name

    def is_compatible_with(self, spec_or_tensor: Any) -> bool:
        """Whether a tensor (or spec) may stand where this is asked for."""
        other = spec_or_tensor
        dtype = as_dtype(other.dtype)
        return self._dtype.is_compatible_with(dtype) and self._shape.is_compatible_with(other.shape)

    def relaxed(self, other: TypeSpec) -> TensorSpec | None:
        """Return a spec for the tensors of both; None for another element type."""
        if not isinstance(other, TensorSpec) or other.dtype is not self._dtype:
            return None
        return TensorSpec(shapes.relax(self.dims, other.dims), self._dtype)

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
        return f"TensorSpec(shape={self._shape!s}, dtype=tf.{self._dtype.name}{name})"

    # ---- as a component of an element

    @property
    def parts(self) -> Sequence[TensorSpec]:
        """The tensor itself."""
        return (self,)

    def from_parts(self, parts: Sequence[Any]) -> Any:
        """Return the tensor itself."""
        (tensor,) = parts
        return tensor

    def to_tensors(self, value: Any) -> list[Any]:
        """Return the tensor itself."""
        return [value]

    def to_rows(self, value: Any) -> list[Any]:
        """Return the tensor itself.  Raises: ValueError for a scalar."""
        self.unbatched()
        return [value]

    def batched(self, size: int | None) -> TensorSpec:
        """Return the spec of a batch of tensors."""
        return TensorSpec(None if self.dims is None else (size, *self.dims), self._dtype)

    def unbatched(self) -> TensorSpec:
        """Return the spec of a row.  Raises: ValueError for scalars."""
        if self.dims == ():
            raise ValueError("Unbatching a tensor is only supported for rank >= 1")
        return TensorSpec(None if self.dims is None else self.dims[1:], self._dtype)


register_type_spec(Tensor, lambda tensor: TensorSpec(tensor.dims, tensor.dtype))
