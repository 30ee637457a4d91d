"""Code that goes on for long, a short piece at a time, on the event loop."""

from __future__ import annotations

import asyncio

from tideflow.blocking.durations import LOOP_BUDGET_S
from tideflow.platform import clock


class Turns:
    """Lets others have the loop when this one has kept it for long."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = clock.monotonic_s()

    async def pause(self) -> None:
        """Give up the loop for a moment where it is time to."""
        now = clock.monotonic_s()
        if now - self._since > LOOP_BUDGET_S:
            await asyncio.sleep(0)
            self._since = clock.monotonic_s()
