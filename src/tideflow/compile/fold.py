"""Compute once what does not change: pure ops of constants become constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tideflow.graph import roles
from tideflow.graph.kernel import bind
from tideflow.graph.node import Node
from tideflow.graph.op_def import get_op_def

# A folded value travels with its graph, so large ones are left to be computed.
MAX_FOLDED_BYTES = 1 << 20


def fold_constants(nodes: Sequence[Node]) -> list[Node]:
    """Replace pure nodes whose inputs are all constants by constants, in place of the nodes.

    A constant waits for all that the node and its inputs waited for.

    Args:
      nodes: in topological order; edges between them are rewritten.
    Returns: the nodes that are left, in the same order.
    Nodes that fail to compute stay, and fail when they run.
    """
    constants: dict[int, dict[int, Node]] = {}
    kept: list[Node] = []
    for node in nodes:
        for i, (source, port) in enumerate(node.edges):
            folded = constants.get(id(source))
            if folded is not None:
                node.edges[i] = (folded[port], 0)
        values = _fold(node)
        if values is None:
            kept.append(node)
            continue
        controls = _controls(node, constants)
        made = {port: _constant(node, port, value, controls) for port, value in enumerate(values)}
        constants[id(node)] = made
        kept.extend(made.values())
    _replace_controls(kept, constants)
    return _drop_unused(kept, constants)


def _fold(node: Node) -> list[Any] | None:
    if not node.edges or not node.op_def.is_pure or not node.output_types:
        return None
    values = []
    for source, _ in node.edges:
        if source.op_def.role is not roles.CONST:
            return None
        values.append(source.attrs["value"])
    try:
        with np.errstate(all="ignore"):
            result = bind(node, np)(*values)
    except Exception:  # it will say so when it runs, and only if it runs
        return None
    results = [result] if len(node.output_types) == 1 else list(result)
    if sum(np.asarray(r).nbytes for r in results) > MAX_FOLDED_BYTES:
        return None
    return results


def _controls(node: Node, constants: dict[int, dict[int, Node]]) -> list[Node]:
    """Return what a node and its inputs wait for."""
    found = [*node.controls, *(one for source, _ in node.edges for one in source.controls)]
    return _remaining(found, constants)


def _remaining(controls: Sequence[Node], constants: dict[int, dict[int, Node]]) -> list[Node]:
    """Return what is left to wait for: a folded node that waits for nothing is there at once."""
    left: dict[int, Node] = {}
    for source in controls:
        folded = constants.get(id(source))
        if folded is None:
            left[id(source)] = source
        elif folded[0].controls:
            left[id(folded[0])] = folded[0]
    return list(left.values())


def _constant(node: Node, port: int, value: Any, controls: Sequence[Node]) -> Node:
    name = node.name if port == 0 else f"{node.name}/folded_{port}"
    attrs = {"dtype": node.output_types[port], "value": np.asarray(value)}
    if "_class" in node.attrs:
        attrs["_class"] = node.attrs["_class"]
    return Node(name, get_op_def("Const"), [], list(controls), attrs, node.device)


def _replace_controls(kept: Sequence[Node], constants: dict[int, dict[int, Node]]) -> None:
    if not constants:
        return
    for node in kept:
        if node.controls:
            node.controls = _remaining(node.controls, constants)


def _drop_unused(kept: list[Node], constants: dict[int, dict[int, Node]]) -> list[Node]:
    """Drop constants that nothing takes any more once their consumers were folded."""
    if not constants:
        return kept
    used = {id(source) for node in kept for source, _ in node.edges}
    used.update(id(source) for node in kept for source in node.controls)
    return [n for n in kept if n.op_def.role is not roles.CONST or n.controls or id(n) in used]
