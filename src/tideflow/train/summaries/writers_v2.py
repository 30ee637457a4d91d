"""tf.summary of the TF2 shape: writers, the step, and whether anything is recorded.

    writer = tf.summary.create_file_writer("/tmp/train")
    with writer.as_default(step=7):
        tf.summary.scalar("loss", 0.5)

Source: tensorflow/python/ops/summary_ops_v2.py.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Graph, Tensor, get_default_graph
from tideflow.graph.types import TensorLike
from tideflow.ops.control_flow import cond
from tideflow.ops.export import export, export_v2, export_value_v2
from tideflow.ops.framework import constant, no_op
from tideflow.ops.state import ANONYMOUS_NAME, init_scope
from tideflow.wire import dtypes
from tideflow.wire import messages as pb

# The operations of a v1 graph that write summaries, and those that make its writers.
_WRITES = "_SUMMARY_V2"
_INITIALIZERS = "_SUMMARY_WRITER_V2"


class _State(threading.local):
    """What is in force in a thread."""

    writer: SummaryWriter | None = None
    step: Any = None
    recording: Any = True


_state = _State()


class SummaryWriter:
    """Writes summaries, as the default writer of a thread or until it is closed.

    A writer of a v1 graph is made by running `init()` in a session.  See create_file_writer; one
    of this class itself writes nothing.
    """

    _handle: Any = None
    _init_op: Any = None
    _closed = False

    @property
    def handle(self) -> Any:
        """The handle that ops take; None for a writer that writes nothing."""
        return self._handle

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be written any more."""
        return self._closed

    @contextlib.contextmanager
    def as_default(self, step: TensorLike | None = None) -> Iterator[SummaryWriter]:
        """Make this the default writer inside `with`, and `step` the default step if given.

        What was written eagerly is flushed at the end.  Raises: RuntimeError for a closed writer.
        """
        if self._closed:
            raise RuntimeError(f"SummaryWriter {self!r} is already closed")
        before = _state.writer, _state.step
        _state.writer = self
        if step is not None:
            _state.step = step
        try:
            yield self
            self.flush()
        finally:
            _state.writer = before[0]
            if step is not None:
                _state.step = before[1]

    def set_as_default(self, step: TensorLike | None = None) -> None:
        """Make this the default writer of the thread, and `step` the default step if given."""
        self.as_default(step).__enter__()

    def init(self) -> Any:
        """Return the operation that makes the writer of a graph."""
        if self._closed:
            raise RuntimeError(f"SummaryWriter {self!r} is already closed")
        return self._init_op

    def flush(self) -> Any:
        """Hand what was written to the operating system."""
        if self._closed or self._handle is None:
            return None
        return apply_op("FlushSummaryWriter", self._handle)

    def close(self) -> Any:
        """Write what is left and close the file."""
        if self._closed or self._handle is None:
            return None
        made = apply_op("CloseSummaryWriter", self._handle)
        self._closed = get_default_graph().is_eager
        return made


export_value_v2("summary.SummaryWriter", SummaryWriter)


class _FileWriter(SummaryWriter):
    """Writes with the ops of a handle."""

    def __init__(self, handle: Any, init_op: Any) -> None:
        self._handle, self._init_op = handle, init_op


@export_v2("summary.create_noop_writer")
def create_noop_writer() -> SummaryWriter:
    """Return a writer that writes nothing."""
    return SummaryWriter()


