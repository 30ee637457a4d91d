"""Tensor elements that are objects: handles to resources, and variants.

A scalar resource or variant tensor is the bare object at run time; one with a shape is an object
array of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from tideflow.wire import dtypes
from tideflow.wire import messages as pb
from tideflow.wire.errors import InvalidArgumentError
from tideflow.wire.shapes import Shape, decode_shape, encode_shape


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ResourceHandle:
    """A value that names a resource (variable, table, queue) on the device that holds it.

    It may travel anywhere, but is of use only on that device.
    Source: resource_handle.proto of TensorFlow 2.21.
    """

    device: str = ""
    container: str = ""
    name: str = ""
    # Tells apart the C++ types of resources; the name of the type is there for people.
    hash_code: int = 0
    maybe_type_name: str = ""
    # What a variable holds: (dtype, shape); a shape of None has unknown rank.
    dtypes_and_shapes: tuple[tuple[dtypes.DType, Shape | None], ...] = ()

    def to_proto(self) -> pb.ResourceHandleProto:
        """Return the handle as it travels."""
        handle_pb = pb.ResourceHandleProto(
            device=self.device,
            container=self.container,
            name=self.name,
            hash_code=self.hash_code,
            maybe_type_name=self.maybe_type_name,
        )
        for dtype, shape in self.dtypes_and_shapes:
            handle_pb.dtypes_and_shapes.add(dtype=dtype.number, shape=encode_shape(shape))
        return handle_pb

    @classmethod
    def from_proto(cls, handle_pb: pb.ResourceHandleProto) -> ResourceHandle:
        """Return the handle that a message names.

        Raises: InvalidArgumentError for an unknown element type or a malformed shape.
        """
        try:
            held = tuple(
                (dtypes.as_dtype(int(item.dtype)), decode_shape(item.shape))
                for item in handle_pb.dtypes_and_shapes
            )
        except TypeError as error:
            raise InvalidArgumentError(f"resource {handle_pb.name!r}: {error}") from None
        return cls(
            device=handle_pb.device,
            container=handle_pb.container,
            name=handle_pb.name,
            hash_code=handle_pb.hash_code,
            maybe_type_name=handle_pb.maybe_type_name,
            dtypes_and_shapes=held,
        )


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant as it travels: the name of a C++ type, its own bytes, and tensors inside.

    The tensors stay encoded, since only the type's owner knows what they are; nothing is lost
    when a variant passes through a task that cannot read it.
    """

    type_name: str = ""
    metadata: bytes = b""
    tensors: tuple[pb.TensorProto, ...] = ()

    def to_proto(self) -> pb.VariantTensorDataProto:
        """Return the variant as it travels."""
        return pb.VariantTensorDataProto(
            type_name=self.type_name, metadata=self.metadata, tensors=self.tensors
        )

    @classmethod
    def from_proto(cls, variant_pb: pb.VariantTensorDataProto) -> Variant:
        """Return the variant of a message."""
        return cls(variant_pb.type_name, variant_pb.metadata, tuple(variant_pb.tensors))

    def to_variant(self) -> Variant:
        """Return itself: a Variant is in its travelling form already."""
        return self


@runtime_checkable
class SupportsVariant(Protocol):
    """A Python object that may be the element of a variant tensor: a tensor list, say."""

    def to_variant(self) -> Variant:
        """Return the form in which the object travels."""


_readers: dict[str, Callable[[Variant], SupportsVariant]] = {}


def register_variant(type_name: str, read: Callable[[Variant], SupportsVariant]) -> None:
    """Say how variants of a type are read when they arrive; others stay in travelling form."""
    _readers[type_name] = read


def read_variant(variant_pb: pb.VariantTensorDataProto) -> SupportsVariant:
    """Return the object that a message stands for.  Raises: as the type's reader."""
    variant = Variant.from_proto(variant_pb)
    read = _readers.get(variant.type_name)
    return variant if read is None else read(variant)


ObjectElement: TypeAlias = bytes | ResourceHandle | SupportsVariant
