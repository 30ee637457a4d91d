"""Hooks that tell of values, or stop at bad ones.

Source: tensorflow/python/training/basic_session_run_hooks.py for names and rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tideflow import logging
from tideflow.client.session import Session
from tideflow.graph.graph import get_default_graph
from tideflow.ops.export import export
from tideflow.train.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from tideflow.train.hooks.timers import HookTimer, NeverTriggerTimer, SecondOrStepTimer


def _as_graph_element(item: Any) -> Any:
    """Return a tensor or operation of the default graph, given itself or its name.

    Raises: ValueError for one of another graph, or an operation with several outputs.
    """
    graph = get_default_graph()
    if not isinstance(item, str):
        if getattr(item, "graph", None) is not graph:
            raise ValueError(
                f"Passed {item} should have graph attribute that is equal to current graph {graph}."
            )
        return item
    if ":" in item:
        return graph.as_graph_element(item)
    found = graph.get_tensor_by_name(item + ":0")
    if len(found.op.outputs) > 1:
        raise ValueError(
            f"Name {item} is ambiguous, as this `Operation` has multiple outputs (at least 2)."
        )
    return found


@export("train.LoggingTensorHook")
class LoggingTensorHook(SessionRunHook):
    """Logs values, at level INFO: `loss = 0.1, step = 3 (0.020 sec)`.

    Args:
      tensors: tensors or their names; a dict from tags to these, or a list, whose members are
        their own tags.
      every_n_iter, every_n_secs: between two messages; the first comes with the first run.
      at_end: log (also) at the end.
      formatter: makes the message from a dict of values by tag.
    Raises: ValueError unless exactly one of every_n_iter and every_n_secs is given, or only
    at_end; for an every_n_iter below 1.
    """

    def __init__(
        self,
        tensors: Mapping[str, Any] | Sequence[Any],
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[Any, Any]], str] | None = None,
    ) -> None:
        only_at_end = at_end and every_n_iter is None and every_n_secs is None
        if not only_at_end and (every_n_iter is None) == (every_n_secs is None):
            raise ValueError(
                "either at_end and/or exactly one of every_n_iter and every_n_secs must be "
                "provided."
            )
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        if isinstance(tensors, Mapping):
            self._tensors: dict[Any, Any] = {tag: tensors[tag] for tag in sorted(tensors)}
        else:
            self._tensors = {item: item for item in tensors}
        self._formatter = formatter
        self._timer: HookTimer = NeverTriggerTimer()
        if not only_at_end:
            self._timer = SecondOrStepTimer(every_secs=every_n_secs, every_steps=every_n_iter)
        self._log_at_end = at_end

    def begin(self) -> None:
        """Find the tensors."""
        self._timer.reset()
        self._runs = 0
        self._fetches = {tag: _as_graph_element(item) for tag, item in self._tensors.items()}

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetch the tensors, when it is time."""
        self._is_time = self._timer.should_trigger_for_step(self._runs)
        return SessionRunArgs(self._fetches) if self._is_time else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Log what was fetched."""
        if self._is_time:
            self._log(run_values.results)
        self._runs += 1

    def end(self, session: Session) -> None:
        """Log for the last time, if asked to."""
        if self._log_at_end:
            self._log(session.run(self._fetches))

    def _log(self, values: dict[Any, Any]) -> None:
        elapsed_s, _ = self._timer.update_last_triggered_step(self._runs)
        with np.printoptions(suppress=True):
            if self._formatter is not None:
                logging.info(self._formatter(values))
                return
            told = ", ".join(f"{tag} = {values[tag]}" for tag in self._fetches)
        since = "" if elapsed_s is None else f" ({elapsed_s:.3f} sec)"
        logging.info("%s%s", told, since)


@export("train.NanLossDuringTrainingError")
class NanLossDuringTrainingError(RuntimeError):
    """The loss is not a number any more."""

    def __str__(self) -> str:
        return "NaN loss during training."


@export("train.NanTensorHook")
class NanTensorHook(SessionRunHook):
    """Ends training when a loss is NaN.

    Args:
      loss_tensor: a scalar.
      fail_on_nan_loss: raise NanLossDuringTrainingError; or else only ask to stop.
    """

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._loss_tensor = loss_tensor
        self._fail_on_nan_loss = fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the loss."""
        return SessionRunArgs(self._loss_tensor)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Look at the loss."""
        if not np.isnan(run_values.results):
            return
        told = "Model diverged with loss = NaN."
        if self._fail_on_nan_loss:
            logging.error(told)
            raise NanLossDuringTrainingError
        logging.warning(told)
        run_context.request_stop()
