"""Distinct rows in compiled code: as many as there could be, the last ones outside of every table.

How many of n indices are distinct is known only when they are.  Optimizers do not ask: they sum up
the gradients of the rows that occur twice, and update the rows.  So Unique gives n indices here, of
which those beyond the distinct ones are negative; rows outside of a table are zeros when gathered
and skipped when scattered.  `PaddedRows` sees to it that nothing else gets hold of them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any

from tideflow.graph.node import Node
from tideflow.graph.op_traits import Rows
from tideflow.runtime.region_plan import Action, NotCompiledError


class _Kind(enum.Enum):
    """What a tensor has to do with the distinct indices."""

    INDICES = "the indices"
    NUMBERS = "for each index that was given, where it is among the distinct ones"
    COUNT = "how many there are"
    ROWS = "a row for each"


class PaddedRows:
    """Follows what is made of distinct indices through a region."""

    def __init__(self) -> None:
        self._kinds: dict[int, tuple[_Kind, Node]] = {}

    def follow(self, action: Action, values: Mapping[int, Any]) -> None:
        """Take note of an action that is about to be traced.

        Raises: NotCompiledError that names the Unique whose results it would get wrong.
        """
        if action.node.op_def.rows is Rows.DISTINCT:
            self.require_none(action.inputs)
            self._kinds[action.outputs[0]] = (_Kind.INDICES, action.node)
            self._kinds[action.outputs[1]] = (_Kind.NUMBERS, action.node)
            return
        found = [self._kinds[slot][1] for slot in action.inputs if slot in self._kinds]
        if not found:
            return
        are_of_one = all(node is found[0] for node in found)
        made = self._made(action, values) if are_of_one else None
        if made is None:
            self.require_none(action.inputs)
        elif action.outputs:
            self._kinds[action.outputs[0]] = (made, found[0])

    def holds(self, slot: int) -> bool:
        """Whether a slot has more rows than it should."""
        return slot in self._kinds

    def require_none(self, slots: Iterable[int]) -> None:
        """Raise NotCompiledError where one of the slots has more rows than it should."""
        found = {id(node): node for _, node in (self._kinds[s] for s in slots if s in self._kinds)}
        if found:
            raise NotCompiledError(
                list(found.values()), "how many values are distinct decides the shape of others"
            )

    def _made(self, action: Action, values: Mapping[int, Any]) -> _Kind | None:
        """Return what an action makes; None where the number of distinct indices matters."""
        rows = action.node.op_def.rows
        kinds = [self._kinds[slot][0] if slot in self._kinds else None for slot in action.inputs]
        if rows is Rows.COUNT and kinds == [_Kind.INDICES]:
            return _Kind.COUNT
        if rows is Rows.SEGMENTS and kinds == [None, _Kind.NUMBERS, _Kind.COUNT]:
            return _Kind.ROWS
        if rows is Rows.GATHERED and kinds == [_Kind.INDICES]:
            return _Kind.ROWS if not action.node.attrs["batch_dims"] else None
        if action.kind == "update":
            at = _indices_at(action.node)
            rest = [slot for i, slot in enumerate(action.inputs) if i != at]
            if at is None or kinds[at] is not _Kind.INDICES:
                return None
            # The update makes no value.
            return _Kind.ROWS if all(self._fits(slot, 0, values) for slot in rest) else None
        if rows is Rows.ELEMENTWISE:
            rank = max(values[s].ndim for s, kind in zip(action.inputs, kinds) if kind is not None)
            if all(self._fits(slot, rank - 1, values) for slot in action.inputs):
                return _Kind.ROWS
        return None

    def _fits(self, slot: int, rank: int, values: Mapping[int, Any]) -> bool:
        """Whether a tensor has a row for each index, or is the same for all of them."""
        if slot in self._kinds:
            return self._kinds[slot][0] is _Kind.ROWS
        return bool(values[slot].ndim <= rank)


def _indices_at(node: Node) -> int | None:
    """Return which of an update's inputs, after the variables, names the rows."""
    update = node.op_def.update
    return None if update is None or update.indices < 0 else update.indices


def padded_unique(jnp: Any, x: Any, number_type: Any) -> tuple[Any, Any]:
    """Return the distinct ones of n indices, then negative ones, each another, n in all; and for
    each index that was given where it is among them."""
    size = x.shape[0]
    if not size:
        return x, jnp.zeros(0, number_type)
    distinct, numbers = jnp.unique(x, return_inverse=True, size=size, fill_value=0)
    at = jnp.arange(size, dtype=x.dtype)
    # They differ, as rows that come twice are applied one after the other.
    distinct = jnp.where(at <= numbers.max().astype(x.dtype), distinct, -1 - at)
    return distinct, numbers.reshape(-1).astype(number_type)
