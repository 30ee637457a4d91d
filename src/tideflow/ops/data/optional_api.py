"""tf.experimental.Optional: an element that may be missing, as programs hold it.

Source: tensorflow/python/data/ops/optional_ops.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from tideflow.graph.building import apply_op
from tideflow.graph.gradient_registry import gradient
from tideflow.graph.graph import Operation, Tensor, get_default_graph
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec, register_type_spec
from tideflow.ops.data.optional import is_of_a_value
from tideflow.ops.data.structure import (
    attrs_of,
    flat_tensors,
    make,
    packed,
    spec_of,
    specs_of,
    tensors,
)
from tideflow.ops.export import export
from tideflow.ops.framework import nest
from tideflow.wire import dtypes


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
        self._element_spec = element

    @staticmethod
    def from_value(value: Any) -> Optional:
        """Return an optional that has a value.

        Args:
          value: a structure of tensors.
        Example:
          >>> bool(tf.experimental.Optional.from_value((1, 2.0)).has_value())
          True
        """
        made = tensors(value)
        return Optional(apply_op("OptionalFromValue", flat_tensors(made)), specs_of(made))

    @staticmethod
    def empty(element_spec: Any) -> Optional:
        """Return an optional without a value.

        Args:
          element_spec: a structure of TypeSpecs, that of the values for which it stands.
        Example:
          >>> nothing = tf.experimental.Optional.empty(tf.TensorSpec([], tf.int32))
          >>> bool(nothing.has_value())
          False
        """
        return Optional(apply_op("OptionalNone"), element_spec)

    def has_value(self, name: str | None = None) -> Tensor:
        """Return whether there is a value, a bool scalar.

        Example:
          >>> walk = iter(tf.data.Dataset.range(1))
          >>> [bool(walk.get_next_as_optional().has_value()) for _ in range(2)]
          [True, False]
        """
        with beside(self._variant):
            found: Tensor = apply_op("OptionalHasValue", self._variant, name=name)
        return found

    def get_value(self, name: str | None = None) -> Any:
        """Return the value.

        Raises: InvalidArgumentError, where it is computed, without one.
        Example:
          >>> int(iter(tf.data.Dataset.range(5, 9)).get_next_as_optional().get_value())
          5
        """
        with beside(self._variant):
            found = apply_op(
                "OptionalGetValue", self._variant, name=name, **attrs_of(self._element_spec)
            )
        return packed(
            self._element_spec, list(found) if isinstance(found, (list, tuple)) else [found]
        )

    @property
    def element_spec(self) -> Any:
        """The structure of TypeSpecs of the value."""
        return self._element_spec

    def __repr__(self) -> str:
        return f"<_OptionalImpl element_spec={self.element_spec}>"


def beside(variant: Tensor) -> Any:
    """Have eager operations run where an optional or a dataset is: it never leaves its task."""
    graph = get_default_graph()
    return graph.colocate_with(variant.op) if graph.is_eager else contextlib.nullcontext()


def next_as_optional(handle: Tensor, element: Any) -> Optional:
    """Return the next element of the iterator that a handle names, if there is one."""
    return Optional(apply_op("IteratorGetNextAsOptional", handle, **attrs_of(element)), element)


@gradient("OptionalFromValue")
def _from_value_gradient(op: Operation, grad: Tensor) -> list[Tensor]:
    return make("OptionalGetValue", [grad], **attrs_of([spec_of(x) for x in op.inputs])).outputs


@gradient("OptionalGetValue")
def _get_value_gradient(op: Operation, *grads: Tensor | None) -> list[Tensor | None]:
    """Hand gradients to a value of this graph; elements of datasets depend on nothing trained."""
    if not is_of_a_value(op.inputs[0]):
        return [None]
    given = zip(grads, op.outputs)
    found = [apply_op("ZerosLike", made) if grad is None else grad for grad, made in given]
    return [apply_op("OptionalFromValue", found)]


nest.register_composite(
    Optional,
    lambda given: [given._variant],
    lambda like, parts: Optional(parts[0], like._element_spec),
)


@export("OptionalSpec", "experimental.OptionalSpec", "data.experimental.OptionalStructure")
class OptionalSpec(TypeSpec):
    """Hold what is known of an optional: the structure of its value.

    Args:
      element_spec: a structure of TypeSpecs.
    Example:
      >>> maybe = tf.experimental.Optional.from_value(tf.constant(1))
      >>> tf.OptionalSpec.from_value(maybe).element_spec
      TensorSpec(shape=(), dtype=tf.int32, name=None)
    """

    def __init__(self, element_spec: Any) -> None:
        self.element_spec = element_spec

    @classmethod
    def from_value(cls, value: Optional) -> OptionalSpec:
        """Return the spec of an optional."""
        return cls(value.element_spec)

    @property
    def value_type(self) -> type:
        """The class of optionals."""
        return Optional

    def _stated(self) -> tuple[Any, ...]:
        return (self.element_spec,)

    @property
    def parts(self) -> Sequence[TensorSpec]:
        """The tensor that holds the optional."""
        return (TensorSpec((), dtypes.variant),)

    def from_parts(self, parts: Sequence[Any]) -> Optional:
        """Return the optional that a tensor holds."""
        (held,) = parts
        return Optional(held, self.element_spec)

    def to_tensors(self, value: Optional) -> list[Any]:
        """Return the tensor that holds the optional."""
        return [value._variant]


register_type_spec(Optional, OptionalSpec.from_value)
