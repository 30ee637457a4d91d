"""tf.summary.FileWriter: summaries, graphs and facts about a run, for TensorBoard.

Source: tensorflow/python/summary/writer/writer.py, writer_cache.py for names and behaviour.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

from tideflow import logging
from tideflow.graph.graph import Graph
from tideflow.graph.types import TensorLike
from tideflow.ops.data import tf_record_iterator
from tideflow.ops.export import export, export_value
from tideflow.ops.io import EventFileWriter
from tideflow.platform import clock
from tideflow.train.graphs import export_scoped_meta_graph
from tideflow.wire import messages as pb


@export("summary.FileWriter")
class FileWriter:
    """Writes summaries and events to an event file.  Use as a context manager, or call close.

    Example:
      with tf.summary.FileWriter("/tmp/train", session.graph) as writer:
        writer.add_summary(session.run(summary_op), global_step=step)

    Args:
      logdir: where the file is made, and the directory if it is not there.
      graph: written at once, for display.
      max_queue: how many events wait to be written before the next one waits.
      flush_secs: how often what was written is handed to the operating system.
      graph_def: the graph as a message, instead.
      filename_suffix: end of the file's name.
      session: accepted as None only; summaries are written by this process.
    """

    def __init__(
        self,
        logdir: Any,
        graph: Graph | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: Any = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ) -> None:
        if session is not None:
            raise ValueError(
                "a FileWriter writes from this process; leave out session and give it the "
                "summaries that session.run returns"
            )
        self._writer = EventFileWriter(logdir, max_queue, flush_secs, filename_suffix)
        self._closed = False
        # Tags whose metadata is written: TensorBoard needs it once.
        self._seen_tags: set[str] = set()
        self._run_tags: set[str] = set()
        if graph is not None or graph_def is not None:
            self.add_graph(graph=graph, graph_def=graph_def)
        if graph is not None:
            self.add_meta_graph(export_scoped_meta_graph(graph=graph)[0])

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def get_logdir(self) -> str:
        """Return the directory."""
        return self._writer.get_logdir()

    # ---- what to write

    def add_summary(self, summary: Any, global_step: TensorLike | None = None) -> None:
        """Write a summary: a message, or the bytes that running a summary operation gives."""
        given = summary if isinstance(summary, bytes) else summary.SerializeToString()
        summary_pb = pb.Summary.FromString(given)
        for value_pb in summary_pb.value:
            if not value_pb.HasField("metadata"):
                continue
            if value_pb.tag in self._seen_tags:
                value_pb.ClearField("metadata")
            self._seen_tags.add(value_pb.tag)
        self._add(pb.Event(summary=summary_pb), global_step)

    def add_session_log(self, session_log: Any, global_step: TensorLike | None = None) -> None:
        """Write that a session started, stopped or saved a checkpoint."""
        log_pb = pb.SessionLog.FromString(session_log.SerializeToString())
        self._add(pb.Event(session_log=log_pb), global_step)

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        """Write a graph for display.

        Raises: ValueError for neither a graph nor a message, or both; TypeError for another graph.
        """
        if (graph is None) == (graph_def is None):
            raise ValueError("give one of graph and graph_def")
        message = graph if graph_def is None else graph_def
        if isinstance(message, Graph):
            message = message.as_graph_def(add_shapes=True)
        elif not hasattr(message, "node"):
            raise TypeError(f"a Graph or a GraphDef is wanted, not {message!r}")
        else:
            logging.warning("a GraphDef is written without the shapes that a Graph would have")
        self._add(pb.Event(graph_def=message.SerializeToString()), global_step)

    def add_meta_graph(self, meta_graph_def: Any, global_step: TensorLike | None = None) -> None:
        """Write a meta graph.  Raises: TypeError for anything else."""
        if type(meta_graph_def).__name__ != "MetaGraphDef":
            raise TypeError(f"a MetaGraphDef is wanted, not {type(meta_graph_def).__name__}")
        self._add(pb.Event(meta_graph_def=meta_graph_def.SerializeToString()), global_step)

    def add_run_metadata(
        self, run_metadata: Any, tag: str, global_step: TensorLike | None = None
    ) -> None:
        """Write what one run told of itself.  Raises: ValueError for a tag that was used."""
        if tag in self._run_tags:
            raise ValueError(f"the tag {tag!r} was given to add_run_metadata before")
        self._run_tags.add(tag)
        event_pb = pb.Event()
        event_pb.tagged_run_metadata.tag = tag
        event_pb.tagged_run_metadata.run_metadata = run_metadata.SerializeToString()
        self._add(event_pb, global_step)

    def add_event(self, event: Any) -> None:
        """Write an event as it is."""
        self._warn_if_closed()
        self._writer.add_event(event)

    def _add(self, event_pb: pb.Event, step: Any) -> None:
        event_pb.wall_time = clock.wall_s()
        if step is not None:
            event_pb.step = int(step)
        self.add_event(event_pb)

    # ---- its life

    def flush(self) -> None:
        """Wait until all events are handed to the operating system."""
        self._warn_if_closed()
        self._writer.flush()

    def close(self) -> None:
        """Write what is left and close the file."""
        self._closed = True
        self._writer.close()

    def reopen(self) -> None:
        """Go on in a new file, if closed."""
        self._closed = False
        self._writer.reopen()

    def _warn_if_closed(self) -> None:
        if self._closed:
            logging.warning("this FileWriter is closed: nothing is written until reopen()")


@export("summary.FileWriterCache")
class FileWriterCache:
    """The writers of this process, one for each directory."""

    _cache: ClassVar[dict[str, FileWriter]] = {}
    _lock: ClassVar[threading.RLock] = threading.RLock()

    @staticmethod
    def clear() -> None:
        """Close and forget all writers."""
        with FileWriterCache._lock:
            for writer in FileWriterCache._cache.values():
                writer.close()
            FileWriterCache._cache.clear()

    @staticmethod
    def get(logdir: str) -> FileWriter:
        """Return the writer of a directory, made if there is none."""
        key = os.fspath(logdir)
        with FileWriterCache._lock:
            if key not in FileWriterCache._cache:
                FileWriterCache._cache[key] = FileWriter(key)
            return FileWriterCache._cache[key]


@export("train.summary_iterator")
def summary_iterator(path: Any) -> Iterator[pb.Event]:
    """Yield the events of a file.  Raises: DataLossError where a record is damaged."""
    for data in tf_record_iterator(path):
        yield pb.Event.FromString(data)


for _name, _message in {
    "Event": pb.Event,
    "SessionLog": pb.SessionLog,
    "Summary": pb.Summary,
    "TaggedRunMetadata": pb.TaggedRunMetadata,
}.items():
    export_value(f"summary.{_name}", _message)
export_value("SessionLog", pb.SessionLog)
