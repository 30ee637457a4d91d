"""Hooks that begin, feed and end training.

Source: tensorflow/python/training/basic_session_run_hooks.py for names and rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideflow import logging
from tideflow.client.session import Session
from tideflow.graph.graph import Tensor
from tideflow.ops.export import export
from tideflow.ops.state import get_or_create_global_step_read
from tideflow.platform import clock
from tideflow.train.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from tideflow.train.threads import Coordinator
from tideflow.wire import errors

_POLL_S = 0.5
_LOG_EVERY_STEPS = 1000


def global_step_read(owner: object) -> Tensor:
    """Return the tensor by which a hook reads the global step.

    Raises: RuntimeError, naming the hook, when the graph has no global step.
    """
    found = get_or_create_global_step_read()
    if found is None:
        raise RuntimeError(f"Global step should be created to use {type(owner).__name__}.")
    return found


@export("train.StopAtStepHook")
class StopAtStepHook(SessionRunHook):
    """Asks to stop once the global step has reached a number.

    Args:
      num_steps: to make, counted from when the first session is created.
      last_step: to reach.
    Raises: ValueError for both or none.
    """

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        self._num_steps = num_steps
        self._last_step = last_step

    def begin(self) -> None:
        """Find the global step."""
        self._global_step = global_step_read(self)

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Count from here, the first time."""
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = int(session.run(self._global_step)) + self._num_steps

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the global step."""
        return SessionRunArgs(self._global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Stop at the last step; what was fetched may be older than this run's increment."""
        assert self._last_step is not None
        if run_values.results + 1 < self._last_step:
            return
        if run_context.session.run(self._global_step) >= self._last_step:
            run_context.request_stop()


@export("train.GlobalStepWaiterHook")
class GlobalStepWaiterHook(SessionRunHook):
    """Delays the first run until the global step has reached a number: workers that start late."""

    def __init__(self, wait_until_step: int) -> None:
        self._wait_until_step = wait_until_step

    def begin(self) -> None:
        """Find the global step."""
        self._is_over = False
        self._global_step = global_step_read(self)

    def before_run(self, run_context: SessionRunContext) -> None:
        """Wait, before the first run."""
        if self._is_over or self._wait_until_step <= 0:
            return
        logging.info("Waiting for global step %d before starting training.", self._wait_until_step)
        logged = 0
        while (step := int(run_context.session.run(self._global_step))) < self._wait_until_step:
            if step - logged > _LOG_EVERY_STEPS:
                logging.info(
                    "Waiting for global step %d before starting training. Current step is %d.",
                    self._wait_until_step,
                    step,
                )
                logged = step
            clock.sleep(_POLL_S)
        self._is_over = True


@export("train.FinalOpsHook")
class FinalOpsHook(SessionRunHook):
    """Runs operations at the end of training.

    Args:
      final_ops: a tensor or operation, or any nesting of these; None for nothing.
      final_ops_feed_dict: fed to them.
    """

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None) -> None:
        self._final_ops = final_ops
        self._feed_dict = final_ops_feed_dict
        self._values: Any = None

    @property
    def final_ops_values(self) -> Any:
        """The values of final_ops, None before the end."""
        return self._values

    def end(self, session: Session) -> None:
        """Run the operations."""
        if self._final_ops is None:
            return
        try:
            self._values = session.run(self._final_ops, feed_dict=self._feed_dict)
        except (errors.OutOfRangeError, StopIteration):
            logging.warning(
                "The operations of a FinalOpsHook took from an input that has ended. They should "
                "depend on variables only: fetch a metric's value, not its update."
            )
            raise


@export("train.FeedFnHook")
class FeedFnHook(SessionRunHook):
    """Feeds each run with what a function returns: a feed_dict."""

    def __init__(self, feed_fn: Callable[[], Any]) -> None:
        self.feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Ask the function."""
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())
