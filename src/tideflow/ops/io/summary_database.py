"""Summaries in a database of SQLite: tables of users, their experiments, runs, tags and tensors.

A tag's tensors are a series, by the steps.  What precedes them is made with the first of them.
TensorFlow also keeps rows of zeros without a step, so that a series lies together; here are none.
Source: tensorflow/core/summary/schema.cc, summary_db_writer.cc
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from tideflow.graph.gradient_registry import not_differentiable
from tideflow.graph.kernel import KernelContext
from tideflow.graph.op_def import op
from tideflow.graph.shape_rules import no_outputs
from tideflow.graph.types import Array
from tideflow.ops.io.summary_writers import (
    WriterOfSummaries,
    parsed_message,
    text_of,
    the_one,
)
from tideflow.platform import clock
from tideflow.wire import dtypes, errors
from tideflow.wire import messages as pb
from tideflow.wire.dtypes import DType
from tideflow.wire.tensor_codec import decode_tensor

_TABLES = {
    "Ids": "id INTEGER PRIMARY KEY",
    "Descriptions": "id INTEGER PRIMARY KEY, description TEXT",
    "Tensors": "rowid INTEGER PRIMARY KEY, series INTEGER, step INTEGER, dtype INTEGER, "
    "computed_time REAL, shape TEXT, data BLOB",
    "TensorStrings": "rowid INTEGER PRIMARY KEY, tensor_rowid INTEGER NOT NULL, "
    "idx INTEGER NOT NULL, data BLOB",
    "Tags": "rowid INTEGER PRIMARY KEY, run_id INTEGER, tag_id INTEGER NOT NULL, "
    "inserted_time DOUBLE, tag_name TEXT, display_name TEXT, plugin_name TEXT, plugin_data BLOB",
    "Runs": "rowid INTEGER PRIMARY KEY, experiment_id INTEGER, run_id INTEGER NOT NULL, "
    "inserted_time REAL, started_time REAL, finished_time REAL, run_name TEXT",
    "Experiments": "rowid INTEGER PRIMARY KEY, user_id INTEGER, experiment_id INTEGER NOT NULL, "
    "inserted_time REAL, started_time REAL, is_watching INTEGER, experiment_name TEXT",
    "Users": "rowid INTEGER PRIMARY KEY, user_id INTEGER NOT NULL, inserted_time REAL, "
    "user_name TEXT, email TEXT",
    "Graphs": "rowid INTEGER PRIMARY KEY, run_id INTEGER, graph_id INTEGER NOT NULL, "
    "inserted_time REAL, graph_def BLOB",
    "Nodes": "rowid INTEGER PRIMARY KEY, graph_id INTEGER NOT NULL, node_id INTEGER NOT NULL, "
    "node_name TEXT, op TEXT, device TEXT, node_def BLOB",
    "NodeInputs": "rowid INTEGER PRIMARY KEY, graph_id INTEGER NOT NULL, node_id INTEGER NOT NULL, "
    "idx INTEGER NOT NULL, input_node_id INTEGER NOT NULL, input_node_idx INTEGER, "
    "is_control INTEGER",
}
# What has no two rows alike: a table, columns, and those of them that may be NULL in many rows.
_INDEXES = {
    "TensorSeriesStepIndex": ("Tensors", "series, step", ("series", "step")),
    "TensorStringIndex": ("TensorStrings", "tensor_rowid, idx", ()),
    "TagIdIndex": ("Tags", "tag_id", ()),
    "TagRunNameIndex": ("Tags", "run_id, tag_name", ("run_id", "tag_name")),
    "RunIdIndex": ("Runs", "run_id", ()),
    "RunNameIndex": ("Runs", "experiment_id, run_name", ("run_name",)),
    "ExperimentIdIndex": ("Experiments", "experiment_id", ()),
    "ExperimentNameIndex": ("Experiments", "user_id, experiment_name", ("experiment_name",)),
    "UserIdIndex": ("Users", "user_id", ()),
    "UserNameIndex": ("Users", "user_name", ("user_name",)),
    "UserEmailIndex": ("Users", "email", ("email",)),
    "GraphIdIndex": ("Graphs", "graph_id", ()),
    "GraphRunIndex": ("Graphs", "run_id", ("run_id",)),
    "NodeIdIndex": ("Nodes", "graph_id, node_id", ()),
    "NodeNameIndex": ("Nodes", "graph_id, node_name", ("node_name",)),
    "NodeInputsIndex": ("NodeInputs", "graph_id, node_id, idx", ()),
}
_PLUGINS = {
    "simple_value": "scalars",
    "histo": "histograms",
    "image": "images",
    "audio": "audio",
    "tensor": "",
}
_UNSUPPORTED = (dtypes.bool_, dtypes.bfloat16)


class DatabaseOfSummaries(WriterOfSummaries):
    """A writer of a run into a database."""

    def __init__(self, uri: str, experiment: str, run: str, user: str) -> None:
        self._names = experiment, run, user
        self._lock = threading.Lock()
        self._tags: dict[str, int] = {}
        self._experiment: int | None = None
        self._run: int | None = None
        self._started_s: float | None = None
        try:
            self._db = sqlite3.connect(uri, check_same_thread=False, uri=uri.startswith("file:"))
        except sqlite3.Error as error:
            raise errors.InvalidArgumentError(f"Sqlite::Open({uri}) failed: {error}") from None
        with self._transaction():
            for name, columns in _TABLES.items():
                self._db.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns})")
            for name, (table, columns, optional) in _INDEXES.items():
                where = " AND ".join(f"{column} IS NOT NULL" for column in optional)
                self._db.execute(
                    f"CREATE UNIQUE INDEX IF NOT EXISTS {name} ON {table} ({columns})"
                    + (f" WHERE {where}" if where else "")
                )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Hold the database; what was written is undone where something raises."""
        try:
            with self._lock, self._db:
                yield
        except sqlite3.Error as error:
            raise errors.InternalError(f"Sqlite: {error}") from None

    def add_event(self, event_pb: pb.Event) -> None:
        """Add what an event says of a graph, or its summaries."""
        kind = event_pb.WhichOneof("what")
        if kind == "graph_def":
            graph_pb = parsed_message(pb.GraphDef, event_pb.graph_def, "GraphDef")
            self._begin(event_pb.wall_time)
            with self._transaction():
                self._add_graph(graph_pb)
        elif kind == "summary":
            self._begin(event_pb.wall_time)
            with self._transaction():
                for value_pb in event_pb.summary.value:
                    self._add_value(event_pb, value_pb)

    def add_number(self, step: Array, tag: str, value: Array, dtype: DType) -> None:
        """Add a number, in its own type."""
        the_one(value, "value")
        metadata_pb = pb.SummaryMetadata()
        self._add_now(step, tag, value, dtype, metadata_pb, "scalars")

    def add_tensor(
        self, step: Array, tag: str, tensor: Array, dtype: DType, metadata: bytes
    ) -> None:
        """Add a tensor.  Raises: InvalidArgumentError for bytes that are no metadata."""
        try:
            metadata_pb = pb.SummaryMetadata.FromString(metadata)
        except DecodeError:
            raise errors.InvalidArgumentError("Bad serialized_metadata") from None
        self._add_now(step, tag, tensor, dtype, metadata_pb, "")

    def flush(self) -> None:
        """Do nothing: what was added is there."""

    def close(self) -> None:
        """Write when the run ended, and close the database."""
        with self._transaction():
            self._db.execute(
                "UPDATE Runs SET finished_time = ? WHERE run_id = ?", (clock.wall_s(), self._run)
            )
        self._db.close()

    def _add_now(
        self, step: Array, tag: str, value: Array, dtype: DType, metadata_pb: Any, plugin: str
    ) -> None:
        if dtype in _UNSUPPORTED:
            raise errors.UnimplementedError(f"{dtype.name} tensors unsupported on platform")
        at, now_s = int(the_one(step, "step")), clock.wall_s()
        self._begin(now_s)
        with self._transaction():
            series = self._series(tag, metadata_pb, plugin)
            self._insert(series, at, dtype, now_s, value)

    def _add_value(self, event_pb: pb.Event, value_pb: Any) -> None:
        kind = value_pb.WhichOneof("value")
        if kind not in _PLUGINS:
            return
        value, dtype = _tensor_of(value_pb, kind)
        series = self._series(value_pb.tag, value_pb.metadata, _PLUGINS[kind])
        self._insert(series, event_pb.step, dtype, event_pb.wall_time, value)

    def _new_id(self) -> int:
        """Return a number that no other thing in the database has."""
        for bits in (*[23] * 16, *[47] * 16):
            made = 1 + secrets.randbelow((1 << bits) - 1)
            with contextlib.suppress(sqlite3.IntegrityError):
                self._db.execute("INSERT INTO Ids (id) VALUES (?)", (made,))
                return made
        raise errors.ResourceExhaustedError("the database of summaries has no numbers left")

    def _begin(self, started_s: float) -> None:
        """See that there is a run, and that it began no later."""
        experiment, run, user = self._names
        if not run or (self._started_s is not None and self._started_s <= started_s):
            return
        with self._transaction():
            if self._started_s is None and experiment:
                self._experiment = self._find_experiment(experiment, user, started_s)
            if self._started_s is None:
                self._run = self._new_id()
                self._db.execute(
                    "INSERT OR REPLACE INTO Runs (experiment_id, run_id, inserted_time, "
                    "started_time, run_name) VALUES (?, ?, ?, ?, ?)",
                    (self._experiment, self._run, clock.wall_s(), started_s, run),
                )
            self._db.execute(
                "UPDATE Runs SET started_time = ? WHERE run_id = ?", (started_s, self._run)
            )
            self._db.execute(
                "UPDATE Experiments SET started_time = min(started_time, ?) "
                "WHERE experiment_id = ?",
                (started_s, self._experiment),
            )
            self._started_s = started_s

    def _find_experiment(self, experiment: str, user: str, started_s: float) -> int:
        user_id = self._find_user(user) if user else None
        found = self._db.execute(
            "SELECT experiment_id FROM Experiments WHERE user_id IS ? AND experiment_name = ?",
            (user_id, experiment),
        ).fetchone()
        if found is not None:
            return int(found[0])
        made = self._new_id()
        self._db.execute(
            "INSERT INTO Experiments (user_id, experiment_id, inserted_time, started_time, "
            "is_watching, experiment_name) VALUES (?, ?, ?, ?, 0, ?)",
            (user_id, made, clock.wall_s(), started_s, experiment),
        )
        return made

    def _find_user(self, user: str) -> int:
        found = self._db.execute("SELECT user_id FROM Users WHERE user_name = ?", (user,))
        row = found.fetchone()
        if row is not None:
            return int(row[0])
        made = self._new_id()
        self._db.execute(
            "INSERT INTO Users (user_id, inserted_time, user_name) VALUES (?, ?, ?)",
            (made, clock.wall_s(), user),
        )
        return made

    def _series(self, tag: str, metadata_pb: Any, plugin: str) -> int:
        """Return the number of a tag; its first metadata stays."""
        if tag in self._tags:
            return self._tags[tag]
        made = self._new_id()
        data_pb = metadata_pb.plugin_data
        self._db.execute(
            "INSERT INTO Tags (run_id, tag_id, inserted_time, tag_name, display_name, plugin_name, "
            "plugin_data) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                *(self._run, made, clock.wall_s(), tag, metadata_pb.display_name),
                *(data_pb.plugin_name or plugin, data_pb.content),
            ),
        )
        self._db.execute(
            "INSERT INTO Descriptions (id, description) VALUES (?, ?)",
            (made, metadata_pb.summary_description),
        )
        self._tags[tag] = made
        return made

    def _insert(self, series: int, step: int, dtype: DType, at_s: float, value: Any) -> None:
        """Write a tensor in place of the series' one of that step."""
        array = np.asarray(value, object if dtype is dtypes.string else None)
        shape = ",".join(map(str, array.shape))
        is_text = dtype is dtypes.string
        is_list = is_text and array.ndim > 0
        data = None if is_list else array.item() if is_text else array.tobytes()
        self._db.execute(
            "DELETE FROM TensorStrings WHERE tensor_rowid IN "
            "(SELECT rowid FROM Tensors WHERE series = ? AND step = ?)",
            (series, step),
        )
        row = self._db.execute(
            "INSERT OR REPLACE INTO Tensors (series, step, dtype, computed_time, shape, data) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (series, step, dtype.as_datatype_enum, at_s, shape, data),
        ).lastrowid
        if is_list:
            self._db.executemany(
                "INSERT INTO TensorStrings (tensor_rowid, idx, data) VALUES (?, ?, ?)",
                [(row, index, text) for index, text in enumerate(array.reshape(-1).tolist())],
            )

    def _add_graph(self, graph_pb: Any) -> None:
        """Write a graph in place of the run's.  Raises: DataLossError for an input not in it."""
        graph = self._new_id()
        numbers = {node_pb.name: number for number, node_pb in enumerate(graph_pb.node)}
        for number, node_pb in enumerate(graph_pb.node):
            for index, name in enumerate(node_pb.input):
                source, _, port = name.removeprefix("^").partition(":")
                if source not in numbers:
                    raise errors.DataLossError(f"Could not find node: {source}")
                self._db.execute(
                    "INSERT INTO NodeInputs (graph_id, node_id, idx, input_node_id, "
                    "input_node_idx, is_control) VALUES (?, ?, ?, ?, ?, ?)",
                    (graph, number, index, numbers[source], int(port or 0), name[0] == "^"),
                )
            named = node_pb.name, node_pb.op, node_pb.device
            for column in ("name", "op", "device", "input"):
                node_pb.ClearField(column)
            self._db.execute(
                "INSERT INTO Nodes (graph_id, node_id, node_name, op, device, node_def) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (graph, number, *named, node_pb.SerializeToString()),
            )
        graph_pb.ClearField("node")
        self._db.execute(
            "INSERT OR REPLACE INTO Graphs (run_id, graph_id, inserted_time, graph_def) "
            "VALUES (?, ?, ?, ?)",
            (self._run, graph, clock.wall_s(), graph_pb.SerializeToString()),
        )


