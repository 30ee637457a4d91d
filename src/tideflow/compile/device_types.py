"""What may run on an accelerator, as far as op and element types tell.

Pure ops run there in compiled form, so those that cannot be traced stay on CPUs: strings, ops whose
results have a shape that depends on values, and those to which data would have to be known while
they are traced (a compilation for each batch).  What holds state, decides what runs next, or calls
functions has no computation of its own and goes where its tensors are.
"""

from __future__ import annotations

from collections.abc import Sequence

from tideflow.compile.plan import CONTROL_FLOW_OPS
from tideflow.compile.regions import (
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
from tideflow.ops.state.updates import find_update
from tideflow.wire import dtypes
from tideflow.wire.device_name import parse_device_name

# The order in which device types are chosen for what asks for none; TensorFlow's numbers.
_PRIORITIES = {"GPU": 210, "CPU": 70}

# Their static inputs are data, or the shapes of their results depend on values.
_DATA_DEPENDENT_OPS = frozenset(
    {
        "Bincount", "DenseBincount", "HistogramFixedWidth", "InTopK", "InTopKV2",
        "ParallelDynamicStitch", "SegmentMax", "SegmentMean", "SegmentMin", "SegmentProd",
        "SegmentSum",
    }
)  # fmt: skip
_NATIVE_PREFIXES = ("SparseSegment", "_Mkl")
# Host kernels that give tensors, or take note of them: their work is small or done once.
_ASSISTED_OPS = frozenset(
    {
        "Assert", "CheckNumerics", "CheckNumericsV2", "Multinomial", "Placeholder",
        "PlaceholderWithDefault", "RandomStandardNormal", "RandomUniform", "RandomUniformInt",
        "TruncatedNormal", "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2",
    }
)  # fmt: skip
_STATE_OPS = frozenset(
    {
        "Assign", "AssignVariableOp", "DestroyResourceOp", "DisableCopyOnRead",
        "IsVariableInitialized", "VarHandleOp", "VarIsInitializedOp", "Variable", "VariableShape",
        "VariableV2", "_ReadVariablesOp", "_VarHandlesOp",
    }
)  # fmt: skip
_STORE_PREFIXES = ("Stack", "TensorArray", "TensorList", "EmptyTensorList")
_FUNCTION_OPS = frozenset(
    {
        "Case", "For", "If", "PartitionedCall", "StatefulPartitionedCall", "StatelessCase",
        "StatelessIf", "StatelessWhile", "ToBool", "While",
    }
)  # fmt: skip
_WIRING_OPS = CONTROL_FLOW_OPS | {
    "Const", "ControlTrigger", "NoOp", "_Arg", "_DeviceArg", "_DeviceRetval", "_Recv", "_Retval",
    "_Send",
}  # fmt: skip
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
            find_update(node.op) is not None
            and has_types(value_types(node))
            and knows_references(node)
        )
    return (
        node.op_def.is_pure
        and node.op not in _DATA_DEPENDENT_OPS
        and not node.op.startswith(_NATIVE_PREFIXES)
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
    return node.op == "Unique" and node.attrs["T"] in (dtypes.int32, dtypes.int64)


def runs_on_accelerator(node: Node) -> bool:
    """Whether a node may be placed on an accelerator."""
    op = node.op
    if op in _STATE_OPS or op.startswith(_STORE_PREFIXES):
        return _moves(node)
    if op in _WIRING_OPS or op in _ASSISTED_OPS or op in _FUNCTION_OPS or _is_call(node):
        return _moves(node)
    return compiles(node) or (op == "Identity" and _moves(node))


def _is_call(node: Node) -> bool:
    """Whether the node calls a function of the library by its name."""
    return node.op_def.is_async and node.op_def.takes_step and not node.op_def.kernel_attrs


def _moves(node: Node) -> bool:
    """Whether all tensors of a node can be where a compiler has them."""
    types = [source.output_types[port].base_dtype for source, port in node.edges]
    types += [dtype.base_dtype for dtype in node.output_types]
    types += [value for value in (node.attrs.get("dtype"), node.attrs.get("elem_type"))
              if isinstance(value, dtypes.DType)]  # fmt: skip
    return has_types(dtype for dtype in types if dtype not in _HANDLES)
