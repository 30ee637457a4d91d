"""Coroutines that are started in place, and left to a task only where they have to wait.

Most waits are over at once (the tensor is there, the queue has an element): the first step of such
a coroutine is its last, and no task is made.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Callable, Coroutine, Generator
from typing import Any


class Resumed:
    """Awaits the rest of a coroutine that was started by hand and stopped at `first`."""

    __slots__ = ("_coro", "_first")

    def __init__(self, coro: Coroutine[Any, Any, Any], first: Any) -> None:
        self._coro = coro
        self._first = first

    def __await__(self) -> Generator[Any, Any, Any]:
        wanted = self._first
        while True:
            try:
                sent = yield wanted
            except BaseException as error:
                resume: Callable[[], Any] = functools.partial(self._coro.throw, error)
            else:
                resume = functools.partial(self._coro.send, sent)
            try:
                wanted = resume()
            except StopIteration as stop:
                return stop.value


def cancel_rest(coro: Coroutine[Any, Any, Any], first: Any) -> None:
    """Let a started coroutine whose task ended before it took over clean up after itself.

    As when a task is cancelled, what it waits for is cancelled first.  What it ends with is of no
    use to anyone: the step that wanted it is over.
    """
    if inspect.getcoroutinestate(coro) == inspect.CORO_SUSPENDED:
        if asyncio.isfuture(first):
            first.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            coro.throw(asyncio.CancelledError())
        coro.close()


async def end_all(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until all have ended, whatever they end with."""
    left = list(tasks)
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left)
