"""Optionals: elements that may be missing, as values.

Source: tensorflow/core/kernels/data/optional_ops.{h,cc}, optional_ops_util.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import scalar
from tideflow.graph.shapes import TensorShape
from tideflow.ops.data.iterators import find_iterator
from tideflow.ops.data.values import (
    Element,
    check_structure,
    component_shapes,
    dims_of,
    fail,
    owned,
)
from tideflow.wire import errors
from tideflow.wire.dtypes import DType, dtype_of
from tideflow.wire.handles import Variant, register_variant
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor

TYPE_NAME = "tensorflow::data::Optional"


class Optional:
    """An element, or None."""

    __slots__ = ("element",)

    def __init__(self, element: Element | None) -> None:
        self.element = element

    def to_variant(self) -> Variant:
        """Return the form in which it travels."""
        if self.element is None:
            return Variant(TYPE_NAME, b"\x00")
        return Variant(TYPE_NAME, b"\x01", tuple(encode_tensor(value) for value in self.element))

    @classmethod
    def from_variant(cls, variant: Variant) -> Optional:
        """Return the optional that arrived.

        Raises: InvalidArgumentError for one that does not say whether it has a value.
        """
        if variant.metadata not in (b"\x00", b"\x01"):
            raise fail(
                f"a variant of type {TYPE_NAME} came with metadata that does not say whether it "
                f"has a value: {variant.metadata[:40]!r}"
            )
        if variant.metadata == b"\x00":
            return cls(None)
        return cls(tuple(decode_tensor(tensor_pb) for tensor_pb in variant.tensors))


register_variant(TYPE_NAME, Optional.from_variant)


def _optional(value: object) -> Optional:
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(())[()]
    if not isinstance(value, Optional):
        kind = value.type_name if isinstance(value, Variant) else type(value).__name__
        raise fail(f"the input is no optional but {kind or 'an empty variant'}")
    return value


@op(
    """
    OptionalFromValue(components: *Toutput_types) -> optional: variant
    Toutput_types: list(type) >= 1
    """,
    shape=scalar,
)
def optional_from_value(ctx: KernelContext, components: list[Any]) -> Any:
    """Return an optional that has the components as its value."""
    return Optional(tuple(owned(value) for value in components))


def is_of_a_value(optional: Any) -> bool:
    """Return whether a tensor may be an optional that was made of tensors; in graphs, whether it
    is one that was made there."""
    return bool(optional.graph.is_eager or optional.op.type == "OptionalFromValue")


@op(
    """
    OptionalNone() -> optional: variant
    """,
    shape=scalar,
)
def optional_none(ctx: KernelContext) -> Any:
    """Return an optional without a value."""
    return Optional(None)


@op(
    """
    OptionalHasValue(optional: variant) -> has_value: bool
    """,
    shape=scalar,
)
def optional_has_value(ctx: KernelContext, optional: object) -> Any:
    """Tell whether an optional has a value."""
    return np.bool_(_optional(optional).element is not None)


@op(
    """
    OptionalGetValue(optional: variant) -> components: *output_types
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=component_shapes,
)
def optional_get_value(
    ctx: KernelContext,
    optional: object,
    *,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Return the value of an optional.

    Raises: InvalidArgumentError where it has none, or one of other types or shapes.
    """
    element = _optional(optional).element
    if element is None:
        raise fail("The given optional does not have a value.")
    if len(element) != len(output_types):
        raise fail(
            f"The given optional has {len(element)} components, expected {len(output_types)}."
        )
    types = [
        want if want.as_numpy_dtype is object else dtype_of(value)
        for want, value in zip(output_types, element)
    ]
    shapes = [np.shape(value) for value in element]
    check_structure(output_types, dims_of(output_shapes), types, shapes)
    return element


@op(
    """
    IteratorGetNextAsOptional(iterator: resource) -> optional: variant
    output_types: list(type) >= 1
    output_shapes: list(shape) >= 1
    """,
    shape=scalar,
    stateful=True,
)
async def iterator_get_next_as_optional(
    ctx: KernelContext,
    iterator: object,
    *,
    output_types: list[DType],
    output_shapes: list[TensorShape],
) -> Any:
    """Return the next element as an optional, without a value after the last."""
    found = find_iterator(ctx, iterator)
    try:
        return Optional(await found.next(output_types, dims_of(output_shapes)))
    except errors.OutOfRangeError:
        return Optional(None)


# Elements depend on nothing that is trained.
not_differentiable("IteratorGetNext", "IteratorGetNextSync", "IteratorGetNextAsOptional")
