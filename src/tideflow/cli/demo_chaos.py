"""What `tideflow demo --chaos` does to the cluster: it kills tasks, and sees them come back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

from tideflow.cli.demo_view import KILLED, DemoView
from tideflow.cli.launcher import Death, Launcher, TaskId
from tideflow.platform import clock

# When to kill, as shares of the training.
_MOMENTS = (0.2, 0.45, 0.7)


def victims_of(tasks: list[TaskId]) -> list[TaskId]:
    """Return whom to kill: a parameter server, the last worker, and the chief, worker 0."""
    workers = [task for task in tasks if task.job == "worker"]
    servers = [task for task in tasks if task.job == "ps"]
    return [servers[-1], workers[-1], workers[0]]


class Saboteur:
    """Kills tasks of a training run, one after the other, and takes the time of each recovery.

    Args:
      view: is told what happens.
      tell: says a line to users without a terminal.
    """

    def __init__(self, view: DemoView, last_step: int, tell: Callable[[str], None]) -> None:
        self._view = view
        self._last_step = last_step
        self._tell = tell
        self._changed = asyncio.Event()
        # The workers that have to make a step before all is well again, and those of them that
        # have a new session already.
        self._missing: set[TaskId] = set()
        self._returned: set[TaskId] = set()

    def hear(self, task: TaskId, facts: dict[str, Any]) -> None:
        """Take in what a task reports."""
        if "session" in facts:
            self._returned.add(task)
        if "step" in facts and task in self._returned:
            self._missing.discard(task)
        self._changed.set()

    def note_death(self, death: Death) -> None:
        """Take note that a task has died."""
        self._view.set_state(death.task, KILLED)
        self._say(f"{death.task} is gone; it is started again in {death.pause_s:.1f} s")

    async def work(self, launcher: Launcher) -> None:
        """Kill each victim at its moment, once all has recovered from the last one's death."""
        workers = {task for task in launcher.tasks if task.job == "worker"}
        for victim, moment in zip(victims_of(launcher.tasks), _MOMENTS):
            while self._view.step < moment * self._last_step:
                await self._change()
            self._returned.clear()
            self._missing = {victim} if victim in workers else set(workers)
            since_s = clock.monotonic_s()
            self._say(f"kill -9 {victim}", "bold red")
            os.kill(launcher.process(victim).pid, signal.SIGKILL)
            while self._missing:
                await self._change()
            took_s = clock.monotonic_s() - since_s
            self._say(f"all train again, {took_s:.1f} s after {victim} was killed", "bold green")

    async def _change(self) -> None:
        """Wait until a task reports something."""
        self._changed.clear()
        await self._changed.wait()

    def _say(self, text: str, style: str = "") -> None:
        self._view.add_event(text, style)
        self._tell(f"step {self._view.step:>5} | {text}")
