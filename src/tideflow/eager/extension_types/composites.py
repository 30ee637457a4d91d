"""What counts as made of several tensors, and is derived from by classes of libraries.

Source: tensorflow/python/framework/composite_tensor.py.
"""

from __future__ import annotations

import abc
from typing import Any

from tideflow.eager.extension_types.dense_specs import give_specs_to_variables
from tideflow.graph.graph import Tensor
from tideflow.graph.type_spec import Composite
from tideflow.ops.data.optional_api import Optional
from tideflow.ops.data.structure import StructuredVariant
from tideflow.ops.framework import IndexedSlices, nest
from tideflow.ops.ragged import RaggedTensor
from tideflow.ops.ragged.dynamic_shape import DynamicRaggedShape
from tideflow.ops.ragged.row_partition import RowPartition
from tideflow.ops.sparse import SparseTensor
from tideflow.ops.state import Variable


class CompositeTensor(Composite, abc.ABC):
    """What is made of several tensors, or is one and more: sparse, ragged, slices, variables.

    A subclass has a property `_type_spec`, a tf.TypeSpec that takes its values apart.  A class
    above this package counts as one by an attribute `counts_as_composite`.
    """

    @classmethod
    def __subclasshook__(cls, kind: type) -> Any:
        is_one = cls is CompositeTensor and getattr(kind, "counts_as_composite", False)
        return True if is_one else NotImplemented

    @property
    @abc.abstractmethod
    def _type_spec(self) -> Any:
        """What is known of the value."""

    def _shape_invariant_to_type_spec(self, shape: Any) -> Any:
        """Return the spec for a shape that `tf.while_loop` is given.

        Raises: NotImplementedError unless a subclass says otherwise.
        """
        raise NotImplementedError(f"{type(self).__name__}._shape_invariant_to_type_spec")

    def _consumers(self) -> list[Any]:
        """Return the operations that take the tensors that it is made of."""
        tensors = nest.flatten(self, expand_composites=True)
        return list({id(op): op for one in tensors for op in one.consumers()}.values())

    def _convert_variables_to_tensors(self) -> Any:
        """Return the value without variables in it: itself, unless a subclass says otherwise."""
        return self


for _kind in (
    SparseTensor,
    RaggedTensor,
    IndexedSlices,
    RowPartition,
    DynamicRaggedShape,
    StructuredVariant,
    Optional,
    Variable,
):
    CompositeTensor.register(_kind)
# What counts as one has a spec.
give_specs_to_variables()


def is_tensor_or_composite(value: Any) -> bool:
    """Whether a value is a tensor, or made of tensors."""
    return isinstance(value, (Tensor, CompositeTensor))
