"""Where the tensors of a step meet: a sender puts, a receiver takes, in either order.

One value answers one take.  A value may be dead (the untaken side of a branch).  When a step
fails its rendezvous is aborted, and every taker, waiting or late, gets the error.
Source: runtime facts on RecvTensor and CleanupGraph.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine
from typing import Any, NamedTuple, Protocol

from tideflow.wire import errors


class Received(NamedTuple):
    """What a take gives."""

    value: Any
    is_dead: bool


class Taker(Protocol):
    """Who waits for one value: a future, or whoever goes on as soon as the value comes."""

    def done(self) -> bool:
        """Whether the wait is over; then neither of the next two is called."""

    def set_result(self, result: Received, /) -> None:
        """Take the value (called on the loop).  Must not raise."""

    def set_exception(self, exception: errors.OpError, /) -> None:
        """Hear that it will not come (called on the loop).  Must not raise."""

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The loop on which to be called."""


class PatientTaker(Taker, Protocol):
    """A taker that does without asking as long as the value may come by itself."""

    def ask(self) -> None:
        """Give up waiting, and `take` (called on the loop)."""


class RendezvousLike(Protocol):
    """What kernels and executors use; a worker's knows how to ask other tasks, too."""

    def put(self, key: str, value: Any, is_dead: bool = False) -> None:
        """Offer a value.  May be called from any thread."""

    def take_nowait(self, key: str) -> Received | None:
        """Return a value that is already here, or None."""

    def take(self, key: str, send_device: str) -> Coroutine[Any, Any, Received]:
        """Wait for a value made on a device (call on the loop)."""

    def expect(self, key: str, send_device: str, taker: PatientTaker) -> bool:
        """Give a value made on a device to a taker when it comes; False for one that must be
        asked for with `take` (call on the loop)."""

    def abort(self, error: errors.OpError) -> None:
        """Fail all takes, now and later."""


class Rendezvous:
    """A rendezvous within one process.  All methods may be called from any thread but `take`,
    which is awaited on the loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, deque[Received]] = {}
        self._takers: dict[str, deque[Taker]] = {}
        self._error: errors.OpError | None = None

    def put(self, key: str, value: Any, is_dead: bool = False) -> None:
        """Offer a value to the next taker of the key.

        Raises: the error with which the rendezvous was aborted.
        """
        received = Received(value, is_dead)
        with self._lock:
            if self._error is not None:
                raise self._error
            taker = self._next_taker(key)
            if taker is None:
                self._values.setdefault(key, deque()).append(received)
                return
        self._answer(key, taker, received)

    def put_if_wanted(self, key: str, value: Any, is_dead: bool = False) -> bool:
        """Give a value to somebody who waits for the key; return whether there was one.

        Raises: the error with which the rendezvous was aborted.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            taker = self._next_taker(key)
        if taker is None:
            return False
        self._answer(key, taker, Received(value, is_dead))
        return True

    def _answer(self, key: str, taker: Taker, received: Received) -> None:
        loop = taker.get_loop()

        def deliver() -> None:
            if taker.done():
                # The taker was cancelled on the way; the value is the next one's.
                self._put_back(key, received)
            else:
                taker.set_result(received)

        if _is_running_here(loop):
            deliver()
        else:
            loop.call_soon_threadsafe(deliver)

    def _put_back(self, key: str, received: Received) -> None:
        with self._lock:
            if self._error is not None:
                return
            taker = self._next_taker(key)
            if taker is None:
                self._values.setdefault(key, deque()).appendleft(received)
        if taker is not None:
            self._answer(key, taker, received)

    def _next_taker(self, key: str) -> Taker | None:
        takers = self._takers.get(key)
        while takers:
            taker = takers.popleft()
            if not takers:
                del self._takers[key]
            if not taker.done():
                return taker
        return None

    def take_nowait(self, key: str) -> Received | None:
        """Return a value that was put already, or None.

        Raises: the error with which the rendezvous was aborted.
        """
        with self._lock:
            return self._pop(key)

    def _pop(self, key: str) -> Received | None:
        if self._error is not None:
            raise self._error
        values = self._values.get(key)
        if not values:
            return None
        received = values.popleft()
        if not values:
            del self._values[key]
        return received

    async def take(self, key: str, send_device: str = "") -> Received:
        """Wait for the key's value.  Cancelling the wait takes nothing.

        Raises: the error with which the rendezvous was aborted.
        """
        with self._lock:
            received = self._pop(key)
            if received is not None:
                return received
            taker: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
            self._takers.setdefault(key, deque()).append(taker)
        try:
            return await taker
        except asyncio.CancelledError:
            self._give_up(key, taker)
            raise

    def expect(self, key: str, send_device: str, taker: Taker) -> bool:
        """Give the key's value to a taker when it comes, or at once (call on the taker's loop)."""
        with self._lock:
            received = self._error or self._pop(key)
            if received is None:
                self._takers.setdefault(key, deque()).append(taker)
                return True
        if isinstance(received, Received):
            taker.set_result(received)
        else:
            taker.set_exception(received)
        return True

    def _give_up(self, key: str, taker: asyncio.Future[Received]) -> None:
        """Forget a cancelled taker; what had just reached it goes to the next one."""
        if taker.done() and not taker.cancelled() and taker.exception() is None:
            self._put_back(key, taker.result())
            return
        with self._lock:
            takers = self._takers.get(key)
            if takers is not None and taker in takers:
                takers.remove(taker)
                if not takers:
                    del self._takers[key]

    def abort(self, error: errors.OpError) -> None:
        """Fail all takes and puts from now on, and drop what was never taken.  The first error
        stays."""
        with self._lock:
            if self._error is not None:
                return
            self._error = error
            waiting = [taker for takers in self._takers.values() for taker in takers]
            self._takers.clear()
            self._values.clear()
        for taker in waiting:
            loop = taker.get_loop()
            if _is_running_here(loop):
                _fail(taker, error)
            else:
                loop.call_soon_threadsafe(_fail, taker, error)

    @property
    def is_empty(self) -> bool:
        """Whether no value is here, and nobody waits for one."""
        return not self._values and not self._takers

    @property
    def waiting(self) -> list[str]:
        """The keys for which somebody waits; for diagnosis."""
        with self._lock:
            return sorted(self._takers)


def _fail(taker: Taker, error: errors.OpError) -> None:
    if not taker.done():
        taker.set_exception(error)


def _is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
