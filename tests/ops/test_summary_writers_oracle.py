"""Writers of summaries as resources, beside TensorFlow's: ends of runs, and contents of files."""

from __future__ import annotations

import contextlib
import sqlite3
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


def rows_in(path: Path) -> dict[str, Any]:
    """Return what a database says, without its numbers and times; and its tables and indexes."""
    queries = {
        "users": "SELECT user_name, email FROM Users",
        "experiments": "SELECT user_name, experiment_name, is_watching FROM Experiments "
        "LEFT JOIN Users USING (user_id)",
        "runs": "SELECT experiment_name, run_name, r.started_time = 12.5, finished_time IS NULL "
        "FROM Runs r LEFT JOIN Experiments USING (experiment_id)",
        "tags": "SELECT run_name, tag_name, display_name, plugin_name, plugin_data, description "
        "FROM Tags LEFT JOIN Runs USING (run_id) LEFT JOIN Descriptions ON id = tag_id",
        "tensors": "SELECT tag_name, step, dtype, shape, data FROM Tensors "
        "JOIN Tags ON series = tag_id WHERE step IS NOT NULL",
        "strings": "SELECT tag_name, step, idx, s.data FROM TensorStrings s JOIN Tensors t "
        "ON tensor_rowid = t.rowid JOIN Tags ON series = tag_id "
        "WHERE hex(s.data) NOT LIKE '89504E47%'",
        "graphs": "SELECT run_name, graph_def FROM Graphs LEFT JOIN Runs USING (run_id)",
        "nodes": "SELECT node_id, node_name, op, device, node_def FROM Nodes "
        "WHERE graph_id IN (SELECT graph_id FROM Graphs)",
        "inputs": "SELECT node_id, idx, input_node_id, input_node_idx, is_control FROM NodeInputs "
        "WHERE graph_id IN (SELECT graph_id FROM Graphs)",
        "schema": "SELECT type, name, tbl_name, replace(replace(sql, char(10), ''), ' ', '') "
        "FROM sqlite_master",
    }
    with contextlib.closing(sqlite3.connect(path)) as db:
        return {what: sorted(db.execute(query), key=str) for what, query in queries.items()}


@pytest.mark.parametrize(
    "names", [("exp", "run", "user"), ("", "run", "user"), ("exp", "", "user")]
)
def test_databases_hold_what_tensorflow_writes(tmp_path: Path, names: tuple[str, ...]) -> None:
    link = tmp_path / "link"
    link.symlink_to("first.db")
    metadata = pb.SummaryMetadata(display_name="x", summary_description="d")
    metadata.plugin_data.plugin_name, metadata.plugin_data.content = "p", b"c"
    summary = tf.Summary(value=[{"tag": "raw", "simple_value": 3}, {"tag": "nothing"}])
    nodes: list[Any] = [{"name": "n", "op": "NoOp", "device": "/cpu:0"}]
    nodes.append({"name": "k", "op": "Add", "input": ["m:1", "^n"]})
    nodes.append({"name": "m", "op": "Split", "attr": {"a": {"i": 3}}})
    graph = tf.GraphDef(node=nodes, versions={"producer": 3}).SerializeToString()
    broken = tf.GraphDef(node=[{"name": "n", "input": ["zz"]}]).SerializeToString()
    event = tf.Event(step=9, wall_time=12.5, summary=summary).SerializeToString()

    def build() -> list[Run]:
        writer = apply_op("SummaryWriter", shared_name="w")
        # Each writes to a file of its own: this name leads TensorFlow to the second.
        paths = tf.placeholder(tf.string, [])

        def call(op: str, *args: Any, **attrs: Any) -> Run:
            return Run([apply_op(op, writer, *args, **attrs)], {paths: str(link)})

        def write(op: str, step: int, *args: Any, **attrs: Any) -> Run:
            return call(f"Write{op}Summary", np.int64(step), *args, **attrs)

        def tensor(step: int, *args: Any) -> Run:
            return call("WriteSummary", np.int64(step), *args)

        return [
            call("CreateSummaryDbWriter", "/proc/nothing/x.db", *names),
            call("CreateSummaryDbWriter", paths, *names),
            call("CreateSummaryDbWriter", "/proc/nothing/x.db", *names),
            *(
                write("Scalar", at, "a", np.array(2.5, dtypes.as_dtype(name).as_numpy_dtype))
                for at, name in enumerate(REALS.split())
            ),
            write("Scalar", 3, "a", F(9)),
            tensor(4, np.int32([[1, 2]]), "t", b""),
            tensor(5, np.array([b"1", b"2"], object), "t", b"\xff"),
            tensor(6, np.array([[b"1", b"2"]], object), "s", metadata.SerializeToString()),
            tensor(6, np.array([b"3"], object), "s", b""),
            tensor(7, np.array(b"q", object), "s", b""),
            tensor(8, np.array([True]), "s", b""),
            write("Histogram", 3, "h", F([1, 2, 2.5])),
            write("Image", 3, "i", np.zeros([4, 2, 2, 1], F), RED, max_images=2),
            write("Audio", 3, "u", np.zeros([1, 4, 1], F), F(8000)),
            write("Graph", 3, graph),
            write("Graph", 3, graph),
            write("Graph", 3, broken),
            write("Graph", 3, b"\xff"),
            write("RawProto", 4, [summary.SerializeToString()]),
            call("ImportEvent", event),
            call("ImportEvent", b"\xff"),
            call("FlushSummaryWriter"),
            call("CloseSummaryWriter"),
            write("Scalar", 3, "a", F(1)),
        ]

    def lead_on(_: Any) -> None:
        link.unlink()
        link.symlink_to("second.db")

    check_both_run(build, ["CreateSummaryDbWriter"], change=lead_on)
    mine, theirs = rows_in(tmp_path / "first.db"), rows_in(tmp_path / "second.db")
    assert len(mine["tensors"]) > 12
    for what, rows in mine.items():
        assert rows == theirs[what], what


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
