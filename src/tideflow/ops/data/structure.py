"""The structure of a dataset's elements, and a dataset as the tensor that holds it.

An element is a structure of tuples and dicts.  Its leaves are tensors, or datasets, which travel as
variant tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from tideflow.graph.building import convert_to_tensor, make_op
from tideflow.graph.graph import Operation, Tensor
from tideflow.graph.op_def import get_op_def
from tideflow.graph.shapes import Dims, TensorShape
from tideflow.graph.types import TensorLike
from tideflow.ops.framework import nest
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType


class Spec:
    """Type and shape of a component."""

    __slots__ = ("dims", "dtype")

    def __init__(self, dtype: DType, dims: Dims) -> None:
        self.dtype = dtype
        self.dims = dims

    def given(self, tensor: Any) -> Any:
        """Return what a program gets for a tensor of the component."""
        return tensor


class NestedSpec(Spec):
    """A component that is a dataset itself.

    Args:
      kind: the class of the dataset.
      element: the structure of its elements.
    """

    __slots__ = ("element", "kind")

    def __init__(self, kind: type[StructuredVariant], element: Any) -> None:
        super().__init__(dtypes.variant, ())
        self.kind = kind
        self.element = element

    def given(self, tensor: Any) -> Any:
        """Return the dataset that a tensor holds."""
        return self.kind(tensor, self.element)


class StructuredVariant:
    """A tensor that holds a dataset, with the structure of its elements.

    Args:
      variant: a variant scalar that holds the dataset.
      element: the structure of the elements, with a Spec at each leaf.
    """

    def __init__(self, variant: Tensor, element: Any) -> None:
        self._variant = variant
        self._element = element
        self._made_of: tuple[str, Sequence[Any], dict[str, Any]] | None = None
        self._options: Any = None

    @classmethod
    def _make(
        cls,
        op: str,
        inputs: Sequence[Any],
        element: TensorLike,
        types: str = "output_types",
        **attrs: Any,
    ) -> Self:
        """Return the dataset that an op makes; among its inputs may be datasets."""
        leaves = nest.flatten(element)
        known = get_op_def(op).attrs
        if types in known:
            attrs[types] = [leaf.dtype for leaf in leaves]
        if "output_shapes" in known:
            attrs["output_shapes"] = [TensorShape(leaf.dims) for leaf in leaves]
        variants = nest.map_structure(variant_of, list(inputs))
        made = cls(make(op, variants, **attrs).outputs[0], element)
        made._made_of = op, inputs, attrs
        return made

    def _like(self, op: str, *inputs: Any, **attrs: Any) -> Self:
        return self._make(op, [self, *inputs], self._element, **attrs)

    def remade(self) -> Self:
        """Return the same dataset made once more, on the device that is current now.

        Returns: a dataset.
        Example:
          >>> [int(x) for x in tf.data.Dataset.range(2).remade()]
          [0, 1]
        """
        if self._made_of is None:
            return self
        op, inputs, attrs = self._made_of
        parts = nest.map_structure(
            lambda leaf: leaf.remade() if isinstance(leaf, StructuredVariant) else leaf,
            list(inputs),
        )
        return self._make(op, parts, self._element, **attrs)


def make(op: str, inputs: Sequence[Any], name: str | None = None, **attrs: Any) -> Operation:
    """Make an op by its name."""
    return make_op(get_op_def(op), inputs, attrs, name or op)


def int64(value: TensorLike) -> Tensor:
    """Return a number as an int64 tensor."""
    return convert_to_tensor(value, dtypes.int64)


def variant_of(leaf: object) -> Any:
    """Return the tensor that holds a dataset; anything else as it is."""
    return leaf._variant if isinstance(leaf, StructuredVariant) else leaf


def tensors(value: Any) -> Any:
    """Return a structure of tuples and dicts with tensors as leaves; a list is one tensor."""
    if isinstance(value, dict):
        return {key: tensors(item) for key, item in value.items()}
    if isinstance(value, tuple):
        items = [tensors(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value if isinstance(value, StructuredVariant) else convert_to_tensor(value)


def spec_of(leaf: Any) -> Spec:
    """Return what is known of a leaf of an element: a tensor, or a dataset."""
    if isinstance(leaf, StructuredVariant):
        return NestedSpec(type(leaf), leaf._element)
    return Spec(leaf.dtype, leaf.dims)


def specs_of(structure: Any) -> Any:
    """Return the specs of a structure of tensors and datasets."""
    return nest.map_structure(spec_of, structure)


def packed(element: Any, flat: Sequence[Any]) -> Any:
    """Return tensors as an element: the datasets among them as datasets."""
    leaves = [spec.given(one) for spec, one in zip(nest.flatten(element), flat, strict=True)]
    return nest.pack_sequence_as(element, leaves)


def attrs_of(element: Any) -> dict[str, Any]:
    """Return the attrs that say the types and shapes of an element."""
    leaves = nest.flatten(element)
    return {
        "output_types": [leaf.dtype for leaf in leaves],
        "output_shapes": [TensorShape(leaf.dims) for leaf in leaves],
    }
