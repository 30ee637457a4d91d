"""Finds out what became of tasks that were lost, and tells the sessions that relied on them.

What follows from what is decided in task_health.py; here the questions are asked.

Rule 1: another incarnation is another task, however soon it returned: its state is gone, and
        sessions that relied on the old one are over.
Rule 2: a task to which there is no stream, as to a plain TensorFlow, is asked twice a second while
        something runs in a session that relies on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Protocol

from tideflow.blocking import spawn
from tideflow.cluster.master.task_health import (
    Answered,
    Ask,
    Event,
    Interrupt,
    Judge,
    Released,
    Suspected,
    TaskHealth,
    TellBack,
    TellSlow,
    Unanswered,
    Unreached,
)
from tideflow.cluster.worker_cache import WorkerCache
from tideflow.platform import clock
from tideflow.transport import within
from tideflow.wire import errors
from tideflow.wire import messages as pb

_LOGGER = logging.getLogger(__name__)

_PATROL_S = 0.5


class Reliant(Protocol):
    """A session as the watch sees it."""

    @property
    def is_busy(self) -> bool:
        """Whether something runs in the session."""

    @property
    def tasks_relied_on(self) -> Collection[str]:
        """The tasks that the session needs."""

    def relied_on(self, task: str) -> int | None:
        """Return the incarnation of a task that the session needs; None for other tasks."""

    def lose(self, error: errors.OpError) -> None:
        """End: all that runs, and whatever is asked later, fails with the error."""

    def interrupt(self, error: errors.OpError) -> None:
        """Fail what runs now."""


class TaskWatch:
    """Watches the tasks of one master.  Use it on the event loop.

    Args:
      workers: the cluster's.
      sessions: gives the sessions that are open.
    """

    def __init__(self, workers: WorkerCache, sessions: Callable[[], Collection[Reliant]]) -> None:
        self._workers = workers
        self._sessions = sessions
        self._health = TaskHealth()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._patrol: asyncio.Task[None] | None = None

    def suspect(self, task: str) -> None:
        """Find out what became of a task, if a session relies on it."""
        if not self._health.is_suspected(task) and self._reliant(task):
            asking = self._asking[task] = spawn(self._find_out(task))
            asking.add_done_callback(lambda _: self._asking.pop(task, None))

    def patrol(self) -> None:
        """Look after tasks to which there is no stream, while there are sessions."""
        if self._patrol is None or self._patrol.done():
            self._patrol = spawn(self._look_after_plain())

    async def _look_after_plain(self) -> None:
        while sessions := self._sessions():
            await asyncio.sleep(_PATROL_S)
            for task in {task for one in sessions if one.is_busy for task in one.tasks_relied_on}:
                peer = self._workers.peer(task)
                if peer is None or peer.stream is None:
                    self.suspect(task)

    def saw(self, task: str, incarnation: int) -> None:
        """Take note of the incarnation that a task is in."""
        for session in self._reliant(task):
            relied_on = session.relied_on(task)
            if relied_on != incarnation:
                session.lose(self._restarted_error(task, relied_on or 0, incarnation))

    def _reliant(self, task: str) -> list[Reliant]:
        return [one for one in self._sessions() if one.relied_on(task) is not None]

    async def _find_out(self, task: str) -> None:
        """Ask the task until it answers, or nobody relies on it any more."""
        event: Event = Suspected(task)
        try:
            while (ask := self._carry_out(event)) is not None:
                await asyncio.sleep(ask.after_s)
                event = await self._ask(ask) if self._reliant(task) else Released(task)
        finally:
            self._health.handle(Released(task), clock.monotonic_s())

    def _carry_out(self, event: Event) -> Ask | None:
        """Do what follows from an event; return what is to be asked."""
        asked = None
        for instruction in self._health.handle(event, clock.monotonic_s()):
            task = instruction.task
            if type(instruction) is Ask:
                asked = instruction
            elif type(instruction) is Judge:
                self._judge(instruction)
            elif type(instruction) is Interrupt:
                self._interrupt(instruction)
            elif type(instruction) is TellSlow:
                _LOGGER.warning(
                    "%s has not answered for %.1f s; it can be reached, and is waited for",
                    task,
                    instruction.silent_s,
                )
            elif type(instruction) is TellBack:
                _LOGGER.warning("%s answers again, after %.1f s", task, instruction.silent_s)
        return asked

    def _judge(self, found: Judge) -> None:
        self.saw(found.task, found.incarnation)
        peer = self._workers.peer(found.task)
        if peer is not None:
            peer.greet()  # so that its next end is heard of, too

    def _interrupt(self, found: Interrupt) -> None:
        task, reason = found.task, found.reason
        _LOGGER.warning("%s at %s is away: %s", task, self._workers.address(task), reason)
        for session in self._reliant(task):
            session.interrupt(self._away_error(task, reason))

    async def _ask(self, ask: Ask) -> Event:
        """Ask a task who it is; return what came of it."""
        get_status = self._workers.get(ask.task).GetStatus
        try:
            status = await within(ask.answer_s, get_status, pb.GetStatusRequest())
        except errors.DeadlineExceededError:
            return Unanswered(ask.task)
        except errors.OpError as error:
            return Unreached(ask.task, error.message.splitlines()[0])
        devices = status.device_attributes
        if not devices:
            return Unreached(ask.task, "it has no devices")
        return Answered(ask.task, devices[0].incarnation)

    def _restarted_error(self, task: str, relied_on: int, found: int) -> errors.AbortedError:
        return errors.AbortedError(
            f"{task} at {self._workers.address(task)} has restarted: this session relied on its "
            f"incarnation {relied_on:016x}, and it is in {found:016x} now. What it kept is lost. "
            "Make a new session and restore the last checkpoint, as MonitoredTrainingSession does"
        )

    def _away_error(self, task: str, reason: str) -> errors.UnavailableError:
        return errors.UnavailableError(
            f"{task} at {self._workers.address(task)}, on which this session relies, does not "
            f"answer: {reason}. Start it again, or wait until it is back"
        )

    def close(self) -> None:
        """Ask no more."""
        if self._patrol is not None:
            self._patrol.cancel()
        for asking in list(self._asking.values()):
            asking.cancel()
