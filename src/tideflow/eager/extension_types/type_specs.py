"""tf.TypeSpec as libraries derive from it, and a registry of such classes by name.

A class says with `_to_components`, `_from_components`, `_component_specs` and `_serialize` what the
values are made of; functions, loops and datasets use these by the protocol of `graph/type_spec.py`.

Source: tensorflow/python/framework/type_spec.py, type_spec_registry.py.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

import numpy as np

from tideflow.graph import type_spec as specs
from tideflow.graph.shapes import TensorShape
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.ops.export import export
from tideflow.ops.framework import nest

SpecClass = TypeVar("SpecClass", bound="type[TypeSpec]")


@export("TypeSpec", "data.experimental.Structure")
class TypeSpec(specs.TypeSpec):
    """What is known of a value; a subclass says it of one class of values, `value_type`.

    tf.TensorSpec and all other specs count as subclasses.
    """

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        if cls is TypeSpec and specs.TypeSpec in other.__mro__:
            return True
        return NotImplemented

    # ---- what a subclass says

    @property
    @abc.abstractmethod
    def _component_specs(self) -> Any:
        """A structure of the specs of what a value is made of."""

    @abc.abstractmethod
    def _to_components(self, value: Any) -> Any:
        """Return what a value is made of: a structure like that of the specs."""

    @abc.abstractmethod
    def _from_components(self, components: Any) -> Any:
        """Return the value that is made of components."""

    @abc.abstractmethod
    def _serialize(self) -> Any:
        """Return what it says: tuples and dicts of specs, shapes, types, numbers and text."""

    @classmethod
    def _deserialize(cls, serialization: Any) -> Self:
        """Return the spec that says what `_serialize` gave."""
        return cls(*serialization)

    # ---- as all specs

    def _stated(self) -> tuple[Any, ...]:
        stated: tuple[Any, ...] = self._serialize()
        return stated

    def _restated(self, stated: Sequence[Any]) -> Self:
        return self._deserialize(stated)

    @property
    def parts(self) -> Sequence[Any]:
        """The specs of the tensors of all components."""
        return [part for spec in nest.flatten(self._component_specs) for part in spec.parts]

    def from_parts(self, parts: Sequence[Any]) -> Any:
        """Return the value of the tensors of all components.

        Raises: ValueError for more or fewer tensors.
        """
        if len(parts) != len(self.parts):
            raise ValueError(f"{self!r:.80} has {len(self.parts)} tensors, not {len(parts)}")
        given = iter(parts)
        return self._from_components(
            nest.map_structure(lambda spec: _following(spec, given), self._component_specs)
        )

    @property
    def told(self) -> Hashable:
        """What values are besides their tensors: the class, and all that is stated."""
        return self.value_type, _frozen(self._serialize())

    @property
    def flat(self) -> Sequence[Any]:
        """The specs of the tensors that stand for a value in an element."""
        return self._flat_tensor_specs

    def to_tensors(self, value: Any) -> list[Any]:
        """Return the tensors that stand for a value in an element."""
        return self._to_tensor_list(value)

    def from_tensors(self, tensors: Sequence[Any]) -> Any:
        """Return the value that tensors of an element stand for."""
        return self._from_compatible_tensor_list(list(tensors))

    # ---- by the names that libraries know

    @property
    def _flat_tensor_specs(self) -> Sequence[Any]:
        return self.parts

    def _to_tensor_list(self, value: Any) -> list[Any]:
        return nest.flatten(self._to_components(value), expand_composites=True)

    def _from_compatible_tensor_list(self, tensor_list: list[Any]) -> Any:
        return self.from_parts(tensor_list)

    def _from_tensor_list(self, tensor_list: list[Any]) -> Any:
        """Return the value that tensors stand for.  Raises: ValueError where they do not fit."""
        wanted = self._flat_tensor_specs
        if len(tensor_list) != len(wanted):
            raise ValueError(
                f"Cannot create a {self.value_type.__name__} from the tensor list because the "
                f"TypeSpec expects {len(wanted)} items, but the provided tensor list has "
                f"{len(tensor_list)} items."
            )
        for place, (tensor, spec) in enumerate(zip(tensor_list, wanted)):
            if not spec.is_compatible_with(tensor):
                raise ValueError(
                    f"Cannot create a {self.value_type.__name__} from the tensor list because item "
                    f"{place} ({tensor!r:.80}) is incompatible with the expected TypeSpec {spec}."
                )
        return self._from_compatible_tensor_list(tensor_list)

    def most_specific_compatible_type(self, other: Any) -> Any:
        """Return the least general spec for values of both.  Raises: ValueError for none."""
        found = self.most_specific_common_supertype([other])
        if found is None:
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        return found

    def _with_tensor_ranks_only(self) -> Self:
        """Return a spec that says ranks in the place of shapes."""
        return self._deserialize(nest.map_structure(_rank_only, self._serialize()))

    def _without_tensor_names(self) -> Self:
        """Return a spec whose TensorSpecs have no names."""
        return self._deserialize(nest.map_structure(_nameless, self._serialize()))

    def _to_legacy_output_types(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__}._to_legacy_output_types()")

    def _to_legacy_output_shapes(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__}._to_legacy_output_shapes()")

    def _to_legacy_output_classes(self) -> Any:
        return self.value_type

    def __reduce__(self) -> Any:
        return type(self), self._serialize()


def _following(spec: specs.TypeSpec, given: Iterator[Any]) -> Any:
    """Return the value of a spec from the next tensors."""
    return spec.from_parts([next(given) for _ in spec.parts])


def _frozen(value: Any) -> Hashable:
    """Return what is stated, without the shapes of tensors, as something with a hash."""
    if isinstance(value, specs.TypeSpec):
        return value.told
    if isinstance(value, TensorShape):
        return TensorShape, value.sizes
    if isinstance(value, Mapping):
        return tuple((key, _frozen(value[key])) for key in sorted(value))
    if isinstance(value, (list, tuple)):
        return (type(value), *map(_frozen, value))
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    # 1, 1.0 and True are equal, but no two of them are the same static value.
    return type(value), value


def _rank_only(value: Any) -> Any:
    if isinstance(value, TensorSpec):
        return TensorSpec(_rank_only(value.shape), value.dtype, value.name)
    if isinstance(value, TypeSpec) and hasattr(value, "_with_tensor_ranks_only"):
        return value._with_tensor_ranks_only()
    if isinstance(value, TensorShape) and value.rank is not None:
        return TensorShape([None] * value.rank)
    return value


def _nameless(value: Any) -> Any:
    if isinstance(value, TensorSpec):
        return TensorSpec(value.shape, value.dtype)
    if isinstance(value, TypeSpec) and hasattr(value, "_without_tensor_names"):
        return value._without_tensor_names()
    return value


# ---- classes by name

_by_name: dict[str, type[Any]] = {}
_names: dict[type[Any], str] = {}


def register(name: str) -> Callable[[SpecClass], SpecClass]:
    """Give a class of specs a name, with a period in it, by which files may refer to it.

    Raises: TypeError for what is no class of specs; ValueError for names that are taken or have
    another form.
    """
    if not isinstance(name, str):
        raise TypeError(f"Expected `name` to be a string; got {name!r}")
    if not re.fullmatch(r"(\w+\.)+\w+", name):
        raise ValueError(
            f"Registered name must have the form '{{project_name}}.{{type_name}}'; got {name!r}."
        )

    def note(kind: SpecClass) -> SpecClass:
        if not (isinstance(kind, type) and issubclass(kind, specs.TypeSpec)):
            raise TypeError(f"Expected `cls` to be a TypeSpec; got {kind!r}")
        if kind in _names:
            raise ValueError(
                f"Class {kind.__module__}.{kind.__name__} has already been registered with name "
                f"{_names[kind]}."
            )
        if name in _by_name:
            known = _by_name[name]
            raise ValueError(
                f"Name {name} has already been registered for class "
                f"{known.__module__}.{known.__name__}."
            )
        _by_name[name], _names[kind] = kind, name
        return kind

    return note


def lookup(name: str) -> type[Any]:
    """Return the class of specs with a name.  Raises: ValueError for a name that none has."""
    if name not in _by_name:
        raise ValueError(f"No TypeSpec has been registered with name {name!r}")
    return _by_name[name]


def get_name(kind: type[Any]) -> str:
    """Return the name of a class of specs.  Raises: ValueError for a class without one."""
    if kind not in _names:
        raise ValueError(f"TypeSpec {kind.__module__}.{kind.__name__} has not been registered.")
    return _names[kind]
