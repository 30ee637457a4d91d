"""Calls of workers that are made again where the connection was cut in mid-call.

A worker of tideflow goes on with such a call for a while (see step_requests.py), so that the same
request, under the same id, joins it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tideflow.cluster.services import WorkerService
from tideflow.transport import growing_pauses_s, within
from tideflow.wire import errors
from tideflow.wire import messages as pb
from tideflow.wire.status import is_derived

T = TypeVar("T")

_MOST_REPEATS = 4
_FIRST_PAUSE_S = 0.02
_MOST_PAUSE_S = 0.2
# Whoever takes longer to say that he is there is not only behind a connection that was cut.
_ANSWERS_S = 1.0


async def repeated(worker: WorkerService, call: Callable[[], Awaitable[T]]) -> T:
    """Return what a call gives; while its worker is there, make it again where it was cut.

    Args:
      call: makes the call, with the same request id each time.
    Raises: what the call raises: UnavailableError of the first one where the worker is gone, or
    knows nothing of a call that it goes on with, as TensorFlow's.
    """
    try:
        return await call()
    except errors.UnavailableError as error:
        lost = error
    pauses_s = growing_pauses_s(_FIRST_PAUSE_S, _MOST_PAUSE_S)
    for _ in range(_MOST_REPEATS):
        await asyncio.sleep(next(pauses_s))
        try:
            await within(_ANSWERS_S, worker.GetStatus, pb.GetStatusRequest())
            return await call()
        except errors.UnavailableError:
            continue
        except errors.DeadlineExceededError:
            break
        except errors.AbortedError as error:
            if is_derived(error):
                raise
            break
    raise lost
