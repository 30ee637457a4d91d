"""In which turns much is restored, so that little of it is held twice.

A variable that has a value keeps it until the restored one takes its place.  Were all tensors read
before the first is assigned, both would be held; so they are read in turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Of all that is restored: what may wait to be assigned.
_MOST_WAITING = 0.08
# Less than this is never divided.
_LEAST_WAITING_BYTES = 16 << 20


@dataclass(frozen=True)
class Turn:
    """What is read in one go.

    Attributes: items, which; after, the turn whose items must be assigned before, None for none.
    """

    items: slice
    after: int | None


def restore_turns(sizes: Sequence[int]) -> list[Turn]:
    """Divide what is to be restored.

    Two turns fit beside each other, so that one is read while the other is assigned; but for items
    that are large beside all of them, which have turns of their own.

    sizes: the bytes of each item, 0 where they are not known.
    """
    most = max(_LEAST_WAITING_BYTES, _MOST_WAITING * sum(sizes))
    if sum(sizes) <= most:
        return [Turn(slice(0, len(sizes)), None)]
    turns: list[Turn] = []
    held: list[int] = []
    begin = 0
    while begin < len(sizes):
        end, size = begin + 1, sizes[begin]
        while end < len(sizes) and size + sizes[end] <= most / 2:
            size += sizes[end]
            end += 1
        turns.append(Turn(slice(begin, end), _last_to_wait_for(held, most - size)))
        held.append(size)
        begin = end
    return turns


def _last_to_wait_for(held: list[int], room: float) -> int | None:
    """Return the last turn that must be over, so that those behind it fit into the room."""
    for number in range(len(held) - 1, -1, -1):
        room -= held[number]
        if room < 0:
            return number
    return None
