"""Compute once what several nodes compute alike.

Rule 1: two nodes are alike when op, attrs, device, inputs and control inputs are; then everybody
        takes the first one's outputs.  Inputs are compared after merging, so equal chains become
        one chain.
Rule 2: only pure nodes are merged: their outputs depend on nothing but inputs and attrs.  Random
        numbers, state, feeds, fetches and v1 control flow are no pure ops, nor is one that takes a
        reference, whose value may change between two reads.
Source: graph optimizers of TensorFlow (optimizer_cse.cc).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tideflow.graph.node import Node
from tideflow.graph.op_def import OpDef

# Comparing larger constants costs more than keeping both.
_MOST_COMPARED_BYTES = 1 << 14
# Attrs of these kinds are equal when Python says so.
_PLAIN_KINDS = frozenset({"type", "int", "bool", "string"})
# What only placing reads; when nodes are merged they are placed.
_PLACING_ATTRS = frozenset({"_class"})


def merge_equal(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes without those that compute what an earlier one does, in the same order.

    Args:
      nodes: in topological order, placed; the edges of those that stay are rewritten.
    """
    first: dict[Hashable, Node] = {}
    merged: dict[int, Node] = {}
    kept: list[Node] = []
    comparable = _Comparable()
    for node in nodes:
        if merged:
            _redirect(node, merged)
        key = comparable.key(node)
        if key is not None:
            equal = first.setdefault(key, node)
            if equal is not node:
                merged[id(node)] = equal
                continue
        kept.append(node)
    return kept


def _redirect(node: Node, merged: dict[int, Node]) -> None:
    edges = node.edges
    for i, (source, port) in enumerate(edges):
        equal = merged.get(id(source))
        if equal is not None:
            edges[i] = (equal, port)
    if node.controls:
        node.controls = list(
            {id(s): s for s in (merged.get(id(s), s) for s in node.controls)}.values()
        )


class _Comparable:
    """Gives nodes that are alike equal keys."""

    def __init__(self) -> None:
        self._kinds: dict[str, bool | None] = {}
        # Nodes that give references; no pure op is among them.
        self._references: set[int] = set()
        # Nodes that were read from one message share their attrs.
        self._frozen: dict[tuple[str, int], Hashable] = {}

    def key(self, node: Node) -> Hashable | None:
        """Return what is equal for nodes that may be merged; None for one that stays."""
        op_def = node.op_def
        op = op_def.name
        try:
            is_plain = self._kinds[op]
        except KeyError:
            is_plain = self._kinds[op] = _has_plain_attrs(op_def) if _may_merge(op_def) else None
        if is_plain is None:
            if any(arg.is_ref for arg in op_def.outputs):
                self._references.add(id(node))
            return None
        references = self._references
        if references and any(id(source) in references for source, _ in node.edges):
            return None
        attrs = node.attrs
        frozen = self._frozen.get((op, id(attrs)))
        if frozen is None:
            try:
                if is_plain and len(attrs) == len(op_def.attrs):
                    frozen = frozenset(attrs.items())
                else:
                    frozen = _frozen_attrs(attrs)
            except _NotComparedError:
                return None
            self._frozen[op, id(attrs)] = frozen
        edges = tuple([(id(source), port) for source, port in node.edges])
        controls = frozenset(map(id, node.controls)) if node.controls else None
        return op, node.device, edges, controls, frozen


class _NotComparedError(Exception):
    """An attr has no cheap comparison."""


def _may_merge(op_def: OpDef) -> bool:
    return op_def.is_pure and not op_def.is_stateful and bool(op_def.outputs)


def _has_plain_attrs(op_def: OpDef) -> bool:
    return all(attr.kind in _PLAIN_KINDS for attr in op_def.attrs.values())


def _frozen_attrs(attrs: dict[str, Any]) -> Hashable:
    return frozenset(
        (name, _frozen(value)) for name, value in attrs.items() if name not in _PLACING_ATTRS
    )


def _frozen(value: Any) -> Hashable:
    """Return a value of an attr as something that is equal only where it computes the same."""
    if isinstance(value, float):
        return value.hex()  # tells 0.0 from -0.0, and takes NaN for itself
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    if isinstance(value, (np.ndarray, np.generic)):
        if value.nbytes > _MOST_COMPARED_BYTES:
            raise _NotComparedError
        array = np.asarray(value)
        content = tuple(array.ravel().tolist()) if array.dtype.hasobject else array.tobytes()
        return array.dtype, array.shape, content
    try:
        hash(value)
    except TypeError:
        raise _NotComparedError from None
    return value  # type: ignore[no-any-return]
