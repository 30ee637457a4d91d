"""Ends the parts of a server one after the other, before one deadline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from tideflow.platform import clock
from tideflow.wire import errors

_LOGGER = logging.getLogger(__name__)

# What is kept back for each part that has yet to come, of the whole.
_LEAST_SHARE = 0.1


async def stop_in_turn(limit_s: float, parts: Mapping[str, Callable[[], Awaitable[None]]]) -> None:
    """Run all parts in order, in limit_s altogether.

    Each is given all the time there is, but for what is kept back for those after it; then it is
    cancelled.  What a part raises is logged.

    Args:
      parts: for each, what it ends, for messages, and the function that does so.
    """
    until_s = clock.monotonic_s() + limit_s
    for done, (what, stop) in enumerate(parts.items(), 1):
        kept_back_s = (len(parts) - done) * _LEAST_SHARE * limit_s
        try:
            async with asyncio.timeout(until_s - kept_back_s - clock.monotonic_s()):
                await stop()
        except (TimeoutError, errors.OpError) as error:
            _LOGGER.warning("stopping: %s did not end in time: %s", what, error)