def _tensor_of(value_pb: Any, kind: str) -> tuple[Any, DType]:
    """Return what a summary holds as a tensor."""
    if kind == "tensor":
        return decode_tensor(value_pb.tensor), dtypes.as_dtype(value_pb.tensor.dtype)
    if kind == "simple_value":
        return np.float32(value_pb.simple_value), dtypes.float32
    if kind == "histo":
        limits = list(value_pb.histo.bucket_limit)
        rows = zip([sys.float_info.min, *limits], limits, value_pb.histo.bucket, strict=False)
        return np.array(list(rows), np.float64).reshape(-1, 3), dtypes.float64
    if kind == "image":
        image_pb = value_pb.image
        sizes = [str(size).encode() for size in (image_pb.width, image_pb.height)]
        return np.array([*sizes, image_pb.encoded_image_string], object), dtypes.string
    # A sound, and a label that it does not have.
    return np.array([[value_pb.audio.encoded_audio_string, b""]], object), dtypes.string


@op(
    """
    CreateSummaryDbWriter(
        writer: resource, db_uri: string, experiment_name: string, run_name: string,
        user_name: string
    )
    """,
    shape=no_outputs,
    stateful=True,
    blocks="files",
)
def create_summary_db_writer(
    ctx: KernelContext,
    writer: Any,
    db_uri: Array | bytes,
    experiment_name: Array | bytes,
    run_name: Array | bytes,
    user_name: Array | bytes,
) -> None:
    """Make the writer of a handle, unless it is there.

    A name may be empty: then there is no run, experiment or user.
    """
    uri = os.fsdecode(the_one(db_uri, "db_uri"))
    names = (
        text_of(experiment_name, "experiment_name"),
        text_of(run_name, "run_name"),
        text_of(user_name, "user_name"),
    )

    def make() -> DatabaseOfSummaries:
        return DatabaseOfSummaries(uri, *names)

    ctx.resources.lookup_or_create(writer.container, writer.name, WriterOfSummaries, make)


not_differentiable("CreateSummaryDbWriter")
