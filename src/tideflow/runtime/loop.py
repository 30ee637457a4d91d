"""The process's one event loop, and the small door through which user threads enter it.

Everything that coordinates runs on this loop.  It starts on first use, in a daemon thread, with
uvloop where that is installed; a process that only runs local steps never starts it.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from tideflow.platform import threads, waits
from tideflow.wire import errors

try:
    from uvloop import new_event_loop as new_event_loop
except ImportError:  # an optional speed-up, not there on every platform
    from asyncio import new_event_loop  # type: ignore[assignment]

T = TypeVar("T")

# How long the end of the interpreter waits for what the loop is at.
_PARK_S = 10.0

_lock = threading.Lock()
_parked = threading.Event()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def get_loop() -> asyncio.AbstractEventLoop:
    """Return the process's loop, started if it was not."""
    if _loop is not None:
        return _loop
    return _start()


def _start() -> asyncio.AbstractEventLoop:
    global _loop, _thread
    with _lock:
        if _loop is None:
            loop = new_event_loop()
            _thread = threads.start(_serve, loop, name="tideflow-loop")
            _loop = loop
        return _loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


def loop_has_started() -> bool:
    """Whether the process's loop runs already."""
    return _loop is not None


def on_loop() -> bool:
    """Whether the calling thread is the loop's own."""
    return threading.current_thread() is _thread


def run_sync(coro: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
    """Run a coroutine on the loop and wait for it in the calling thread.

    A KeyboardInterrupt in the waiting thread cancels the coroutine before it goes on.
    Raises: DeadlineExceededError when timeout_s passes first; UnavailableError when the interpreter
    is ending; RuntimeError on the loop's thread, where waiting would block what is waited for.
    """
    if _parked.is_set():
        coro.close()
        raise errors.UnavailableError("the interpreter is ending; nothing can be called any more")
    if on_loop():
        coro.close()
        raise RuntimeError("run_sync was called on the event loop itself; await the call instead")
    crossing = _Crossing(coro)
    # All within the try: Ctrl-C may come between any two lines, and must not leave the call behind.
    try:
        get_loop().call_soon_threadsafe(crossing.begin)
        return waits.result_of(crossing.answer, timeout_s)
    except TimeoutError:
        if crossing.answer.done():
            raise
        crossing.give_up()
        raise errors.DeadlineExceededError(f"no answer within {timeout_s} s") from None
    except BaseException:
        crossing.give_up()
        raise


class _Crossing(Generic[T]):
    """A coroutine on its way from a user thread to the loop, and its answer on the way back."""

    def __init__(self, coro: Coroutine[Any, Any, T]) -> None:
        self.answer: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._coro = coro
        self._task: asyncio.Task[T] | None = None
        self._given_up = False

    def begin(self) -> None:
        """Start the coroutine, unless its caller has gone (on the loop)."""
        if self._given_up:
            self._coro.close()
            return
        self._task = asyncio.get_running_loop().create_task(self._coro)
        self._task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[T]) -> None:
        error = None if task.cancelled() else task.exception()
        if self._given_up:
            return  # nobody is left to hear of it
        if task.cancelled():
            self.answer.cancel()
        elif error is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(task.result())

    def give_up(self) -> None:
        """Cancel the coroutine, started or not; its answer is not wanted any more."""
        self._given_up = True
        get_loop().call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _park_at_exit() -> None:
    """Have the loop's thread stand still before the interpreter is taken down.

    A daemon thread that comes back from compiled code after that ends the process with an abort.
    """
    loop = _loop
    if loop is not None and not on_loop():
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_park)
            _parked.wait(_PARK_S)


def _park() -> None:
    never = threading.Lock()
    never.acquire()
    _parked.set()
    never.acquire()


atexit.register(_park_at_exit)


def _forget_after_fork() -> None:
    """A forked child has no loop thread; it starts its own on first use."""
    global _loop, _thread
    _loop = _thread = None
    _parked.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
