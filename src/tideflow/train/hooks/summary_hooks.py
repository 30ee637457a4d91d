"""Hooks that write summaries into event files.

Source: tensorflow/python/training/basic_session_run_hooks.py for names and rules.
"""

from __future__ import annotations

from typing import Any

from tideflow import logging
from tideflow.client.session import Session
from tideflow.graph.graph import Tensor
from tideflow.ops.export import export
from tideflow.ops.state import get_global_step
from tideflow.train.hooks.control_hooks import global_step_read
from tideflow.train.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from tideflow.train.hooks.timers import SecondOrStepTimer
from tideflow.train.summaries import FileWriterCache
from tideflow.wire import messages as pb


@export("train.SummarySaverHook")
class SummarySaverHook(SessionRunHook):
    """Writes summaries with the first run, and then every so many seconds or steps.

    Args:
      save_steps, save_secs: between two times; exactly one of them.
      output_dir, summary_writer: where to; nothing is written without both.
      scaffold, summary_op: the Scaffold whose summary_op is run, or a tensor or list of tensors
        that hold summaries; exactly one of them.
    Raises: ValueError for both or none of two of which one is wanted.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
        scaffold: Any = None,
        summary_op: Tensor | None = None,
    ) -> None:
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        self._summary_op = summary_op
        self._summary_writer = summary_writer
        self._output_dir = output_dir
        self._scaffold = scaffold
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self) -> None:
        """Open the event file, and find the global step."""
        if self._summary_writer is None and self._output_dir:
            self._summary_writer = FileWriterCache.get(self._output_dir)
        self._next_step: int | None = None
        self._global_step = global_step_read(self)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the global step and, when it is time, the summaries."""
        next_step = self._next_step
        self._is_time = next_step is None or self._timer.should_trigger_for_step(next_step)
        fetches: dict[str, Any] = {"global_step": self._global_step}
        summaries = self._summaries() if self._is_time else []
        if summaries:
            fetches["summary"] = summaries
        return SessionRunArgs(fetches)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write what was fetched."""
        writer = self._summary_writer
        if writer is None:
            return
        # What was fetched may be older than this run's increment.
        step = int(run_values.results["global_step"]) + 1
        if self._is_time:
            step = int(run_context.session.run(self._global_step))
        if self._next_step is None:
            writer.add_session_log(pb.SessionLog(status=pb.SessionLog.START), step)
        if self._is_time:
            self._timer.update_last_triggered_step(step)
            for summary in run_values.results.get("summary", ()):
                writer.add_summary(summary, step)
        self._next_step = step + 1

    def end(self, session: Session | None = None) -> None:
        """Have everything written."""
        if self._summary_writer is not None:
            self._summary_writer.flush()

    def _summaries(self) -> list[Any]:
        op = self._summary_op if self._scaffold is None else self._scaffold.summary_op
        if op is None:
            return []
        return list(op) if isinstance(op, (list, tuple)) else [op]


@export("train.StepCounterHook")
class StepCounterHook(SessionRunHook):
    """Logs, and writes as a summary `<global step>/sec`, how many steps are made in a second.

    Args:
      every_n_steps, every_n_secs: between two times; exactly one of them.
      output_dir, summary_writer: where to; only logged without both.
    Raises: ValueError for both or none of the intervals.
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
    ) -> None:
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided.")
        self._timer = SecondOrStepTimer(every_steps=every_n_steps, every_secs=every_n_secs)
        self._summary_writer = summary_writer
        self._output_dir = output_dir
        self._previous: int | None = None

    def begin(self) -> None:
        """Open the event file, and find the global step."""
        if self._summary_writer is None and self._output_dir:
            self._summary_writer = FileWriterCache.get(self._output_dir)
        self._global_step = global_step_read(self)
        self._tag = f"{get_global_step().op.name}/sec"

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the global step."""
        return SessionRunArgs(self._global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Tell of the rate, when it is time; what was fetched may be older than this run's step."""
        fetched = int(run_values.results)
        if self._timer.should_trigger_for_step(fetched + 1):
            step = int(run_context.session.run(self._global_step))
            if self._timer.should_trigger_for_step(step):
                elapsed_s, steps = self._timer.update_last_triggered_step(step)
                if elapsed_s is not None and steps is not None:
                    self._log_and_record(steps, elapsed_s, step)
        if fetched == self._previous:
            logging.log_first_n(
                logging.WARN,
                "It seems that global step (tf.train.get_global_step) has not been increased: it "
                "was %s before, and is %s. Give it to Optimizer.minimize or apply_gradients.",
                5,
                self._previous,
                fetched,
            )
        self._previous = fetched

    def _log_and_record(self, elapsed_steps: int, elapsed_time: float, global_step: int) -> None:
        """Tell of steps made in some seconds; programs override this."""
        rate = elapsed_steps / elapsed_time if elapsed_time > 0 else float("inf")
        if self._summary_writer is not None:
            summary_pb = pb.Summary()
            summary_pb.value.add(tag=self._tag, simple_value=rate)
            self._summary_writer.add_summary(summary_pb, global_step)
        logging.info("%s: %g", self._tag, rate)
