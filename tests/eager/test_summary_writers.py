"""tf.summary of the TF2 shape: what is written, by functions and sessions too, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tideflow as tf


def written(directory: Path) -> list[tuple[int, str, Any]]:
    """Return step, tag and value of all that was written to a directory."""
    return [
        (event_pb.step, value_pb.tag, tf.make_ndarray(value_pb.tensor).tolist())
        for path in sorted(directory.iterdir())
        for event_pb in tf.compat.v1.train.summary_iterator(path)
        for value_pb in event_pb.summary.value
    ]


def test_functions_write_with_the_step_and_the_condition_in_force(tmp_path: Path) -> None:
    writer = tf.summary.create_file_writer(str(tmp_path))
    step = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def train(x: Any) -> Any:
        step.assign_add(1)
        with tf.summary.record_if(lambda: tf.equal(step % 2, 0)):
            tf.summary.scalar("x", x, step=step)
        return x

    with writer.as_default():
        for x in (1.0, 2.0, 3.0, 4.0):
            train(tf.constant(x))
    assert written(tmp_path) == [(2, "x", 2.0), (4, "x", 4.0)]
    writer.close()
    with pytest.raises(RuntimeError, match="already closed"):
        writer.init()


def test_steps_are_given_or_set(tmp_path: Path) -> None:
    with tf.summary.create_file_writer(str(tmp_path)).as_default(step=5):
        assert bool(tf.summary.should_record_summaries())
        with tf.name_scope("outer"):
            assert bool(tf.summary.scalar("a", 1))
        tf.summary.histogram("h", [1.0, 2.0, 2.5, 7.0], step=6, buckets=2)
        with tf.summary.record_if(False):
            assert not bool(tf.summary.text("t", "never"))
        tf.summary.experimental.set_step(None)
        with pytest.raises(ValueError, match="No step set"):
            tf.summary.text("t", "never")
    assert tf.summary.experimental.get_step() is None
    assert not bool(tf.summary.scalar("a", 1, step=1))
    tf.summary.flush()
    expected = [(5, "outer/a", 1.0), (6, "h", [[1.0, 4.0, 3.0], [4.0, 7.0, 1.0]])]
    assert written(tmp_path) == expected


def test_a_session_makes_the_writer_and_writes(tmp_path: Path) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder(tf.float32, [])
        writer = tf.summary.create_file_writer(str(tmp_path))
        with writer.as_default(step=tf.constant(3, tf.int64)):
            tf.summary.scalar("x", x)
            writes = v1.summary.all_v2_summary_ops()
            v1.summary.initialize(graph, session)
        flush = writer.flush()
        session.run(writes, {x: 1.5})
        session.run(flush)
        assert written(tmp_path) == [(3, "x", 1.5)]
        session.run(writer.close())
        with pytest.raises(tf.errors.NotFoundError):
            session.run(writes, {x: 1.5})
