"""Plans of regions as bytes, for another process to compile.

What a plan says of its nodes goes along: op, attrs and the types of their inputs.  What only runs
them in this process does not: functions are there as the plans of their bodies, and kernels are
bound anew.
"""

from __future__ import annotations

import io
import pickle
import pkgutil
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tideflow.graph.kernel import bind
from tideflow.graph.node import FunctionRef, Node
from tideflow.graph.op_def import get_op_def
from tideflow.platform.shown_names import own_name
from tideflow.runtime.region_plan import Action, RegionPlan
from tideflow.wire.dtypes import DType


def dump_plan(plan: RegionPlan) -> bytes:
    """Return a plan as bytes, without the constants that are handed over.

    Raises: whatever values of attrs and constants raise that cannot be written.
    """
    handed_over = set(plan.large)
    known = {slot: value for slot, value in plan.constants.items() if slot not in handed_over}
    with io.BytesIO() as file:
        _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(replace(plan, constants=known))
        return file.getvalue()


def load_plan(data: bytes) -> RegionPlan:
    """Return the plan that `dump_plan` has written, for tracing alone.

    Raises: NotFoundError for an op that is not known here.
    """
    found: RegionPlan = pickle.loads(data)
    return found


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type):
            # The other process may not know the names under which classes are shown here.
            own = own_name(obj)
            return NotImplemented if own is None else (pkgutil.resolve_name, (own,))
        if isinstance(obj, Node):
            taken = [source.output_types[port] for source, port in obj.edges]
            return _node, (obj.name, obj.op, taken, _without_functions(obj.attrs))
        if isinstance(obj, Action):
            turns = getattr(obj.call, "most_turns", None)
            rest = (obj.inputs, obj.cells, obj.outputs, obj.nested)
            return _action, (obj.kind, obj.node, turns, *rest)
        return NotImplemented


def _without_functions(attrs: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attrs.items() if not _names_functions(value)}


def _names_functions(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(isinstance(one, FunctionRef) for one in value)
    return isinstance(value, FunctionRef)


def _node(name: str, op: str, taken: list[DType], attrs: dict[str, Any]) -> Node:
    # Only the types of its inputs are asked for.
    edges = [(Node("", get_op_def("Placeholder"), [], [], {"dtype": one}), 0) for one in taken]
    return Node(name, get_op_def(op), edges, [], attrs)


@dataclass(frozen=True)
class _Turns:
    """What is known of a loop that runs elsewhere."""

    most_turns: int


def _action(kind: str, node: Node, turns: int | None, *rest: Any) -> Action:
    made = Action(kind, node, *rest)
    if turns is not None:
        made.call = _Turns(turns)
    elif kind == "pure":
        made.call = bind(node, np)
    return made