@export_v2("summary.create_file_writer")
def create_file_writer(
    logdir: TensorLike | None,
    max_queue: TensorLike | None = None,
    flush_millis: TensorLike | None = None,
    filename_suffix: TensorLike | None = None,
    name: str | None = None,
    experimental_trackable: bool = False,
    experimental_mesh: Any = None,
) -> SummaryWriter:
    """Return a writer of event files, which lie where the operation that makes it runs.

    Args:
      logdir: the directory; None for a writer that writes nothing.
      max_queue: how many summaries wait to be written; 10 by default.
      flush_millis: the most milliseconds between two flushes; two minutes by default.
      filename_suffix: end of the file's name; ".v2" by default.
      name: of the operation.
      experimental_trackable: accepted; writers have no state that checkpoints hold.
      experimental_mesh: only None.
    """
    if logdir is None:
        return create_noop_writer()
    if experimental_mesh is not None:
        raise ValueError("experimental_mesh is not there: there are no meshes of DTensor")

    with init_scope() as graph, graph.device("/cpu:0"):
        with graph.name_scope(name or "create_file_writer"):
            # Eagerly it is dropped with its handle.
            shared = ANONYMOUS_NAME if graph.is_eager else f"writer_{secrets.token_hex(8)}"
            handle = apply_op("SummaryWriter", shared_name=shared)
            made = apply_op(
                "CreateSummaryFileWriter",
                handle,
                convert_to_tensor(logdir, dtypes.string, name="logdir"),
                _number(max_queue, 10, "max_queue"),
                _number(flush_millis, 2 * 60 * 1000, "flush_millis"),
                constant(".v2" if filename_suffix is None else filename_suffix),
            )
        if graph.body_class is None and not graph.is_eager:
            graph.add_to_collection(_INITIALIZERS, made)
    return _FileWriter(handle, made)


def _number(value: Any, default: int, name: str) -> Tensor:
    return convert_to_tensor(default if value is None else value, dtypes.int32, name=name)


# ---- the step, and whether anything is recorded


@export_v2("summary.experimental.get_step")
def get_step() -> Any:
    """Return the default step of the thread, None without one."""
    return _state.step


@export_v2("summary.experimental.set_step")
def set_step(step: Any) -> None:
    """Set the default step of the thread: a number, a tensor or a variable."""
    _state.step = step


@export_v2("summary.should_record_summaries")
def should_record_summaries() -> Tensor:
    """Return whether summaries are recorded now."""
    return convert_to_tensor(_state.writer is not None and _recording())


def _recording() -> Any:
    """Return whether summaries are recorded, a bool or a tensor of one."""
    return _state.recording() if callable(_state.recording) else _state.recording


@export_v2("summary.record_if")
@contextlib.contextmanager
def record_if(condition: Any) -> Iterator[None]:
    """Record summaries inside `with` only where the condition holds.

    condition: a bool, a tensor of one, or a function that gives one.
    """
    before, _state.recording = _state.recording, condition
    try:
        yield
    finally:
        _state.recording = before


# ---- writing


@export_v2("summary.write")
def write(
    tag: TensorLike,
    tensor: TensorLike | Callable[[], TensorLike],
    step: TensorLike | None = None,
    metadata: Any = None,
    name: str | None = None,
) -> Any:
    """Write a tensor with the default writer; return whether it was written, a bool tensor.

    Args:
      tensor: or a function that gives it, called only where it is written.
      step: the default step, by default.
      metadata: a SummaryMetadata message, or its bytes.
    Raises: ValueError without a step.
    """
    serialized = b"" if metadata is None else metadata
    if not isinstance(serialized, bytes):
        serialized = serialized.SerializeToString()

    def record(writer: Any, at: Tensor) -> Any:
        value = convert_to_tensor(tensor() if callable(tensor) else tensor)
        return apply_op("WriteSummary", writer, at, value, tag, serialized)

    return _written(record, step, name or "write_summary")


@export_v2("summary.experimental.write_raw_pb")
def write_raw_pb(
    tensor: TensorLike, step: TensorLike | None = None, name: str | None = None
) -> Any:
    """Write summaries, each a message as bytes; return whether they were written.

    Raises: ValueError without a step.
    """

    def record(writer: Any, at: Tensor) -> Any:
        return apply_op("WriteRawProtoSummary", writer, at, tensor)

    return _written(record, step, name or "write_raw_pb")


