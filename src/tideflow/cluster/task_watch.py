"""Finds out what became of tasks that were lost, and tells the sessions that relied on them.

Rule 1: another incarnation is another task, however soon it returned: its state is gone, and
        sessions that relied on the old one are over.
Rule 2: a lost connection proves nothing; the task is asked.  One that answers in the same
        incarnation was there all the time.
Rule 3: one that does not answer for a second is away.  What runs in sessions that rely on it fails,
        even if it waits for something else: without the task it might wait for ever.
Rule 4: a task that is slow or stopped keeps its connections, and is not suspected for that; the
        connections themselves are given up when it says nothing for long (transport/h2/heartbeat).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Protocol

from tideflow.cluster.worker_cache import WorkerCache
from tideflow.runtime.loop import spawn
from tideflow.transport import within
from tideflow.wire import errors
from tideflow.wire import messages as pb

_LOGGER = logging.getLogger(__name__)

_AWAY_AFTER_S = 1.0
_ASK_EVERY_S = 0.1
_ASK_LESS_EVERY_S = 1.0
_ANSWER_S = 0.5


class Reliant(Protocol):
    """A session as the watch sees it."""

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

    def suspect(self, task: str) -> None:
        """Find out what became of a task, if a session relies on it."""
        if task not in self._asking and self._reliant(task):
            asking = self._asking[task] = spawn(self._find_out(task))
            asking.add_done_callback(lambda _: self._asking.pop(task, None))

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
        clock = asyncio.get_running_loop().time
        away_at_s = clock() + _AWAY_AFTER_S
        is_away = False
        while self._reliant(task):
            incarnation, reason = await self._ask(task)
            if incarnation is not None:
                self.saw(task, incarnation)
                link = self._workers.link(task)
                if link is not None:
                    link.greet()  # so that its next end is heard of, too
                return
            if not is_away and clock() >= away_at_s:
                is_away = True
                _LOGGER.warning("%s at %s is away: %s", task, self._workers.address(task), reason)
                for session in self._reliant(task):
                    session.interrupt(self._away_error(task, reason))
            await asyncio.sleep(_ASK_LESS_EVERY_S if is_away else _ASK_EVERY_S)

    async def _ask(self, task: str) -> tuple[int | None, str]:
        """Return the incarnation of a task, or why there is none."""
        try:
            status = await within(
                _ANSWER_S, self._workers.get(task).GetStatus, pb.GetStatusRequest()
            )
        except errors.OpError as error:
            return None, error.message.splitlines()[0]
        devices = status.device_attributes
        return (devices[0].incarnation, "") if devices else (None, "it has no devices")

    def _restarted_error(self, task: str, relied_on: int, found: int) -> errors.AbortedError:
        return errors.AbortedError(
            f"{task} at {self._workers.address(task)} has restarted: this session relied on its "
            f"incarnation {relied_on:016x}, and it is in {found:016x} now. What it kept is lost. "
            "Make a new session and restore the last checkpoint, as MonitoredTrainingSession does"
        )

    def _away_error(self, task: str, reason: str) -> errors.UnavailableError:
        return errors.UnavailableError(
            f"{task} at {self._workers.address(task)}, on which this session relies, did not "
            f"answer for {_AWAY_AFTER_S:g} s: {reason}. Start it again, or wait until it is back"
        )

    def close(self) -> None:
        """Ask no more."""
        for asking in list(self._asking.values()):
            asking.cancel()
