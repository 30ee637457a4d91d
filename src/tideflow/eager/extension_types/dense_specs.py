"""Specs that say a shape and an element type, as classes of libraries derive from them.

Source: tensorflow/python/framework/tensor_spec.py (DenseSpec),
ops/resource_variable_ops.py (VariableSpec).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.eager.extension_types.type_specs import TypeSpec
from tideflow.eager.variable import variable_of
from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.types import DTypeLike, ShapeLike
from tideflow.ops.state import Variable
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType, as_dtype


class DenseSpec(TypeSpec):
    """What is known of a value that is much like a tensor: shape, element type and name."""

    def __init__(
        self, shape: ShapeLike, dtype: DTypeLike = dtypes.float32, name: str | None = None
    ) -> None:
        self._shape = TensorShape(shape)
        self._shape_tuple = None if self._shape.rank is None else tuple(self._shape.as_list())
        self._dtype = as_dtype(dtype)
        self._name = name

    @property
    def shape(self) -> TensorShape:
        """The shape."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def name(self) -> str | None:
        """The name, or None."""
        return self._name


class VariableSpec(DenseSpec):
    """What is known of a variable.

    Args:
      shape, dtype: of its value.
      trainable: whether it is trained.
      alias_id: equal for variables that are the same one; None where that is not said.
    """

    def __init__(
        self,
        shape: ShapeLike,
        dtype: DTypeLike = dtypes.float32,
        trainable: bool = True,
        alias_id: int | None = None,
    ) -> None:
        super().__init__(shape, dtype)
        self.trainable = trainable
        self.alias_id = alias_id

    @classmethod
    def from_value(cls, value: Any) -> VariableSpec:
        """Return the spec of a variable."""
        return cls(value.shape, value.dtype, value.trainable)

    @property
    def value_type(self) -> type:
        """The class of variables."""
        return Variable

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a variable (or spec) may stand where this is asked for."""
        if not isinstance(spec_or_value, (VariableSpec, Variable)):
            return False
        given: Any = spec_or_value
        alias = getattr(given, "alias_id", None)
        return (
            self.shape.is_compatible_with(given.shape)
            and self.dtype == given.dtype
            and self.trainable == given.trainable
            and alias in (None, self.alias_id)
        )

    @property
    def parts(self) -> Sequence[Any]:
        """The spec of its handle."""
        return [TensorSpec([], dtypes.resource)]

    @property
    def _component_specs(self) -> Any:
        return list(self.parts)

    def from_parts(self, parts: Sequence[Any]) -> Any:
        """Return the variable of a handle, or of itself.

        Raises: ValueError for a handle of none that is still there.
        """
        (given,) = parts
        found = given if isinstance(given, Variable) else variable_of(given)
        if found is None:
            raise ValueError(f"{given!r:.80} is no handle of a variable that is there")
        return found

    def _to_components(self, value: Any) -> Any:
        return [value.handle]

    def _from_components(self, components: Any) -> Any:
        return self.from_parts(components)

    def _serialize(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.trainable, self.alias_id

    def __repr__(self) -> str:
        return (
            f"VariableSpec(shape={self.shape}, dtype={self.dtype!r}, trainable={self.trainable}, "
            f"alias_id={self.alias_id})"
        )


def give_specs_to_variables() -> None:
    """Give variables the attribute `_type_spec` that all have which are made of tensors."""
    Variable._type_spec = property(VariableSpec.from_value)  # type: ignore[attr-defined]
