"""Where the buffers of collectives meet on one task: put by one member, taken by another.

A key begins with the key of its group.  When a collective fails, all that wait in its group fail,
and so do those that ask later on behalf of the same step.
Source: buf_rendezvous.h of TensorFlow 2.21.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from tideflow.wire import errors

_MOST_FAILED = 4096

_Key = tuple[int, str]


class _Offer:
    """A buffer that waits to be taken; seen is set when it was."""

    __slots__ = ("seen", "value")

    def __init__(self, value: Any, seen: asyncio.Future[None]) -> None:
        self.value = value
        self.seen = seen


class BufferTable:
    """The buffers of one task, by step and key.  Use it on the loop."""

    def __init__(self) -> None:
        self._offers: dict[_Key, deque[_Offer]] = {}
        self._takers: dict[_Key, deque[asyncio.Future[Any]]] = {}
        # Failed groups by step, oldest first.
        self._failed: dict[tuple[int, int], errors.OpError] = {}
        # Numbers of groups that are over, oldest first.
        self._over: dict[int, None] = {}

    def put(self, step_id: int, key: str, value: Any) -> asyncio.Future[None] | None:
        """Offer a buffer; return what is done when it is taken, None if it was at once.

        Raises: the error with which the step's group failed.
        """
        error = self._failed.get((step_id, group_of(key)))
        if error is not None:
            raise error
        where = (step_id, key)
        takers = self._takers.get(where)
        while takers:
            taker = takers.popleft()
            if not takers:
                del self._takers[where]
            if not taker.done():
                taker.set_result(value)
                return None
        seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._offers.setdefault(where, deque()).append(_Offer(value, seen))
        return seen

    def take_nowait(self, step_id: int, key: str) -> Any | None:
        """Return a buffer that is here, or None; errors as in `take`."""
        where = (step_id, key)
        offers = self._offers.get(where)
        if not offers:
            error = self._failed.get((step_id, group_of(key)))
            if error is not None:
                raise error
            return None
        offer = offers.popleft()
        if not offers:
            del self._offers[where]
        if not offer.seen.done():
            offer.seen.set_result(None)
        return offer.value

    async def take(self, step_id: int, key: str) -> Any:
        """Wait for a buffer.  Cancelling the wait takes nothing.

        Raises: the error with which the step's group failed.
        """
        found = self.take_nowait(step_id, key)
        if found is not None:
            return found
        where = (step_id, key)
        taker: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._takers.setdefault(where, deque()).append(taker)
        try:
            return await taker
        finally:
            takers = self._takers.get(where)
            if takers is not None and taker in takers:
                takers.remove(taker)
                if not takers:
                    del self._takers[where]

    def accept(self, key: str, value: Any) -> None:
        """Take in what a member gives without being asked; of a group that is over nothing."""
        _, _, number, *_ = key.split(":", 3)
        if int(number, 16) not in self._over:
            self.put(0, key, value)

    def is_over(self, number: int) -> bool:
        """Whether nothing is taken in any more of a group."""
        return number in self._over

    def end_group(self, number: int) -> None:
        """Take in nothing more of a group."""
        self._over[number] = None
        while len(self._over) > _MOST_FAILED:
            del self._over[next(iter(self._over))]

    def fail(self, group_key: int, error: errors.OpError, step_id: int | None = None) -> None:
        """Fail all who wait in a group, and who ask later for the step in which it failed."""
        for where in [where for where in self._offers if group_of(where[1]) == group_key]:
            for offer in self._offers.pop(where):
                if not offer.seen.done():
                    offer.seen.set_exception(error)
                    offer.seen.exception()  # there may be nobody to see it
        for where in [where for where in self._takers if group_of(where[1]) == group_key]:
            for taker in self._takers.pop(where):
                if not taker.done():
                    taker.set_exception(error)
        if step_id is not None:
            self._failed[step_id, group_key] = error
            while len(self._failed) > _MOST_FAILED:
                del self._failed[next(iter(self._failed))]

    def renew(self, group_key: int) -> None:
        """Note that a group begins anew: what failed is over."""
        for key in [key for key in self._failed if key[1] == group_key]:
            del self._failed[key]

    def is_awaited(self, group_key: int) -> bool:
        """Whether somebody waits in a group."""
        return any(group_of(where[1]) == group_key for where in self._takers)

    def waiting(self, group_key: int) -> list[str]:
        """Return the keys of a group that somebody waits for; for messages."""
        return sorted(key for _, key in self._takers if group_of(key) == group_key)


def group_of(key: str) -> int:
    """Return the group that a buffer's key begins with; -1 for a key that begins with none."""
    text = key.partition(":")[0]
    try:
        return int(text)
    except ValueError:
        return -1
