"""The static shapes of an operation's outputs, by the shape rule of its op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideflow.graph import shapes
from tideflow.graph.operation import Operation
from tideflow.graph.shape_rules import ShapeContext
from tideflow.graph.shapes import Dims
from tideflow.graph.static_value import static_value


def infer_shapes(made: Operation, inputs: Sequence[Dims]) -> list[Dims]:
    """Return the static shapes of an operation's outputs by its op's rule.

    Raises: ValueError, saying which operation, when the inputs cannot fit.
    """
    rule = made.op_def.shape_rule
    count = len(made.output_types)
    if rule is None:
        return [None] * count
    context = ShapeContext(made, inputs, lambda i: _static_input(made, i))
    try:
        found: list[Dims] = rule(context)
    except ValueError as error:
        given = ", ".join(shapes.format_dims(dims) for dims in inputs)
        raise ValueError(
            f"{made.type} {made.name!r} (input shapes {given}): {error}. "
            f"Made at {made.made_at[0]}:{made.made_at[1]}."
        ) from None
    return found


def _static_input(made: Operation, index: int) -> Any:
    source, port = made.edges[index]
    return static_value(source, port)
