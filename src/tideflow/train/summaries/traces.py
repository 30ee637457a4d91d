"""tf.summary.trace_on and its like: the graphs of functions that a program calls, for TensorBoard.

Source: tensorflow/python/ops/summary_ops_v2.py for names of plugins and what is written.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

from tideflow.eager.functions.concrete_function import GraphFunction
from tideflow.graph.graph import Graph, Tensor, get_default_graph
from tideflow.ops.export import export_v2
from tideflow.ops.later import V2, load
from tideflow.train.summaries.writers_v2 import write
from tideflow.wire import errors
from tideflow.wire import messages as pb

_log = logging.getLogger("tensorflow")


class _Trace:
    """Notes the graphs of functions that are called while it is on.

    Args:
      has_profiler: whether the profiler runs as long as it is on.
    """

    def __init__(self, has_profiler: bool) -> None:
        self.has_profiler = has_profiler
        self.graphs: dict[int, Graph] = {}
        self._call = GraphFunction.call

    def __enter__(self) -> None:
        # Functions are as fast as ever where no trace is on: they do not ask.
        def call_and_note(function: GraphFunction, inputs: Sequence[Tensor]) -> list[Tensor]:
            if get_default_graph().is_eager:
                self.graphs[id(function.graph)] = function.graph
            return self._call(function, inputs)

        setattr(GraphFunction, "call", call_and_note)  # noqa: B010

    def __exit__(self, *error: object) -> None:
        setattr(GraphFunction, "call", self._call)  # noqa: B010

    def metadata(self) -> pb.RunMetadata:
        """Return the graphs as a message."""
        found = pb.RunMetadata()
        for graph in self.graphs.values():
            graph_pb = graph.as_graph_def(add_shapes=True)
            noted = found.function_graphs.add()
            noted.pre_optimization_graph.CopyFrom(graph_pb)
            noted.post_optimization_graph.CopyFrom(graph_pb)
            noted.partition_graphs.add().CopyFrom(graph_pb)
            found.partition_graphs.add().CopyFrom(graph_pb)
        return found


_lock = threading.Lock()
_traces: list[_Trace] = []


def _cannot(what: str) -> bool:
    """Say, where operations are not called at once, that a call is ignored."""
    if get_default_graph().is_eager:
        return False
    _log.warning("Cannot %s inside a tf.function or a graph.", what)
    return True


def _profiler(name: str) -> Any:
    try:
        return load(V2, f"profiler.experimental.{name}")
    except AttributeError:
        raise errors.UnimplementedError("there is no profiler; trace graphs alone") from None


@export_v2("summary.trace_on")
def trace_on(
    graph: bool = True, profiler: bool = False, profiler_outdir: str | None = None
) -> None:
    """Note the graphs of functions that are called from now on, until trace_export or trace_off.

    Args:
      graph: accepted; the graphs are noted in any case.
      profiler: whether the profiler runs meanwhile, and writes into profiler_outdir.
    """
    if _cannot("enable trace"):
        return
    with _lock:
        if _traces:
            _log.warning("Trace already enabled")
            return
        runs = profiler and profiler_outdir is not None
        if profiler and not runs:
            _log.warning("No `profiler_outdir` passed to trace_on(). Profiler won't be enabled.")
        if runs:
            _profiler("start")(profiler_outdir)
        trace = _Trace(runs)
        trace.__enter__()
        _traces.append(trace)


@export_v2("summary.trace_export")
def trace_export(name: str, step: Any = None, profiler_outdir: str | None = None) -> None:
    """Write the graphs that were noted to the default writer, and stop.

    Args:
      name: the summary's tag.
      step: the default step, by default.
    Raises: ValueError where no trace is on, and without a step.
    """
    if _cannot("export trace"):
        return
    if not _traces:
        raise ValueError("Must enable trace before export through tf.summary.trace_on.")
    if profiler_outdir:
        _log.warning("`profiler_outdir` is for trace_on(); that of trace_export() is ignored.")
    trace = _traces[-1]
    metadata = pb.SummaryMetadata()
    plugin = "graph_run_metadata" if trace.has_profiler else "graph_run_metadata_graph"
    metadata.plugin_data.plugin_name = plugin
    metadata.plugin_data.content = b"1"
    write(name, trace.metadata().SerializeToString(), step, metadata)
    trace_off()


@export_v2("summary.trace_off")
def trace_off() -> None:
    """Stop noting graphs, and forget those that were not exported."""
    with _lock:
        if not _traces:
            return
        trace = _traces.pop()
        trace.__exit__()
    if trace.has_profiler:
        _profiler("stop")()
