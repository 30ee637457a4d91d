"""The class that each pass and executor gives each op, as a text table.

    python tests/graph/op_classes.py > tests/graph/op_classes.txt

writes the table anew.  One line for each op: its name, then words.  A word with letters holds for
nodes of these element types: f float32, i int32, c complex64, s string, r resource, v variant; m is
float32 for the first of an op's type attrs and int32 for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tideflow
import tideflow.v1  # noqa: F401 - all ops are registered now
from tideflow.compile import device_types, plan, region_selection
from tideflow.compile.region_selection import variable_uses
from tideflow.graph import roles
from tideflow.graph.node import FunctionRef, Node, arg_types
from tideflow.graph.op_def import AttrDef, OpDef, get_op_def, registered_ops
from tideflow.graph.op_traits import Effects
from tideflow.graph.shapes import TensorShape
from tideflow.wire import dtypes
from tideflow.wire.dtypes import DType

_PROBES = {
    "f": dtypes.float32,
    "i": dtypes.int32,
    "c": dtypes.complex64,
    "s": dtypes.string,
    "r": dtypes.resource,
    "v": dtypes.variant,
}


def table() -> str:
    """Return the table of all registered ops."""
    # Tests of one process may have registered ops of their own.
    names = [name for name in registered_ops() if not name.startswith("Test")]
    return "".join(f"{' '.join([name, *_words(get_op_def(name))])}\n" for name in names)


def _words(op_def: OpDef) -> list[str]:
    words = sorted(_declared_words(op_def))
    nodes = dict(_probes(op_def))
    for word, holds in _BY_TYPE.items():
        letters = "".join(letter for letter, node in nodes.items() if holds(node))
        if letters:
            words.append(word if len(letters) == len(nodes) else f"{word}={letters}")
    return [*words, *_uses(next(iter(nodes.values())))]


def _uses(node: Node) -> list[str]:
    found = [
        "changes" if changes else "reads"
        for source in node.edges
        for key, changes in variable_uses(Node("", node.op_def, [source], [], node.attrs))
        if key
    ]
    return [f"variables={','.join(found)}"] if found else []


_BY_TYPE: dict[str, Callable[[Node], bool]] = {
    "region": region_selection.may_compile,
    "region-if-known": region_selection.needs_known_inputs,
    "checks-labels": region_selection.label_guard,
    "divides": region_selection.divides,
    "accelerator": device_types.runs_on_accelerator,
    "accelerator-alone": device_types.compiles,
    "accelerator-together": lambda node: bool(device_types.compile_together([node])),
    "forwards": plan.forwards,
    "waits": plan.is_waiting,
    "control-flow": lambda node: plan.has_control_flow([node]),
    "assigns": region_selection.assigns,
    "updates": region_selection.changes_variables,
    "updates-in-region": region_selection.is_update,
    "reads-variable": region_selection.is_variable_read,
    "gathers": region_selection.is_gather,
    "shape-of-variable": lambda node: region_selection.shape_of_variable(node) is not None,
}


# ---- nodes to ask about


def _probes(op_def: OpDef) -> Iterator[tuple[str, Node]]:
    """Yield a node for each type that the op takes, under its letter; "-" where it names none."""
    kinds = [attr for attr in op_def.attrs.values() if attr.kind in ("type", "list(type)")]
    takes = {
        letter: dtype
        for letter, dtype in _PROBES.items()
        if any(attr.allowed is None or dtype in attr.allowed for attr in kinds)
    }
    for letter, dtype in takes.items():
        yield letter, _node(op_def, [dtype] * len(kinds))
    if len(kinds) > 1:
        yield "m", _node(op_def, [dtypes.float32, *[dtypes.int32] * (len(kinds) - 1)])
    if not takes:
        yield "-", _node(op_def, [dtypes.float32] * len(kinds))


def _node(op_def: OpDef, types: Iterable[DType]) -> Node:
    left = iter(types)
    attrs = {name: _attr(attr, left) for name, attr in op_def.attrs.items()}
    edges = [
        (_source(given, f"input_{number}"), 0)
        for number, given in enumerate(arg_types(op_def.inputs, attrs))
    ]
    return Node("node", op_def, edges, [], attrs)


def _source(dtype: DType, name: str) -> Node:
    """Return a node that gives a tensor, a reference or a handle of a variable."""
    shape = TensorShape(None)
    named = {"container": "", "shared_name": name, "dtype": dtype.base_dtype, "shape": shape}
    if dtype.is_ref_dtype:
        return Node(name, get_op_def("VariableV2"), [], [], named)
    if dtype is dtypes.resource:
        attrs = {**named, "dtype": dtypes.float32, "allowed_devices": []}
        return Node(name, get_op_def("VarHandleOp"), [], [], attrs)
    return Node(name, get_op_def("Placeholder"), [], [], {"dtype": dtype, "shape": shape})


def _attr(attr: AttrDef, types: Iterator[DType]) -> Any:
    if attr.kind == "type":
        return _allowed(attr, next(types))
    if attr.kind == "list(type)":
        return [_allowed(attr, next(types))] * max(1, attr.minimum or 0)
    if not attr.required:
        return attr.default
    if attr.kind.startswith("list("):
        return []
    plain = {"int": max(1, attr.minimum or 0), "shape": TensorShape(None), "func": FunctionRef("f")}
    return plain.get(attr.kind, "")


def _allowed(attr: AttrDef, dtype: DType) -> DType:
    if attr.allowed is None or dtype in attr.allowed:
        return dtype
    default: DType = attr.default if attr.kind == "type" and attr.default else attr.allowed[0]
    return default


# ---- declarations


def _declared_words(op_def: OpDef) -> Iterator[str]:
    """Yield what passes and executors read from the declaration itself."""
    if op_def.role is not roles.COMPUTE:
        yield f"role={op_def.role.name.lower()}"
    if op_def.effects is not Effects.ORDERED:
        yield f"effects={op_def.effects.name.lower()}"
    if op_def.rows is not None:
        yield f"rows={op_def.rows.name.lower()}"
    if op_def.host_inputs is not None:
        yield f"host-inputs={op_def.host_inputs}"
    if op_def.update is not None:
        yield f"update={op_def.update.kind},{op_def.update.variables}"
        if op_def.update.indices >= 0:
            yield f"rows-at={op_def.update.indices}"
    if op_def.on_value is not None:
        yield f"on-value={op_def.on_value.op}"
    if op_def.checked_outputs is not None:
        yield f"checked-outputs={op_def.checked_outputs}"
    for attr, found in (op_def.host_types or {}).items():
        yield f"on-cpu={attr}:{','.join(dtype.name for dtype in found)}"
    flags = {
        "holds-functions": op_def.holds_functions,
        "holds-parameters": op_def.holds_parameters,
        "keeps-state": op_def.keeps_state,
        "known-from-shapes": op_def.static_value is not None,
        "known-in-part": op_def.partial_value is not None,
        "held-shapes": op_def.held_shapes is not None,
        "only-checks": op_def.only_checks,
        "only-reads": op_def.only_reads,
        "spares-elements": not op_def.changes_elements,
        "stated": op_def.is_stated,
    }
    yield from (word for word, holds in flags.items() if holds)


if __name__ == "__main__":
    print(table(), end="")
