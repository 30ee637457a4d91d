"""Waiting until what several callers change is as one of them needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Changing:
    """Something that callers wait on: whoever changes it lets all others look again."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    async def _until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something holds."""
        while not is_so():
            changed = asyncio.get_running_loop().create_future()
            self._waiting.append(changed)
            await changed

    def _changed(self) -> None:
        """Let those who wait look again."""
        waiting, self._waiting = self._waiting, []
        for changed in waiting:
            if not changed.done():
                changed.set_result(None)
