"""Variables that a function makes in its first call: made outside of the trace.

What an initial value is computed from may be part of the trace; it is then computed at once, by
calling the operations that lead to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tideflow.graph.defaults import eager_graph
from tideflow.graph.functions import FuncGraph
from tideflow.graph.graph import Operation, Tensor
from tideflow.ops.state import init_scope, outermost_graph


def lifted_variables(
    graph: FuncGraph, made: list[Any], arguments: Sequence[Any]
) -> Callable[..., Any]:
    """Return a creator (see variable_creator_scope) that notes the variables that a trace makes.

    arguments: the tensors of the call for which the trace is made.
    """

    def create(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        initial = kwargs.get("initial_value")
        if isinstance(initial, Tensor) and initial.graph is graph and outermost_graph().is_eager:
            with init_scope():
                kwargs["initial_value"] = compute(initial, arguments)
        variable = next_creator(**kwargs)
        made.append(variable)
        return variable

    return create


def compute(tensor: Tensor, arguments: Sequence[Any]) -> Tensor:
    """Return the value of a traced tensor, by calling what leads to it.

    Raises: ValueError where it depends on an argument of the function that has no value.
    """
    home = eager_graph()
    graph = tensor.graph
    assert isinstance(graph, FuncGraph)
    done: dict[int, list[Tensor]] = {
        id(inner.op): [value]
        for inner, value in zip(graph.inputs, arguments)
        if isinstance(value, Tensor) and value.graph is home
    }

    def values_of(op: Operation) -> list[Tensor]:
        found = done.get(id(op))
        if found is None:
            found = done[id(op)] = _call(home, op, values_of)
        return found

    return values_of(tensor.op)[tensor.value_index]


def _call(home: Any, op: Operation, values_of: Callable[[Operation], list[Tensor]]) -> list[Tensor]:
    graph = op.graph
    assert isinstance(graph, FuncGraph)
    if any(argument.op is op for argument in graph.inputs):
        for outer, inner in graph.captures:
            if inner.op is op:
                return [outer]
        raise ValueError(
            f"the initial value of a variable depends on argument {op.name!r} of the function; "
            "make the variable outside, or give it a value that does not"
        )
    inputs = [values_of(t.op)[t.value_index] for t in op.inputs]
    made: Operation = home.create_op(op.op_def, inputs, dict(op.attrs))
    return list(made.outputs)
