"""What is said of a value that does not exist yet: a tensor, or what is made of several tensors.

Each class of such values has a class of specs.  A value is taken apart into tensors and put
together again in two forms: its parts, which have types of their own, and its form within an
element of a dataset, which is one tensor at most, of variants where the value is no tensor itself.

Source: tensorflow/python/framework/type_spec.py.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Self

from tideflow.graph import shapes
from tideflow.graph.shapes import TensorShape


class TypeSpec(abc.ABC):
    """What is known of a value; subclasses say it of one class of values."""

    __slots__ = ()

    # ---- what it is

    @property
    @abc.abstractmethod
    def value_type(self) -> type:
        """The class of the values."""

    @property
    def shape(self) -> TensorShape:
        """The shape of the values, as far as it is known."""
        return TensorShape(None)

    @abc.abstractmethod
    def _stated(self) -> tuple[Any, ...]:
        """Return what it says, by which specs are compared and printed."""

    def relaxed(self, other: TypeSpec) -> Self | None:
        """Return a spec for the values of both; None where there is none."""
        if type(other) is not type(self):
            return None
        try:
            return self._restated(_relaxed(self._stated(), other._stated()))
        except _Differs:
            return None

    def _restated(self, stated: Sequence[Any]) -> Self:
        """Return a spec of the same kind that says something else."""
        return type(self)(*stated)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a value (or spec) may stand where this is asked for."""
        given = spec_or_value
        other = given if isinstance(given, TypeSpec) else type_spec_of(given)
        return type(other) is type(self) and self._admits(other)

    def is_subtype_of(self, other: TypeSpec) -> bool:
        """Whether all of its values may stand where the other is asked for."""
        return isinstance(other, type(self)) and self.relaxed(other) == other

    def most_specific_common_supertype(self, others: Sequence[TypeSpec]) -> Self | None:
        """Return the least general spec for its values and those of others; None for none."""
        found: Self | None = self
        for other in others:
            found = None if found is None else found.relaxed(other)
        return found

    def _admits(self, other: Any) -> bool:
        """Whether a spec of the same class agrees in what both say."""
        return _compatible(self._stated(), other._stated())

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._stated() == other._stated()

    def __hash__(self) -> int:
        return hash((type(self).__name__, repr(self._stated())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self._stated()!r}"

    # ---- its parts

    @property
    @abc.abstractmethod
    def parts(self) -> Sequence[Any]:
        """The TensorSpecs of the tensors that a value has."""

    @abc.abstractmethod
    def from_parts(self, parts: Sequence[Any]) -> Any:
        """Return a value of its tensors."""

    @property
    def told(self) -> Hashable:
        """What values are besides their tensors, by which traces of functions differ: the class."""
        return self.value_type

    def __tf_tracing_type__(self, context: Any) -> TypeSpec:
        """Return what tells traces apart: the spec itself."""
        return self

    # ---- its form within an element

    @property
    def flat(self) -> Sequence[Any]:
        """The TensorSpecs of the tensors that stand for a value in an element: its parts."""
        return self.parts

    def to_tensors(self, value: Any) -> list[Any]:
        """Return the tensors that stand for a value in an element.

        Raises: TypeError for a value that cannot be a component of an element.
        """
        raise TypeError(f"{self!r} cannot be a component of an element")

    def to_rows(self, value: Any) -> list[Any]:
        """Return tensors each row of which stands for a row of a value.

        Raises: TypeError for a value without rows.
        """
        raise TypeError(f"{self!r} has no rows")

    def from_tensors(self, tensors: Sequence[Any]) -> Any:
        """Return the value that tensors of an element stand for."""
        return self.from_parts(tensors)

    def batched(self, size: int | None) -> TypeSpec:
        """Return the spec of a batch; size: of the batch, None if it is not known.

        Raises: TypeError for values that cannot be batched.
        """
        raise TypeError(f"{self!r} cannot be batched")

    def unbatched(self) -> TypeSpec:
        """Return the spec of a row.  Raises: TypeError or ValueError for values without rows."""
        raise TypeError(f"{self!r} has no rows")


class Composite:
    """A value that says by its spec how it is taken apart, as classes of users and libraries do.

    Attributes:
      _type_spec: its TypeSpec (libraries know it by this name).
    """

    __slots__ = ()

    @property
    def _type_spec(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no `_type_spec`")

    def __tf_tracing_type__(self, context: Any) -> Any:
        """Return what tells traces apart: the spec."""
        return self._type_spec


class _Differs(Exception):
    """Nothing is true of both."""


def _relaxed(one: Any, other: Any) -> Any:
    """Return the most that is true of both of two structures.  Raises: _Differs."""
    if isinstance(one, TypeSpec) and isinstance(other, TypeSpec):
        found = one.relaxed(other)
        if found is None:
            raise _Differs
        return found
    if isinstance(one, TensorShape) and isinstance(other, TensorShape):
        return TensorShape(shapes.relax(one.sizes, other.sizes))
    if _alike(one, other):
        if isinstance(one, Mapping):
            return {key: _relaxed(one[key], other[key]) for key in one}
        items = [_relaxed(*pair) for pair in zip(one, other)]
        return type(one)(*items) if hasattr(one, "_fields") else type(one)(items)
    if one != other:
        raise _Differs
    return one


def _compatible(one: Any, other: Any) -> bool:
    """Whether two structures agree in what both say."""
    if isinstance(one, TypeSpec):
        return isinstance(other, TypeSpec) and one.is_compatible_with(other)
    if isinstance(one, TensorShape):
        return isinstance(other, TensorShape) and one.is_compatible_with(other)
    if not _alike(one, other):
        return bool(one == other)
    keys = one if isinstance(one, Mapping) else range(len(one))
    return all(_compatible(one[key], other[key]) for key in keys)


def _alike(one: Any, other: Any) -> bool:
    """Whether both are structures of the same form, as far as one level tells."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys()
    is_sequence = isinstance(one, (list, tuple)) and type(one) is type(other)
    return is_sequence and len(one) == len(other)


_makers: list[tuple[type, Callable[[Any], TypeSpec]]] = [
    (Composite, lambda composite: composite._type_spec)
]


def register_type_spec(kind: type, make: Callable[[Any], TypeSpec]) -> None:
    """Say how the spec of a value of a class is made."""
    _makers.append((kind, make))


def type_spec_of(value: Any) -> TypeSpec | None:
    """Return the spec of a value; None for one of a class that has no specs."""
    for kind, make in _makers:
        if isinstance(value, kind):
            return make(value)
    return None
