"""Finds out what became of tasks that were lost, and tells the sessions that relied on them.

Rule 1: another incarnation is another task, however soon it returned: its state is gone, and
        sessions that relied on the old one are over.
Rule 2: a lost connection proves nothing; the task is asked.  One that answers in the same
        incarnation was there all the time.
Rule 3: one that does not answer for a second is away.  What runs in sessions that rely on it fails,
        even if it waits for something else: without the task it might wait for ever.
Rule 4: a task that is slow or stopped keeps its connections, and is not suspected for that; the
        connections themselves are given up when it says nothing for long (transport/h2/heartbeat).
Rule 5: a task to which there is no line, as to a plain TensorFlow, is asked twice a second while
        something runs in a session that relies on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Protocol

from tideflow.cluster.worker_cache import WorkerCache
from tideflow.platform import clock
from tideflow.runtime.loop import spawn
from tideflow.transport import within
from tideflow.transport.h2.heartbeat import silence_s
from tideflow.wire import errors
from tideflow.wire import messages as pb

_LOGGER = logging.getLogger(__name__)

_AWAY_AFTER_S = 1.0
_PATROL_S = 0.5
_ASK_EVERY_S = 0.1
_ASK_LESS_EVERY_S = 1.0
_ANSWER_S = 0.5


class Reliant(Protocol):
    """A session as the watch sees it.

    Attributes:
      is_busy: whether something runs in it.
      tasks_relied_on: the tasks that it needs.
    """

    @property
    def is_busy(self) -> bool:
        """See above."""

    @property
    def tasks_relied_on(self) -> Collection[str]:
        """See above."""

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
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._patrol: asyncio.Task[None] | None = None

    def suspect(self, task: str, patience_s: float = _AWAY_AFTER_S) -> None:
        """Find out what became of a task, if a session relies on it.

        patience_s: how long it may leave questions unanswered; less if nobody is there.
        """
        if task not in self._asking and self._reliant(task):
            asking = self._asking[task] = spawn(self._find_out(task, patience_s))
            asking.add_done_callback(lambda _: self._asking.pop(task, None))

    def patrol(self) -> None:
        """Look after tasks to which there is no line, while there are sessions."""
        if self._patrol is None or self._patrol.done():
            self._patrol = spawn(self._look_after_plain())

    async def _look_after_plain(self) -> None:
        while sessions := self._sessions():
            await asyncio.sleep(_PATROL_S)
            for task in {task for one in sessions if one.is_busy for task in one.tasks_relied_on}:
                link = self._workers.link(task)
                if link is None or link.line is None:
                    self.suspect(task, silence_s())

    def saw(self, task: str, incarnation: int) -> None:
        """Take note of the incarnation that a task is in."""
        for session in self._reliant(task):
            relied_on = session.relied_on(task)
            if relied_on != incarnation:
                session.lose(self._restarted_error(task, relied_on or 0, incarnation))

    def _reliant(self, task: str) -> list[Reliant]:
        return [one for one in self._sessions() if one.relied_on(task) is not None]

    async def _find_out(self, task: str, patience_s: float) -> None:
        """Ask the task until it answers, or nobody relies on it any more."""
        since_s = clock.monotonic_s()
        is_away = False
        while self._reliant(task):
            incarnation, error = await self._ask(task)
            if incarnation is not None:
                self.saw(task, incarnation)
                link = self._workers.link(task)
                if link is not None:
                    link.greet()  # so that its next end is heard of, too
                return
            is_gone = isinstance(error, errors.UnavailableError)
            if not is_away and clock.monotonic_s() - since_s >= (
                _AWAY_AFTER_S if is_gone else patience_s
            ):
                is_away = True
                reason = "it has no devices" if error is None else error.message.splitlines()[0]
                _LOGGER.warning("%s at %s is away: %s", task, self._workers.address(task), reason)
                for session in self._reliant(task):
                    session.interrupt(self._away_error(task, reason))
            await asyncio.sleep(_ASK_LESS_EVERY_S if is_away else _ASK_EVERY_S)

    async def _ask(self, task: str) -> tuple[int | None, errors.OpError | None]:
        """Return the incarnation of a task, or why there is none."""
        try:
            status = await within(
                _ANSWER_S, self._workers.get(task).GetStatus, pb.GetStatusRequest()
            )
        except errors.OpError as error:
            return None, error
        devices = status.device_attributes
        return (devices[0].incarnation if devices else None), None

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
