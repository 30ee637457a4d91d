"""How compiled code draws random numbers: a record beside the kernel of an op with a sequence.

Numbers follow from a key and a counter (tideflow.ops.random.philox).  Which counter a draw begins
with is state of the node, so it is taken before compiled code runs and handed to that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class CounterSequence(Protocol):
    """Where a node is in its sequence of counters; any thread may use it."""

    def reserve(self, counters: int) -> tuple[Any, Any]:
        """Return the key (uint64 [1]), and the counter (uint64 [2], the low half first) from which
        so many may be used."""

    def give_back(self, counter: Any, counters: int) -> None:
        """Have the next call that reserves so many get a counter that was not used."""


# A key and the first of so many counters; traced where code is compiled.
Reserve = Callable[[int], tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class Draws:
    """How an op draws numbers.

    Attributes:
      sequence: sequence(ctx, attrs) gives the sequence of the node of a KernelContext.
      rule: rule(xp, reserve, *inputs, **attrs) gives the op's result.
    """

    sequence: Callable[[Any, Mapping[str, Any]], CounterSequence]
    rule: Callable[..., Any]
