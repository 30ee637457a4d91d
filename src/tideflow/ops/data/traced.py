"""Functions over the elements of datasets, as graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow import finish, trace, tracing
from tideflow.ops.data.structure import StructuredVariant, packed, spec_of, variant_of
from tideflow.ops.framework import nest


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
            # A named tuple is one argument for each part, too; a dict or a list is one.
            result = function(*args) if isinstance(args, tuple) else function(args)
            self.dataset = result if isinstance(result, StructuredVariant) else None
            if isinstance(result, list):
                result = tuple(result)
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
