"""What the chief of a supervised training writes: checkpoints, summaries, the graph.

Source: tensorflow/python/training/supervisor.py for files and the order of events.
"""

from __future__ import annotations

import threading
from typing import Any

from tideflow import logging
from tideflow.client import Session
from tideflow.graph.graph import Graph
from tideflow.ops.state import global_step as read_global_step
from tideflow.train.graphs import export_scoped_meta_graph, write_graph
from tideflow.train.sessions.supervised_model import SupervisedModel
from tideflow.train.summaries import FileWriter
from tideflow.wire import messages as pb


class ChiefRecords:
    """The files of a training, and what writes them.

    Args:
      graph: what is trained.
      model: the parts of the graph that are run to write.
      logdir: the directory; None where nothing is saved.
      save_path: the path of checkpoints, without the step; None where nothing is saved.
      writer: takes summaries and events; None for none.
    """

    def __init__(
        self,
        graph: Graph,
        model: SupervisedModel,
        logdir: str | None,
        save_path: str | None,
        writer: FileWriter | None,
    ) -> None:
        self._graph = graph
        self._model = model
        self._logdir = logdir
        self._save_path = save_path
        self._writer = writer
        self._is_graph_written = False
        # Two threads that save at once would leave it to chance which checkpoint is the latest.
        self._saving = threading.Lock()

    def reopen(self) -> None:
        """Let events be written again after `close`."""
        if self._writer is not None:
            self._writer.reopen()

    def write_graph(self) -> None:
        """Write the graph into the directory, and once with the events."""
        if self._logdir:
            write_graph(self._graph.as_graph_def(add_shapes=True), self._logdir, "graph.pbtxt")
        if self._writer is not None and not self._is_graph_written:
            saver = self._model.saver
            meta_graph_pb, _ = export_scoped_meta_graph(
                graph_def=self._graph.as_graph_def(add_shapes=True),
                graph=self._graph,
                saver_def=saver.saver_def if saver else None,
            )
            self._writer.add_graph(self._graph)
            self._writer.add_meta_graph(meta_graph_pb)
            self._is_graph_written = True

    def save_checkpoint(self, sess: Session) -> None:
        """Save a checkpoint at the global step's present value."""
        logging.info("Saving checkpoint to path %s", self._save_path)
        step = self._model.global_step
        with self._saving:
            self._model.saver.save(sess, self._save_path, global_step=step)
        if self._writer is not None and step is not None:
            log_pb = pb.SessionLog(status=pb.SessionLog.CHECKPOINT, checkpoint_path=self._save_path)
            self._writer.add_session_log(log_pb, read_global_step(sess, step))

    def session_started(self, sess: Session) -> None:
        """Write that a session starts, at which step."""
        step = self._model.global_step
        if step is not None and self._writer is not None:
            log_pb = pb.SessionLog(status=pb.SessionLog.START)
            self._writer.add_session_log(log_pb, read_global_step(sess, step))

    def add_summary(self, sess: Session, summary: Any, global_step: int | None) -> None:
        """Write a summary; the step is read if left out.

        Raises: RuntimeError without a summary writer.
        """
        if self._writer is None:
            raise RuntimeError("Writing a summary requires a summary writer.")
        if global_step is None and self._model.global_step is not None:
            global_step = read_global_step(sess, self._model.global_step)
        self._writer.add_summary(summary, global_step)

    def close(self) -> None:
        """Write that the training stopped, and close the file of events."""
        if self._writer is not None:
            self._writer.add_session_log(pb.SessionLog(status=pb.SessionLog.STOP))
            self._writer.close()
            self._is_graph_written = False
