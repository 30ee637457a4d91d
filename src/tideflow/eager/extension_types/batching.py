"""How values become rows of a batch: what says so for a class of specs is its encoder.

A spec with an encoder is taken apart into specs that the encoder names, and these again, down to
specs of tensors; tideflow's own specs say themselves how their values become rows.

Source: tensorflow/python/framework/type_spec.py, extension_type.py.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tideflow.eager.extension_types.extension_type import (
    ExtensionType,
    ExtensionTypeSpec,
    register_spec_base,
)
from tideflow.eager.extension_types.type_specs import TypeSpec
from tideflow.graph import type_spec as specs
from tideflow.graph.shapes import TensorShape
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import nest


class TypeSpecBatchEncoder(abc.ABC):
    """Says how values of a class of specs become tensors whose rows are values."""

    @abc.abstractmethod
    def batch(self, spec: TypeSpec, batch_size: int | None) -> Any:
        """Return the spec of a batch; batch_size: of the batch, None if it is not known."""

    @abc.abstractmethod
    def unbatch(self, spec: TypeSpec) -> Any:
        """Return the spec of a row of values of a spec."""

    @abc.abstractmethod
    def encode(self, spec: TypeSpec, value: object, minimum_rank: int = 0) -> Any:
        """Return a value as a structure of what can be stacked.

        minimum_rank: how many dimensions all of it must have at least.
        """

    @abc.abstractmethod
    def decode(self, spec: TypeSpec, encoded_value: TensorLike) -> Any:
        """Return the value of what `encode` gave, or of stacked or single rows of it."""

    @abc.abstractmethod
    def encoding_specs(self, spec: TypeSpec) -> Any:
        """Return the structure of the specs of what `encode` gives."""


class LegacyTypeSpecBatchEncoder(TypeSpecBatchEncoder):
    """Lets specs say themselves how their values become rows."""

    def batch(self, spec: Any, batch_size: int | None) -> Any:
        """Return the spec of a batch."""
        return spec._batch(batch_size)

    def unbatch(self, spec: Any) -> Any:
        """Return the spec of a row."""
        return spec._unbatch()

    def encode(self, spec: Any, value: object, minimum_rank: int = 0) -> Any:
        """Return the tensors of a value, or those whose rows are its rows.

        Raises: ValueError for rows of rows.
        """
        if minimum_rank > 1:
            raise ValueError(f"{type(spec).__name__}.encode does not support minimum_rank>1.")
        return spec._to_batched_tensor_list(value) if minimum_rank else spec._to_tensor_list(value)

    def decode(self, spec: Any, encoded_value: TensorLike) -> Any:
        """Return the value of its tensors."""
        return spec._from_tensor_list(encoded_value)

    def encoding_specs(self, spec: Any) -> Any:
        """Return the specs of the tensors."""
        return spec._flat_tensor_specs


class _WithRows(TypeSpec):
    """A spec of values that have rows, by its encoder."""

    __batch_encoder__: Any = LegacyTypeSpecBatchEncoder()

    @property
    def _flat_tensor_specs(self) -> Sequence[Any]:
        return flat_specs(self)

    def _to_tensor_list(self, value: object) -> list[Any]:
        return tensors_of(self, value, minimum_rank=0)

    def _to_batched_tensor_list(self, value: object) -> list[Any]:
        return tensors_of(self, value, minimum_rank=1)

    def _from_compatible_tensor_list(self, tensor_list: list[Any]) -> Any:
        return value_of(self, iter(tensor_list))

    def to_rows(self, value: object) -> list[Any]:
        """Return tensors each row of which stands for a row of a value."""
        return self._to_batched_tensor_list(value)

    def batched(self, size: int | None) -> Any:
        """Return the spec of a batch."""
        return self.__batch_encoder__.batch(self, size)

    def unbatched(self) -> Any:
        """Return the spec of a row."""
        return self.__batch_encoder__.unbatch(self)


class BatchableTypeSpec(_WithRows):
    """A spec of values that have rows, as libraries derive from it.

    A subclass says with `_batch` and `_unbatch` what the specs of batches and of rows are.  A row
    of a value has a row of each thing that the value is made of, unless there is an encoder.
    """

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        if cls is BatchableTypeSpec and specs.TypeSpec in other.__mro__:
            return getattr(other, "batched", None) is not specs.TypeSpec.batched or NotImplemented
        return NotImplemented

    @abc.abstractmethod
    def _batch(self, batch_size: int | None) -> Any:
        """Return the spec of a batch."""

    @abc.abstractmethod
    def _unbatch(self) -> Any:
        """Return the spec of a row."""

    @property
    def _flat_tensor_specs(self) -> Sequence[Any]:
        return _flattened(flat_specs, self._component_specs)

    def _to_tensor_list(self, value: object) -> list[Any]:
        return _flattened(tensors_of, self._component_specs, self._to_components(value))

    def _to_batched_tensor_list(self, value: object) -> list[Any]:
        found = _flattened(_rows_of, self._component_specs, self._to_components(value))
        if any(tensor.dims == () for tensor in found):
            raise ValueError(
                f"While converting {value} to a list of tensors for batching, found a scalar item "
                "which cannot be batched."
            )
        return found

    def _from_compatible_tensor_list(self, tensor_list: list[Any]) -> Any:
        given = iter(tensor_list)
        return self._from_components(
            nest.map_structure(lambda spec: value_of(spec, given), self._component_specs)
        )


# ---- values as tensors, and back


def flat_specs(spec: TypeSpec) -> Sequence[Any]:
    """Return the specs of the tensors that stand for a value in an element."""
    encoder = getattr(spec, "__batch_encoder__", None)
    if encoder is None:
        found: Sequence[Any] = spec.flat
        return found
    return _flattened(flat_specs, encoder.encoding_specs(spec))


def tensors_of(spec: TypeSpec, value: object, minimum_rank: int = 0) -> list[Any]:
    """Return the tensors that stand for a value; minimum_rank: 1 for tensors of its rows."""
    encoder = getattr(spec, "__batch_encoder__", None)
    if encoder is None:
        found: list[Any] = spec.to_rows(value) if minimum_rank else spec.to_tensors(value)
        return found
    return _flattened(
        lambda inner, part: tensors_of(inner, part, minimum_rank),
        encoder.encoding_specs(spec),
        encoder.encode(spec, value, minimum_rank),
    )


def _rows_of(spec: TypeSpec, value: object) -> list[Any]:
    return tensors_of(spec, value, minimum_rank=1)


def value_of(spec: TypeSpec, given: Iterator[Any]) -> Any:
    """Return the value that the next tensors stand for."""
    encoder = getattr(spec, "__batch_encoder__", None)
    if encoder is None:
        return spec.from_tensors(list(itertools.islice(given, len(spec.flat))))
    encoded = nest.map_structure(lambda inner: value_of(inner, given), encoder.encoding_specs(spec))
    return encoder.decode(spec, encoded)


def _flattened(function: Callable[..., Sequence[Any]], *structures: Any) -> list[Any]:
    """Return all that a function gives for the leaves of structures."""
    flat = [nest.flatten(structure) for structure in structures]
    return [one for leaves in zip(*flat, strict=True) for one in function(*leaves)]


# ---- extension types


@export("experimental.ExtensionTypeBatchEncoder")
class ExtensionTypeBatchEncoder(TypeSpecBatchEncoder):
    """Says how values of an extension type become rows: each tensor in them by itself.

    A subclass may do so in another way; an extension type has it as `__batch_encoder__`.
    """

    def batch(self, spec: TypeSpec, batch_size: int | None) -> Any:
        """Return the spec of a batch: with one dimension more in all specs and shapes."""

        def grown(leaf: Any) -> Any:
            if isinstance(leaf, TensorShape):
                return TensorShape([batch_size]).concatenate(leaf)
            return leaf.batched(batch_size) if isinstance(leaf, BatchableTypeSpec) else leaf

        return _with_each(spec, grown)

    def unbatch(self, spec: TypeSpec) -> Any:
        """Return the spec of a row: with one dimension less in all specs and shapes."""

        def lessened(leaf: Any) -> Any:
            if isinstance(leaf, TensorShape):
                return leaf[1:]
            return leaf.unbatched() if isinstance(leaf, BatchableTypeSpec) else leaf

        return _with_each(spec, lessened)

    def encode(self, spec: TypeSpec, value: object, minimum_rank: int = 0) -> Any:
        """Return the tensors, and what is made of tensors, that a value has."""
        return spec._to_components(value)

    def decode(self, spec: TypeSpec, encoded_value: TensorLike) -> Any:
        """Return the value of what it is made of."""
        return spec._from_components(encoded_value)

    def encoding_specs(self, spec: TypeSpec) -> Any:
        """Return the specs of what a value is made of."""
        return spec._component_specs


def _with_each(spec: Any, change: Callable[[Any], Any]) -> Any:
    """Return a spec whose fields are changed, leaf by leaf."""
    changed = nest.map_structure(change, spec._tf_extension_type_values())
    return type(spec)._tf_extension_type_of(changed)


class BatchableExtensionTypeSpec(ExtensionTypeSpec, _WithRows):
    """What is known of values of an extension type that have rows."""

    __batch_encoder__: Any = ExtensionTypeBatchEncoder()

    def _batch(self, batch_size: int | None) -> Any:
        return self.batched(batch_size)

    def _unbatch(self) -> Any:
        return self.unbatched()


@export("experimental.BatchableExtensionType")
class BatchableExtensionType(ExtensionType):
    """An extension type whose values have rows: datasets batch them, and map_fn takes each row.

    Each tensor of a value has a row for each row of the value, unless the class has a
    `__batch_encoder__` (see ExtensionTypeBatchEncoder) that says otherwise.
    """

    _tf_extension_type_do_not_transform_this_class = True


register_spec_base(BatchableExtensionType, BatchableExtensionTypeSpec)  # type: ignore[type-abstract]
