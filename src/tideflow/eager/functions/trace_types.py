"""Classes of users that say themselves what tells traces of functions apart.

Source: tensorflow/python/types/trace.py.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from tideflow.graph.type_spec import TypeSpec


class TracingContext:
    """What holds while the types of the arguments of one call are found."""


class PlaceholderContext:
    """What holds while the arguments of one trace are made."""


class TraceType(abc.ABC):
    """What tells traces of a function apart, for arguments of one class.

    A trace serves all arguments whose type is a subtype of that for which it was made.
    """

    @abc.abstractmethod
    def is_subtype_of(self, other: TraceType) -> bool:
        """Whether a trace for the other type serves arguments of this one."""

    @abc.abstractmethod
    def most_specific_common_supertype(self, others: Sequence[TraceType]) -> TraceType | None:
        """Return the least general type that takes in this one and others; None for none."""

    @abc.abstractmethod
    def placeholder_value(self, placeholder_context: Any) -> Any:
        """Return what the function is given while it is traced."""

    def to_tensors(self, value: Any) -> list[Any]:
        """Return the tensors of an argument: none."""
        return []

    def from_tensors(self, tensors: Iterator[Any]) -> Any:
        """Return a value of its tensors: what stands for one in a trace."""
        return self.placeholder_value(PlaceholderContext())

    def flatten(self) -> list[Any]:
        """Return the TensorSpecs of what `to_tensors` gives: none."""
        return []

    def cast(self, value: Any, cast_context: Any) -> Any:
        """Return a value as one of this type.  Raises: AssertionError for another one."""
        known = self.placeholder_value(PlaceholderContext())
        if value != known:
            raise AssertionError(f"Can not cast {value!r} to type {self!r}")
        return value

    @abc.abstractmethod
    def __hash__(self) -> int: ...

    @abc.abstractmethod
    def __eq__(self, other: object) -> bool: ...


TraceType.register(TypeSpec)  # type: ignore[type-abstract]


@runtime_checkable
class SupportsTracingProtocol(Protocol):
    """A value that says itself what tells traces apart."""

    def __tf_tracing_type__(self, context: Any) -> Any:
        """Return a TraceType; context: of the call, without further use."""


def has_trace_type(value: Any) -> bool:
    """Whether a value supports the tracing protocol, as its class tells."""
    return hasattr(type(value), "__tf_tracing_type__")


def trace_type_of(value: SupportsTracingProtocol) -> Any:
    """Return the TraceType of a value."""
    return value.__tf_tracing_type__(TracingContext())


def placeholder_of(value: SupportsTracingProtocol) -> Any:
    """Return what a function is given for a value while it is traced."""
    return trace_type_of(value).placeholder_value(PlaceholderContext())
