"""Runs the steps of clients so that requests that come again join them (see step_requests.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from tideflow.cluster.step_requests import (
    CallerJoined,
    CallerLeft,
    CallerLost,
    Cancel,
    Drop,
    Ended,
    Event,
    Expect,
    GraceOver,
    StepRequests,
    Verdict,
)
from tideflow.wire import errors


class _Running:
    """A step; its outcome is for who joins it."""

    __slots__ = ("outcome", "task")

    def __init__(self, task: asyncio.Future[Any]) -> None:
        self.task = task
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class JoinableSteps:
    """The steps of one master.  Use it on the event loop.

    Args:
      capacity: how many requests are remembered that were answered.
    """

    def __init__(self, capacity: int) -> None:
        self._requests = StepRequests(capacity)
        self._running: dict[int, _Running] = {}
        # By the task that answers a caller.
        self._answering: dict[asyncio.Task[Any], int] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._is_closed = False

    def joined(self, request_id: int, method: str) -> Coroutine[Any, Any, Any] | None:
        """Return what waits for the step of a request that has come again; None for a new one.

        Raises: AbortedError for one whose step was answered.
        """
        if self._requests.arrived(request_id, method) is Verdict.RUN:
            return None
        return self._join(request_id, self._running[request_id])

    async def run(self, request_id: int, work: Coroutine[Any, Any, Any]) -> Any:
        """Await the work of a new request that was not answered at once; return its outcome."""
        if not request_id:
            return await work
        task = asyncio.current_task()
        assert task is not None
        running = self._running[request_id] = _Running(task)
        self._answering[task] = request_id
        self._requests.began(request_id)
        outcome = running.outcome
        try:
            found = await work
            outcome.set_result(found)
            return found
        except errors.OpError as error:
            outcome.set_exception(error)
            outcome.exception()  # there may be nobody to see it
            raise
        finally:
            if not outcome.done():
                outcome.cancel()
            del self._answering[task]
            self._carry_out(Ended(request_id))

    async def _join(self, request_id: int, running: _Running) -> Any:
        task = asyncio.current_task()
        assert task is not None
        self._answering[task] = request_id
        self._carry_out(CallerJoined(request_id))
        try:
            return await asyncio.shield(running.outcome)
        except asyncio.CancelledError:
            if not task.cancelling():
                raise errors.AbortedError("the step was given up by who asked for it") from None
            raise
        finally:
            if self._answering.pop(task, None) is not None:
                self._carry_out(CallerLeft(request_id))

    def keep(self, request_id: int, work: asyncio.Future[Any]) -> None:
        """Expect the caller of work that came another way, whose connection is gone or may be: a
        request under this id joins it.  After a while in which none came it is cancelled."""
        if request_id in self._running:
            return
        if self._is_closed:
            work.cancel()
            return
        try:
            self._requests.arrived(request_id, "RunGraph")
        except errors.AbortedError:
            return  # it was answered
        running = self._running[request_id] = _Running(work)
        self._requests.began(request_id)
        work.add_done_callback(lambda done: self._kept_ended(request_id, running, done))
        self._carry_out(CallerLost(request_id))

    def _kept_ended(self, request_id: int, running: _Running, work: asyncio.Future[Any]) -> None:
        _copy_outcome(work, running.outcome)
        self._carry_out(Ended(request_id))

    def caller_lost(self, task: asyncio.Task[Any]) -> bool:
        """Take note that the caller whom a task answers has lost its connection; return whether the
        task goes on: its caller is expected to come again."""
        request_id = self._answering.get(task)
        if request_id is None:
            return False
        if self._running[request_id].task is not task:
            del self._answering[task]  # it waits on, for nobody
        self._carry_out(CallerLost(request_id))
        return True

    def _carry_out(self, event: Event) -> None:
        for instruction in self._requests.handle(event):
            request_id = instruction.request_id
            if type(instruction) is Expect:
                over = GraceOver(request_id, instruction.number)
                loop = asyncio.get_running_loop()
                timer = loop.call_later(instruction.after_s, self._carry_out, over)
                self._timers[request_id] = timer
            elif type(instruction) is Cancel:
                self._running[request_id].task.cancel()
            elif type(instruction) is Drop:
                del self._running[request_id]
                timer_left = self._timers.pop(request_id, None)
                if timer_left is not None:
                    timer_left.cancel()

    def close(self) -> None:
        """Expect nobody any more."""
        self._is_closed = True
        for request_id in list(self._timers):
            self._timers.pop(request_id).cancel()
            running = self._running.get(request_id)
            if running is not None:
                running.task.cancel()


def _copy_outcome(work: asyncio.Future[Any], outcome: asyncio.Future[Any]) -> None:
    if work.cancelled():
        outcome.cancel()
        return
    error = work.exception()
    if error is None:
        outcome.set_result(work.result())
    else:
        outcome.set_exception(error)
        outcome.exception()  # there may be nobody to see it
