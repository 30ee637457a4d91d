"""Which tasks of coordinated reads go, because all consumers have asked for that in one round.

Source: tensorflow/core/data/service/task_remover.cc.
"""

from __future__ import annotations

import asyncio

# How long a consumer waits for the others to ask, too.
_WAIT_S = 5.0


class _Removal:
    __slots__ = ("changed", "consumers", "is_agreed", "round")

    def __init__(self) -> None:
        self.round = -1
        self.consumers: set[int] = set()
        self.is_agreed = False
        self.changed = asyncio.Condition()


class Removals:
    """What consumers have asked for."""

    def __init__(self) -> None:
        self._by_task: dict[int, _Removal] = {}

    async def ask(self, task_id: int, consumer: int, round_index: int, count: int) -> bool:
        """Return whether all of count consumers ask that a task goes before the same round.

        Who asks for an earlier round than others has to read from the task first; who waits too
        long is told no, and may ask again.
        """
        found = self._by_task.setdefault(task_id, _Removal())
        async with found.changed:
            if found.is_agreed or round_index < found.round:
                return found.is_agreed
            if round_index > found.round:
                found.round = round_index
                found.consumers.clear()
            found.consumers.add(consumer)
            found.is_agreed = len(found.consumers) == count
            found.changed.notify_all()
            try:
                async with asyncio.timeout(_WAIT_S):
                    await found.changed.wait_for(
                        lambda: found.is_agreed or found.round != round_index
                    )
            except TimeoutError:
                if found.round == round_index:
                    found.consumers.discard(consumer)
            return found.is_agreed
