"""Elements made ahead of who wants them.

A Producer runs a task on the event loop that makes elements while there is room for them.  It ends
with the elements, or when the iterator that owns it goes, whichever is first.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tideflow.blocking import Turns, spawn
from tideflow.wire import errors

T = TypeVar("T")

# An item: what was made, or the error in its place.
_Made = tuple[Any, "BaseException | None"]


class _State:
    """What a task shares with its owner; the task must not keep the owner alive."""

    __slots__ = ("ended", "items", "ready", "room", "task")

    def __init__(self) -> None:
        self.items: deque[_Made] = deque()
        self.ended = False
        self.task: asyncio.Task[None] | None = None
        self.ready: asyncio.Future[None] | None = None
        self.room: asyncio.Future[None] | None = None


class Producer:
    """Makes items in the background, in order.

    Args:
      make: gives the next item, None after the last.  It must not refer to the producer.
      capacity: the most items that wait to be taken.
    """

    __slots__ = ("__weakref__", "_capacity", "_make", "_state")

    def __init__(self, make: Callable[[], Awaitable[Any]], capacity: int) -> None:
        self._make = make
        self._capacity = max(1, capacity)
        self._state = _State()

    def start(self) -> None:
        """Begin, if that has not happened yet."""
        state = self._state
        if state.task is None:
            loop = asyncio.get_running_loop()
            state.task = spawn(_produce(self._make, state, self._capacity))
            weakref.finalize(self, _stop_soon, loop, state).atexit = False

    async def take(self) -> Any:
        """Return the next item, None after the last.  Raises: what `make` raised in its place."""
        self.start()
        state = self._state
        while not state.items:
            if state.ended:
                return None
            if state.ready is None or state.ready.done():
                state.ready = asyncio.get_running_loop().create_future()
            await state.ready
        item, error = state.items.popleft()
        _wake(state.room)
        if error is not None:
            raise error
        return item

    async def take_done(self, in_order: bool) -> Any:
        """Return the next item that is done, None after the last; the items are futures.

        in_order: whether the first item has to be waited for, or any may come first.
        """
        self.start()
        state = self._state
        while True:
            for i, (item, error) in enumerate(state.items):
                if error is not None or item.done():
                    del state.items[i]
                    _wake(state.room)
                    if error is not None:
                        raise error
                    return item
                if in_order:
                    break
            if state.ended and not state.items:
                return None
            await self._change(state, in_order)

    async def _change(self, state: _State, in_order: bool) -> None:
        """Wait until an item is done or there is a new one."""
        waiting: list[Any] = [item for item, _ in state.items]
        if in_order and waiting:
            waiting = waiting[:1]
        elif not state.ended:
            # A producer that has ended wakes nobody.
            if state.ready is None or state.ready.done():
                state.ready = asyncio.get_running_loop().create_future()
            waiting.append(state.ready)
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)


def _wake(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)


def _stop_soon(loop: asyncio.AbstractEventLoop, state: _State) -> None:
    """Stop a producer whose owner has gone, from any thread."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(_stop, state)


def _stop(state: _State) -> None:
    assert state.task is not None
    state.task.cancel()
    for item, _ in state.items:
        if isinstance(item, asyncio.Task):
            item.cancel()
    state.items.clear()


async def _produce(make: Callable[[], Awaitable[Any]], state: _State, capacity: int) -> None:
    turns = Turns()
    try:
        while True:
            while len(state.items) >= capacity:
                state.room = asyncio.get_running_loop().create_future()
                await state.room
            try:
                item = await make()
            except Exception as error:
                state.items.append((None, error))
            else:
                if item is None:
                    return
                state.items.append((item, None))
                del item
            _wake(state.ready)
            await turns.pause()
    except asyncio.CancelledError:
        state.items.append((None, errors.CancelledError("the iterator was closed")))
    finally:
        state.ended = True
        _wake(state.ready)
