"""Variables that an optimizer or an average keeps beside other variables.

A slot is named after its variable and its purpose ("dense/kernel/Adam"), below the variable scope
in force; it is placed with its variable, and is of the same kind (resource or reference).

Source: tensorflow/python/training/slot_creator.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeGuard

from tideflow.graph import shapes
from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.state import ResourceVariable, Variable, kinds
from tideflow.ops.state.scopes import variable_scope
from tideflow.ops.state.slices import SaveSliceInfo


def is_resource(variable: object) -> TypeGuard[ResourceVariable]:
    """Whether a variable is kept as a resource (and not as a reference)."""
    return isinstance(getattr(variable, "handle", None), Tensor)


def is_eager(variable: object) -> bool:
    """Whether a variable is held outside of any graph."""
    return kinds.eager is not None and isinstance(variable, kinds.eager)


def own_name(variable: Any) -> str:
    """Return a variable's name without the number of an output."""
    name: str = variable._shared_name if is_eager(variable) else variable.op.name
    return name


def placed_with(variable: Any) -> contextlib.AbstractContextManager[Any]:
    """Put what is made inside where a variable is."""
    graph = get_default_graph()
    return graph.device(variable.device) if is_eager(variable) else graph.colocate_with(variable.op)


def slot_variable(primary: Any, value: Callable[[], Any], name: str) -> Any:
    """Return a new variable beside primary, called `<primary>/<name>` below the variable scope.

    value: gives the initial value; called where no control dependency is in force.
    """
    graph = get_default_graph()
    beside = own_name(primary)
    unnamed = variable_scope(None, f"{beside}/{name}", auxiliary_name_scope=False)
    with unnamed as scope, graph.name_scope(None):
        with placed_with(primary):
            made = Variable(
                value,
                trainable=False,
                name=scope.name,
                dtype=primary.dtype.base_dtype,
                use_resource=is_resource(primary),
                validate_shape=shapes.num_elements(primary.shape.sizes) is not None,
            )
    whole = primary._get_save_slice_info() if isinstance(primary, Variable) else None
    if whole is not None:
        # TensorFlow's key of a slot's part cuts the scope at the length of the part's own name.
        part = scope.name[len(beside) + 1 :]
        info = SaveSliceInfo(
            f"{whole.full_name}/{part}", whole.full_shape, whole.var_offset, whole.var_shape
        )
        made._set_save_slice_info(info)
    return made


def graph_variable(value: TensorLike, name: str, beside: Any) -> Any:
    """Return a new variable that belongs to a graph as a whole, placed with another one."""
    with placed_with(beside):
        return Variable(value, name=name, trainable=False, use_resource=is_resource(beside))


def zeros_for(primary: Any) -> Any:
    """Return zeros of a variable's type and shape."""
    return filled_like(primary, 0)


def filled_like(primary: Any, value: TensorLike) -> Any:
    """Return a tensor of a variable's type and shape that holds one value everywhere."""
    dtype = primary.dtype.base_dtype
    dims = primary.shape.sizes
    if shapes.num_elements(dims) is not None:
        return apply_op("Fill", list(dims), convert_to_tensor(value, dtype))
    sizes = apply_op("Shape", convert_to_tensor(primary.initialized_value()))
    return apply_op("Fill", sizes, convert_to_tensor(value, dtype))
