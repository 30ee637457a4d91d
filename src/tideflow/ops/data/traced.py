"""Functions over the elements of datasets, as graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow import finish, trace, tracing
from tideflow.ops.data.structure import (
    Spec,
    StructuredVariant,
    packed,
    spec_of,
    tensors,
    variant_of,
)
from tideflow.ops.framework import nest
from tideflow.wire import dtypes


class Traced:
    """A function over the elements of a dataset.

    Args:
      function: called with the parts of an element.
      element: the specs of an element.
      name: of the function, made unique.
    """

    def __init__(self, function: Callable[..., Any], element: TensorLike, name: str) -> None:
        function = tracing.convert(function)
        self.dataset: Any = None
        structure: list[Any] = []

        def call(*flat: Tensor) -> Any:
            args = packed(element, flat)
            # A named tuple is one argument, as a dict is.
            result = function(*args) if type(args) is tuple else function(args)
            self.dataset = result if isinstance(result, StructuredVariant) else None
            if isinstance(result, list):
                result = tuple(result)
            if isinstance(result, (tuple, dict)):
                result = tensors(result)
            structure.append(result)
            return nest.map_structure(variant_of, result)

        graph, _ = trace(call, nest.flatten(element), name)
        self.result = structure[0]
        self.ref = finish(graph).ref()
        self.captured = graph.captured_inputs
        flat = nest.flatten(self.result)
        leaves = [
            spec_of(leaf if isinstance(leaf, StructuredVariant) else tensor)
            for leaf, tensor in zip(flat, graph.outputs)
        ]
        self.element = nest.pack_sequence_as(self.result, leaves)

    def require_truth(self) -> None:
        """Raise ValueError for a predicate that gives no bool scalar."""
        found = self.element
        if (
            not isinstance(found, Spec)
            or found.dtype is not dtypes.bool_
            or found.dims not in (None, ())
        ):
            raise ValueError(
                "Invalid `predicate`. `predicate` must return a `tf.bool` scalar tensor, but its "
                f"return type is {nest.map_structure(lambda leaf: leaf.dtype.name, found)}."
            )
