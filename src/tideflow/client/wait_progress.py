"""Waiting for a cluster that is not there yet: told of on stderr, and not for ever."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from tideflow.platform import clock
from tideflow.wire import errors

# When the user is told for the first time, and how often then.
REPORT_AFTER_S = 3.0
REPORT_EVERY_S = 10.0
_NOT_ANSWERED = "the server has not answered"


class Progress:
    """Tells the user on stderr what a long call waits for.

    Args:
      method, target: what is called, and where.
      limit_s: after which the call gives up.
      ask: gives the tasks that the master waits for, each with its address and why it is missing;
        none where it cannot say.
    Attributes:
      what: is waited for, as far as is known, and why.
    """

    def __init__(
        self,
        method: str,
        target: str,
        limit_s: float,
        ask: Callable[[], Awaitable[list[str]]],
    ) -> None:
        self._method = method
        self._target = target
        self._ask = ask
        self._is_reachable = True
        self.what = f"{target} ({_NOT_ANSWERED})"
        loop = asyncio.get_running_loop()
        self._ends_at_s = clock.monotonic_s() + limit_s
        self._reporter = loop.create_task(self._report_at_times())

    def unavailable(self, error: errors.UnavailableError) -> None:
        """Note that the master is not there."""
        self._is_reachable = False
        reason = error.message.splitlines()[0]
        self.what = f"{self._target} (no server can be reached there: {reason})"

    def trying(self) -> None:
        """Note that the master is called."""
        self._is_reachable = True

    async def look(self) -> None:
        """Find out what a master waits for that has not answered."""
        if not self._is_reachable:
            return
        missing = await self._ask()
        self.what = ", ".join(missing) or f"{self._target} ({_NOT_ANSWERED})"

    async def _report_at_times(self) -> None:
        await asyncio.sleep(REPORT_AFTER_S)
        while True:
            await self.look()
            left_s = self._ends_at_s - clock.monotonic_s()
            print(
                f"{self._method} waits for {self.what}; gives up in {left_s:.0f} s",
                file=sys.stderr,
                flush=True,
            )
            await asyncio.sleep(REPORT_EVERY_S)

    def end(self) -> None:
        """Say nothing more."""
        self._reporter.cancel()
