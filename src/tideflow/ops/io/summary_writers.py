"""Writers of summaries as resources: the ops below tf.summary of the TF2 shape.

A handle names a writer before there is one: CreateSummaryFileWriter makes it, and what writes
through a handle without a writer fails.  An event goes to the thread of its file.

Source: tensorflow/core/kernels/summary_kernels.cc, core/summary/summary_file_writer.cc.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError, Message

from tideflow.formats import path_of
from tideflow.graph import shapes
from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import no_outputs, scalar
from tideflow.graph.types import Array
from tideflow.ops.framework import check_scalar
from tideflow.ops.io.event_writer import EventFileWriter
from tideflow.ops.io.summaries import audio_summary, histogram_summary, image_summary
from tideflow.ops.node_resources import check_names
from tideflow.ops.parsing import stored_tensor
from tideflow.ops.state import ANONYMOUS_NAME
from tideflow.platform import clock
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType


class WriterOfSummaries:
    """A writer behind handles.  Any thread may use it."""

    type_name = "tensorflow::SummaryWriterInterface"

    def add(self, step: Array, **content: Any) -> None:
        """Add an event of now."""
        made_pb = pb.Event(wall_time=clock.wall_s(), step=int(the_one(step, "step")), **content)
        self.add_event(made_pb)

    def add_event(self, event_pb: pb.Event) -> None:
        """Add an event as it is."""
        raise NotImplementedError

    def add_number(self, step: Array, tag: str, value: Array, dtype: DType) -> None:
        """Add a number."""
        raise NotImplementedError

    def add_tensor(
        self, step: Array, tag: str, tensor: Array, dtype: DType, metadata: bytes
    ) -> None:
        """Add a tensor; metadata: a SummaryMetadata as bytes."""
        raise NotImplementedError

    def flush(self) -> None:
        """Wait until all events are handed to the operating system."""
        raise NotImplementedError

    def close(self) -> None:
        """Write what is left and close what it writes to."""
        raise NotImplementedError


class FileOfSummaries(WriterOfSummaries):
    """A writer of a file of events."""

    def __init__(self, directory: str, max_queue: int, flush_s: float, suffix: str) -> None:
        self._writer = EventFileWriter(directory, max_queue, flush_s, suffix)
        self._writer.close_when_dropped()

    def add_event(self, event_pb: pb.Event) -> None:
        """Add an event as it is."""
        self._writer.add_event(event_pb)

    def add_number(self, step: Array, tag: str, value: Array, dtype: DType) -> None:
        """Add a number, as a float."""
        number = float(np.float32(the_one(value, "value")))
        value_pb = pb.Summary.Value(tag=tag, simple_value=number)
        self.add(step, summary=pb.Summary(value=[value_pb]))

    def add_tensor(
        self, step: Array, tag: str, tensor: Array, dtype: DType, metadata: bytes
    ) -> None:
        """Add a tensor."""
        value_pb = pb.Summary.Value(tag=tag, tensor=stored_tensor(tensor, dtype))
        if metadata:
            value_pb.metadata.SetInParent()
            with contextlib.suppress(DecodeError):  # as TensorFlow, which takes no notice of others
                value_pb.metadata.CopyFrom(pb.SummaryMetadata.FromString(metadata))
        self.add(step, summary=pb.Summary(value=[value_pb]))

    def flush(self) -> None:
        """Wait until all events are handed to the operating system."""
        self._writer.flush()

    def close(self) -> None:
        """Write what is left and close the file."""
        self._writer.close()


def the_one(value: Any, what: str) -> Any:
    """Return a scalar.  Raises: InvalidArgumentError for anything else."""
    if np.ndim(value):
        raise errors.InvalidArgumentError(
            f"{what} must be scalar, found shape {shapes.format_dims(np.shape(value))}"
        )
    return value.item() if isinstance(value, np.ndarray) else value


def text_of(value: Any, what: str) -> str:
    """Return a scalar string.  Raises: InvalidArgumentError for anything else."""
    given: bytes = the_one(value, what)
    return given.decode("utf-8", "replace")


def parsed_message(kind: type[Any], content: bytes, what: str) -> Any:
    """Return a message.  Raises: DataLossError for bytes that are none."""
    made: Message = kind()
    with contextlib.suppress(DecodeError):
        made.ParseFromString(content)
        return made
    raise errors.DataLossError(f"Bad {what} binary proto tensor string")


@op(
    """
    SummaryWriter() -> writer: resource
    shared_name: string = ''
    container: string = ''
    """,
    shape=scalar,
    stateful=True,
)
def summary_writer(ctx: KernelContext, *, shared_name: str, container: str) -> Any:
    """Return the handle of a writer that may not be there yet."""
    check_names(container, "")
    if shared_name == ANONYMOUS_NAME:
        return ctx.resources.anonymous_handle(WriterOfSummaries)
    return ctx.resources.handle(container, shared_name, WriterOfSummaries)


@op(
    """
    CreateSummaryFileWriter(
        writer: resource, logdir: string, max_queue: int32, flush_millis: int32,
        filename_suffix: string
    )
    """,
    shape=no_outputs,
    stateful=True,
    blocks="files",
)
def create_summary_file_writer(
    ctx: KernelContext,
    writer: Any,
    logdir: Array | bytes,
    max_queue: Array,
    flush_millis: Array,
    filename_suffix: Array | bytes,
) -> None:
    """Make the writer of a handle, unless it is there."""
    given = {"max_queue": max_queue, "flush_millis": flush_millis}
    check_scalar(logdir, "logdir")
    directory = path_of(logdir, "logdir")
    most, flush_ms = (int(the_one(value, what)) for what, value in given.items())
    suffix = os.fsdecode(the_one(filename_suffix, "filename_suffix"))

    def make() -> FileOfSummaries:
        return FileOfSummaries(directory, most, flush_ms / 1000, suffix)

    ctx.resources.lookup_or_create(writer.container, writer.name, WriterOfSummaries, make)


def _writer_of(ctx: KernelContext, handle: object) -> WriterOfSummaries:
    found: WriterOfSummaries = ctx.resources.lookup(handle, WriterOfSummaries)
    return found


@op("FlushSummaryWriter(writer: resource)", shape=no_outputs, stateful=True, blocks="files")
def flush_summary_writer(ctx: KernelContext, writer: object) -> None:
    """Hand all events to the operating system."""
    _writer_of(ctx, writer).flush()


@op("CloseSummaryWriter(writer: resource)", shape=no_outputs, stateful=True, blocks="files")
def close_summary_writer(ctx: KernelContext, writer: object) -> None:
    """Write what is left, and drop the writer."""
    found = _writer_of(ctx, writer)
    ctx.resources.delete(writer, WriterOfSummaries)
    found.close()


@op(
    """
    WriteSummary(writer: resource, step: int64, tensor: T, tag: string, summary_metadata: string)
    T: type
    """,
    shape=no_outputs,
    stateful=True,
    blocks="files",
)
def write_summary(
    ctx: KernelContext,
    writer: object,
    step: Array,
    tensor: Array,
    tag: Array | bytes,
    summary_metadata: Array | bytes,
    *,
    T: DType,
) -> None:
    """Write a tensor."""
    metadata = the_one(summary_metadata, "summary_metadata")
    _writer_of(ctx, writer).add_tensor(step, text_of(tag, "tag"), tensor, T, metadata)


@op(
    """
    WriteScalarSummary(writer: resource, step: int64, tag: string, value: T)
    T: type in reals
    """,
    shape=no_outputs,
    stateful=True,
    blocks="files",
)
def write_scalar_summary(
    ctx: KernelContext, writer: object, step: Array, tag: Array | bytes, value: Array, *, T: DType
) -> None:
    """Write a number, as a float.  Raises: UnimplementedError for bfloat16, as TensorFlow."""
    if T is dtypes.bfloat16:
        raise errors.UnimplementedError("a scalar summary of bfloat16; cast it to float32")
    _writer_of(ctx, writer).add_number(step, text_of(tag, "tag"), value, T)


def _add(ctx: KernelContext, writer: object, step: Array, summary: Any) -> None:
    """Write a summary as the ops of sessions make it."""
    found = _writer_of(ctx, writer)
    found.add(step, summary=parsed_message(pb.Summary, summary.item(), "Summary"))


_REALS_AND_BOOL = (
    "float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, bool"
)


@op(
    f"""
    WriteHistogramSummary(writer: resource, step: int64, tag: string, values: T)
    T: type in {{{_REALS_AND_BOOL}}} = float
    """,
    shape=no_outputs,
    stateful=True,
    blocks="files",
)
def write_histogram_summary(
    ctx: KernelContext, writer: object, step: Array, tag: Array | bytes, values: Array
) -> None:
    """Write the histogram of numbers."""
    _add(ctx, writer, step, histogram_summary(ctx, tag, values))


@op(
    """
    WriteImageSummary(
        writer: resource, step: int64, tag: string, tensor: T, bad_color: uint8
    )
    max_images: int >= 1 = 3
    T: type in {uint8, double, float, half} = float
    """,
    shape=no_outputs,
    stateful=True,
    blocks="files",
)
def write_image_summary(
    ctx: KernelContext,
    writer: object,
    step: Array,
    tag: Array | bytes,
    tensor: Array,
    bad_color: Array,
    *,
    max_images: int,
) -> None:
    """Write the first pictures of a batch."""
    summary = image_summary(ctx, tag, tensor, max_images=max_images, bad_color=bad_color)
    _add(ctx, writer, step, summary)


@op(
    """
    WriteAudioSummary(
        writer: resource, step: int64, tag: string, tensor: float, sample_rate: float
    )
    max_outputs: int >= 1 = 3
    """,
    shape=no_outputs,
    stateful=True,
    blocks="files",
)
def write_audio_summary(
    ctx: KernelContext,
    writer: object,
    step: Array,
    tag: Array | bytes,
    tensor: Array,
    sample_rate: Array,
    *,
    max_outputs: int,
) -> None:
    """Write the first sounds of a batch."""
    summary = audio_summary(ctx, tag, tensor, sample_rate, max_outputs=max_outputs)
    _add(ctx, writer, step, summary)


@op(
    "WriteGraphSummary(writer: resource, step: int64, tensor: string)",
    shape=no_outputs,
    stateful=True,
    blocks="files",
)
def write_graph_summary(
    ctx: KernelContext, writer: object, step: Array, tensor: Array | bytes
) -> None:
    """Write a graph, a GraphDef as bytes."""
    content = the_one(tensor, "tensor")
    parsed_message(pb.GraphDef, content, "GraphDef")
    _writer_of(ctx, writer).add(step, graph_def=content)


@op(
    "WriteRawProtoSummary(writer: resource, step: int64, tensor: string)",
    shape=no_outputs,
    stateful=True,
    blocks="files",
)
def write_raw_proto_summary(
    ctx: KernelContext, writer: object, step: Array, tensor: Array | bytes
) -> None:
    """Write summaries, each as bytes, as one."""
    summary_pb = pb.Summary()
    for content in np.asarray(tensor, object).reshape(-1):
        summary_pb.MergeFrom(parsed_message(pb.Summary, content, "Summary"))
    _writer_of(ctx, writer).add(step, summary=summary_pb)


@op(
    "ImportEvent(writer: resource, event: string)",
    shape=no_outputs,
    stateful=True,
    blocks="files",
)
def import_event(ctx: KernelContext, writer: object, event: Array | bytes) -> None:
    """Write an event as it is."""
    event_pb = parsed_message(pb.Event, the_one(event, "event"), "Event")
    _writer_of(ctx, writer).add_event(event_pb)


not_differentiable(
    "CloseSummaryWriter",
    "CreateSummaryFileWriter",
    "FlushSummaryWriter",
    "ImportEvent",
    "SummaryWriter",
    "WriteAudioSummary",
    "WriteGraphSummary",
    "WriteHistogramSummary",
    "WriteImageSummary",
    "WriteRawProtoSummary",
    "WriteScalarSummary",
    "WriteSummary",
)
