"""The step ids of graphs with collectives: their sessions at several masters use the same ones.

Each master counts by itself from a number that it asks the leader for; after a step that failed it
asks again.
Source: rpc_collective_executor_mgr.cc of TensorFlow 2.21; runtime facts on GetStepSequence.
"""

from __future__ import annotations

import secrets

_STEP_ID_BITS = 57


class StepSequences:
    """The next step ids of one task, by the key of the graph."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}

    def next_id(self, graph_key: int) -> int | None:
        """Return the next step's id; None when the leader is to be asked."""
        return self._next.get(graph_key)

    def lead(self, graph_key: int) -> int:
        """Return the next step's id, chosen here if there is none."""
        if graph_key not in self._next:
            self._next[graph_key] = secrets.randbits(_STEP_ID_BITS)
        return self._next[graph_key]

    def follow(self, graph_key: int, step_id: int) -> None:
        """Take the leader's word for the next step's id."""
        self._next[graph_key] = step_id

    def retire(self, graph_key: int, step_id: int, is_good: bool) -> None:
        """Note that a step has ended; after one that failed nobody knows where the others are."""
        if is_good and self._next.get(graph_key) == step_id:
            self._next[graph_key] = (step_id + 1) % (1 << _STEP_ID_BITS)
        else:
            self._next.pop(graph_key, None)
