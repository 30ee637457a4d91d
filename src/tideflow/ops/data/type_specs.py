"""What programs are told of the elements of datasets."""

from __future__ import annotations

from typing import Any

from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.ops.data.structure import NestedSpec, Spec
from tideflow.ops.export import export
from tideflow.ops.framework import nest


@export("data.DatasetSpec")
class DatasetSpec:
    """What is known of a dataset: the structure of its elements.

    Args:
      element_spec: a structure of TensorSpecs.
      dataset_shape: of the tensor that holds it, a scalar unless datasets were batched.
    """

    def __init__(self, element_spec: Any, dataset_shape: Any = ()) -> None:
        self.element_spec = element_spec
        self.dataset_shape = TensorShape(dataset_shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatasetSpec) and self.element_spec == other.element_spec

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec!r}, {self.dataset_shape!r})"


def type_spec(leaf: Spec) -> Any:
    """Return what programs are told of a component."""
    if isinstance(leaf, NestedSpec):
        return DatasetSpec(nest.map_structure(type_spec, leaf.element))
    return TensorSpec(leaf.dims, leaf.dtype)
