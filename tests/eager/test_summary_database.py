"""Summaries in a database of SQLite."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import tideflow as tf


def begin(path: Path, run: str) -> tf.Tensor:
    writer = tf.raw_ops.SummaryWriter(shared_name=f"{path}{run}")
    names = {"experiment_name": "e", "run_name": run, "user_name": "u"}
    tf.raw_ops.CreateSummaryDbWriter(writer=writer, db_uri=str(path), **names)
    return writer


def number(writer: tf.Tensor, step: int, value: float) -> None:
    tf.raw_ops.WriteScalarSummary(
        writer=writer, step=np.int64(step), tag="loss", value=np.float32(value)
    )


def test_runs_of_an_experiment_share_a_database(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    for run in ("first", "second"):
        writer = begin(path, run)
        number(writer, 1, 0.5)
        number(writer, 2, 0.25)
        number(writer, 2, 0.125)
        tf.raw_ops.CloseSummaryWriter(writer=writer)
    with contextlib.closing(sqlite3.connect(path)) as db:
        found = db.execute(
            "SELECT user_name, experiment_name, run_name, tag_name, step, data, "
            "finished_time >= Runs.started_time FROM Tensors JOIN Tags ON series = tag_id "
            "JOIN Runs USING (run_id) JOIN Experiments USING (experiment_id) "
            "JOIN Users USING (user_id) ORDER BY run_name, step"
        ).fetchall()
    values = [(1, np.float32(0.5).tobytes()), (2, np.float32(0.125).tobytes())]
    assert found == [
        ("u", "e", run, "loss", step, value, 1)
        for run in ("first", "second")
        for step, value in values
    ]


def test_a_graph_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "graphs.db"
    writer = begin(path, "run")
    nodes = [{"name": "n", "op": "NoOp"}, {"name": "m", "op": "NoOp", "input": ["^absent"]}]
    graph = tf.compat.v1.GraphDef(node=nodes).SerializeToString()
    with pytest.raises(tf.errors.DataLossError, match="Could not find node: absent"):
        tf.raw_ops.WriteGraphSummary(writer=writer, step=np.int64(1), tensor=graph)
    tf.raw_ops.CloseSummaryWriter(writer=writer)
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM Nodes").fetchall() == [(0,)]


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="unable to open database file"):
        begin(tmp_path / "absent" / "runs.db", "run")
    other = tmp_path / "other"
    other.write_bytes(b"no database" * 100)
    with pytest.raises(tf.errors.OpError, match="not a database"):
        begin(other, "run")
