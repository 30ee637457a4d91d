"""The hook that records where the time of a step goes.

Source: tensorflow/python/training/basic_session_run_hooks.py for names and rules.
"""

from __future__ import annotations

import os
from typing import Any

from tideflow import logging
from tideflow.ops.export import export
from tideflow.train.hooks.control_hooks import global_step_read
from tideflow.train.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from tideflow.train.hooks.timeline import Timeline
from tideflow.train.hooks.timers import SecondOrStepTimer
from tideflow.train.summaries import FileWriterCache
from tideflow.wire import messages as pb


@export("train.ProfilerHook")
class ProfilerHook(SessionRunHook):
    """Traces a run every so many seconds or steps, into `timeline-<step>.json`.

    Open the file in chrome://tracing or ui.perfetto.dev.

    Args:
      save_steps, save_secs: between two traces; exactly one of them.
      output_dir: where the files go.
      show_dataflow: draw arrows from what makes a tensor to what takes it.
      show_memory: draw the memory that tensors take.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ) -> None:
        self._output_dir = output_dir
        self._file_writer = FileWriterCache.get(output_dir)
        self._show_dataflow = show_dataflow
        self._show_memory = show_memory
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self) -> None:
        """Find the global step."""
        self._next_step: int | None = None
        self._global_step = global_step_read(self)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Ask for a trace, when it is time; the first run, which prepares much, is never traced."""
        next_step = self._next_step
        self._is_time = next_step is not None and self._timer.should_trigger_for_step(next_step)
        options = pb.RunOptions(trace_level=pb.RunOptions.FULL_TRACE) if self._is_time else None
        return SessionRunArgs({"global_step": self._global_step}, options=options)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write the trace."""
        fetched = int(run_values.results["global_step"])
        if self._next_step is None:
            self._timer.update_last_triggered_step(fetched)
        step = fetched + 1
        if self._is_time:
            step = int(run_context.session.run(self._global_step))
            self._timer.update_last_triggered_step(step)
            self._write(step, run_values.run_metadata)
        self._next_step = step + 1

    def _write(self, step: int, metadata: Any) -> None:
        path = os.path.join(self._output_dir, f"timeline-{step}.json")
        logging.info("Saving timeline for %d into '%s'.", step, path)
        trace = Timeline(metadata.step_stats).generate_chrome_trace_format(
            show_dataflow=self._show_dataflow, show_memory=self._show_memory
        )
        with open(path, "w", encoding="utf-8") as file:
            file.write(trace)
        self._file_writer.add_run_metadata(metadata, f"step_{step}")
