"""References as inputs: who takes the value that one refers to."""

from __future__ import annotations

from typing import Any

from tideflow.graph.node import Node, arg_types


def read_reference(cell: Any) -> Any:
    """Return the value that a reference refers to now."""
    return cell.read()


def reads_reference(node: Node) -> list[bool]:
    """Tell for each input of a node whether it takes the value of a reference."""
    wanted = arg_types(node.op_def.inputs, node.attrs)
    return [
        source.output_types[port].is_ref_dtype and not want.is_ref_dtype
        for (source, port), want in zip(node.edges, wanted)
    ]
