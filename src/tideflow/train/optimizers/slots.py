"""Variables that an optimizer or an average keeps beside other variables.

A slot is named after its variable and its purpose ("dense/kernel/Adam"), is placed with it, and
is of the same kind (resource or reference).

Source: tensorflow/python/training/slot_creator.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.ops.state import Variable


def is_resource(variable: Any) -> bool:
    """Whether a variable is kept as a resource (and not as a reference)."""
    return isinstance(getattr(variable, "handle", None), Tensor)


def slot_variable(primary: Any, value: Callable[[], Any], name: str) -> Any:
    """Return a new variable beside primary, called `<primary>/<name>`.

    value: gives the initial value; called where no control dependency is in force.
    """
    graph = get_default_graph()
    with graph.name_scope(None), graph.colocate_with(primary.op):
        return Variable(
            value,
            trainable=False,
            name=f"{primary.op.name}/{name}",
            dtype=primary.dtype.base_dtype,
            use_resource=is_resource(primary),
            validate_shape=shapes.num_elements(primary.shape.sizes) is not None,
        )


def graph_variable(value: Any, name: str, beside: Any) -> Any:
    """Return a new variable that belongs to a graph as a whole, placed with another one."""
    graph = get_default_graph()
    with graph.colocate_with(beside.op):
        return Variable(value, name=name, trainable=False, use_resource=is_resource(beside))


def zeros_for(primary: Any) -> Any:
    """Return zeros of a variable's type and shape."""
    return filled_like(primary, 0)


def filled_like(primary: Any, value: Any) -> Any:
    """Return a tensor of a variable's type and shape that holds one value everywhere."""
    dtype = primary.dtype.base_dtype
    dims = primary.shape.sizes
    if shapes.num_elements(dims) is not None:
        return apply_op("Fill", list(dims), convert_to_tensor(value, dtype))
    sizes = apply_op("Shape", convert_to_tensor(primary.initialized_value()))
    return apply_op("Fill", sizes, convert_to_tensor(value, dtype))
