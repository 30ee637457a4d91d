"""The threads by which a chief's Supervisor summarizes, counts steps and saves.

Source: tensorflow/python/training/supervisor.py for names and the order of events.
"""

from __future__ import annotations

from typing import Any, Protocol

from tideflow import logging
from tideflow.client.session import Session
from tideflow.ops.state import global_step as read_global_step
from tideflow.platform import clock
from tideflow.train.threads import Coordinator, LooperThread
from tideflow.wire import messages as pb

_MOST_RATES_LOGGED = 10


class Services(Protocol):
    """What the threads need of a Supervisor."""

    @property
    def coord(self) -> Coordinator:
        """Stops the threads."""

    @property
    def global_step(self) -> Any:
        """The global step, or None."""

    @property
    def summary_op(self) -> Any:
        """Gives the summaries."""

    @property
    def summary_writer(self) -> Any:
        """Where they go."""

    def save_checkpoint(self, sess: Session) -> None:
        """Save a checkpoint."""


class SummaryThread(LooperThread):
    """Writes summaries."""

    def __init__(self, supervisor: Services, sess: Session, interval_s: float) -> None:
        super().__init__(supervisor.coord, interval_s)
        self._supervisor = supervisor
        self._sess = sess

    def run_loop(self) -> None:
        """Run the summaries once, and write them."""
        supervisor, step = self._supervisor, None
        if supervisor.global_step is None:
            summary = self._sess.run(supervisor.summary_op)
        else:
            fetches = [supervisor.summary_op, supervisor.global_step]
            summary, step = self._sess.run(fetches)
        logging.info("Recording summary at step %s.", step)
        supervisor.summary_writer.add_summary(summary, step)


class StepCounterThread(LooperThread):
    """Writes how many steps are made in a second."""

    def __init__(self, supervisor: Services, sess: Session, interval_s: float) -> None:
        super().__init__(supervisor.coord, interval_s)
        self._writer = supervisor.summary_writer
        self._step_counter = supervisor.global_step
        self._sess = sess
        self._tag = f"{self._step_counter.op.name}/sec"

    def start_loop(self) -> None:
        """Count from here."""
        self._last_s = clock.monotonic_s()
        self._last_step = read_global_step(self._sess, self._step_counter)

    def run_loop(self) -> None:
        """Write the rate since the last time."""
        step, now_s = read_global_step(self._sess, self._step_counter), clock.monotonic_s()
        elapsed_s, steps = now_s - self._last_s, step - self._last_step
        self._last_s, self._last_step = now_s, step
        rate = steps / elapsed_s if elapsed_s > 0 else float("inf")
        summary_pb = pb.Summary()
        summary_pb.value.add(tag=self._tag, simple_value=rate)
        self._writer.add_summary(summary_pb, step)
        logging.log_first_n(logging.INFO, "%s: %g", _MOST_RATES_LOGGED, self._tag, rate)


class CheckpointThread(LooperThread):
    """Saves checkpoints."""

    def __init__(self, supervisor: Services, sess: Session, interval_s: float) -> None:
        super().__init__(supervisor.coord, interval_s)
        self._supervisor = supervisor
        self._sess = sess

    def run_loop(self) -> None:
        """Save once."""
        self._supervisor.save_checkpoint(self._sess)
