"""Have blocking work done beside the event loop.

Rule 1: whoever is cancelled tells the work to stop, waits until its thread has ended it, and only
        then passes the cancellation on: nothing changes afterwards.
Rule 2: work that may hang for ever (see tideflow.blocking.pools) is waited for only for a while,
        and then given up.  It looks at its flag before each effect, so that it has none if the
        system call in which it hangs comes back after all.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

from tideflow.blocking.pools import Pool
from tideflow.blocking.stop_flag import StopFlag
from tideflow.platform import clock
from tideflow.wire.work import LONG_BYTES

T = TypeVar("T")


async def run_blocking(
    pool: Pool, work: Callable[[StopFlag], T], flag: StopFlag | None = None
) -> T:
    """Return what work gives, done in a thread of the pool.

    Args:
      work: is given the flag, and looks at it between pieces.
      flag: set when the calling task is cancelled; a new one if there is none.
    Raises: what the work raises; asyncio.CancelledError, when the work has ended or was given up.
    """
    stop = StopFlag() if flag is None else flag
    job: concurrent.futures.Future[T] = pool.start(lambda: work(stop))
    try:
        await _end_of(job)
    except asyncio.CancelledError:
        stop.stop()
        if not job.cancel() and not await _has_ended(job, pool.grace_s):
            pool.give_up(job)
        raise
    try:
        return job.result()
    finally:
        del job  # it holds an error whose traceback holds this frame


def has_loop() -> bool:
    """Whether the calling thread runs an event loop, which must not be kept."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def run_sized(pool: Pool, size_bytes: int, work: Callable[[], T]) -> T:
    """Return what work gives, done in a thread of the pool where it is long for the event loop.

    Args:
      size_bytes: as how many bytes it counts (see tideflow.wire.work).
    Raises: as run_blocking.
    """
    if size_bytes <= LONG_BYTES or not has_loop():
        return work()
    return await run_blocking(pool, lambda _: work())


def _end_of(job: concurrent.futures.Future[Any]) -> asyncio.Future[None]:
    """Return a future that is done with the job; cancelling it does nothing to the job."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def tell(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_wake, ended)

    job.add_done_callback(tell)
    return ended


def _wake(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


async def _has_ended(job: concurrent.futures.Future[Any], grace_s: float | None) -> bool:
    """Wait for the end of a job, however often the calling task is cancelled meanwhile; return
    whether it came in time."""
    ends = None if grace_s is None else clock.monotonic_s() + grace_s
    ended = _end_of(job)
    while not job.done():
        left = None if ends is None else ends - clock.monotonic_s()
        if left is not None and left <= 0:
            return False
        # The first cancellation is passed on when the work has ended.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([ended], timeout=left)
    return True
