"""The place of an iterator in its dataset, by which a checkpoint lets a program go on.

A place is how many elements were asked for, and the seeds that were drawn on the way.  An iterator
is brought to it by asking its dataset anew for as many, with the same seeds; what was drawn later
goes on from there.  So no iterator has to know how it is saved, restoring takes as long as the walk
did, and functions with effects have them once more.

Source: tensorflow/core/kernels/data/iterator_ops.cc (SerializeIterator, DeserializeIterator).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from typing import Any

from tideflow.ops.data.functions import current_scope
from tideflow.ops.data.values import Dataset, SeedSource, fail
from tideflow.wire import errors
from tideflow.wire.handles import Variant, register_variant

TYPE_NAME = "tideflow::IteratorPlace"


class _Draws:
    """The seeds of one walk.

    Attributes:
      first: the states in which the dataset's sources of seeds were when it began.
      made: the states of sources before each draw.
      past: such states, to be gone through again.
    """

    def __init__(self, first: Sequence[list[int]], past: Sequence[list[int]] = ()) -> None:
        self.first = list(first)
        self.made: list[list[int]] = []
        self.past = deque(past)


_DRAWS = "draws"


def drawn(source: SeedSource) -> tuple[int, int]:
    """Return the next seeds of a source, to be found again when the walk is restored."""
    scope = current_scope()
    draws = None if scope is None else scope.get(_DRAWS)
    if draws is not None:
        if draws.past:
            source.restore(draws.past.popleft())
        draws.made.append(source.state())
    return source.next()


def scope_of(dataset: Dataset, place: Place | None = None) -> dict[Any, Any]:
    """Return the scope of a walk that begins, or that goes to a place.

    Raises: InvalidArgumentError for a place in a dataset with another number of random orders.
    """
    if place is None:
        return {_DRAWS: _Draws([source.state() for source in dataset.seeds])}
    if len(place.first) != len(dataset.seeds):
        raise fail(
            f"the place is of a dataset with {len(place.first)} sources of random numbers; this "
            f"one has {len(dataset.seeds)}"
        )
    for source, state in zip(dataset.seeds, place.first):
        source.restore(state)
    return {_DRAWS: _Draws(place.first, place.draws)}


class Place:
    """A place, as the element of a variant tensor.

    Attributes:
      taken: how many elements were asked for.
      ended: whether there are no more.
      first, draws: the states of sources of seeds when the walk began, and before each draw.
    """

    __slots__ = ("draws", "ended", "first", "taken")

    def __init__(
        self, taken: int, ended: bool, first: Sequence[list[int]], draws: Sequence[list[int]]
    ) -> None:
        self.taken = taken
        self.ended = ended
        self.first = first
        self.draws = draws

    @classmethod
    def of(cls, taken: int, ended: bool, scope: dict[Any, Any]) -> Place:
        """Return the place of a walk."""
        draws: _Draws = scope[_DRAWS]
        return cls(taken, ended, list(draws.first), list(draws.made))

    def to_variant(self) -> Variant:
        """Return the form in which it travels."""
        state = {name: getattr(self, name) for name in self.__slots__}
        return Variant(TYPE_NAME, json.dumps(state).encode())

    @classmethod
    def from_variant(cls, variant: Variant) -> Place:
        """Return the place that arrived.  Raises: InvalidArgumentError for what is none."""
        try:
            state = json.loads(variant.metadata)
            first, draws = (
                [[int(number) for number in one] for one in state[name]]
                for name in ("first", "draws")
            )
            return cls(int(state["taken"]), bool(state["ended"]), first, draws)
        except (ValueError, KeyError, TypeError) as error:
            raise errors.InvalidArgumentError(
                f"a variant of type {TYPE_NAME} does not tell a place: {error}"
            ) from None


register_variant(TYPE_NAME, Place.from_variant)
