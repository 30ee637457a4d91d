"""The hook that saves checkpoints.

Source: tensorflow/python/training/basic_session_run_hooks.py for names and the order of events.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tideflow import logging
from tideflow.client.session import Session
from tideflow.graph.graph import get_default_graph
from tideflow.graph.graph_keys import GraphKeys
from tideflow.ops.export import export
from tideflow.train.graphs import export_scoped_meta_graph, write_graph
from tideflow.train.hooks.control_hooks import global_step_read
from tideflow.train.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from tideflow.train.hooks.timers import SecondOrStepTimer
from tideflow.train.summaries import FileWriterCache
from tideflow.train.threads import ChiefLock, Coordinator
from tideflow.wire import messages as pb

# A run may make this many steps before the step that was fetched with it is looked at again.
_MOST_STEPS_PER_RUN = 1_000_000


@export("train.CheckpointSaverListener")
class CheckpointSaverListener:
    """Is told when checkpoints are saved; override what is needed."""

    def begin(self) -> None:
        """Called once, before a session is made."""

    def before_save(self, session: Session, global_step_value: int) -> None:
        """Called before each save."""

    def after_save(self, session: Session, global_step_value: int) -> bool | None:
        """Called after each save; True asks to stop."""

    def end(self, session: Session, global_step_value: int) -> None:
        """Called at the end, after the last save."""


@export("train.CheckpointSaverHook")
class CheckpointSaverHook(SessionRunHook):
    """Saves a checkpoint for a new session, then every so many seconds or steps, and at the end.

    When SIGTERM ends the program, a monitored session has its hooks of this class save once more.

    Args:
      checkpoint_dir: where checkpoints, graph.pbtxt and events go.
      save_secs, save_steps: between two checkpoints; exactly one of them.
      saver, scaffold: what saves, or the Scaffold whose saver does; the graph's only Saver if both
        are left out.
      checkpoint_basename: the file name, to which `-<step>` is added.
      listeners: CheckpointSaverListeners, told in this order.
      save_graph_def: write graph.pbtxt and, with each checkpoint, the meta graph.
    Raises: ValueError for both saver and scaffold, or both or none of save_secs and save_steps.
    """

    def __init__(
        self,
        checkpoint_dir: str,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Any = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Any = None,
        listeners: Sequence[CheckpointSaverListener] | None = None,
        save_graph_def: bool = True,
    ) -> None:
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._saver = saver
        self._scaffold = scaffold
        self._checkpoint_dir = os.fspath(checkpoint_dir)
        self._save_path = os.path.join(self._checkpoint_dir, checkpoint_basename)
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._listeners = list(listeners or ())
        self._save_graph_def = save_graph_def
        self._lock: ChiefLock | None = None

    def begin(self) -> None:
        """Claim the directory, open the event file, and find the global step.

        Raises: FailedPreconditionError where another process is chief.
        """
        self._lock = ChiefLock(self._checkpoint_dir)
        self._summary_writer = FileWriterCache.get(self._checkpoint_dir)
        self._global_step = global_step_read(self)
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Write the graph, and the first checkpoint."""
        step = int(session.run(self._global_step))
        graph = get_default_graph()
        graph_pb = graph.as_graph_def(add_shapes=True)
        if self._save_graph_def:
            write_graph(graph_pb, self._checkpoint_dir, "graph.pbtxt")
        saver_def = self._get_saver().saver_def
        self._summary_writer.add_graph(graph)
        meta_graph_pb, _ = export_scoped_meta_graph(graph_def=graph_pb, saver_def=saver_def)
        self._summary_writer.add_meta_graph(meta_graph_pb)
        # Also after a recovery: the variables may have been initialized anew.
        self._save(session, step)
        self._timer.update_last_triggered_step(step)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the global step."""
        return SessionRunArgs(self._global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Save, when it is time; what was fetched may be older than this run's steps."""
        if not self._timer.should_trigger_for_step(run_values.results + _MOST_STEPS_PER_RUN):
            return
        step = int(run_context.session.run(self._global_step))
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._save(run_context.session, step):
                run_context.request_stop()

    def end(self, session: Session) -> None:
        """Save, if steps were made since the last time."""
        step = self.save_last(session)
        for listener in self._listeners:
            listener.end(session, step)
        self.release()

    def release(self) -> None:
        """Let another process save here."""
        if self._lock is not None:
            self._lock.release()

    def save_last(self, session: Session) -> int:
        """Save, if steps were made since the last time; return the global step."""
        step = int(session.run(self._global_step))
        if step != self._timer.last_triggered_step():
            self._save(session, step)
            self._timer.update_last_triggered_step(step)
        return step

    def _save(self, session: Session, step: int) -> bool:
        """Save a checkpoint; return whether a listener asks to stop."""
        for listener in self._listeners:
            listener.before_save(session, step)
        logging.info("Saving checkpoints for %d into %s.", step, self._save_path)
        self._get_saver().save(
            session, self._save_path, global_step=step, write_meta_graph=self._save_graph_def
        )
        log_pb = pb.SessionLog(status=pb.SessionLog.CHECKPOINT, checkpoint_path=self._save_path)
        self._summary_writer.add_session_log(log_pb, step)
        asked = [listener for listener in self._listeners if listener.after_save(session, step)]
        for listener in asked:
            logging.info("%s asks to stop after the checkpoint for %d.", listener, step)
        return bool(asked)

    def _get_saver(self) -> Any:
        """Return what saves.  Raises: RuntimeError unless it is known, or the graph has one."""
        if self._saver is not None:
            return self._saver
        if self._scaffold is not None:
            return self._scaffold.saver
        key = GraphKeys.SAVERS
        members = get_default_graph().get_collection(key)
        if not members:
            raise RuntimeError(
                f"No items in collection {key}. Please add a saver to the collection or provide a "
                "saver or scaffold."
            )
        if len(members) > 1:
            raise RuntimeError(
                f"More than one item in collection {key}. Please indicate which one to use by "
                "passing it to the constructor."
            )
        self._saver = members[0]
        return self._saver
