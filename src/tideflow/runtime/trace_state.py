"""What is known while a region is traced, besides the values of its tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tideflow.graph.tracing import refuse
from tideflow.ops.tensor_arrays.traced import ArrayState, TracedObject


class TraceState:
    """Arrays and stacks of the step, conditions that code depends on, and ranges of numbers.

    Attributes:
      jax, jnp, lax: jax, and parts of it.
      states: what each array and stack holds.
      gradients: the arrays for gradients of arrays, by array and source.
      checks: computed conditions; straight code is to run unless all hold.
    """

    def __init__(self, jax: Any) -> None:
        self.jax = jax
        self.jnp = jax.numpy
        self.lax = jax.lax
        self.states: dict[TracedObject, ArrayState] = {}
        self.gradients: dict[tuple[TracedObject, str], TracedObject] = {}
        self.checks: list[Any] = []
        # By id, with the value that the id is of.
        self._ranges: dict[int, tuple[Any, tuple[int, int]]] = {}

    def check(self, holds: Any) -> None:
        """Note that straight code is to run unless a condition holds.

        Raises: UnimplementedError for one that is known not to.
        """
        if not isinstance(holds, (bool, np.bool_, np.ndarray)):
            self.checks.append(holds)
        elif not holds:
            raise refuse("a check fails whenever this runs")

    def range_of(self, value: Any) -> tuple[int, int] | None:
        """Return the least and the greatest value that a computed integer may have."""
        found = self._ranges.get(id(value))
        return None if found is None else found[1]

    def note_range(self, value: Any, low: int, high: int) -> None:
        """Note what a computed integer may be."""
        self._ranges[id(value)] = value, (low, high)

    def all_checks(self, first: int = 0) -> Any:
        """Return whether all checks from a position on hold, and drop them; None if none are."""
        found = self.checks[first:]
        del self.checks[first:]
        if not found:
            return None
        holds = found[0]
        for one in found[1:]:
            holds = holds & one
        return holds