@export_v2("summary.graph")
def graph(graph_data: Any) -> Any:
    """Write a graph, a Graph or a GraphDef; return whether it was written.

    Raises: TypeError for anything else; ValueError inside a function.
    """
    if not get_default_graph().is_eager and get_default_graph().body_class is not None:
        raise ValueError("graph() cannot be called inside a function")
    if isinstance(graph_data, Graph):
        graph_data = graph_data.as_graph_def(add_shapes=True)
    if not hasattr(graph_data, "node"):
        raise TypeError(f"a Graph or a GraphDef is wanted, not {type(graph_data).__name__}")
    content = graph_data.SerializeToString()

    def record(writer: Any, at: Tensor) -> Any:
        return apply_op("WriteGraphSummary", writer, at, content)

    return _written(record, 0, "graph")


def _written(record: Callable[[Any, Tensor], Any], step: Any, name: str) -> Any:
    """Write where recording is on; return whether it was."""
    home = get_default_graph()
    with home.name_scope(name):
        writer = _state.writer
        if writer is None or writer.handle is None:
            return constant(False)
        step = get_step() if step is None else step
        if step is None:
            raise ValueError(
                "No step set. Please specify one either through the `step` argument or through "
                "tf.summary.experimental.set_step()"
            )

        def recorded() -> Tensor:
            with get_default_graph().device("/cpu:0"):
                made = record(writer.handle, convert_to_tensor(step, dtypes.int64))
                if get_default_graph().is_eager:
                    return constant(True)
                with get_default_graph().control_dependencies([made]):
                    return constant(True)

        recording = _recording()
        if isinstance(recording, bool):
            result = recorded() if recording else constant(False)
        else:
            result = cond(recording, recorded, lambda: constant(False))
    if not home.is_eager and home.body_class is None:
        home.add_to_collection(_WRITES, result.op)
    return result


@export_v2("summary.flush")
def flush(writer: SummaryWriter | None = None, name: str | None = None) -> Any:
    """Hand what a writer wrote to the operating system; the default writer, by default."""
    found = _state.writer if writer is None else writer
    return no_op() if found is None else found.flush()


_NOT_IN_SCOPES = re.compile(r"[^-_/.A-Za-z0-9]")


@export_v2("summary.experimental.summary_scope")
@contextlib.contextmanager
def summary_scope(
    name: str, default_name: str = "summary", values: Any = None
) -> Iterator[tuple[str, str]]:
    """Open a name scope; `with` gives the summary's tag and the scope."""
    name = name or default_name
    home = get_default_graph()
    outer = home.get_name_scope()
    tag = f"{outer}/{name}" if outer else name
    clean = _NOT_IN_SCOPES.sub("", name).lstrip("-_/") or default_name
    with home.name_scope(clean) as scope:
        yield tag, scope


@export("summary.all_v2_summary_ops")
def all_v2_summary_ops() -> list[Any] | None:
    """Return the operations of the default graph that write summaries; None when eager."""
    home = get_default_graph()
    return None if home.is_eager else list(home.get_collection(_WRITES))


@export("summary.initialize")
def initialize(graph: Any = None, session: Any = None) -> None:
    """Make the writers of the default graph in a session, and write a graph if one is given.

    Raises: ValueError without a session.
    """
    home = get_default_graph()
    if home.is_eager or _state.writer is None:
        return
    if session is None:
        raise ValueError("a session is wanted: give session, or enter one")
    session.run(list(home.get_collection(_INITIALIZERS)))
    if graph is not None:
        content = graph.as_graph_def(add_shapes=True).SerializeToString()
        at = constant(0, dtypes.int64)
        session.run(apply_op("WriteGraphSummary", _state.writer.handle, at, constant(content)))


def metadata_of(plugin: str, description: str | None, content: bytes = b"") -> pb.SummaryMetadata:
    """Return what tells TensorBoard how to show a tensor."""
    made = pb.SummaryMetadata(summary_description=description or "")
    made.plugin_data.plugin_name = plugin
    made.plugin_data.content = content
    return made
