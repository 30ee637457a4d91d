"""Functions over the elements of datasets, as graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tideflow.graph.graph import Tensor
from tideflow.graph.tensor_spec import TensorSpec
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow import finish, trace, tracing
from tideflow.ops.data.debug_mode import debug_mode
from tideflow.ops.data.structure import (
    StructuredVariant,
    flat_specs,
    flat_tensors,
    packed,
    specs_of,
    tensors,
)
from tideflow.ops.framework import nest
from tideflow.wire import dtypes


class Traced:
    """A function over the elements of a dataset.

    Args:
      function: called with the parts of an element.
      element: the specs of an element.
      name: of the function, made unique.
    Attributes:
      result: what the function gave, in its own structure.
      element: the specs of that.
    Raises: TypeError for a function that gives what cannot be an element.
    """

    def __init__(self, function: Callable[..., Any], element: TensorLike, name: str) -> None:
        self.dataset: Any = None
        structure: list[Any] = []
        converted = tracing.convert(function)

        def call(*flat: Tensor) -> Any:
            result = _called(converted, element, flat)
            self.dataset = result if isinstance(result, StructuredVariant) else None
            made = _made(result)
            structure.append((made, specs_of(made)))
            return flat_tensors(made)

        graph, _ = trace(call, flat_specs(element), name)
        [(self.result, self.element)] = structure
        if debug_mode.is_on:
            graph, _ = trace(self._eagerly(function, element), flat_specs(element), name)
        self.ref = finish(graph).ref()
        self.captured = graph.captured_inputs

    def _eagerly(self, function: Callable[..., Any], element: Any) -> Callable[..., Any]:
        """Return what adds an op that calls the function with eager tensors."""
        specs = flat_specs(self.element)

        def call(*flat: Tensor) -> list[Tensor]:
            return flat_tensors(_made(_called(function, element, flat)))

        def add(*flat: Tensor) -> list[Tensor]:
            assert debug_mode.call is not None
            found = debug_mode.call(call, flat, [spec.dtype for spec in specs])
            for tensor, spec in zip(found if specs else (), specs):
                tensor.set_shape(spec.shape)
            made: list[Tensor] = found if specs else []
            return made

        return add

    def require_truth(self) -> None:
        """Raise ValueError for a predicate that gives no bool scalar."""
        found = self.element
        if (
            not isinstance(found, TensorSpec)
            or found.dtype is not dtypes.bool_
            or found.dims not in (None, ())
        ):
            raise ValueError(
                "Invalid `predicate`. `predicate` must return a `tf.bool` scalar tensor, but its "
                f"return type is {found!r}."
            )


def _called(function: Callable[..., Any], element: Any, flat: Sequence[Tensor]) -> Any:
    args = packed(element, flat)
    # A named tuple is one argument, as a dict is.
    return function(*args) if type(args) is tuple else function(args)


def _made(result: Any) -> Any:
    """Return what a function gave as an element.  Raises: TypeError for what cannot be one."""
    try:
        made = tensors(tuple(result) if isinstance(result, list) else result)
        specs_of(made)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"Unsupported return value from function passed to Dataset: {result!r}: {error}"
        ) from error
    return made


def traced_state(
    function: Callable[..., Any],
    state: Any,
    element: Any,
    name: str,
    new_state: Callable[[Any], Any],
) -> tuple[Traced, Any]:
    """Trace a function of a state and an element, which gives the next state.

    Args:
      state: the specs of the first state; their shapes become less known until all states fit.
      element: the specs of an element.
      name: of the function, made unique.
      new_state: takes the specs of the next state from those of what the function gives.
    Returns: the function, and the specs of all states.
    Raises: TypeError for a next state of another structure, or of other classes or types.
    """
    while True:
        traced = Traced(function, (state, element), name)
        found = new_state(traced.element)
        wider = _widened(state, found)
        if wider == state:
            return traced, state
        state = wider


def _base_dtype(spec: Any) -> Any:
    """Return the type of a spec's values; the spec of a reference is that of what it refers to."""
    dtype = getattr(spec, "dtype", None)
    return None if dtype is None else dtype.base_dtype


def _widened(state: Any, found: Any) -> Any:
    """Return the specs for a state and the one after it."""
    pairs = list(zip(nest.flatten(state), nest.flatten(found)))
    for one, other in pairs:
        if one.value_type is not other.value_type:
            raise TypeError(
                "The element classes for the new state must match the initial state. Expected "
                f"{one.value_type}, got {other.value_type}."
            )
        if _base_dtype(one) != _base_dtype(other):
            raise TypeError(
                "The element types for the new state must match the initial state. Expected "
                f"{one.dtype}, got {other.dtype}."
            )
    if len(nest.flatten(state)) != len(nest.flatten(found)):
        # The op says how many there are.
        return state
    return nest.pack_sequence_as(state, [one.relaxed(other) or one for one, other in pairs])
