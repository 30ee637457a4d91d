"""What programs are told of components of elements that are datasets, or nothing.

Source: tensorflow/python/data/ops/dataset_ops.py, python/data/util/structure.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec, register_type_spec
from tideflow.ops.data.structure import StructuredVariant, VariantBatch
from tideflow.ops.export import export
from tideflow.wire import dtypes


class _Made:
    """Attributes: kind: the class of the datasets that specs make which programs made."""

    kind: type[StructuredVariant] = StructuredVariant


def set_default_kind(kind: type[StructuredVariant]) -> None:
    """Say of which class the datasets are that specs make which programs made."""
    _Made.kind = kind


@export("data.DatasetSpec")
class DatasetSpec(TypeSpec):
    """Hold what is known of a dataset: the structure of its elements.

    Args:
      element_spec: a structure of TypeSpecs.
      dataset_shape: of the tensor that holds it, a scalar unless datasets were batched.
    Example:
      >>> spec = tf.data.DatasetSpec.from_value(tf.data.Dataset.range(3))
      >>> spec.element_spec
      TensorSpec(shape=(), dtype=tf.int64, name=None)
    """

    def __init__(self, element_spec: Any, dataset_shape: Any = ()) -> None:
        self.element_spec = element_spec
        self.dataset_shape = TensorShape(dataset_shape)
        self._kind: type[StructuredVariant] | None = None

    @classmethod
    def _of(
        cls, element_spec: Any, kind: type[StructuredVariant] | None, shape: Any = ()
    ) -> DatasetSpec:
        """Return the spec of datasets of a class."""
        made = cls(element_spec, shape)
        made._kind = kind
        return made

    @classmethod
    def from_value(cls, value: StructuredVariant) -> DatasetSpec:
        """Return the spec of a dataset."""
        return cls._of(value._element, value._kind)

    @property
    def value_type(self) -> type:
        """The class of the datasets."""
        return self._kind or _Made.kind

    def _stated(self) -> tuple[Any, ...]:
        return self.element_spec, self.dataset_shape

    def _with_shape(self, shape: Any) -> DatasetSpec:
        return DatasetSpec._of(self.element_spec, self._kind, shape)

    def _restated(self, stated: Sequence[Any]) -> DatasetSpec:
        element_spec, shape = stated
        return DatasetSpec._of(element_spec, self._kind, shape)

    @property
    def parts(self) -> Sequence[TensorSpec]:
        """The tensor that holds the dataset."""
        return (TensorSpec(self.dataset_shape, dtypes.variant),)

    def from_parts(self, parts: Sequence[Any]) -> Any:
        """Return the dataset that a tensor holds, or the batch of datasets."""
        (held,) = parts
        if self.dataset_shape.rank == 0:
            return (self._kind or _Made.kind)._held(held, self.element_spec)
        return VariantBatch(held, self._with_shape(()))

    def to_tensors(self, value: StructuredVariant | VariantBatch) -> list[Any]:
        """Return the tensor that holds a dataset, or a batch of datasets."""
        return [value.variant if isinstance(value, VariantBatch) else value._variant]

    def to_rows(self, value: StructuredVariant | VariantBatch) -> list[Any]:
        """Return the tensor that holds a batch of datasets.  Raises: ValueError for one dataset."""
        self.unbatched()
        return self.to_tensors(value)

    def batched(self, size: int | None) -> DatasetSpec:
        """Return the spec of a batch of datasets."""
        return self._with_shape(TensorShape([size]).concatenate(self.dataset_shape))

    def unbatched(self) -> DatasetSpec:
        """Return the spec of a row of a batch.  Raises: ValueError for one dataset."""
        if self.dataset_shape.rank == 0:
            raise ValueError("Slicing dataset elements is not supported for rank 0.")
        return self._with_shape(self.dataset_shape[1:])


register_type_spec(StructuredVariant, DatasetSpec.from_value)
register_type_spec(VariantBatch, lambda batch: batch.spec.batched(None))


@export("NoneTensorSpec")
class NoneTensorSpec(TypeSpec):
    """Stand for None in a structure: no tensor holds it.

    Example:
      >>> dataset = tf.data.Dataset.range(1).map(lambda x: (x, None))
      >>> dataset.element_spec
      (TensorSpec(shape=(), dtype=tf.int64, name=None), NoneTensorSpec())
    """

    __slots__ = ()

    @property
    def value_type(self) -> type:
        """The class of None."""
        return type(None)

    def _stated(self) -> tuple[Any, ...]:
        return ()

    @property
    def parts(self) -> Sequence[TensorSpec]:
        """No tensors."""
        return ()

    def from_parts(self, parts: Sequence[Any]) -> None:
        """Return None."""

    def to_tensors(self, value: None) -> list[Any]:
        """Return no tensors."""
        return []

    to_rows = to_tensors

    def batched(self, size: int | None) -> NoneTensorSpec:
        """Return the spec of a batch of nothing."""
        return self

    def unbatched(self) -> NoneTensorSpec:
        """Return the spec of a row of nothing."""
        return self


register_type_spec(type(None), lambda _: NoneTensorSpec())
