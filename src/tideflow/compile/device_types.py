"""What may run on an accelerator, as far as op and element types tell.

Pure ops run there in compiled form, so those that cannot be traced stay on CPUs: strings, ops whose
results have a shape that depends on values, and those to which data would have to be known while
they are traced (a compilation for each batch).  What holds state, decides what runs next, or calls
functions has no computation of its own and goes where its tensors are.
"""

from __future__ import annotations

from collections.abc import Sequence

from tideflow.compile.region_selection import (
    VariableKey,
    assigns,
    changes_variables,
    has_types,
    is_gather,
    is_variable_read,
    knows_references,
    shape_of_variable,
    value_types,
    variable_uses,
)
from tideflow.graph.node import Node
from tideflow.graph.op_traits import Compiles, Rows
from tideflow.wire import dtypes
from tideflow.wire.device_name import parse_device_name

# The order in which device types are chosen for what asks for none; TensorFlow's numbers.
_PRIORITIES = {"GPU": 210, "CPU": 70}

# Their results are made of types that no compiler knows, and handed on untouched.
_HANDLES = frozenset({dtypes.resource, dtypes.variant})


def device_type(name: str) -> str:
    """Return the type of a full device name, such as "CPU"."""
    return parse_device_name(name).device_type or ""


def is_accelerator(name: str) -> bool:
    """Whether a device, by its full name, runs compiled code alone."""
    return device_type(name) == "GPU"


def priority(name: str) -> int:
    """Return how much a device's type is preferred to others."""
    return _PRIORITIES.get(device_type(name), 0)


def compiles(node: Node) -> bool:
    """Whether a node may be part of a region on an accelerator, or be one by itself."""
    if is_variable_read(node) or is_gather(node):
        return has_types([node.attrs["dtype"]])
    if changes_variables(node):
        return (
            node.op_def.update is not None
            and has_types(value_types(node))
            and knows_references(node)
        )
    return (
        node.op_def.compiles is not Compiles.NEVER
        and has_types(value_types(node))
        and knows_references(node)
    )


def compile_together(nodes: Sequence[Node]) -> set[int]:
    """Return which nodes of straight code, by id, may be parts of regions on an accelerator.

    Besides those that compile by themselves: assignments to variables that have a value, since
    they are read before; shapes of variables; and Unique, where nobody asks how many values are
    distinct (which tracing tells; see tideflow.runtime.device_trace).
    """
    found: set[int] = set()
    valued: set[VariableKey] = set()
    for node in nodes:
        uses = [key for key, _ in variable_uses(node)]
        if assigns(node):
            if has_types(value_types(node)) and knows_references(node) and valued.issuperset(uses):
                found.add(id(node))
        elif compiles(node):
            found.add(id(node))
            valued.update(uses)
        elif shape_of_variable(node) is not None or _is_unique_of_rows(node):
            found.add(id(node))
    return found


def _is_unique_of_rows(node: Node) -> bool:
    return node.op_def.rows is Rows.DISTINCT and node.attrs["T"] in (dtypes.int32, dtypes.int64)


def runs_on_accelerator(node: Node) -> bool:
    """Whether a node may be placed on an accelerator."""
    return _moves(node) if node.op_def.any_device else compiles(node)


def _moves(node: Node) -> bool:
    """Whether all tensors of a node can be where a compiler has them."""
    types = [source.output_types[port].base_dtype for source, port in node.edges]
    types += [dtype.base_dtype for dtype in node.output_types]
    types += [value for value in (node.attrs.get("dtype"), node.attrs.get("elem_type"))
              if isinstance(value, dtypes.DType)]  # fmt: skip
    return has_types(dtype for dtype in types if dtype not in _HANDLES)
