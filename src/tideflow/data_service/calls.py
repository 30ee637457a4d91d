"""Calls to peers of the tf.data service that may be away for a while, and tasks that make them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tideflow.data_service.services import VERSION, DispatcherService
from tideflow.transport import growing_pauses_s
from tideflow.wire import errors
from tideflow.wire import messages as pb

T = TypeVar("T")

FIRST_PAUSE_S, MOST_PAUSE_S = 0.005, 1.0
# As for TensorFlow's clients, these mean a peer that will be back.
AWAY = (errors.UnavailableError, errors.AbortedError, errors.CancelledError)


async def until_reached(call: Callable[[], Awaitable[T]]) -> T:
    """Return the answer of a call that is made again while the peer is away."""
    for pause_s in growing_pauses_s(FIRST_PAUSE_S, MOST_PAUSE_S):
        try:
            return await call()
        except AWAY:
            await asyncio.sleep(pause_s)
    raise AssertionError("pauses have no end")


def alike(error: errors.OpError) -> errors.OpError:
    """Return an error that says the same, without the traceback, which holds those who called."""
    made = error.with_message(error.message)
    made.__traceback__ = made.__cause__ = None
    return made


async def check_version(dispatcher: DispatcherService, address: str) -> None:
    """Wait for a dispatcher.  Raises: FailedPreconditionError for one of another version."""
    found = (await until_reached(lambda: dispatcher.GetVersion(pb.GetVersionRequest()))).version
    if found != VERSION:
        raise errors.FailedPreconditionError(
            f"Version mismatch with tf.data service server. The server at {address} is running "
            f"version {found}, while the client is running version {VERSION}."
        )
