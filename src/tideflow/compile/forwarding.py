"""Nodes that hand their input on as it is."""

from __future__ import annotations

from tideflow.graph import roles
from tideflow.graph.node import Node

# Their output is their input; they need no instruction of their own.
FORWARDING = frozenset({roles.IDENTITY, roles.FORWARD})


def forwards(node: Node) -> bool:
    """Whether a node only passes its input on (and its input is no reference)."""
    if node.op_def.role not in FORWARDING:
        return False
    source, port = node.edges[0]
    return not source.output_types[port].is_ref_dtype
