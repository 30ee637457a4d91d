"""Writers of summaries as resources, beside TensorFlow's: ends of runs, and contents of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tideflow.v1 as tf
from ops.one_graph import Run, check_both_run
from ops.outcomes import Call, check_ends_alike
from tideflow.graph.building import apply_op
from tideflow.wire import dtypes
from tideflow.wire import messages as pb

tensorflow = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

F = np.float32
REALS = "float32 float64 int32 uint8 int16 int8 int64 bfloat16 uint16 float16 uint32 uint64"
RED = np.array([255, 0, 0, 255], np.uint8)
OPS = [
    "SummaryWriter",
    "CreateSummaryFileWriter",
    "CloseSummaryWriter",
    "FlushSummaryWriter",
    "WriteSummary",
    "WriteScalarSummary",
    "WriteHistogramSummary",
    "WriteImageSummary",
    "WriteAudioSummary",
    "WriteGraphSummary",
    "WriteRawProtoSummary",
    "ImportEvent",
]


def events_in(path: Path) -> list[Any]:
    """Return the events of a file, without what differs from run to run."""
    found = list(tf.train.summary_iterator(path))
    for event_pb in found:
        event_pb.wall_time = 0
        event_pb.ClearField("source_metadata")
        for value_pb in event_pb.summary.value:
            value_pb.image.encoded_image_string = b""
    return found


def test_writers_write_what_tensorflow_writes(tmp_path: Path) -> None:
    summary = tf.Summary(value=[tf.Summary.Value(tag="raw", simple_value=3)]).SerializeToString()
    metadata = pb.SummaryMetadata(display_name="x").SerializeToString()

    def build() -> list[Run]:
        writer = apply_op("SummaryWriter", shared_name="w")

        def call(op: str, *args: Any, **attrs: Any) -> Run:
            return Run([apply_op(op, writer, *args, **attrs)])

        def create(path: Any, queue: Any = 10) -> Run:
            return call("CreateSummaryFileWriter", path, queue, 1000, ".v2")

        def write(op: str, *args: Any, **attrs: Any) -> Run:
            return call(f"Write{op}Summary", np.int64(3), *args, **attrs)

        scalar = write("Scalar", "a", F(1.5))
        bad = b"\xff\xff"
        return [
            scalar,
            call("FlushSummaryWriter"),
            call("CloseSummaryWriter"),
            create([str(tmp_path)]),
            create("/proc/nothing/x"),
            create(str(tmp_path)),
            create(str(tmp_path)),
            scalar,
            *(
                write("Scalar", "a", np.array(2.5, dtypes.as_dtype(name).as_numpy_dtype))
                for name in REALS.split()
            ),
            call("WriteSummary", np.int64(4), np.int32([[1, 2]]), "t", b""),
            call("WriteSummary", np.int64(4), np.array([b"1", b"2"], object), "t", bad),
            call("WriteSummary", np.int64(4), np.int32(1), "t", metadata),
            write("Histogram", "h", F([1, 2, 2.5])),
            write("Histogram", "h", F([1, np.nan])),
            write("Histogram", "h", np.array([True, False])),
            write("Image", "i", np.zeros([4, 2, 2, 1], F), RED, max_images=2),
            write("Image", "i", np.zeros([4, 2, 2, 1], np.uint8), RED, max_images=1),
            write("Image", "i", np.zeros([4, 2, 2], F), RED),
            write("Audio", "u", np.zeros([1, 4, 1], F), F(8000)),
            write("Graph", tf.GraphDef(node=[{"name": "n", "op": "NoOp"}]).SerializeToString()),
            write("Graph", bad),
            write("RawProto", summary),
            write("RawProto", [summary, summary]),
            write("RawProto", bad),
            call("ImportEvent", tf.Event(step=9).SerializeToString()),
            call("ImportEvent", bad),
            call("FlushSummaryWriter"),
            call("CloseSummaryWriter"),
            call("CloseSummaryWriter"),
            scalar,
        ]

    check_both_run(build, OPS)
    mine, theirs = (events_in(path) for path in tmp_path.iterdir())
    assert len(mine) > 20
    assert mine == theirs


@pytest.mark.parametrize(
    "call",
    [
        Call("TensorSummary", [F([[1, 2]])], {"description": "what", "labels": ["a"]}),
        Call("TensorSummary", [np.array(["a", "b"], object)]),
    ],
    ids=str,
)
def test_a_summary_of_a_tensor_and_its_node(call: Call) -> None:
    check_ends_alike(tensorflow, call)
