"""tf.TensorArraySpec: what is said of a TensorArray that does not exist yet.

Source: tensorflow/python/ops/tensor_array_ops.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec, register_type_spec
from tideflow.graph.types import DTypeLike, ShapeLike
from tideflow.ops.export import export
from tideflow.ops.tensor_arrays.arrays import TensorArray
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype


@export("TensorArraySpec")
class TensorArraySpec(TypeSpec):
    """The shape and type of the elements of a TensorArray to come, and how it may be used."""

    __slots__ = ("_dynamic_size", "_element_shape", "_infer_shape", "dtype")

    def __init__(
        self,
        element_shape: ShapeLike | None = None,
        dtype: DTypeLike = dtypes.float32,
        dynamic_size: bool = False,
        infer_shape: bool = True,
    ) -> None:
        self._element_shape = TensorShape(element_shape)
        self.dtype: DType = as_dtype(dtype)
        self._dynamic_size = dynamic_size
        self._infer_shape = infer_shape

    @classmethod
    def from_value(cls, value: TensorArray) -> TensorArraySpec:
        """Return the spec of a TensorArray."""
        size, infer = value.dynamic_size, value._infer_shape
        return cls(value.element_shape, value.dtype, size, infer)

    @property
    def value_type(self) -> type:
        """The class of TensorArrays."""
        return TensorArray

    @property
    def shape(self) -> TensorShape:
        """The shape of the tensor that holds an array, a scalar."""
        return TensorShape(())

    def _stated(self) -> tuple[Any, ...]:
        return self._element_shape, self.dtype, self._dynamic_size, self._infer_shape

    def is_compatible_with(self, other: Any) -> bool:
        """Whether a TensorArray (or spec) may stand where this is asked for."""
        return TypeSpec.is_compatible_with(self, other)

    @property
    def parts(self) -> Sequence[TensorSpec]:
        """The list that holds the elements."""
        return (TensorSpec((), dtypes.variant),)

    def to_tensors(self, value: TensorArray) -> list[Any]:
        """Return the list that holds the elements."""
        return [value.flow]

    def from_parts(self, parts: Sequence[Any]) -> TensorArray:
        """Return the array whose elements a list holds."""
        (flow,) = parts
        made = TensorArray(
            self.dtype,
            handle=flow,
            flow=flow,
            infer_shape=self._infer_shape,
            element_shape=self._element_shape,  # type: ignore[arg-type]
        )
        made._dynamic_size = bool(self._dynamic_size)
        return made


register_type_spec(TensorArray, TensorArraySpec.from_value)
