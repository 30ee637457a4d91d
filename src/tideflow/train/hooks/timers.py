"""When a hook acts: after so many seconds or steps.

Source: tensorflow/python/training/basic_session_run_hooks.py for names and rules.
"""

from __future__ import annotations

from typing import Protocol

from tideflow.ops.export import export
from tideflow.platform import clock


class HookTimer(Protocol):
    """Decides at which steps a hook acts."""

    def reset(self) -> None:
        """Forget when the hook acted."""

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether the hook is to act at a step."""

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Note that the hook acts; return the seconds and steps since it did, or (None, None)."""

    def last_triggered_step(self) -> int | None:
        """Return the step at which the hook acted last, None before the first time."""


@export("train.SecondOrStepTimer")
class SecondOrStepTimer:
    """Triggers at the first step asked about, and then every so many seconds or steps.

    Args:
      every_secs, every_steps: exactly one of them; seconds are counted by a clock that does not
        jump when the time of day is set.
    Raises: ValueError for both or none.
    """

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError("Can not provide both every_secs and every_steps.")
        self._every_secs = every_secs
        self._every_steps = every_steps
        self.reset()

    def reset(self) -> None:
        """Forget when it triggered: the next step asked about triggers."""
        self._last_step: int | None = None
        self._last_s = 0.0

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether it is time; never twice for one step."""
        if self._last_step is None:
            return True
        if self._last_step == step:
            return False
        if self._every_secs is not None:
            return clock.monotonic_s() >= self._last_s + self._every_secs
        assert self._every_steps is not None
        return step >= self._last_step + self._every_steps

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Count from this step; return the seconds and steps since the last time, or Nones."""
        now_s = clock.monotonic_s()
        elapsed: tuple[float | None, int | None] = (None, None)
        if self._last_step is not None:
            elapsed = (now_s - self._last_s, step - self._last_step)
        self._last_step, self._last_s = step, now_s
        return elapsed

    def last_triggered_step(self) -> int | None:
        """Return the step of the last time, None before the first."""
        return self._last_step


class NeverTriggerTimer:
    """Never triggers."""

    def reset(self) -> None:
        """Do nothing."""

    def should_trigger_for_step(self, step: int) -> bool:
        """Return False."""
        return False

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Return (None, None)."""
        return None, None

    def last_triggered_step(self) -> int | None:
        """Return None."""
        return None
