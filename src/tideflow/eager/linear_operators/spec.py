"""Operators as what they are made of: tensors, which functions and loops pass, and all else.

Source: tensorflow/python/ops/linalg/linear_operator.py (_LinearOperatorSpec).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from tideflow.eager.linear_operators import hints
from tideflow.eager.linear_operators.base import LinearOperator
from tideflow.eager.linear_operators.tensors import is_reference, known, scope
from tideflow.graph.graph import Tensor
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.type_spec import TypeSpec, register_type_spec
from tideflow.graph.types import DTypeLike
from tideflow.ops.framework import nest


class TensorOperator(LinearOperator):
    """An operator that is made of its arguments, and so can be made again of other tensors."""

    def _begin(self, dtype: DTypeLike, parameters: dict[str, Any], **settled: Any) -> None:
        """Set what all operators have.

        Args:
          parameters: the arguments of the constructor, with hints and name.
          settled: hints, or the name, that are known better than the arguments say.
        """
        if "name" in settled:
            # What has no tensors of its own has a scope, too: by it TensorFlow numbers the next.
            with scope(settled["name"]):
                pass
        told = {name: parameters[name] for name in (*hints.HINTS, "name")}
        LinearOperator.__init__(self, dtype, parameters=parameters, **{**told, **settled})


def stated(operator: Any) -> dict[str, Any]:
    """Return the arguments that make an operator what it is: tensors, operators and all else.

    Those that are preferred static are Python values where these are known.
    """
    made: dict[str, Any] = {}
    for name in (*operator._composite_tensor_fields, *hints.HINTS):
        value = operator.parameters.get(name)
        for attribute in (name, f"_{name}"):
            value = getattr(operator, attribute, value)
        if name in operator._composite_tensor_prefer_static_fields and isinstance(value, Tensor):
            found = known(value)
            value = value if found is None else found.tolist()
        made[name] = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    return made


def _mapped(value: Any, change: Callable[[Any], Any], make: Callable[..., Any]) -> Any:
    """Return a nested argument with its tensors, variables and specs changed, in their order.

    make: gives what stands for an operator, of its class and its changed arguments.
    """
    if isinstance(value, (Tensor, TensorSpec)) or is_reference(value):
        return change(value)
    if isinstance(value, (TensorOperator, OperatorSpec)):
        fields = stated(value) if isinstance(value, TensorOperator) else value.fields
        kind = type(value) if isinstance(value, TensorOperator) else value.value_type
        return make(kind, {name: _mapped(v, change, make) for name, v in fields.items()})
    if isinstance(value, (list, tuple)):
        return [_mapped(item, change, make) for item in value]
    return value


def _made(kind: type, fields: dict[str, Any]) -> Any:
    return kind(**fields)


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the tensors, variables and specs of a nested argument."""
    if isinstance(value, (Tensor, TensorSpec)) or is_reference(value):
        yield value
    elif isinstance(value, TensorOperator):
        yield from _leaves(list(stated(value).values()))
    elif isinstance(value, OperatorSpec):
        yield from _leaves(list(value.fields.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)


def tensors_of(operator: Any) -> list[Any]:
    """Return the tensors and variables that an operator is made of."""
    return list(_leaves(operator))


def with_tensors(operator: Any, tensors: Sequence[Any]) -> Any:
    """Return an operator, or that of a spec, made of other tensors."""
    given = iter(tensors)
    return _mapped(operator, lambda _: next(given), _made)


def _told(value: Any) -> Hashable:
    """Return what a nested argument says but for its tensors."""
    if isinstance(value, Tensor) or is_reference(value):
        return Tensor
    if isinstance(value, TensorOperator):
        return (type(value), *map(_told, stated(value).values()))
    if isinstance(value, (list, tuple)):
        return tuple(map(_told, value))
    told: Hashable = value
    return told


class OperatorSpec(TypeSpec):
    """The class, the arguments and the promises of an operator to come.

    Args:
      kind: the operator's class.
      fields: its arguments by name: specs, and what is no tensor.
    """

    __slots__ = ("_fields", "_kind")

    def __init__(self, kind: type, fields: dict[str, Any]) -> None:
        self._kind = kind
        self._fields = fields

    @classmethod
    def from_value(cls, operator: Any) -> Any:
        """Return the spec of an operator; an operator without tensors has one, too."""
        return _mapped(operator, _spec_of, cls)

    @property
    def value_type(self) -> type:
        """The operator's class."""
        return self._kind

    @property
    def fields(self) -> dict[str, Any]:
        """The arguments by name."""
        return self._fields

    def _stated(self) -> tuple[Any, ...]:
        return self._kind, self._fields

    def __repr__(self) -> str:
        return f"{self._kind.__name__}Spec({self._fields!r})"

    @property
    def parts(self) -> Sequence[Any]:
        """The specs of its tensors."""
        return list(_leaves(self))

    def from_parts(self, parts: Sequence[Any]) -> Any:
        """Return the operator of its tensors."""
        return with_tensors(self, parts)

    def to_tensors(self, value: Any) -> list[Any]:
        """Return the tensors that it is made of."""
        return tensors_of(value)


def _spec_of(value: Any) -> TensorSpec:
    return TensorSpec(value.shape, value.dtype.base_dtype)


nest.register_composite(TensorOperator, tensors_of, with_tensors, _told)
register_type_spec(TensorOperator, OperatorSpec.from_value)
