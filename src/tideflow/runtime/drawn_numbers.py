"""What the ops of a compiled region draw in one run: counters of their sequences.

They are taken before the region runs, once it is certain that it will.  If its checks do not hold,
they are given back: the straight code that runs in its place draws the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tideflow.graph.draws import CounterSequence
from tideflow.graph.kernel import KernelContext, bind
from tideflow.graph.node import Node

# A key and the two halves of a counter.
WORDS = 3


class DrawingCall:
    """The kernel of a node that draws numbers, with the sequence from which it draws."""

    __slots__ = ("_call", "_context", "_node")

    def __init__(self, node: Node, context: KernelContext) -> None:
        self._node = node
        self._context = context
        self._call: Callable[..., Any] = bind(node, context)

    def __call__(self, *inputs: Any) -> Any:
        return self._call(*inputs)

    @property
    def sequence(self) -> CounterSequence:
        """The node's sequence as it is now: another one after a new global seed."""
        draws = self._node.op_def.draws
        assert draws is not None
        return draws.sequence(self._context, self._node.attrs)


def places(calls: Sequence[DrawingCall]) -> Any:
    """Return an array for the keys and counters of draws, one row each."""
    return np.zeros((len(calls), WORDS), np.uint64)


class DrawnNumbers:
    """The counters that draws have reserved for one run.

    Args:
      counters: how many each draw wants.
      rows: where the keys and first counters go.
    """

    def __init__(self, calls: Sequence[DrawingCall], counters: Sequence[int], rows: Any) -> None:
        self._taken: list[tuple[CounterSequence, Any, int]] = []
        for row, call, count in zip(rows, calls, counters, strict=True):
            sequence = call.sequence
            key, first = sequence.reserve(count)
            row[:1], row[1:] = key, first
            self._taken.append((sequence, first, count))

    def give_back(self) -> None:
        """Let straight code draw the same."""
        for sequence, first, count in self._taken:
            sequence.give_back(first, count)
