"""Tells workers that a session is over; those that are away, once they are back.

A worker that was only cut off would otherwise keep its part of the session for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from tideflow.blocking import spawn
from tideflow.cluster.worker_cache import WorkerCache
from tideflow.platform import clock
from tideflow.transport import growing_pauses_s, within
from tideflow.wire import errors
from tideflow.wire import messages as pb

_LOGGER = logging.getLogger(__name__)

# How long a worker may take to end its part of a session, and how long the others wait for it.
_ANSWER_S = 10.0
_WAIT_S = 1.0
# How long one that is away is looked for.
_LOOK_FOR_S = 300.0
_FIRST_PAUSE_S, _MOST_PAUSE_S = 0.2, 5.0


class SessionDeletions:
    """What is still to be told.  Use it on the event loop."""

    def __init__(self) -> None:
        self._telling: set[asyncio.Task[None]] = set()

    async def tell(
        self, workers: WorkerCache, tasks: Sequence[str], handle: str, owns_workers: bool = False
    ) -> None:
        """Tell tasks that a session is over.

        Returns after a second at most; what is left goes on until `close`.
        owns_workers: whether the connections are closed once all are told.
        """
        telling = spawn(_tell_all(workers, tasks, handle, owns_workers))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)
        await asyncio.wait([telling], timeout=_WAIT_S)

    async def close(self) -> None:
        """Give up what is left."""
        telling = list(self._telling)
        for one in telling:
            one.cancel()
        if telling:
            await asyncio.wait(telling)


async def _tell_all(
    workers: WorkerCache, tasks: Sequence[str], handle: str, owns_workers: bool
) -> None:
    try:
        await asyncio.gather(*(_tell(workers, task, handle) for task in tasks))
    finally:
        if owns_workers:
            await workers.close()


async def _tell(workers: WorkerCache, task: str, handle: str) -> None:
    request = pb.DeleteWorkerSessionRequest(session_handle=handle)
    until_s = clock.monotonic_s() + _LOOK_FOR_S
    pauses_s = growing_pauses_s(_FIRST_PAUSE_S, _MOST_PAUSE_S)
    while True:
        try:
            await within(_ANSWER_S, workers.get(task).DeleteWorkerSession, request)
            return
        except errors.OpError as error:
            is_away = isinstance(error, (errors.UnavailableError, errors.DeadlineExceededError))
            if not is_away or clock.monotonic_s() > until_s:
                _LOGGER.info("DeleteWorkerSession at %s: %s", task, error)
                return
        await asyncio.sleep(next(pauses_s))
