"""Values of several tensors as one variant, with what tells of which class they are.

Source: tensorflow/core/kernels/composite_tensor_ops.cc, composite_tensor_variant.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.handles import Variant, register_variant
from tideflow.wire.tensor_codec import decode_tensor, encode_tensor, tensor_dtype

_TYPE_NAME = "CompositeTensorVariant"


def _class_of(metadata: bytes | str) -> int:
    """Return the number of a class of TypeSpecs.

    metadata: a message whose first field is a TypeSpecProto, as that of this other message is.
    Raises: InvalidArgumentError for what is no message.
    """
    data = metadata.encode("utf-8", "surrogateescape") if isinstance(metadata, str) else metadata
    try:
        found = pb.TensorInfo.CompositeTensor.FromString(data).type_spec.type_spec_class
    except DecodeError:
        raise errors.InvalidArgumentError("Error parsing metadata") from None
    return int(found)


def _name_of(number: int) -> str:
    names = pb.TypeSpecProto.TypeSpecClass
    return names.Name(number) if number in names.values() else str(number)


class CompositeValue:
    """A value of several tensors as the element of a variant tensor.

    Attributes:
      metadata: says of which class it is.
      components: the tensors, each with its type.
    """

    __slots__ = ("components", "metadata")

    def __init__(self, metadata: bytes | str, components: Sequence[tuple[Any, DType]]) -> None:
        self.metadata = metadata
        self.components = tuple(components)

    def to_variant(self) -> Variant:
        """Return the form in which it travels."""
        given = self.metadata
        data = given.encode("utf-8", "surrogateescape") if isinstance(given, str) else given
        return Variant(_TYPE_NAME, data, tuple(encode_tensor(*one) for one in self.components))

    @classmethod
    def from_variant(cls, variant: Variant) -> CompositeValue:
        """Return the value that arrived."""
        tensors = [(decode_tensor(one), tensor_dtype(one)) for one in variant.tensors]
        return cls(variant.metadata, tensors)


register_variant(_TYPE_NAME, CompositeValue.from_variant)


@op(
    """
    CompositeTensorVariantFromComponents(components: *Tcomponents) -> encoded: variant
    metadata: string
    Tcomponents: list(type) >= 0
    """,
    shape=lambda c: [()],
)
def composite_from_components_kernel(
    ctx: KernelContext, components: list[Any], *, metadata: str, Tcomponents: list[DType]
) -> Any:
    """Return tensors as one variant.  Raises: InvalidArgumentError for metadata of no class."""
    _class_of(metadata)
    return CompositeValue(metadata, list(zip(components, Tcomponents)))


@op(
    """
    CompositeTensorVariantToComponents(encoded: variant) -> components: *Tcomponents
    metadata: string
    Tcomponents: list(type) >= 0
    """,
    shape=lambda c: [None] * len(c.attrs["Tcomponents"]),
)
def composite_to_components_kernel(
    ctx: KernelContext, encoded: Any, *, metadata: str, Tcomponents: list[DType]
) -> list[Any]:
    """Return the tensors of a variant.

    Raises: InvalidArgumentError for a variant of another class, or tensors of other types.
    """
    wanted = _class_of(metadata)
    flat = np.asarray(encoded, object).reshape(-1).tolist()
    value = flat[0] if flat else None
    if not isinstance(value, CompositeValue):
        raise errors.InvalidArgumentError(
            f"The input `encoded` is not a valid CompositeTensorVariant tensor, got {value!r:.80}"
        )
    found = _class_of(value.metadata)
    if found != wanted:
        raise errors.InvalidArgumentError(
            f"Expected a {_name_of(wanted)} (based on `type_spec`), but `encoded` contains a "
            f"{_name_of(found)}"
        )
    if len(value.components) != len(Tcomponents):
        raise errors.InvalidArgumentError(
            f"Encoded value has {len(value.components)} tensor components; expected "
            f"{len(Tcomponents)} components based on type_spec"
        )
    for at, ((_, dtype), expected) in enumerate(zip(value.components, Tcomponents)):
        if dtype is not expected:
            raise errors.InvalidArgumentError(
                f"Tensor component {at} had dtype {dtype.name}; expected dtype {expected.name}"
            )
    return [tensor for tensor, _ in value.components]


not_differentiable("CompositeTensorVariantFromComponents", "CompositeTensorVariantToComponents")
