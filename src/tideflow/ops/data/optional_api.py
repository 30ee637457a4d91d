"""tf.experimental.Optional: an element that may be missing, as programs hold it.

Source: tensorflow/python/data/ops/optional_ops.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op
from tideflow.graph.graph import Tensor
from tideflow.ops.data.structure import attrs_of, packed, spec_of, specs_of, tensors, variant_of
from tideflow.ops.data.type_specs import type_spec
from tideflow.ops.export import export
from tideflow.ops.framework import nest


class OptionalSpec:
    """What is known of an optional: the structure of its value."""

    def __init__(self, value_structure: Any) -> None:
        self.value_structure = value_structure

    def __repr__(self) -> str:
        return f"OptionalSpec({self.value_structure!r})"


@export("experimental.Optional", "data.experimental.Optional")
class Optional:
    """An element, or none.

    Args:
      variant: a variant scalar that holds it.
      element: the specs of its value.
    Example:
      >>> found = tf.experimental.Optional.from_value(3)
      >>> bool(found.has_value()), int(found.get_value())
      (True, 3)
    """

    def __init__(self, variant: Tensor, element: Any) -> None:
        self._variant = variant
        self._element = element

    @staticmethod
    def from_value(value: Any) -> Optional:
        """Return an optional that has a structure of tensors as its value."""
        made = tensors(value)
        flat = [variant_of(leaf) for leaf in nest.flatten(made)]
        return Optional(apply_op("OptionalFromValue", flat), specs_of(made))

    @staticmethod
    def empty(element_spec: Any) -> Optional:
        """Return an optional without a value, for values of a structure of TensorSpecs."""
        return Optional(apply_op("OptionalNone"), nest.map_structure(spec_of, element_spec))

    def has_value(self, name: str | None = None) -> Tensor:
        """Return whether there is a value, a bool scalar."""
        found: Tensor = apply_op("OptionalHasValue", self._variant, name=name)
        return found

    def get_value(self, name: str | None = None) -> Any:
        """Return the value.  Raises: InvalidArgumentError, where it is computed, without one."""
        found = apply_op("OptionalGetValue", self._variant, name=name, **attrs_of(self._element))
        return packed(self._element, list(found) if isinstance(found, (list, tuple)) else [found])

    @property
    def element_spec(self) -> Any:
        """The structure of TensorSpecs of the value."""
        return nest.map_structure(type_spec, self._element)

    def __repr__(self) -> str:
        return f"<_OptionalImpl element_spec={self.element_spec}>"


def next_as_optional(handle: Tensor, element: Any) -> Optional:
    """Return the next element of the iterator that a handle names, if there is one."""
    return Optional(apply_op("IteratorGetNextAsOptional", handle, **attrs_of(element)), element)


nest.register_composite(
    Optional, lambda given: [given._variant], lambda like, parts: Optional(parts[0], like._element)
)
